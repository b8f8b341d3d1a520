"""What strategies see and do: the market, orders with all that may be wrong with them, counts, the log, bars and timers."""

from fractions import Fraction

import numpy as np
import pytest

from compiler.diagnostics import ZyntaxError
from compiler.hir.layout import size_of
from compiler.source import Source
from quantdsl.check.program import check_program
from quantdsl.elaborate import begin
from quantdsl.engine.layout import POSITION, RECORDS_OF_EVENTS
from quantdsl.parse import parse_source
from tests.quantdsl.strategies.stand import ES, SECOND, Ran, Row, Stand, elaborated, level, quote, trade
from tests.quantdsl.strategies.test_state import TRADES, strategy

BAD_INPUT, MAX_POSITION, DUPLICATE = 2048, 16, 64
BOOK = [level(0, "buy", 99, 5, False), level(0, "buy", 98, 7, False), level(0, "sell", 102, 3, False), level(0, "sell", 104, 8)]


def test_records_are_as_the_prelude_declares_them() -> None:
    checked = check_program(parse_source(Source("p.qdsl", ES)))
    made = begin(checked)
    for name, layout in [*RECORDS_OF_EVENTS.items(), ("position", POSITION)]:
        found = made.layouts.memory(checked.world.struct_of(name.capitalize(), ("ES", "USD")))
        assert found == layout and size_of(found) == size_of(layout)


def test_what_handlers_are_told() -> None:
    ran = strategy("""
      state told: (Timestamp, Price, Qty, Side?, u64)? = none
      state quoted: (Price, Price, Qty, Qty)? = none
      on trade(t) { told = (t.ts, t.price, t.qty, t.side, t.id) }
      on quote(q) { quoted = (q.bid, q.ask, q.bid_qty, q.ask_qty) }
    """)([trade(7, 100, 3, "sell", 42), quote(8, 99, 101, 5, 6)])
    assert ran["told"] == (7, 100, 3, 1, 42)
    assert ran["quoted"] == (99, 101, 5, 6)


def test_the_book() -> None:
    ran = strategy(
        """
      state best: (Price?, Price?, Price?, Price?)? = none
      state sizes: (Qty, Qty, Qty)? = none
      state both: (Price?, Ticks?, f64?, f64, f64)? = none
      state deep: Qty = 0
      state second: (Price, Qty)? = none
      state time: Timestamp? = none
      on book(b) {
        best = (b.bid(0), b.ask(1), b.bid(2), touch(Buy))
        sizes = (b.bid_qty(1), b.ask_qty(0), b.ask_qty(9))
        both = (mid(), spread(), microprice(), imbalance(1), imbalance(2))
        deep = b.depth_to(102)
        second = level(Sell, 1)
        time = now()
      }
    """.replace("102", "25.5")
    )(BOOK)
    micro = Fraction(99 * 3 + 102 * 5, 8) * Fraction(1, 4)
    assert ran["best"] == (99, 104, None, 102)
    assert ran["sizes"] == (7, 3, 0)
    mid, spread, microprice, one, two = ran["both"]
    assert (mid, spread) == (100, 3)
    assert microprice == pytest.approx(float(micro), rel=1e-15)
    assert (one, two) == (2 / 8, (12 - 11) / 23)
    assert (ran["deep"], ran["second"], ran["time"]) == (3, (104, 8), 0)


def test_the_book_as_a_value() -> None:
    ran = strategy("""
      state best: Price? = none
      state best_too: Price? = none
      on book(b) {
        let same = b
        best = same.bid(0)
        best_too = top(b)
      }
    """, before="fn top<N>(b: book<N>) -> Price<ES>? { b.ask(0) }")(BOOK)  # fmt: skip
    assert (ran["best"], ran["best_too"]) == (99, 102)


def test_without_a_book() -> None:
    ran = strategy("""
      state seen: (Price?, Price?, Ticks?, f64?, Price?)? = none
      state flat = 9.0
      on trade(t) { seen = (touch(Buy), mid(), spread(), microprice(), last()); flat = imbalance(3) }
    """)(TRADES)
    assert ran["seen"] == (None, None, None, None, 110)
    assert ran["flat"] == 0.0


# ---- orders -----------------------------------------------------------------------------------------------------------------------


def sent(body: str, risk: str = "", rows: list[Row] | None = None, states: str = "") -> Ran:
    """A run of `on trade` with these statements; `ok` counts orders accepted, `masks` has what others were refused for."""
    text = ES.replace("max_position 1000lots", f"max_position 1000lots {risk}")
    return Stand(
        text
        + f"""
    strategy S on ES {{
      risk Desk
      state ok = 0
      state masks: ring<RejectMask, 8>
      {states}
      fn note(answer: Result<OrderId, RejectMask>) {{
        match answer {{
          Ok(id) => {{ ok += 1 }}
          Err(why) => {{ _ = masks.push(why) }}
        }}
      }}
      on trade(t) {{ {body} }}
    }}""",
        interpret=True,
    )(rows or [quote(0, 99, 101), trade(1, 100)])


def masks(ran: Ran) -> list[int]:
    count, _, items = ran["masks"]
    return items[:count]


def test_short_forms_and_options() -> None:
    ran = sent("note(buy(2lots)); note(sell(1lots, limit = 25.25, tif = IOC, tag = 7)); note(order(Sell, 3lots, 26, GTC, true))")
    assert ran["ok"] == 3
    kinds = [(o[1], o[3], o[4], o[7], o[8]) for o in ran.records["orders"]]
    assert len(ran.records["fills"]) == 1 and ran.records["fills"][0][2:4] == (101, 2), kinds


@pytest.mark.parametrize(
    ("call", "mask"),
    [
        ("order(Buy, 1lots, limit = to_price(0.0 / (t.qty.f64 - 1.0), round = down))", BAD_INPUT),
        ("buy(1lots, limit = mid())", 0),
        ("buy(1lots, limit = none)", 0),
        ("buy(1lots, limit = absent)", BAD_INPUT),
        ("buy(1lots, stop = absent)", BAD_INPUT),
        ("buy(1lots, limit = 25, show = nothing)", BAD_INPUT),
        ("sell(1001lots)", MAX_POSITION),
        ("sell(1001lots, limit = absent)", MAX_POSITION | BAD_INPUT),
    ],
)
def test_absent_numbers_are_refused(call: str, mask: int) -> None:
    """A limit that was computed and is none makes no order at the market. The flag is for that order only."""
    ran = sent(f"note({call}); note(buy(1lots))", states="state absent: Price? = none\n state nothing: Qty? = none")
    assert masks(ran) == ([mask] if mask else [])
    assert ran["ok"] == 1 + (mask == 0)


def test_ids_of_clients() -> None:
    ran = sent("note(buy(1lots, client_id = 5)); note(buy(1lots, client_id = 6)); note(sell(1lots, client_id = 5))", "duplicate_id reject")
    assert (ran["ok"], masks(ran)) == (2, [DUPLICATE])


def test_replace_and_cancel() -> None:
    rows = [quote(0, 99, 101), trade(1, 100), trade(2, 100), trade(3, 100)]
    ran = sent(
        """
        if step == 0 { mine = buy(3lots, limit = 24).ok() }
        if step == 1 { if let id = mine { note(replace(id, qty = 5lots)); note(replace(id, limit = absent)) } }
        if step == 2 { if let id = mine { note(cancel(id)) } }
        step += 1
        """.replace("buy(3lots, limit = 24).ok()", "match buy(3lots, limit = 24) { Ok(id) => some(id), Err(_) => none }"),
        rows=rows,
        states="state step = 0\n state mine: OrderId? = none\n state absent: Price? = none",
    )
    (order,) = ran.records["orders"]
    assert order[3] == 5 and order[4] == 96
    assert (ran["ok"], masks(ran)) == (2, [BAD_INPUT])


def test_kill_has_its_text() -> None:
    stand = strategy("""
      on trade(t) { if t.qty > 2lots { kill("too large") } else { if t.qty > 9lots { kill("never") } } }
    """)
    ran = stand(TRADES)
    assert stand.metadata.kill_texts == ("too large", "never")
    assert int(ran.desk["killed_by"]) == 1


def test_flatten_and_cancel_all() -> None:
    rows = [quote(0, 99, 101), trade(1, 100), trade(2, 100), trade(3, 100)]
    ran = sent(
        "if step == 0 { note(buy(6lots)); note(buy(1lots, limit = 20)) }; if step == 1 { flatten(50pct); cancel_all() }; step += 1",
        rows=rows,
        states="state step = 0",
    )
    assert int(ran.desk["position"]["qty"]) == 3 and int(ran.desk["open_count"]) == 0


def test_one_cancels_the_other() -> None:
    rows = [quote(0, 99, 101), trade(1, 100), quote(2, 99, 103), trade(3, 103, 9, "buy"), trade(4, 100)]
    ran = sent(
        """
        if step == 0 {
          if let Ok(a) = sell(1lots, limit = 25.75) { if let Ok(b) = sell(1lots, limit = 26) { linked = oco(a, b) } }
        }
        step += 1
        """,
        rows=rows,
        states="state step = 0\n state linked = false",
    )
    assert ran["linked"] is True
    assert len(ran.records["fills"]) == 1 and int(ran.desk["open_count"]) == 0


def test_counts_of_rejects() -> None:
    ran = sent(
        "match sell(1001lots, limit = absent) { Ok(id) => { }, Err(why) => { count(rejects, why); if why.max_position { hit = rejects.bad_input } } }",
        states="state absent: Price? = none\n state hit = 0",
        rows=[trade(k, 100) for k in range(3)],
    )
    assert ran["hit"] == 3
    assert ran.state["rejects"].tolist() == [0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 3]


# ---- the log ----------------------------------------------------------------------------------------------------------------------


def test_log() -> None:
    stand = strategy("""
      on trade(t) {
        log_ring(t)
        log_ring((t.qty.f64 * -0.5, t.qty > 2lots, Sell))
        log_ring("seen")
      }
    """)
    log = stand([trade(7, 100, 3, "sell", 42)]).records["log"]
    words = [row[4][: row[3]] for row in log]
    assert [list(w) for w in words[:1]] == [[7, 100, 3, 1, 1, 42]]
    assert np.array(words[1][:1], np.int64).view(np.float64)[0] == -1.5 and list(words[1][1:]) == [1, 1]
    assert [(row[0], row[2]) for row in log] == [(7, 0), (7, 1), (7, 2)]
    tuple_, text = stand.metadata.logs[1].shape, stand.metadata.logs[2].shape
    assert [(part.what, part.offset) for part in tuple_.parts] == [("float", 0), ("bool", 8), ("side", 16)]
    assert (text.what, text.name) == ("text", "seen")
    assert [site.line for site in stand.metadata.logs] == [8, 9, 10]


@pytest.mark.parametrize("logged", ["window", "(t, t, t)"])
def test_what_the_log_refuses(logged: str) -> None:
    with pytest.raises(ZyntaxError) as raised:
        elaborated(f"{ES}strategy S on ES {{ state window: ring<f64, 3>; on trade(t) {{ log_ring({logged}) }} }}")
    assert [d.code for d in raised.value.diagnostics] == ["0109"]


# ---- bars and timers --------------------------------------------------------------------------------------------------------------


def test_several_bars_and_timers() -> None:
    rows = [trade(k * SECOND // 2, 100 + k, k + 1) for k in range(9)]
    stand = strategy("""
      state closes: ring<Price, 16>
      state counts: ring<int, 16>
      state volumes: ring<Qty, 16>
      state fast = 0
      state slow = 0
      on bar(1s)(x) { _ = closes.push(x.close) }
      on bar(3ticks)(x) { _ = counts.push(x.trades) }
      on bar(10lots)(x) { _ = volumes.push(x.volume) }
      on timer(1s) { fast += 1 }
      on timer(2s) { slow += 1 }
    """)
    assert stand.metadata.bars == ((0, SECOND), (1, 3), (2, 10))
    assert stand.metadata.timers == (SECOND, 2 * SECOND)
    ran = stand(rows)
    assert ran["closes"][2][: ran["closes"][0]] == [101, 103, 105, 107]
    assert ran["counts"][2][: ran["counts"][0]] == [3, 3, 3]
    assert all(volume >= 10 for volume in ran["volumes"][2][: ran["volumes"][0]])
    assert (ran["fast"], ran["slow"]) == (4, 2)


# ---- signals that read the market -------------------------------------------------------------------------------------------------


def test_vwap_and_twap_are_exact() -> None:
    rng = np.random.default_rng(3)
    rows = [trade(int(ts), int(p), int(q)) for ts, p, q in zip(np.cumsum(rng.integers(0, 9, 50)), rng.integers(1, 10**9, 50), rng.integers(1, 10**6, 50), strict=True)]  # fmt: skip
    ran = strategy("""
      state v: f64? = none
      state t0: f64? = none
      state t1: f64? = none
      state calls = 0
      on trade(t) {
        v = vwap(t.price, t.qty)
        t1 = twap(t.price)
        if calls == 0 { t0 = t1 }
        calls += 1
      }
    """)(rows)
    prices, sizes, times = ([row[name] for row in rows] for name in ("price", "qty", "ts"))
    vwap = Fraction(sum(p * q for p, q in zip(prices, sizes, strict=True)), sum(sizes)) / 4
    held = sum(p * (b - a) for p, a, b in zip(prices[:-1], times[:-1], times[1:], strict=True))
    assert ran["v"] == pytest.approx(float(vwap), rel=4e-16)
    assert ran["t0"] is None
    assert ran["t1"] == pytest.approx(float(Fraction(held, times[-1] - times[0]) / 4), rel=4e-16)


def test_trade_imbalance() -> None:
    rng = np.random.default_rng(4)
    rows = [trade(k, 100, int(q), side) for k, (q, side) in enumerate(zip(rng.integers(1, 99, 40), rng.choice(np.array(["buy", "sell", None], object), 40), strict=True))]  # fmt: skip
    ran = strategy("""
      state found: [f64; 40] = [7.0; 40]
      state n = 0
      on trade(t) { found[n] = trade_imbalance(t, 5) ?? -9.0; n += 1 }
    """)(rows)
    signed = [int(row["qty"]) * {1: 1, 2: -1, 0: 0}[int(row["side"])] for row in rows]
    expected = [-9.0] * 4 + [sum(w) / total if (total := sum(map(abs, w))) else 0.0 for w in (signed[k - 4 : k + 1] for k in range(4, 40))]
    assert ran["found"] == expected


def test_order_flow() -> None:
    """Cont, Kukanov and Stoikov's sum, by hand."""
    rng = np.random.default_rng(5)
    rows, flows, before = [], [], None
    for k in range(40):
        bid = int(rng.integers(95, 99))
        ask, bid_qty, ask_qty = bid + int(rng.integers(1, 4)), int(rng.integers(1, 50)), int(rng.integers(1, 50))
        rows.append(quote(k, bid, ask, bid_qty, ask_qty))
        if before is not None:
            b, a, bq, aq = before
            flows.append((bid >= b) * bid_qty - (bid <= b) * bq - (ask <= a) * ask_qty + (ask >= a) * aq)
        before = bid, ask, bid_qty, ask_qty
    ran = strategy("""
      state found: [f64; 40] = [0.5; 40]
      state n = 0
      on quote(q) { found[n] = ofi(6) ?? 0.25; n += 1 }
    """)(rows)
    assert ran["found"] == [0.25] * 6 + [float(sum(flows[k - 6 : k])) for k in range(6, 40)]


def test_a_bracket_around_a_fill() -> None:
    """Of the profit and the stop one fills, the other is cancelled."""
    rows = [quote(0, 99, 101), trade(1, 100), quote(2, 95, 97), trade(3, 95, 9, "sell"), quote(4, 95, 97), trade(5, 96)]
    ran = sent(
        "if not sent { note(buy(2lots)); sent = true } }\n on fill(f) { if f.side == Buy { match bracket(f, 26, 24) { Ok(both) => { done = true }, Err(why) => { _ = masks.push(why) } } }",
        rows=rows,
        states="state sent = false\n state done = false",
    )
    assert ran["done"] is True and masks(ran) == []
    assert ran.records["fills"][0][2:4] == (101, 2)
    assert int(ran.desk["position"]["qty"]) == 0 and int(ran.desk["open_count"]) == 0
    assert len(ran.records["fills"]) == 2 and len(ran.records["orders"]) == 3


def test_sums_that_overflow_stop() -> None:
    largest = (1 << 63) - 1
    ran = strategy("""
      state v: f64? = none
      on trade(t) { v = vwap(t.price, t.qty) }
    """)([trade(0, 5, largest), trade(1, 5, 1)])
    assert ran["v"] == 1.25
    assert ran.caught == [("0806", (largest, 1))]
