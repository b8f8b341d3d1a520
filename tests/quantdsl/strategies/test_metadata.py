"""What is known of a strategy beside its code, and programs with several markets."""

import json

import pytest

from compiler.diagnostics import ZyntaxError
from quantdsl.engine.interface import EVENTS
from quantdsl.engine.layout import FIFO, SETTINGS
from quantdsl.metadata import StrategyMetadata
from tests.quantdsl.strategies.stand import ES, SECOND, Stand, elaborated, trade

TWO = """module lib.two
currency USD { scale 8 }
currency EUR { scale 6 }
instrument ES : USD { tick 0.25  lot 1  multiplier 50  session "13:30".."20:00" UTC  fee maker -0.5bps taker 1.25 USD per lot }
instrument DAX : EUR { tick 0.5  lot 0.1  multiplier 25 }
param n: int in 1..9 = 3
param part: f64 in 0.0..1.0 = 0.25
param clip: Qty<DAX> in 1lots..9lots = 2lots
risk Calm for DAX { max_position 10  max_loss 5_000 EUR per session -> reducing  rate all 50 per 1s }
risk Wild for ES { max_position 10lots }
"""


def test_facts() -> None:
    _, metadata = elaborated(
        TWO
        + """
    @cpu_affinity(2) @no_risk("a test")
    strategy S on ES {
      risk Wild
      accounting fifo
      @target_latency(2us) on trade(t) { }
      @critical_path @target_latency_ns(700) on quote(q) { }
      on timer(100ms) { kill("late") }
      on bar(5lots)(x) { }
    }"""
    )
    assert (metadata.program, metadata.strategy, metadata.no_risk, metadata.affinity, metadata.target_ns) == ("lib.two", "S", "a test", 2, 700)
    market = metadata.market
    assert (market.name, market.currency, market.scale, market.tick, market.lot, market.tick_value) == (
        "ES",
        "USD",
        8,
        (2, 25),
        (0, 1),
        1_250_000_000,
    )
    settings = metadata.settings
    assert settings["accounting"] == FIFO
    assert (settings["maker.numerator"], settings["maker.denominator"], settings["taker.per_lot"]) == (-1, 20_000, 125_000_000)
    assert (settings["has_session"], settings["session_begin"], settings["session_end"]) == (True, 13.5 * 3600 * SECOND, 20 * 3600 * SECOND)
    assert metadata.handlers == ("trade", "quote", "bar", "timer")
    assert settings["handles"] == sum(1 << EVENTS.index(event) for event in metadata.handlers)
    assert (metadata.timers, metadata.bars, metadata.kill_texts) == ((SECOND // 10,), ((2, 5),), ("late",))
    assert metadata.parameters == {"n": 3, "part": 0.25, "clip": 2}
    assert {path.split(".")[0] for path in settings} <= set(dict(SETTINGS.fields))


def test_facts_are_plain_data() -> None:
    _, metadata = elaborated(
        TWO + "strategy S on DAX { risk Calm\n state a: (Side, Price?)? = none\n on trade(t) { log_ring(t); a = (Sell, t.price) } }"
    )
    assert StrategyMetadata(**json.loads(json.dumps(metadata.plain()))) == metadata


def test_the_library_is_of_the_strategys_market() -> None:
    """With two instruments `I` and `C` are those of the strategy that runs."""
    stand = Stand(
        TWO
        + """
    strategy S on DAX {
      risk Calm
      state imbalance_: f64? = none
      state average: f64? = none
      state top: Price? = none
      state sent = 0
      on trade(t) {
        imbalance_ = trade_imbalance(t, n)
        average = vwap(t.price, t.qty)
        top = highest(t.price, 2)
        if sent == 0 {
          match buy(clip, tif = IOC) { Ok(id) => { sent = 1 }, Err(why) => { sent = -1 } }
        }
      }
      on fill(f) {
        if f.side == Buy { match bracket(f, f.price + 2ticks, f.price - 2ticks) { Ok(both) => { sent = 2 }, Err(why) => { sent = -2 } } }
      }
    }""",
        interpret=True,
    )
    ran = stand([trade(k, 100 + k, 1 + k, side) for k, side in enumerate(("buy", "sell", "buy", "buy"))], fills="next")
    assert ran["imbalance_"] == (3 + 4 - 2) / 9
    assert ran["average"] == (100 + 202 + 306 + 412) / 10 / 2
    assert (ran["top"], ran["sent"]) == (103, 2)
    assert stand.metadata.settings["max_loss.value"] == 5_000 * 10**6


def test_constants_are_computed() -> None:
    """Also those that functions give."""
    _, metadata = elaborated(
        ES
        + """
    const PERIOD = 100ms
    param k: int in 1..9 = 3
    fn doubled(x: Duration) -> Duration { x * 2 }
    fn reversed(x: int) -> int {
      var left = x
      var made = 0
      while left > 0 max 20 { made = made * 10 + left % 10; left /= 10 }
      made
    }
    strategy S on ES {
      const TWICE = doubled(PERIOD)
      on timer(PERIOD * k) { }
      on timer(TWICE) { }
      on bar(1lots * reversed(120))(x) { }
    }"""
    )
    assert (metadata.timers, metadata.bars) == ((3 * SECOND // 10, SECOND // 5), ((2, 21),))


@pytest.mark.parametrize(
    ("setting", "code", "message"),
    [
        ("large(1s)", "0705", "this constant has no value: 1000000000 * 9000000000000000000 doesn't fit `Duration`, in ns"),
        ("1s * lasting(3.0)", "0204", "this is no constant: it remembers something"),
        ("1s - 10s", "0705", "what `on timer` is set to is not above zero"),
    ],
)
def test_constants_without_a_value(setting: str, code: str, message: str) -> None:
    text = f"""{ES}
    fn large(x: Duration) -> Duration {{ x * 9_000_000_000_000_000_000 }}
    fn lasting(x: f64) -> int {{ if ema(x, 3) > 0.0 {{ 1 }} else {{ 2 }} }}
    strategy S on ES {{ on timer({setting}) {{ }} }}"""
    with pytest.raises(ZyntaxError) as raised:
        elaborated(text)
    (found,) = raised.value.diagnostics
    assert (found.code, found.message) == (code, message)
    assert found.span is not None and text[found.span.start : found.span.end] == setting
