"""Indices that loops surely take outside of an array are errors; those that a turn may never reach are left to the run."""

import pytest

from compiler.source import Source
from quantdsl.check.program import check_program
from quantdsl.parse import parse_source

HEAD = "const FOUR = 4\nfn f(xs: [int; 4], n: int, c: bool) -> int {\n  var s = 0\n"

WRONG = {
    "for i in 0..5 { s += xs[i] }": (4, "`i` is 4"),
    "for i in 0..=4 { s += xs[i] }": (4, "`i` is 4"),
    "for i in 0..=FOUR { s += xs[i] }": (4, "`i` is 4"),
    "for i in -1..4 { s += xs[i] }": (-1, "`i` is -1"),
    "for i in 4..0 step -1 { s += xs[i] }": (4, "`i` is 4"),
    "for i in 3..=-1 step -1 { s += xs[i] }": (-1, "`i` is -1"),
    "for i in 0..9 step 4 { s += xs[i] }": (4, "`i` is 4"),
    "for i in 0..4 { s += xs[i + 1] }": (4, "`i` is 3"),
    "for i in 0..4 { s += xs[2 * i - 1] }": (-1, "`i` is 0"),
    "for i in 0..4 { let k = i * 2; s += xs[k] }": (4, "`i` is 2"),
    "let end = FOUR + 1; for i in 0..end { s += xs[i] }": (4, "`i` is 4"),
    "for i in 0..100_000_000 { s += xs[i] }": (4, "`i` is 4"),
    "for i in 0..100_000_000 { s += xs[i / 25_000_000] + xs[i / 24_999_999] }": (4, "`i` is 99999999"),
    "for i in 0..3 { for j in 0..3 { s += xs[i + j] } }": (4, "`i` is 2 and `j` is 2"),
    "for i in 0..3, j in 0..=i { s += xs[i + j] }": (4, "`i` is 2 and `j` is 2"),
    "for i in 0..6 { s += xs[min(i, 4)] }": (4, "`i` is 4"),
    "for i in 0..6 { s += xs[i % 5] }": (4, "`i` is 4"),
    "for i in 0..5 { var ys = xs; ys[i] = 1; s += ys[0] }": (4, "`i` is 4"),
    "if c { for i in 0..5 { s += xs[i] } }": (4, "`i` is 4"),
    "for i in 0..n { for j in 0..5 { s += xs[j] } }": None,
    "for x in xs { for j in 0..5 { s += xs[j] + x } }": (4, "`j` is 4"),
    "var i = 0; while i < 5 { s += xs[i]; i += 1 }": (4, "`i` is 4"),
    "var i = 0; while i <= FOUR max 9 { s += xs[i]; i += 1 }": (4, "`i` is 4"),
    "var i = 3; while i >= -1 { s += xs[i]; i -= 1 }": (-1, "`i` is -1"),
    "for k in 0..2 { var i = 0; while i < 6 { s += xs[i]; i += 2 } }": (4, "`k` is 0 and `i` is 4"),
}

RIGHT = (
    "for i in 0..4 { s += xs[i] }",
    "for i in 3..=0 step -1 { s += xs[i] }",
    "for i in 0..5 { if i < 4 { s += xs[i] } }",
    "for i in 0..5 { if i == 4 { break }; s += xs[i] }",
    "for i in 0..5 { if i == 4 { continue }; s += xs[i] }",
    "for i in 0..5 { if c { return s }; s += xs[i] }",
    "for i in 0..5 { if i < 4 and xs[i] > 0 { s += 1 } }",
    "for i in 0..5 { s += (if i < 4 { xs[i] } else { 0 }) }",
    "for i in 0..5 { match i { 4 => { }, k => { s += xs[k] } } }",
    "for i in 5..5 { s += xs[i] }",
    "for i in 0..0 { for j in 0..9 { s += xs[i + j] } }",
    "for i in 0..n { s += xs[i] }",
    "for i in 0..8 { s += xs[i / 2] + xs[i % 4] }",
    "for i in 0..8 { var k = i; k = 0; s += xs[k] }",
    "for i in 0..4 { let i = 3 - i; s += xs[i] }",
    "var i = 0; while i < 4 { s += xs[i]; i += 1 }",
    "var i = 0; while i < 5 max 3 { s += xs[i]; i += 1 }",
    "var i = -1; while i < 3 { i += 1; s += xs[i] }",
    "var i = 0; while i < 5 { s += xs[n]; if c { i += 1 }; i += 1 }",
    "var i = 0; for k in 0..3 { if k == 2 { while i < 5 { s += xs[i + 20]; i += 1 } }; i -= 10 }",
)


def found(body: str) -> list[tuple[str, str, str]]:
    program = parse_source(Source("p.qdsl", f"{HEAD}  {body}\n  s\n}}\n"))
    return [(one.code, one.message, one.label) for one in check_program(program).diagnostics.sorted]


@pytest.mark.parametrize("body", WRONG)
def test_a_turn_outside_is_an_error(body: str) -> None:
    wanted = WRONG[body]
    assert found(body) == ([("0705", f"the index {wanted[0]} is outside of `[i64; 4]`", f"where {wanted[1]}")] if wanted else [])


@pytest.mark.parametrize("body", RIGHT)
def test_what_a_turn_may_not_reach_is_no_error(body: str) -> None:
    assert found(body) == []


def test_rings_and_blocks_too() -> None:
    text = (
        "signal f(x: f64) -> f64 {\n  state w: ring<f64, 3>\n  _ = w.push(x)\n  var s = 0.0\n  for i in 0..4 { s += w[i] }\n  emit s\n}\n"
    )
    (error,) = check_program(parse_source(Source("p.qdsl", text))).diagnostics.sorted
    assert (error.code, error.label) == ("0705", "where `i` is 3")
    text = "fn g(xs: [f64; 3]) -> f64 { compute(xs) @kernel(reduce, +) { for i in 0..=3 { yield xs[i] } } }\n"
    (error,) = check_program(parse_source(Source("p.qdsl", text))).diagnostics.sorted
    assert (error.code, error.label) == ("0705", "where `i` is 3")
