"""Messages as JSON, as editors read them: lines and columns of both ends, in characters from 1, in both languages."""

import json
from pathlib import Path

import pytest

from tests.zyntax.conftest import Zyntax

CASES = [
    # (the text of a program, and where its first message begins and ends, as line and column)
    pytest.param("let x = yy\n", (1, 9), (1, 11), id="a name"),
    pytest.param("\n\n  \tlet x = yy\n", (3, 12), (3, 14), id="behind a tab"),
    pytest.param('let s = "\u6f22\u5b57", yy\n', (1, 13), (1, 14), id="behind wide characters"),
    pytest.param('let s = "\U0001f600e\u0301" + yy\n', (1, 17), (1, 19), id="behind characters of several code units"),
    pytest.param("let x =\nlet y = 3\n", (1, 8), (1, 9), id="where a line ends"),
    pytest.param("let x =\r\nlet y = 3\r\n", (1, 8), (1, 9), id="where a line ends with a carriage return"),
    pytest.param("let x =", (1, 8), (1, 9), id="where the file ends"),
    pytest.param("let x = yy", (1, 9), (1, 11), id="the file's last characters"),
    pytest.param("let x = (1 +\n    2)(\n3)\n", (1, 10), (2, 6), id="over several lines"),
    pytest.param("let x = (\u6f22,\n\t)()", (1, 10), (1, 11), id="a sign that is wide itself"),
]


@pytest.mark.parametrize(("text", "begin", "end"), CASES)
def test_both_ends_in_zynml(zyntax: Zyntax, folder: Path, text: str, begin: tuple[int, int], end: tuple[int, int]) -> None:
    (folder / "p.zynml").write_bytes(text.encode())
    place = json.loads(zyntax("check", "p.zynml", "--error-format", "json").stderr.splitlines()[0])["place"]
    assert ((place["line"], place["column"]), (place["end_line"], place["end_column"])) == (begin, end)


QUANTDSL = [
    pytest.param("fn f(a: int) -> int {\n  yy\n}\n", (2, 3), (2, 5), id="a name"),
    pytest.param("fn f(a: int) -> int {\n\tyy\n}\n", (2, 2), (2, 4), id="behind a tab"),
    pytest.param("fn f(a: int) -> int {\n  /* \u6f22\u5b57 */ yy\n}\n", (2, 12), (2, 14), id="behind wide characters"),
    pytest.param("fn f(a: int) -> int {\n  let b =\n  let c = 3\n a\n}\n", (2, 10), (2, 11), id="where a line ends"),
    pytest.param("fn f(a: int) -> int", (1, 20), (1, 21), id="where the file ends"),
    pytest.param("fn f(a: int) -> int {\n  (a,\n    true)\n}\n", (2, 3), (3, 10), id="over several lines"),
    pytest.param("fn f(a: int) -> int {\n  if a { 1 }\n  else {\n    2 }\n}\n", (2, 6), (2, 7), id="in a statement of several lines"),
]


@pytest.mark.parametrize(("text", "begin", "end"), QUANTDSL)
def test_both_ends_in_quantdsl(zyntax: Zyntax, folder: Path, text: str, begin: tuple[int, int], end: tuple[int, int]) -> None:
    (folder / "p.qdsl").write_bytes(text.encode())
    place = json.loads(zyntax("check", "p.qdsl", "--error-format", "json").stderr.splitlines()[0])["place"]
    assert ((place["line"], place["column"]), (place["end_line"], place["end_column"])) == (begin, end)


def test_other_places_have_both_ends(zyntax: Zyntax, folder: Path) -> None:
    (folder / "p.zynml").write_text("let x = 3\n\nx = 4\n", encoding="utf-8")
    other = json.loads(zyntax("check", "p.zynml", "--error-format", "json").stderr)["others"][0]["place"]
    assert (other["line"], other["column"], other["end_line"], other["end_column"]) == (1, 5, 1, 6)
