"""Reading program files, limits of the parser, and its behaviour on damaged programs."""

import random
from pathlib import Path

import pytest
from tests_parser_programs import ALL

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import MAX_SOURCE_BYTES, Source
from compiler.syntax.read import read_source
from compiler.typed_ast import nodes
from zynml.parse import parse_source


def refusal(path: Path) -> Diagnostic:
    with pytest.raises(ZyntaxError) as caught:
        read_source(path)
    (found,) = caught.value.diagnostics
    assert found.code == "0108"
    return found


def faults(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ZyntaxError) as caught:
        parse_source(Source("p.zynml", text))
    return [(d.code, d.message) for d in caught.value.diagnostics]


def test_a_file_is_read_with_or_without_byte_order_mark(tmp_path: Path) -> None:
    for data in ("let é = 1".encode(), "\ufefflet é = 1".encode()):
        (tmp_path / "a.zynml").write_bytes(data)
        assert read_source(tmp_path / "a.zynml").text == "let é = 1"


def test_files_that_are_no_programs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zynml"
    assert refusal(path).message == f"`{path}` can't be read: no such file or directory"
    path.write_bytes(b"let x = 1\nlet y = \xff\n")
    assert refusal(path).message == f"`{path}` is not UTF-8: byte 0xff in line 2"
    path.write_bytes(b"\x7fELF\0\0")
    assert refusal(path).message == f"`{path}` is a binary file, not a program"
    path.write_bytes(b" " * (MAX_SOURCE_BYTES + 1))
    assert refusal(path).message == f"`{path}` is too large: a program has at most 4 MiB"
    assert refusal(tmp_path).message == f"`{tmp_path}` can't be read: is a directory"


@pytest.mark.parametrize("text", ["(" * 201 + "1" + ")" * 201, "[" * 300, "{" * 5000])
def test_nesting_is_limited(text: str) -> None:
    assert faults("let x = " + text) == [("0108", "nested too deep: more than 200 brackets and blocks are open")]


def test_two_hundred_brackets_are_allowed() -> None:
    parse_source(Source("p.zynml", "let x = " + "(" * 199 + "1" + ")" * 199))


@pytest.mark.parametrize(
    "text", ["1" + " + 1" * 2001, "-" * 2001 + "1", "x" + ".a" * 2001, "x" + "()" * 2001, "x => " * 2001 + "1", "a < " * 2001 + "b"]
)
def test_chains_are_limited(text: str) -> None:
    assert faults("let x = " + text)[-1] == ("0108", "this expression is too long: it nests over 2,000 terms")


def test_long_lists_of_things_that_do_not_nest_are_allowed() -> None:
    texts = ("f(" + "1 + 1, " * 5000 + ")", "x = 1 + 2\n" * 5000, "match x { " + "1 => 2, " * 5000 + "}")
    for text in texts:
        parse_source(Source("p.zynml", text))


def test_a_mebibyte_of_program_is_parsed() -> None:
    text = "".join(ALL)
    copies = 1024 * 1024 // len(text)
    tree = parse_source(Source("p.zynml", text * copies))
    assert len(tree.statements) == copies * len(parse_source(Source("p.zynml", text)).statements)


@pytest.mark.parametrize(
    "text",
    [
        "_" * 500_000,
        'f"{' * 20_000,
        '"' * 50_001,
        "/*" * 50_000,
        "\n" * 300_000,
        "x = {" + "a:" * 50_000,
        "f(x {" * 150 + "a:" * 50_000,
        " " * 500_000,
        "x " * 20_000,
    ],
)
def test_hostile_texts_end(text: str) -> None:
    try:
        tree = parse_source(Source("p.zynml", text))
    except ZyntaxError as error:
        assert all(d.code.startswith("01") for d in error.diagnostics)
    else:
        assert isinstance(tree, nodes.Program)


_SIGNS = '( ) [ ] { } : , = => -> " \' f" """ @ |> ? .. /* */ // < > >> \\ \0 é 0x 1.5 + :: . ; {{'
_WORDS = "if else for in match case let def compute( yield struct elif try catch @kernel"
_PIECES = [*_SIGNS.split(), *_WORDS.split(), "\n", "\n    ", "\t"]


def damaged(text: str, chance: random.Random) -> str:
    """The text with pieces removed, doubled, replaced or put in."""
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        at = chance.randrange(len(text) + 1)
        match chance.randrange(4):
            case 0:
                text = text[:at] + text[at + chance.choice([1, 3, 10, 40]) :]
            case 1:
                text = text[:at] + chance.choice(_PIECES) + text[at:]
            case 2:
                text = text[:at] + chr(chance.randrange(32, 127)) + text[at + 1 :]
            case _:
                source = chance.randrange(len(text) + 1)
                text = text[:at] + text[source : source + 20] + text[at:]
    return text


@pytest.mark.parametrize("seed", range(5))
def test_damaged_programs_are_parsed_or_refused_with_places(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(80):
        text = damaged(chance.choice(ALL), chance)
        try:
            parse_source(Source("p.zynml", text))
        except ZyntaxError as error:
            assert error.diagnostics
            for found in error.diagnostics:
                assert found.span is not None
                assert 0 <= found.span.start < found.span.end <= len(text) + 1
                assert found.message and (found.code.startswith("01") or found.code == "0402")
