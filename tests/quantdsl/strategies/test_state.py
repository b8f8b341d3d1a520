"""What strategies remember: states, signals of each place that calls them, first values, and how handlers end."""

import pytest

from compiler.diagnostics import ZyntaxError
from tests.quantdsl.strategies.stand import ES, SECOND, Stand, elaborated, quote, trade

TRADES = [trade(SECOND * k, price, qty) for k, (price, qty) in enumerate([(100, 1), (104, 2), (96, 3), (110, 4)])]


def strategy(body: str, interpret: bool = True, before: str = "") -> Stand:
    return Stand(f"{ES}{before}\nstrategy S on ES {{ risk Desk\n{body}\n}}", interpret)


def test_states_begin_with_their_values_and_last() -> None:
    ran = strategy("""
      const LEAST = 2
      let start = 10lots
      let half = 0.5 * LEAST
      state total: Qty = 1lots
      state last_price: Price = 5.25
      state side = Sell
      state seen: [int; LEAST] = [7; LEAST]
      state best: Price? = none
      state window: ring<f64, LEAST>
      on trade(t) {
        total += t.qty + start
        if t.qty.lots > LEAST { last_price = t.price }
        side = side.opposite
        seen[t.qty.lots % 2] += 1
        best = t.price
        _ = window.push(t.price.f64 * half)
      }
    """)(TRADES)
    assert (ran["total"], ran["last_price"], ran["side"], ran["seen"], ran["best"]) == (1 + 10 + 40, 110, 1, [9, 9], 110)
    assert sorted(ran["window"][2]) == [24.0, 27.5]


def test_each_place_has_its_own_memory() -> None:
    """Also those in functions, for each call of the function."""
    ran = strategy("""
      state a = 0
      state b = 0
      state c = 0
      state d = 0
      state e = 0
      fn counted(by: int) -> int { steps(by) }
      fn twice(by: int) -> int { counted(by) + counted(by) }
      on trade(t) {
        a = steps(1)
        b = steps(10)
        c = counted(100)
        d = twice(1000)
        if t.qty > 2lots { e = counted(1) }
      }
    """, before="signal steps(by: int) -> int { state n = 5; n += by; emit n }")(TRADES)  # fmt: skip
    assert [ran[name] for name in "abcde"] == [5 + 4, 5 + 40, 5 + 400, 2 * (5 + 4000), 5 + 2]


def test_the_same_signal_in_two_handlers() -> None:
    rows = [quote(0, 99, 101), trade(1, 100), quote(2, 100, 102), quote(3, 100, 103)]
    ran = strategy("""
      state trades = 0
      state quotes = 0
      on trade(t) { trades = called() }
      on quote(q) { quotes = called() }
    """, before="signal called() -> int { state n = 0; n += 1; emit n }")(rows)  # fmt: skip
    assert (ran["trades"], ran["quotes"]) == (1, 3)


def test_constant_parameters_and_params() -> None:
    ran = strategy("""
      state a: f64? = none
      state b: f64? = none
      on trade(t) { a = sma(t.qty.f64, n); b = sma(t.qty.f64, n + 1) }
    """, before="param n: int in 1..9 = 3")(TRADES)  # fmt: skip
    assert (ran["a"], ran["b"]) == (3.0, 2.5)


def test_a_question_mark_ends_the_handler() -> None:
    ran = strategy("""
      state begun = 0
      state ended = 0
      on trade(t) {
        begun += 1
        let m = sma(t.qty.f64, 3)?
        ended += 1
      }
    """)(TRADES)
    assert (ran["begun"], ran["ended"]) == (4, 2)


def test_generic_functions_with_memory() -> None:
    ran = strategy("""
      state a: Price? = none
      state b: int? = none
      fn before<T>(x: T) -> T? { delay(x, 2) }
      on trade(t) { a = before(t.price); b = before(t.qty.lots) }
    """)(TRADES)
    assert (ran["a"], ran["b"]) == (104, 2)


def test_structs_and_enums_as_state() -> None:
    ran = strategy("""
      state mood = Calm
      state spot = Spot { at: 1.25, lots: [0; 3] }
      on trade(t) {
        spot.at = t.price
        spot.lots[1] += t.qty.lots
        mood = match mood { Calm => Busy(t.qty, 2), Busy(q, n) => Busy(q + t.qty, n + 1) }
      }
    """, before="enum Mood { Calm, Busy(Qty<ES>, int) }\nstruct Spot { at: Price<ES>, lots: [int; 3] }")(TRADES)  # fmt: skip
    assert ran["mood"] == (1, 10, 5)
    assert ran["spot"] == (110, [0, 10, 0])


def test_names_of_states_are_free() -> None:
    ran = strategy("""
      state desk = 1
      state head = 2
      state rejects = 3
      state position = 4
      state memory0 = 5
      on trade(t) { desk += 1; head += 1; rejects += 1; position += 1; memory0 += counted() }
    """, before="signal counted() -> int { state n = 0; n += 1; emit n }")(TRADES)  # fmt: skip
    assert [ran[name] for name in ("desk", "head", "rejects", "position", "memory0")] == [5, 6, 7, 8, 15]


def test_first_values_are_computed_once() -> None:
    ran = strategy("""
      state rate = squared(0.5)
      on trade(t) { rate += 1.0 }
    """, before="fn squared(x: f64) -> f64 { x * x }")(TRADES)  # fmt: skip
    assert ran["rate"] == 4.25


def test_handlers_of_start_and_stop() -> None:
    ran = strategy("""
      state first = 3
      state log = 0
      on start { log = first }
      on trade(t) { log += 10 }
      on stop { log += 100 }
    """)(TRADES)
    assert ran["log"] == 3 + 40 + 100


def test_an_overflow_halts_the_strategy() -> None:
    """Its states stay as they are, the rest of the data is not handled."""
    stand = strategy("""
      state small: i8 = 120
      state handled = 0
      on trade(t) { handled += 1; small += 3 }
    """)
    ran = stand([*TRADES, trade(9 * SECOND, 1)])
    assert (ran["handled"], ran["small"]) == (3, 126)
    assert ran.caught[0][0] == "0806" and tuple(ran.caught[0][1][:2]) == (126, 3)
    assert bool(ran.desk["halted"]) and int(ran.desk["killed_by"]) == -2


@pytest.mark.parametrize(
    ("text", "name", "code"),
    [
        ("", None, "0201"),
        ("strategy A on ES { }\nstrategy B on ES { }", None, "0204"),
        ("strategy A on ES { }\nstrategy B on ES { }", "C", "0201"),
        ("strategy A on ES { on timer(0s) { } }", None, "0705"),
        ("strategy A on ES { on bar(0ticks)(x) { } }", None, "0705"),
        ("strategy A on ES { " + "on timer(1s) { }; " * 9 + "}", None, "0109"),
        ("signal again(n: int) -> int { state m = 0; emit again(m) }\nstrategy A on ES { on start { _ = again(1) } }", None, "0109"),
        ("fn top(b: book<3>) -> Price<ES>? { b.bid(0) }\nstrategy A on ES { on book(b) { _ = top(b) } }", None, "0109"),
        ("strategy A on ES { risk Desk; state own: book<3>; on trade(t) { _ = own.bid(0) } }", None, "0109"),
    ],
)
def test_refused(text: str, name: str | None, code: str) -> None:
    with pytest.raises(ZyntaxError) as raised:
        elaborated(ES + text, name)
    assert [d.code for d in raised.value.diagnostics] == [code]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("sma(x, 0)", "an assertion about constants doesn't hold: n is at least 1"),
        ("stdev(x, 1)", "an assertion about constants doesn't hold: n is at least 2"),
        ("delay(t.price, n)", "an assertion about constants doesn't hold: n is at least 1"),
        ("imbalance(n)", "the imbalance of 0 levels says nothing"),
    ],
)
def test_constants_that_signals_refuse(expression: str, message: str) -> None:
    """Told of the program's call, not of the library's text."""
    text = f"{ES}param n: int in 0..9 = 0\nstrategy S on ES {{ on trade(t) {{ let x = t.price.f64; _ = {expression} }} }}"
    with pytest.raises(ZyntaxError) as raised:
        elaborated(text)
    (found,) = raised.value.diagnostics
    assert (found.code, found.message) == ("0705", message)
    assert found.span is not None and text[found.span.start : found.span.end] == expression


def test_states_that_are_too_large() -> None:
    with pytest.raises(ZyntaxError) as raised:
        elaborated(f"{ES}strategy S on ES {{ on trade(t) {{ _ = sma(t.price.f64, 1_000_000_000) }} }}")
    assert [d.code for d in raised.value.diagnostics] == ["0301"]


def test_one_of_several_strategies() -> None:
    _, metadata = elaborated(ES + "strategy A on ES { }\nstrategy B on ES { on trade(t) { } }", "B")
    assert (metadata.strategy, metadata.handlers) == ("B", ("trade",))


SMALL = {
    "bool": ("true", "not held", 1, 0),
    "Side": ("Sell", "held.opposite", 1, 0),
    "u8": ("200", "held +% 100", 200, 44),
    "i8": ("-100", "held -% 100", -100, 56),
    "u16": ("7", "held +| 65_535", 7, 65_535),
    "i16": ("-300", "held * 2", -300, -600),
    "u32": ("1", "held -% 2", 1, 2**32 - 1),
    "i32": ("-5", "held * 3", -5, -15),
    "f32": ("1.5", "held * 0.5", 1.5, 0.75),
    "bool?": ("true", "none", 1, None),
    "u8?": ("3", "some(4)", 3, 4),
    "i16?": ("some(-3)", "none", -3, None),
    "[bool; 3]": ("[true, false, true]", "[false, true, false]", [True, False, True], [False, True, False]),
    "[u8; 5]": ("[1; 5]", "[9; 5]", [1] * 5, [9] * 5),
    "Flags": ("Flags { up: true, age: 3 }", "Flags { up: false, age: -4 }", (True, 3), (False, -4)),
    "Step": ("Up", "Down", 0, 1),
    "(bool, u8)": ("(true, 1)", "(false, 2)", (True, 1), (False, 2)),
    "ring<u8, 3>": ("", "held", None, None),
}
"""First value, the one that follows, and both as the memory has them."""
TYPES = "struct Flags { up: bool, age: i16 }\nenum Step { Up, Down }"


@pytest.mark.parametrize("type", SMALL)
def test_a_state_may_be_all_that_a_strategy_remembers(type: str) -> None:
    """However few bytes that takes."""
    first, then, begun, ended = SMALL[type]
    value = f" = {first}" if first else ""
    stand = strategy(f"state held: {type}{value}\non trade(t) {{ if t.qty > 1lots {{ held = {then} }} }}", before=TYPES)
    if first:
        assert stand(TRADES[:1])["held"] == begun
        assert stand(TRADES[:2])["held"] == ended
    else:
        assert stand(TRADES[:2])["held"][0] == 0


@pytest.mark.parametrize(
    ("first", "second"), [("bool", "Side"), ("u8", "i16"), ("bool", "i16"), ("[u8; 5]", "i16"), ("Flags", "bool?"), ("u8", "f32")]
)
def test_small_states_beside_each_other(first: str, second: str) -> None:
    (a, b, *_, ended), (c, d, *_, other) = SMALL[first], SMALL[second]
    b, d = b.replace("held", "a"), d.replace("held", "b")
    ran = strategy(f"state a: {first} = {a}\nstate b: {second} = {c}\non trade(t) {{ if t.qty == 2lots {{ a = {b}\nb = {d} }} }}", before=TYPES)(TRADES)  # fmt: skip
    assert (ran["a"], ran["b"]) == (ended, other)
