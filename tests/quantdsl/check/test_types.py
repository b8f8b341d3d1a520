"""What type each operation has, and which have none."""

from pathlib import Path

import pytest

from compiler.source import Source
from compiler.typed_ast import nodes
from quantdsl.check.fits import shown
from quantdsl.check.program import check_program
from quantdsl.parse import parse_source
from tests.quantdsl.reading import PROGRAMS

MARKETS = """currency USD { scale 8 }
currency EUR { scale 6 }
instrument ES : USD { tick 0.25 lot 1 multiplier 50 }
instrument DAX : EUR { tick 0.5 lot 1 multiplier 25 }
enum Mode { Calm, Busy(u8) }
struct Pair<T> { first: T, second: T }
const N = 4
fn probe<K>(
  p: Price<ES>, p2: Price<DAX>, q: Qty<ES>, m: Money<USD>, t: Ticks<ES>, ts: Timestamp, d: Duration, r: Ratio, side: Side, id: OrderId,
  i: int, i32_: i32, u: u8, big: u64, f: f64, g: f32, b: bool, o: Price<ES>?, w: Result<int, u8>, xs: [f64; 4], mut ring: ring<i64, 8>,
  mut tab: table<OrderId, Qty<ES>, 16>, pair: Pair<i32>, mode: Mode, k: K, text: str
) {
"""


def messages(text: str) -> list[str]:
    return [f"{found.code}: {found.message}" for found in check_program(parse_source(Source("p.qdsl", text))).diagnostics.sorted]


def type_of(expression: str) -> str:
    """The type of an expression in the body of `probe`, or the codes of what is wrong with it."""
    checked = check_program(parse_source(Source("p.qdsl", f"{MARKETS}  let it = {expression}\n}}")))
    if checked.diagnostics.sorted:
        return " ".join(found.code for found in checked.diagnostics.sorted)
    function = checked.program.statements[-1]
    assert isinstance(function, nodes.Function) and function.body is not None
    (let,) = function.body.statements
    assert isinstance(let, nodes.Let) and let.value is not None
    return shown(let.value.type)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("p + t", "Price<ES>"),
        ("p - 3ticks", "Price<ES>"),
        ("3ticks + p", "Price<ES>"),
        ("p - p", "Ticks<ES>"),
        ("p + p", "0208"),
        ("p * p", "0208"),
        ("p - q", "0208"),
        ("p * q", "Money<USD>"),
        ("q * p", "Money<USD>"),
        ("t * q", "Money<USD>"),
        ("p * 2lots", "Money<USD>"),
        ("p2 * q", "0701"),
        ("p - p2", "0701"),
        ("p < p2", "0701"),
        ("p < p", "bool"),
        ("p < 4500.25", "bool"),
        ("4500.25 < p", "bool"),
        ("p < 4500.30", "0702"),
        ("q + 2lots", "Qty<ES>"),
        ("q - q", "Qty<ES>"),
        ("q * i", "Qty<ES>"),
        ("2 * q", "Qty<ES>"),
        ("q * f", "0704"),
        ("q / 2", "Qty<ES>"),
        ("q / q", "i64"),
        ("q % q", "Qty<ES>"),
        ("2 / q", "0208"),
        ("-q", "Qty<ES>"),
        ("-p", "0208"),
        ("q +| q", "Qty<ES>"),
        ("q -% q", "Qty<ES>"),
        ("m + m", "Money<USD>"),
        ("m + 5 USD", "Money<USD>"),
        ("m + 5 EUR", "0701"),
        ("m > 5", "bool"),
        ("m > 0.000000001", "0702"),
        ("m * 3", "Money<USD>"),
        ("m * f", "0704"),
        ("m + q", "0208"),
        ("ts + d", "Timestamp"),
        ("ts - ts", "Duration"),
        ("ts + 500ms", "Timestamp"),
        ("ts + ts", "0208"),
        ("d * 3", "Duration"),
        ("d / d", "i64"),
        ("r + 5bps", "Ratio"),
        ("r * f", "f64"),
        ("r * q", "0208"),
        ("id + 1", "0208"),
        ("id == id", "bool"),
        ("id < id", "0208"),
        ("side == Buy", "bool"),
        ("side.sign * 2", "i64"),
        ("side.opposite", "Side"),
        ("q * side.sign < 2lots", "bool"),
        ("p.f64", "f64"),
        ("p.ticks", "i64"),
        ("q.lots", "i64"),
        ("i + 1", "i64"),
        ("i + f", "f64"),
        ("i + 0.5", "f64"),
        ("g + 1", "f32"),
        ("g + 0.5", "f32"),
        ("g + f", "f64"),
        ("i32_ + 1", "i32"),
        ("i32_ + i", "i64"),
        ("u + 1", "u8"),
        ("u + 256", "0705"),
        ("u + i32_", "i32"),
        ("i + big", "0207"),
        ("b + 1", "0208"),
        ("i and b", "0203"),
        ("i & 3", "i64"),
        ("f & 3", "0208"),
        ("f +| f", "0208"),
        ("i +| 1", "i64"),
        ("i < f", "bool"),
        ("i == b", "0208"),
        ("o ?? p", "Price<ES>"),
        ("o ?? o", "Price<ES>?"),
        ("p ?? p", "0203"),
        ("o + t", "0726"),
        ("o.f64", "0726"),
        ("o.is_some()", "bool"),
        ("w + 1", "0726"),
        ("w ?? 3", "i64"),
        ("xs[3]", "f64"),
        ("xs[N]", "0705"),
        ("xs[i]", "f64"),
        ("xs[f]", "0207"),
        ("ring[0]", "i64"),
        ("ring.push(3)", "i64?"),
        ("ring.len", "i64"),
        ("tab.get(id)", "Qty<ES>?"),
        ("tab.insert(id, q)", "Result<Qty<ES>?, Full>"),
        ("tab.get(3)", "0203"),
        ("pair.first", "i32"),
        ("Pair<i64> { first: 1, second: i }", "Pair<i64>"),
        ("Pair<i64> { first: 1 }", "0204"),
        ("Pair<u8> { first: 1, second: 300 }", "0705"),
        ("Busy(3)", "Mode"),
        ("Busy(300)", "0705"),
        ("Mode::Calm", "Mode"),
        ("Calm", "Mode"),
        ("Busy", "0204"),
        ("(i, 1.5, p)", "(i64, f64, Price<ES>)"),
        ("(i, p).1", "Price<ES>"),
        ("[1, 2, 3]", "[i64; 3]"),
        ("[p, p2]", "0701"),
        ("[0.0; 2 * N]", "[f64; 8]"),
        ("[0.0; i]", "0301"),
        ("some(p)", "Price<ES>?"),
        ("none", "0203"),
        ("if b { p } else { none }", "Price<ES>?"),
        ("if b { 1 } else { 2.5 }", "f64"),
        ("if b { 1 } else { p }", "0203"),
        ("p if b else p", "Price<ES>"),
        ("match side { Buy => 1, Sell => -1 }", "i64"),
        ("match o { none => 0ticks, some(v) => v - p }", "Ticks<ES>"),
        ("match mode { Calm => 0, Busy(n) => n }", "u8"),
        ("match w { Ok(v) => v, Err(e) => e }", "i64"),
        ("i as f32", "f32"),
        ("f as u8", "u8"),
        ("p as f64", "0203"),
        ("b as int", "i64"),
        ("max(i, 3)", "i64"),
        ("max(p, p)", "Price<ES>"),
        ("min(3, i32_)", "i32"),
        ("to_qty(f, round = down)", "0203"),
        ("sma(f, N)", "f64?"),
        ("sma(f, i)", "0204"),
        ("ema(p.f64, 12)", "f64"),
        ("delay(p, 1)", "Price<ES>?"),
        ("delay(o, 1)", "0726"),
        ("k == k", "bool"),
        ("k + k", "0208"),
        ("-9223372036854775808", "i64"),
        ("9223372036854775808", "0705"),
        ("18446744073709551615 as u64", "u64"),
        ("18446744073709551615 as i64", "0705"),
        ("18446744073709551615u64", "u64"),
        ('f"{i} {p.f64:.2f}"', "str"),
        ('"a" + str(f)', "str"),
        ("zeros(3)[0] + f", "f64"),
        ('len("ab")', "i64"),
        ("len(f)", "0203"),
        ('"ab".size()', "0202"),
        ("text == text", "bool"),
    ],
)
def test_operations(expression: str, expected: str) -> None:
    assert type_of(expression) == expected


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_are_correct(path: Path) -> None:
    assert messages(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("scale", range(19))
def test_the_grid_is_exact_at_every_scale(scale: int) -> None:
    market = f"currency C {{ scale {scale} }}\n"
    unit = f"0.{'0' * (scale - 1)}1" if scale else "1"
    assert messages(f"{market}const A: Money<C> = {unit}\nconst B = -{unit} C") == []
    finer = f"0.{'0' * scale}1"
    assert [found[:4] for found in messages(f"{market}const A: Money<C> = {finer}")] == ["0702"]


@pytest.mark.parametrize(
    ("tick", "lot", "multiplier", "smallest"),
    [("0.25", "1", "50", 1), ("0.01", "0.00001", "1", 7), ("0.5", "1", "25", 1), ("1", "1", "1", 0), ("0.015625", "1", "1000", 3), ("0.1", "0.001", "10", 3)],
)
def test_the_smallest_scale_that_holds_a_market(tick: str, lot: str, multiplier: str, smallest: int) -> None:
    def found(scale: int) -> list[str]:
        return messages(f"currency C {{ scale {scale} }}\ninstrument X : C {{ tick {tick} lot {lot} multiplier {multiplier} }}")

    assert found(smallest) == found(18) == []
    assert smallest == 0 or [text[:4] for text in found(smallest - 1)] == ["0703"]


def test_types_that_stand_for_themselves() -> None:
    assert messages("type A = B\ntype B = A") == ["0210: the type `A` is defined by itself", "0210: the type `B` is defined by itself"]


def test_long_chains() -> None:
    assert messages(f"fn f(x: int) -> int {{ {' + '.join(['x'] * 1900)} }}\nconst N = {' + '.join(['1'] * 300)}") == []


def test_generic_functions_keep_their_types_apart() -> None:
    text = "fn pick<T>(a: T, b: T) -> T { a }\nfn f<K>(k: K) -> K { pick(k, {}) }"
    assert messages(text.replace("{}", "k")) == []
    assert [found[:4] for found in messages(text.replace("{}", "3"))] == ["0203"]


def test_records_of_events_are_of_an_instrument() -> None:
    """A name without arguments takes it from the strategy, or is of any instrument where there is none."""
    text = """
currency USD { scale 8 }
instrument ES : USD { tick 0.25 lot 1 multiplier 50 }
instrument NQ : USD { tick 0.25 lot 1 multiplier 20 }
fn any(t: Trade) -> u64 { t.id }
fn ours(t: Trade<NQ>) -> Price<NQ> { t.price }
fn others(t: Trade<ES>) -> Price<ES> { t.price }
fn wrong(t: Trade<USD>) -> u64 { t.id }
strategy S on NQ {
  state id: u64 = 0
  state p: Price? = none
  on trade(t) {
    id = any(t)
    p = ours(t)
    let q = others(t)
  }
}
"""
    assert messages(text) == [
        "0203: `USD` is no instrument",
        "0701: the parameter `t` is `Trade<ES>`, and this is `Trade<NQ>`, of another instrument",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("fn f(g: (int) => int) { }", "this type"),
        (f"{MARKETS[: MARKETS.index('fn')]}strategy S on ES {{\n  type T = int\n}}", "a type inside a strategy"),
        (f"{MARKETS[: MARKETS.index('fn')]}strategy S on ES, DAX {{ }}", "a strategy on several instruments"),
        ("fn f() { let g = def(x): x }", "a function without a name"),
    ],
)
def test_what_is_not_there_yet_says_of_which_language(text: str, what: str) -> None:
    assert messages(text) == [f"0109: {what} is valid, but not supported yet in QuantDSL"]
