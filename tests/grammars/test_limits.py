"""What nests too deep is ZYN0108 in every construct that nests, and what doesn't is read; the work grows with the length of a text."""

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from compiler.diagnostics import ZyntaxError
from compiler.source import MAX_SOURCE_BYTES, Source
from quantdsl.parse import parse_source as parse_quantdsl
from zynml.parse import parse_source as parse_zynml

Shape = Callable[[int], str]

NESTED: dict[str, Shape] = {
    "parentheses": lambda n: "x = " + "(" * n + "1" + ")" * n,
    "lists": lambda n: "x = " + "[" * n + "1" + "]" * n,
    "dicts": lambda n: "x = " + '{"a": ' * n + "1" + "}" * n,
    "structs": lambda n: "x = " + "P { a: " * n + "1" + " }" * n,
    "calls": lambda n: "x = " + "f(" * n + "1" + ")" * n,
    "blocks": lambda n: "x = " + "{ " * n + "1" + " }" * n,
    "ifs": lambda n: "if a { " * n + "b" + " }" * n,
    "matches": lambda n: "x = " + "match a { case 1: " * n + "2" + " }" * n,
    "lambdas": lambda n: "x = " + "def(x) { " * n + "x" + " }" * n,
    "computes": lambda n: "x = " + "compute(a) { " * n + "1" + " }" * n,
    "tries": lambda n: "try { " * n + "a" + " } catch _ { b }" * n,
    "generic types": lambda n: "x: " + "List<" * n + "int" + ">" * n + " = 1",
    "tensor types": lambda n: "x: " + "list[" * n + "int" + "]" * n + " = 1",
    "tuple types": lambda n: "x: " + "(" * n + "int" + ",)" * n + " = 1",
    "array types": lambda n: "x: " + "[" * n + "int" + "; 2]" * n + " = 1",
    "record types": lambda n: "x: " + "{ a: " * n + "int" + " }" * n + " = 1",
    "patterns": lambda n: "match a { case " + "Some(" * n + "x" + ")" * n + ": 1 }",
    "patterns of structs": lambda n: "match a { case " + "P { x: " * n + "x" + " }" * n + ": 1 }",
    "holes of f-strings": lambda n: 'x = f"{' + "(" * n + "1" + ")" * n + '}"',
    "comments": lambda n: "/*" * n + "*/" * n + "a",
}
CHAINED: dict[str, Shape] = {
    "minus": lambda n: "x = " + "- " * n + "1",
    "not": lambda n: "x = " + "not " * n + "true",
    "await": lambda n: "x = " + "await " * n + "a",
    "sums": lambda n: "x = 1" + " + 1" * n,
    "powers": lambda n: "x = 1" + " ^ 1" * n,
    "ternaries": lambda n: "x = " + "a ? b : " * n + "c",
    "conditionals": lambda n: "x = " + "a if b else " * n + "c",
    "arrows": lambda n: "x = " + "x => " * n + "x",
    "fields": lambda n: "x = a" + ".b" * n,
    "pipes": lambda n: "x = a" + " |> f" * n,
    "else if": lambda n: "if a { b } " + "else if a { b } " * n,
    "elif": lambda n: "if a: b\n" + "elif a: b\n" * n,
    "ifs on a line": lambda n: "if a: " * n + "b",
    "function types": lambda n: "x: " + "(int) => " * n + "int = 1",
    "paths": lambda n: "x: a" + "::b" * n + " = 1",
    "minus of sizes": lambda n: "x: tensor[" + "-" * n + "N] = 1",
    "sums of sizes": lambda n: "x: tensor[N" + "+1" * n + "] = 1",
    "alternatives": lambda n: "match a { case 1" + " | 2" * n + ": 1 }",
    "annotations": lambda n: "@a " * n + "def f() { }",
}


def _codes(text: str, parse: Any) -> list[str]:
    try:
        parse(Source("p", text))
    except ZyntaxError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]
    return []


def _in(language: str, text: str) -> tuple[str, Any]:
    """The text as a program of a language: the statements of QuantDSL stand in functions."""
    return (text, parse_zynml) if language == "zynml" else (f"fn f() {{\n{text}\n}}\n", parse_quantdsl)


@pytest.mark.parametrize("language", ["zynml", "quantdsl"])
@pytest.mark.parametrize("shape", NESTED.values(), ids=NESTED)
def test_nesting(language: str, shape: Shape) -> None:
    assert _codes(*_in(language, shape(90))) == []
    assert "0108" in _codes(*_in(language, shape(202)))
    assert "0108" in _codes(*_in(language, shape(20_000)))


@pytest.mark.parametrize("language", ["zynml", "quantdsl"])
@pytest.mark.parametrize("shape", CHAINED.values(), ids=CHAINED)
def test_chains(language: str, shape: Shape) -> None:
    assert _codes(*_in(language, shape(190))) == []
    assert "0108" in _codes(*_in(language, shape(2002)))
    assert "0108" in _codes(*_in(language, shape(50_000)))


@pytest.mark.parametrize("language", ["zynml", "quantdsl"])
@pytest.mark.parametrize("quotes", ['"', "'"])
def test_f_strings_in_f_strings(language: str, quotes: str) -> None:
    nested = lambda n: "x = " + f"f{quotes}{{" * n + "a" + f"}}{quotes}" * n  # noqa: E731
    assert _codes(*_in(language, nested(15))) == []
    assert _codes(*_in(language, nested(30))) == ["0108"]
    assert _codes(*_in(language, nested(5000))) == ["0108"]


@pytest.mark.parametrize("language", ["zynml", "quantdsl"])
def test_a_source_over_the_limit(language: str) -> None:
    text, parse = _in(language, "a")
    assert _codes(text + " " * (MAX_SOURCE_BYTES - len(text)), parse) == []
    assert _codes(text + " " * MAX_SOURCE_BYTES, parse) == ["0108"]


LONG: dict[str, Shape] = {
    "functions": lambda n: "".join(f"def f{i}(x: int): int {{\n    let z = x * {i}\n    if z > 3: return z\n    z - 1\n}}\n" for i in range(n // 80)),
    "a list": lambda n: "let xs = [" + "1, " * (n // 3) + "]\n",
    "a dict": lambda n: "let xs = {" + '"k": 1, ' * (n // 8) + "}\n",
    "nesting": lambda n: ("let x = " + "(" * 150 + "1" + ")" * 150 + "\n") * (n // 310),
    "expressions": lambda n: ("let x = " + "a + " * 150 + "1\n") * (n // 610),
    "comments": lambda n: "// a comment\nx /* and /* another */ one */\n" * (n // 43),
    "pipes": lambda n: ("let x = y\n" + "    |> f\n" * 100) * (n // 910),
    "a string": lambda n: 'let s = "' + "a\\n" * (n // 3) + '"\n',
    "an f-string": lambda n: 'let s = f"' + "{a + b} c" * (n // 9) + '"\n',
    "one line": lambda n: "a; " * (n // 3) + "\n",
    "arms": lambda n: "match x {\n" + "    1 => 2,\n" * (n // 12) + "}\n",
    "less than": lambda n: "f(" + "a<b, " * (n // 5) + ")\n",
    "braces": lambda n: "f(" + "{x: 1}, P { y: 2 }, " * (n // 20) + ")\n",
    "empty lines": lambda n: "\n" * n + "x\n",
}


def _calls(text: str) -> int:
    """How many functions are called while a text is read."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    sys.setprofile(note)
    try:
        parse_zynml(Source("p", text))
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("shape", LONG.values(), ids=LONG)
def test_the_calls_of_a_parse_grow_with_the_length_of_the_text(shape: Shape) -> None:
    short, long = shape(3000), shape(24_000)
    parse_zynml(Source("p", short))
    assert _calls(long) / len(long) < 1.3 * (_calls(short) / len(short)) + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("shape", LONG.values(), ids=LONG)
def test_the_time_of_a_parse_grows_with_the_length_of_the_text(shape: Shape) -> None:
    """What C does in one call isn't counted: copies of lists and strings. Were they quadratic, a text eight times as long would take eight
    times as long for each of its characters."""

    def seconds(text: str) -> float:
        began = time.process_time()
        parse_zynml(Source("p", text))
        return (time.process_time() - began) / len(text)

    short, long = shape(25_000), shape(200_000)
    assert min(seconds(long) for _ in range(2)) < 4 * min(seconds(short) for _ in range(4)) + 1e-7


def test_too_many_branches_are_told_as_branches() -> None:
    text = "let x = 5\nif x == 0: println(0)\n" + "".join(f"elif x == {number}: println({number})\n" for number in range(1, 1100))
    with pytest.raises(ZyntaxError) as caught:
        parse_zynml(Source("p", text))
    (fault,) = (fault for fault in caught.value.diagnostics if fault.code == "0108")
    assert fault.message == "this `if` is too long: its branches and their conditions nest over 2,000 terms"
    assert fault.hint == "use a `match`, a map, or several `if`s"
