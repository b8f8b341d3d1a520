"""What holds whatever happens: random markets, random strategies, all rules and ways of filling."""

from collections import defaultdict
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantdsl.reference.engine import Engine, Strategy
from tests.quantdsl.reference.market import Event, Fee, Gap, Halt, Instrument, Level, Quote, Side, Trade
from tests.quantdsl.reference.orders import State, Tif
from tests.quantdsl.reference.risk import Collar, Limits, Loss

SIDES = st.sampled_from((Side.BUY, Side.SELL))
PRICES, QUANTITIES = st.integers(90, 110), st.integers(1, 9)


@st.composite
def markets(draw: st.DrawFn) -> list[Event]:
    found: list[Event] = []
    ts = 0
    for _ in range(draw(st.integers(1, 25))):
        ts += draw(st.integers(0, 20))
        bid = draw(st.integers(90, 109))
        found.append(
            draw(
                st.one_of(
                    st.builds(Trade, st.just(ts), PRICES, QUANTITIES, st.sampled_from(Side)),
                    st.builds(Quote, st.just(ts), st.just(bid), QUANTITIES, st.integers(bid, 111), QUANTITIES),
                    st.builds(Level, st.just(ts), SIDES, PRICES, st.integers(0, 9)),
                    st.builds(Gap, st.just(ts)),
                    st.builds(Halt, st.just(ts), st.booleans()),
                )
            )
        )
    return found


ORDERS = st.tuples(SIDES, QUANTITIES, st.none() | PRICES, st.sampled_from(Tif), st.booleans())
ACTS = st.one_of(
    st.tuples(st.just("order"), ORDERS),
    st.tuples(st.just("cancel"), st.integers(1, 10)),
    st.tuples(st.just("replace"), st.tuples(st.integers(1, 10), QUANTITIES, PRICES)),
    st.tuples(st.just("flatten"), st.none()),
)
LIMITS = st.builds(
    Limits,
    max_order_qty=st.none() | st.integers(1, 9),
    price_collar=st.none() | st.builds(Collar, ticks=st.integers(0, 10)),
    max_position=st.none() | st.integers(0, 12),
    max_open_orders=st.none() | st.integers(0, 4),
    rate=st.none() | st.tuples(st.integers(1, 4), st.integers(1, 50)),
    max_loss=st.none() | st.builds(Loss, st.integers(1, 100), then=st.sampled_from(("kill", "reducing"))),
    self_trade=st.sampled_from((None, "reject", "cancel_resting", "cancel_both")),
)
INSTRUMENT = Instrument(point=7, maker=Fee(-1), taker=Fee(5))


class Acting(Strategy):
    """One act of a list at each event of the data, then at each fill."""

    def __init__(self, acts: list[tuple[str, Any]]) -> None:
        self.acts = list(acts)

    def act(self, engine: Engine, _: Any) -> None:
        if not self.acts:
            return
        kind, what = self.acts.pop(0)
        match kind:
            case "order":
                side, qty, limit, tif, post_only = what
                engine.order(side, qty, limit, tif, post_only=post_only)
            case "cancel":
                engine.cancel(what)
            case "replace" if what[0] in engine.orders and engine.orders[what[0]].limit is not None:
                engine.replace(*what)
            case "flatten":
                engine.flatten()

    on_trade = on_book = on_fill = act


RUNS = st.fixed_dictionaries(
    {
        "fills": st.sampled_from(("next", "touch", "queue")),
        "out": st.integers(0, 30),
        "back": st.integers(0, 30),
        "accounting": st.sampled_from(("average", "fifo")),
    }
)


def run(market: list[Event], acts: list[tuple[str, Any]], limits: Limits, options: dict[str, Any]) -> Engine:
    return Engine(Acting(acts), limits, INSTRUMENT, **options).run(market)


@settings(max_examples=100, deadline=None)
@given(markets(), st.lists(ACTS, max_size=15), LIMITS, RUNS)
def test_orders_fills_and_money_add_up(market: list[Event], acts: list[tuple[str, Any]], limits: Limits, options: dict[str, Any]) -> None:
    engine = run(market, acts, limits, options)
    counts = engine.counts()
    assert counts["submitted"] == sum(n for name, n in counts.items() if name != "submitted")
    assert engine.illegal == []

    filled: defaultdict[int, int] = defaultdict(int)
    cash = 0
    for f in engine.fills:
        filled[f.order] += f.qty
        cash -= f.side * f.price * f.qty * INSTRUMENT.point
        assert f.qty > 0
    for order in engine.orders.values():
        assert filled[order.id] == order.filled <= order.qty
        assert (order.state is State.FILLED) <= (order.filled == order.qty)
    p = engine.position
    assert p.cash == cash
    assert p.qty == sum(f.side * f.qty for f in engine.fills)
    p.assert_identity()
    assert p.fees == sum(f.fee for f in engine.fills)


@settings(max_examples=60, deadline=None)
@given(markets(), st.lists(ACTS, max_size=15), st.integers(0, 12), RUNS)
def test_the_position_never_passes_its_limit(market: list[Event], acts: list[tuple[str, Any]], limit: int, options: dict[str, Any]) -> None:
    engine = run(market, acts, Limits(max_position=limit), options)
    assert all(abs(f.position) <= limit for f in engine.fills)


@settings(max_examples=60, deadline=None)
@given(markets(), st.lists(ACTS, max_size=15))
def test_touch_fills_resting_orders_no_more_than_was_traded(market: list[Event], acts: list[tuple[str, Any]]) -> None:
    engine = run(market, acts, Limits(), {"fills": "touch"})
    traded: defaultdict[int, int] = defaultdict(int)
    for event in market:
        if isinstance(event, Trade):
            traded[event.ts] += event.qty
    made: defaultdict[int, int] = defaultdict(int)
    for f in engine.fills:
        if f.maker:
            made[f.ts] += f.qty
        else:
            limit = engine.orders[f.order].limit
            assert limit is None or f.side * (limit - f.price) >= 0
    assert all(qty <= traded[ts] for ts, qty in made.items())


@settings(max_examples=15, deadline=None)
@given(markets(), st.lists(ACTS, max_size=15), LIMITS, RUNS)
def test_two_runs_are_one(market: list[Event], acts: list[tuple[str, Any]], limits: Limits, options: dict[str, Any]) -> None:
    first, second = (run(market, acts, limits, options) for _ in range(2))
    assert (first.fills, first.rejects, first.samples, first.orders) == (second.fills, second.rejects, second.samples, second.orders)
