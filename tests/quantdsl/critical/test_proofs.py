"""Promises over the call graph. The messages themselves stand in tests/errors; here is what is found, and what is rightly left alone."""

import pytest

from compiler.source import Source
from quantdsl.check.program import check_program
from quantdsl.parse import parse_source

MARKET = """currency USD { scale 8 }
instrument ES : USD { tick 0.25  lot 1  multiplier 50 }
risk Desk for ES { max_order_qty 10lots  max_position 20lots }
"""


def found(text: str) -> list[tuple[str, str]]:
    """Code and the text under the caret of each error."""
    source = Source("p.qdsl", text)
    errors = check_program(parse_source(source)).diagnostics.errors
    return [(e.code, text[e.span.start : e.span.end]) for e in errors if e.span is not None]


def critical(body: str, before: str = "", parameters: str = "n: int, x: f64") -> list[tuple[str, str]]:
    return found(f"{before}\n@critical_path\nfn f({parameters}) -> int {{\n  var s = 0\n{body}\n  s\n}}\n")


@pytest.mark.parametrize(
    "loop",
    [
        "for i in 0..64 { s += i }",
        "for i in 0..=WIDE { s += i }",
        "for i in 0..depth { s += i }",
        "for i in 0..min(n, 10) { s += i }",
        "for i in 0..min(10, n + 1) { s += i }",
        "for i in max(n, 3)..20 { s += i }",
        "for i in 0..(n % 7) { s += i }",
        "for i in 0..depth * WIDE - 1 { s += i }",
        "for i in 0..min(n, 4) * depth { s += i }",
        "for i in 0..WIDE { for k in i..2 * i { s += k } }",
        "let most = min(n, WIDE)\n  let more = most + 2\n  for i in 0..more { s += i }",
        "let cells = [1, 2, 3]\n  for c in cells { s += c }",
        "var r: ring<int, 4>\n  for v in r { s += v }",
        "while s < n max 10 { s += 1 }",
        "while s < n max depth * 2 { s += 1 }",
    ],
)
def test_loops_that_have_a_bound(loop: str) -> None:
    assert critical(loop, "const WIDE = 5\nparam depth: int in 1..10 = 3") == []


@pytest.mark.parametrize(
    ("loop", "where"),
    [
        ("for i in 0..n { s += i }", "0..n"),
        ("for i in n..10 { s += i }", "n..10"),
        ("for i in 0..max(n, 3) { s += i }", "0..max(n, 3)"),
        ("for i in 0..-min(n, 3) { s += i }", "0..-min(n, 3)"),
        ("for i in 0..10 - min(n, 3) { s += i }", "0..10 - min(n, 3)"),
        ("for i in 0..min(n, 4) * shift { s += i }", "0..min(n, 4) * shift"),
        ("let WIDE = n\n  for i in 0..WIDE { s += i }", "0..WIDE"),
        ("var k = 3\n  for i in 0..k { k += 1 }", "0..k"),
        ("if n > 3 { let m = 3; s += m } else { let m = n; for i in 0..m { s += i } }", "0..m"),
        ("while s < n { s += 1 }", "while s < n"),
        ("while s < n max n { s += 1 }", "n"),
    ],
)
def test_loops_that_have_none(loop: str, where: str) -> None:
    assert critical(loop, "const WIDE = 5\nparam shift: int in -3..3 = 1") == [("0714", where)]


def test_narrow_numbers_bound_a_loop() -> None:
    assert critical("for i in 0..n { s += 1 }", parameters="n: u16") == []
    assert critical("for i in n..9 { s += 1 }", parameters="n: u32") == []
    assert critical("for i in 0..n { s += 1 }", parameters="n: u32") == [("0714", "0..n")]


def test_lengths_and_constant_parameters_bound_a_loop() -> None:
    sizes = "fn sum<N>(a: [f64; N]) -> f64 { var s = 0.0; for i in 0..a.len { s += a[i] }; s }\n"
    fixed = "fn steps(n: const int) -> int { var s = 0; for i in 0..2 * n { s += i }; s }\n"
    lengths = "fn each<N>(r: ring<f64, N>) -> f64 { var s = 0.0; for i in 0..r.len { s += r[i] }; s }\n"
    asked = "@critical_path\nfn f(a: [f64; 4], r: ring<f64, 4>) -> f64 { sum(a) + each(r) + (steps(3) as f64) }\n"
    assert found(sizes + fixed + lengths + asked) == []


def test_what_is_not_promised_is_free() -> None:
    text = 'fn f(n: int) -> int { print("x"); while n > 0 { f(n) } ; 0 }\n'
    assert found(text) == []
    assert found("@no_allocation\n" + text.replace('print("x"); ', "")) == [], "a loop and a recursion don't allocate"
    assert found('@no_syscalls\nfn g(x: f64) -> str { f"{x}" }\n') == [], "a text is no system call"


def test_each_place_is_told_once() -> None:
    text = 'fn deep(x: f64) { print(f"{x}") }\n'
    text += "@critical_path\nfn f(x: f64) { deep(x); deep(x) }\n@critical_path\nfn g(x: f64) { deep(x) }\n"
    assert found(text) == [("0712", 'print(f"{x}")'), ("0711", 'f"{x}"')]


def test_handlers_and_functions_of_strategies() -> None:
    text = (
        MARKET
        + """extern fn model(x: f64) -> f64 effects(io)
fn helper(x: f64) -> f64 { x }
strategy S on ES {
  risk Desk
  state last = 0.0
  fn helper(x: f64) -> f64 { model(x) }
  on quote(q) { last = helper(q.bid.f64) }
  @critical_path
  on trade(t) { last = helper(t.price.f64) }
}
"""
    )
    assert found(text) == [("0712", "model(x)")], "the strategy's own helper hides the other"


def test_signals_of_the_library_are_looked_through() -> None:
    text = MARKET + "strategy S on ES {\n  state m = 0.0\n  @critical_path\n  on trade(t) {\n    m = ema(t.price.f64, 10)\n"
    text += "    m = highest(t.price.f64, 20) ?? m\n    m = stdev(t.price.f64, 20) ?? m\n  }\n}\n"
    assert found(text) == []


def test_circles() -> None:
    three = "fn a(n: int) -> int { b(n) }\nfn b(n: int) -> int { c(n) }\nfn c(n: int) -> int { a(n) }\n"
    assert found(three + "@critical_path\nfn f(n: int) -> int { c(n) }\n") == [("0713", "c(n)")]
    assert found("@critical_path\nfn f(n: int) -> int { f(n) }\n") == [("0713", "f(n)")]
    assert found(three + "@inline_always\nfn f(n: int) -> int { c(n) }\n") == []


def test_orders_without_checks() -> None:
    text = MARKET + "strategy S on ES {\n  risk Desk\n  fn enter() { _ = buy(1lots) }\n  @unsafe_unchecked\n  fn f() { enter() }\n"
    assert found(text + "  on trade(t) { f() }\n}\n") == [("0717", "buy(1lots)")]


METHODS = """struct Tally { sum: int, more: int }
impl Tally {
  fn slow(self) -> int { let xs: list<int> = [self.sum]
    xs.len() }
  fn quick(self) -> int { self.sum }
  fn grow(mut self) { self.sum = self.sum + 1 }
}
fn slow(self: int) -> int { self }
fn next(mut self: int, by: int) { self = self + by }
"""


def test_a_method_is_that_of_its_type() -> None:
    assert [code for code, _ in critical("var t = Tally { sum: n, more: 0 }\n  t.grow()\n  s += t.quick() + n.slow()", METHODS)] == []
    assert [text for _, text in critical("let t = Tally { sum: n, more: 0 }\n  s += t.slow()", METHODS)] == ["[self.sum]"]


def test_a_method_that_changes_a_bound_takes_the_bound_away() -> None:
    loop = "for i in 0..k { s += i }"
    assert critical(f"var k = 3\n  k.next(n)\n  {loop}", METHODS) != []
