"""Whole programs: they parse, their trees survive JSON, both block styles mean the same, and broken ones give coded messages."""

import re
from itertools import islice
from pathlib import Path

import pytest

from compiler.codes import CODES
from compiler.diagnostics import ZyntaxError, render
from compiler.source import Source, Sources
from grammars.loader import conflicts
from quantdsl.check.program import check_program
from quantdsl.grammar import GRAMMAR
from quantdsl.parse import parse_source
from quantdsl.tree_json import from_json, to_json
from tests.mutations import mutations
from tests.quantdsl.reading import PROGRAMS, statements

by_name = pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)


@by_name
def test_a_program_loads_back_equal(path: Path) -> None:
    program = parse_source(Source(path.name, path.read_text(encoding="utf-8")))
    assert from_json(to_json(program)) == program


@by_name
def test_windows_line_ends_change_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert statements(text.replace("\n", "\r\n")) == statements(text)


STYLES = [
    ("fn f(a: int) -> int {\n a + 1\n}", "fn f(a: int) -> int:\n    a + 1"),
    ("currency USD { scale 8 }", "currency USD:\n    scale 8"),
    ("instrument A : USD { tick 1 lot 1 multiplier 2 }", "instrument A : USD:\n  tick 1\n  lot 1; multiplier 2"),
    ("risk R for A { rate 50 per 1s max_position 2lots }", "risk R for A:\n    rate 50 per 1s\n\n    max_position 2lots\n"),
    ("risk R for A {\n rate 50 per 1s, max_position 2lots\n}", "risk R for A:\n    rate 50 per 1s max_position 2lots"),
    (
        "strategy S on A {\n risk R\n on trade(t) { if a { x = 1 } else { x = 2 } }\n on start { }\n}",
        "strategy S on A:\n    risk R\n    on trade(t):\n        if a: x = 1\n        else: x = 2\n    on start { }",
    ),
    ("signal s(x: f64) -> f64 {\n state v = 0.0\n emit v\n}", "signal s(x: f64) -> f64:\n    state v = 0.0\n    emit v"),
    ("fn f() { while a max 3 { b() } }", "fn f():\n    while a max 3:\n        b()"),
    ("fn f() { if let x = y { g(x) } elif let z = w { h(z) } }", "fn f():\n  if let x = y:\n    g(x)\n  elif let z = w:\n    h(z)"),
    (
        "fn f() {\n match a {\n  Ok(x) => { g(x) }\n  Err(_) => { }\n }\n}",
        "fn f():\n    match a:\n        case Ok(x): g(x)\n        case Err(_) { }",
    ),
    ('test "t" { assert(true, "x") }', 'test "t":\n    assert(true, "x")'),
]


@pytest.mark.parametrize(("braces", "colons"), STYLES)
def test_both_block_styles_give_one_tree(braces: str, colons: str) -> None:
    assert statements(braces) == statements(colons)


def test_shift_reduce_conflicts_are_the_known_ones() -> None:
    known = Path(__file__).with_name("conflicts.txt").read_text(encoding="utf-8").splitlines()
    assert sorted(f"{terminal}: {rule}" for terminal, rule in conflicts(GRAMMAR)) == known


def test_three_hundred_broken_programs_give_trees_or_coded_messages() -> None:
    texts = [path.read_text(encoding="utf-8") for path in PROGRAMS]
    codes: set[str] = set()
    clean = 0
    for data in islice(mutations(2026, texts), 300):
        source = Source("p.qdsl", data.decode("utf-8", "replace").replace("\0", ""))
        try:
            program = parse_source(source)
            assert from_json(to_json(program)) == program
            checked = check_program(program)
            assert from_json(to_json(checked.program)) == checked.program
            found = checked.diagnostics.sorted
        except ZyntaxError as error:
            found = error.diagnostics
        for diagnostic in found:
            assert diagnostic.code in CODES
            assert re.match(r"(error|warning)\[ZYN\d{4}\]: \S", render(diagnostic, Sources(source)))
        codes |= {diagnostic.code for diagnostic in found}
        clean += not found
    assert len(codes) > 4
    assert clean > 5
