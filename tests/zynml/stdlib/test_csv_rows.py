"""Csv files as lists of structs, tuples and lists, and as maps of columns, beside Python's csv module."""

import csv
from pathlib import Path

import pytest

from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from tests.errors.conftest import diagnose
from zynml.api import open_source

ROW = "struct Row { city: String, people: u16, area: f64, note: String?, big: bool }\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    open_source(Source("program.zynml", ROW + text), CompileOptions(device="cpu"), Sources(), lambda warning: None).run()
    return capsys.readouterr().out.splitlines()


def fault(text: str) -> str:
    return diagnose(ROW + text, run=True).splitlines()[0]


def test_rows_come_as_structs_by_the_names_of_the_header(capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.csv").write_text('area,big,city,extra,people,note\n1.5,true,"Rome, ""IT""",x,5,\n2e3,0,Oslo,y,65535,hi\n')
    program = 'let rows = load("r.csv") as List<Row>\nfor r in rows { println(r) }\nsave("s.csv", rows)\nprintln((load("s.csv") as List<Row>) == rows)'
    assert run(program, capsys) == [
        'Row { city: "Rome, \\"IT\\"", people: 5, area: 1.5, note: None, big: true }',
        'Row { city: "Oslo", people: 65535, area: 2000.0, note: Some("hi"), big: false }',
        "true",
    ]
    with Path("s.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [
            ["city", "people", "area", "note", "big"],
            ['Rome, "IT"', "5", "1.5", "", "true"],
            ["Oslo", "65535", "2000.0", "hi", "false"],
        ]


def test_rows_come_as_tuples_lists_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    Path("r.tsv").write_text("name\tn\na\t1\nb\t2\n")
    Path("n.csv").write_text("x,y\n1.5,2\n3,4\n")
    Path("empty.csv").write_text("")
    program = """println(load("r.tsv") as List<(String, int)>)
println(load("r.tsv") as List<List<String>>)
println(load("n.csv") as dict[String, list[f32]])
println(load("n.csv") as List<List<f64>>)
println(load("empty.csv") as List<Row>)
save("c.csv", {"a": ["1", "2"], "b": ["x", "y, z"]})
save("t.csv", [("x", 1.5), ("y", 2.0)], header=["name", "value"])
"""
    assert run(program, capsys) == [
        '[("a", 1), ("b", 2)]',
        '[["name", "n"], ["a", "1"], ["b", "2"]]',
        '{"x": [1.5, 3.0], "y": [2.0, 4.0]}',
        "[[1.5, 2.0], [3.0, 4.0]]",
        "[]",
    ]
    assert Path("c.csv").read_text() == 'a,b\n1,x\n2,"y, z"\n'
    assert Path("t.csv").read_text() == "name,value\nx,1.5\ny,2.0\n"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("city,people\nRome,1\n", 'it has no column "area"'),
        ("city,people,area,note,big\nRome,-1,1,,1\n", 'row 2, column 2 is "-1", which is no u16'),
        ("city,people,area,note,big\nRome,,1,,1\n", "row 2, column 2 is empty, which is no u16"),
        ("city,people,area,note,big\nRome,1,1_0,,1\n", 'row 2, column 3 is "1_0", which is no f64'),
        ("city,people,area,note,big\nRome,1,1,,2\n", 'row 2, column 5 is "2", which is no bool'),
        ("city,people,area,note,big\nRome,1,1\n", "row 2 has 3 cells, and the rows before it have 5"),
        ("city,people,area,note,big,city\n", 'it has two columns "city"'),
    ],
)
def test_what_does_not_fit_says_its_row_and_column(table: str, message: str) -> None:
    Path("r.csv").write_text(table)
    assert fault('let rows = load("r.csv") as List<Row>') == f"error[ZYN0807]: `r.csv`: {message}"


def test_cells_and_columns_that_cannot_be() -> None:
    Path("r.csv").write_text("1,2\n")
    assert fault('let rows = load("r.csv") as List<(int, tensor)>') == "error[ZYN0807]: `r.csv`: a cell of a csv file can't be tensor"
    assert fault('let rows = load("r.csv") as List<(int, int, int)>') == (
        "error[ZYN0807]: `r.csv`: it has 2 columns, and List<(i64, i64, i64)> needs 3"
    )
    assert fault('save("a.csv", {"a": [1, 2], "b": [1]})') == (
        'error[ZYN0807]: `a.csv`: the column "b" has 1 cells, and the longest has 2'
    )
    assert fault('save("a.csv", [(1, [2])])') == "error[ZYN0807]: `a.csv`: a cell of a csv file can't be List<i64>"
