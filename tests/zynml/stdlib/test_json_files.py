"""Json files: values come back as they went, Python's reader agrees, and what doesn't fit says where."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from tests.errors.conftest import diagnose
from zynml.api import open_source

TYPES = """struct Point { x: f64, y: f64 = 0.5 }
enum Shape { Circle(f64), Box { w: f64, h: f64 }, Empty, Pair(int, int) }
struct Fixed { a: [int; 3] }
struct Rows { t: tensor[2, 2, f32] }
struct Person { name: String, age: u8, at: Point, boss: String? }
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    open_source(Source("program.zynml", TYPES + text), CompileOptions(device="cpu"), Sources(), lambda warning: None).run()
    return capsys.readouterr().out


def fault(text: str) -> tuple[str, str]:
    """The message and its hint."""
    shown = diagnose(TYPES + text, run=True).splitlines()
    assert shown[0].startswith("error[ZYN0807]: "), shown
    hints = [line.removeprefix("hint: ") for line in shown if line.startswith("hint: ")]
    return shown[0].removeprefix("error[ZYN0807]: "), "".join(hints)


def test_python_reads_what_is_saved() -> None:
    diagnose(
        TYPES
        + """
save("a.json", [Person { name: "Ann \\"é\\" \\n", age: 41, at: Point { x: 0.1 }, boss: None },
                Person { name: "", age: 0, at: Point { x: -1e300, y: 2.0 }, boss: Some("Ann") }])
save("b.json", [Circle(2.0), Box { w: 1.0, h: 2.5 }, Empty, Pair(1, -2)])
save("c.json", {1: [true, false], 2: []})
save("d.json", (tensor([[1.0, 0.1], [3.0, 4.0]]), tensor([1, 2], dtype=i8), 0.1f32, [1.5, 2.5]))
""",
        run=True,
    )
    people = [
        {"name": 'Ann "é" \n', "age": 41, "at": {"x": 0.1, "y": 0.5}, "boss": None},
        {"name": "", "age": 0, "at": {"x": -1e300, "y": 2.0}, "boss": "Ann"},
    ]
    assert json.loads(Path("a.json").read_text()) == people
    assert json.loads(Path("b.json").read_text()) == [{"Circle": 2.0}, {"Box": {"w": 1.0, "h": 2.5}}, "Empty", {"Pair": [1, -2]}]
    assert json.loads(Path("c.json").read_text()) == {"1": [True, False], "2": []}
    assert json.loads(Path("d.json").read_text()) == [[[1.0, 0.1], [3.0, 4.0]], [1, 2], 0.1, [1.5, 2.5]]


def test_what_was_saved_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    program = """
let people = [Person { name: "Ann", age: 41, at: Point { x: 0.1 }, boss: None }]
save("a.json", people)
println((load("a.json") as List<Person>) == people)
let shapes = [Circle(2.0), Box { w: 1.0, h: 2.5 }, Empty, Pair(1, -2)]
save("b.json", shapes)
println((load("b.json") as list[Shape]) == shapes)
save("c.json", {1: "a", 2: "b"})
println(load("c.json") as dict[int, String])
save("d.json", ("a", 2, [0.5, 1.0], {"k": Some(3), "n": None}))
println(load("d.json") as (String, int, List<f32>, dict[String, Option<int>]))
let results: List<Result<int, String>> = [Ok(3), Err("no")]
save("e.json", results)
println(load("e.json") as List<Result<int, String>>)
"""
    assert run(program, capsys).splitlines() == [
        "true",
        "true",
        '{1: "a", 2: "b"}',
        '("a", 2, [0.5, 1.0], {"k": Some(3), "n": None})',
        '[Ok(3), Err("no")]',
    ]


def test_numbers_of_python_come_in_whole(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = [0, -1, 2**63 - 1, -(2**63), 1.5, 1e-320, -0.0, math.pi]
    Path("n.json").write_text("\ufeff" + json.dumps({"numbers": numbers, "rows": [[1, 2], [3, 4]]}))
    lines = run('let d = load("n.json")\nprintln(d.numbers)\nprintln(load("n.json")["rows"] as tensor[2, 2, f32])\n', capsys).splitlines()
    assert json.loads(lines[0]) == numbers
    assert lines[1] == "tensor([[1.0, 2.0], [3.0, 4.0]], shape=[2, 2], dtype=f32)"


def test_rows_of_a_tensor_are_its_elements() -> None:
    rng = np.random.default_rng(1)
    np.save("t.npy", rng.random((3, 2, 4)))
    np.save("h.npy", rng.random((3, 2)).astype(np.float16))
    diagnose('save("t.json", load("t.npy"))\nsave("h.json", load("h.npy"))', run=True)
    assert np.array_equal(np.array(json.loads(Path("t.json").read_text())), np.load("t.npy"))
    assert np.array_equal(np.array(json.loads(Path("h.json").read_text())).astype(np.float16), np.load("h.npy"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2", "line 1, column 6 is no json: expecting ',' delimiter"),
        ("", "line 1, column 1 is no json: expecting value"),
        ("{'a': 1}", "line 1, column 2 is no json: expecting property name enclosed in double quotes"),
        ('{"a": 1}\n{"b": 2}', "line 2, column 1 is no json: extra data"),
        ('{"a": 1, "a": 2}', 'an object has "a" twice'),
        ("[NaN]", "`NaN` is no number of json"),
        ("[-Infinity]", "`-Infinity` is no number of json"),
        ("[9223372036854775808]", "9223372036854775808 is beyond i64"),
        ("[" * 501 + "]" * 501, "more than 500 lists and maps lie in each other"),
        ("[" * 200000, "more than 500 lists and maps lie in each other"),
        ('["\\ud800"]', "`\\ud800` is half of a character"),
        ("1" * 5000, "it has a number of more digits than can be read"),
    ],
)
def test_what_is_no_json_is_refused(text: str, message: str) -> None:
    Path("a.json").write_text(text)
    assert fault('let x = load("a.json")') == (f"`a.json`: {message}", "")


def test_bytes_that_are_no_text_are_refused() -> None:
    Path("a.json").write_bytes(b'["\xff"]')
    assert fault('let x = load("a.json")') == ("`a.json`: this is no UTF-8: byte 2 is 255", "")


@pytest.mark.parametrize(
    ("text", "type", "message", "hint"),
    [
        ('[{"x": 1}, {"x": "a"}]', "List<Point>", "at `[1].x`: expected f64, found String", ""),
        ('{"a": {"b": [1, 2.5]}}', "dict[String, dict[String, list[int]]]", "at `a.b[1]`: expected i64, found the f64 2.5", ""),
        ('{"z": 1}', "Point", "there is no `x`, which Point needs", "it has `z`"),
        ('[{"name": "a", "age": 300, "at": {"x": 1}}]', "List<Person>", "at `[0].age`: 300 as u8 does not fit in u8", "u8 holds 0 to 255"),
        ('[{"name": "a", "age": 3, "at": {"X": 1}}]', "List<Person>", "at `[0].at`: there is no `x`, which Point needs", "did you mean `X`?"),
        ("[1, 2, 3]", "(int, int)", "expected (i64, i64), found 3 elements", ""),
        ("[1, true]", "List<int>", "at `[1]`: expected i64, found bool", ""),
        ('{"a b": 1.5}', "dict[String, int]", 'at `["a b"]`: expected i64, found the f64 1.5', ""),
        ('{"x": 1}', "dict[int, int]", 'expected keys of i64, found "x"', ""),
        ('"Circl"', "Shape", 'Shape has no case "Circl"', "did you mean `Circle`?"),
        ('"Circle"', "Shape", "the case `Circle` of Shape has values, and here is its name alone", ""),
        ('{"Pair": [1]}', "Shape", "the case `Pair` of Shape has 2 values, and here are 1", ""),
        ('{"Box": {"w": 1.0}}', "Shape", "there is no `h`, which `Box` of Shape needs", ""),
        ("null", "int", "expected i64, found None", "`i64?` takes None, too"),
        ("[null]", "List<int>", "at `[0]`: expected i64, found None", "`i64?` takes None, too"),
        ('{"a": [1, 2]}', "Fixed", "at `a`: expected [i64; 3], found 2 elements", ""),
        ('{"t": [[1, 2], [3]]}', "Rows", "at `t`: rows differ in length: `[1]` has 1 element, and `[0]` has 2", "give `[1]` as many elements as `[0]`"),
        ("3", "List<int>", "expected a list, found i64", ""),
    ],
)
def test_what_does_not_fit_says_where(text: str, type: str, message: str, hint: str) -> None:
    Path("a.json").write_text(text)
    found, said = fault(f'let x = load("a.json") as {type}')
    assert message in found and said == hint


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("[nan]", "json has no nan", "an optional's `None` is written as `null`"),
        ("tensor([1.0, -inf])", "json has no -inf", "an optional's `None` is written as `null`"),
        ("{(1, 2): 3}", "the names of a json object are text, not tuple", "make the keys text: `key.to_string()`"),
        ("def(x): x", "json has no function", ""),
    ],
)
def test_what_json_does_not_have_is_refused_and_leaves_the_old_file(value: str, message: str, hint: str) -> None:
    Path("a.json").write_text("old")
    found, said = fault(f'save("a.json", {value})')
    assert (found.replace("(i64, i64)", "tuple"), said) == (f"`a.json`: {message}", hint)
    assert Path("a.json").read_text() == "old" and [path.name for path in Path().iterdir()] == ["a.json"]
