"""Imports of files: chains, modules that import each other, and files that are no programs."""

from pathlib import Path

import pytest

import zynml
from zyntax.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.zynml").write_text(text)


def refused(name: str) -> str:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(Path(f"{name}.zynml"))
    return str(caught.value)


ITSELF = """error[ZYN0211]: `loop.zynml` imports itself
 --> loop.zynml:2:1
  |
2 | import loop
  | ^^^^^^^^^^^
hint: leave the import out: a program knows its own names"""

CHAIN = """error[ZYN0211]: modules import each other: `shapes.zynml` -> `lines.zynml` -> `points.zynml` -> `shapes.zynml`
 --> points.zynml:1:1
  |
1 | from shapes import area
  | ^^^^^^^^^^^^^^^^^^^^^^^ `points.zynml` imports `shapes.zynml` here
 ::: shapes.zynml:1:1: `shapes.zynml` imports `lines.zynml` here
 ::: lines.zynml:2:1: `lines.zynml` imports `points.zynml` here
hint: move what both need into a module of its own"""


def test_a_program_that_imports_itself() -> None:
    write(loop="let x = 1\nimport loop\n")
    assert refused("loop") == ITSELF


def test_the_chain_of_modules_that_import_each_other_is_shown() -> None:
    write(shapes="import lines\ndef area(): int { 1 }\n", lines="let x = 1\nimport points\n", points="from shapes import area\n")
    assert refused("shapes") == CHAIN


def test_a_chain_that_the_program_stands_before() -> None:
    write(start="import shapes\n", shapes="import lines\ndef area(): int { 1 }\n", lines="let x = 1\nimport points\n", points="from shapes import area\n")
    assert refused("start") == CHAIN


def test_imports_inside_of_functions_count() -> None:
    write(loop="def f(): int {\nimport loop\n1 }\n")
    assert refused("loop") == ITSELF


@pytest.mark.parametrize("verb", ["check", "run"])
def test_the_command_says_the_same(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(loop="let x = 1\nimport loop\n")
    with pytest.raises(SystemExit) as left:
        main([verb, "loop.zynml"])
    assert left.value.code == 2
    assert capsys.readouterr().err.strip() == ITSELF


def test_modules_that_share_one_are_no_cycle() -> None:
    write(base="let n = 3\ndef f(): int { n }\n", left="from base import f\ndef l(): int { f() }\n", right="from base import f\ndef r(): int { f() }\n")
    write(top="from left import l\nfrom right import r\ndef both(): int { l() + r() }\n")
    assert zynml.compile(Path("top.zynml")).both() == 6


def test_a_long_chain_of_modules() -> None:
    write(m0="def f0(): int { 7 }\n")
    write(**{f"m{n}": f"from m{n - 1} import f{n - 1}\ndef f{n}(): int {{ f{n - 1}() }}\n" for n in range(1, 300)})
    assert zynml.compile(Path("m299.zynml")).f299() == 7


def test_a_folder_with_a_modules_name_is_none() -> None:
    Path("data").mkdir()
    Path("texts.zynml").mkdir()
    write(a="import data\n", b="import texts\n")
    for name, module in (("a", "data"), ("b", "texts")):
        assert refused(name).startswith(f"error[ZYN0202]: there is no module `{module}`\n")


def test_a_module_that_is_no_text() -> None:
    Path("bad.zynml").write_bytes(b"\xff\xfel")
    Path("binary.zynml").write_bytes(b"\0\1")
    write(a="import bad\n", b="import binary\n")
    assert refused("a") == "error[ZYN0108]: `bad.zynml` is not UTF-8: byte 0xff in line 1\n  --> bad.zynml\nhint: save it as UTF-8"
    assert refused("b") == "error[ZYN0108]: `binary.zynml` is a binary file, not a program\n  --> binary.zynml"


def test_errors_of_modules_are_found_by_a_check() -> None:
    write(a='import b\nlet x: int = "text"\n', b="let y: i32 = 2.5\n")
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(Path("a.zynml"))
    assert caught.value.codes == ("ZYN0203", "ZYN0207")
