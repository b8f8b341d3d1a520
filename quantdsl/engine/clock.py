"""Timers, and bars as they close. Timers count from the first event that handlers see. A bar of a duration ends at a multiple of it since
1970, by the clock and not by the next trade; one in which nothing traded is left out. A bar of so many trades, or of a volume, ends with
the trade that reaches that; its handler runs after the trade's own."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, NativeVariable, Record, all_of, maximum, minimum, select
from compiler.hir.native_types import I1, I64
from quantdsl.engine.handlers import call_handler, handled
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.layout import BARS, TIMERS

NEVER = (1 << 63) - 1
OF_DURATION, OF_TRADES, OF_VOLUME = range(3)

CLOCK = {
    "clock": Inner({}, stateful=True),
    "clock.look": Inner({}),
    "timers.start": Inner({}),
    "bars.trade": Inner({"price": I64, "qty": I64}, (I1,)),
    "bars.close_counted": Inner({}, stateful=True),
}
"""`clock` does what is due at `engine.soonest`; `look` finds when that is. `bars.trade` takes a trade into the bars, and gives whether it
closed one; `close_counted` hands those over."""


def define_clock(program: ModuleBuilder) -> None:
    declare(program, CLOCK)
    for name, write in (
        ("clock", _clock),
        ("clock.look", _look),
        ("timers.start", _start),
        ("bars.trade", _trade),
        ("bars.close_counted", _close_counted),
    ):
        with program.define(name) as b:
            write(b)


def _timers(engine: Record) -> Expr:
    return minimum(engine.settings.timers, TIMERS)


def _bars(engine: Record) -> Expr:
    return minimum(engine.settings.bars, BARS)


def _running(bar: Record) -> Expr:
    """Whether a bar ends by the clock."""
    return (bar.kind == OF_DURATION) & bar.started


def _start(b: FunctionCode) -> None:
    (engine,) = b.parameters
    with b.loop(0, _timers(engine)) as i:
        timer = engine.timers.unchecked[i]
        _schedule(engine, timer)
    b.call("clock.look", engine)


def _schedule(engine: Record, timer: Record) -> None:
    """One period from now; `number` tells which of two at the same moment was set first."""
    number = engine.scheduled
    timer.due = engine.now.saturating_add(timer.period)
    timer.number = number
    engine.scheduled = number.wrapping_add(1)


def _look(b: FunctionCode) -> None:
    (engine,) = b.parameters
    soonest = b.variable(NEVER)
    with b.loop(0, _timers(engine)) as i:
        soonest.value = minimum(soonest.value, engine.timers.unchecked[i].due)
    with b.loop(0, _bars(engine)) as i:
        bar = engine.bars.unchecked[i]
        soonest.value = select(_running(bar), minimum(soonest.value, bar.end), soonest.value)
    engine.soonest = soonest.value


def _clock(b: FunctionCode) -> None:
    engine, state = b.parameters
    due = engine.soonest
    with b.loop(0, _bars(engine)) as i:
        bar = engine.bars.unchecked[i]
        with b.when(_running(bar) & (bar.end == due)):
            bar.bar.ts = due
            _hand_over(b, engine, state, bar, i)
            b.call("clock.look", engine)
            b.ret()
    first = _first_set(b, engine, due)
    number = first.value
    with b.when(number >= 0):
        _schedule(engine, engine.timers[number])
        with b.when(handled(engine, "timer")):
            call_handler(b, engine, state, "timer", number)
    b.call("clock.look", engine)


def _first_set(b: FunctionCode, engine: Record, due: Expr) -> NativeVariable:
    """The timer due now that was set before the others, -1 without one."""
    first, least = b.variable(-1), b.variable(NEVER)
    with b.loop(0, _timers(engine)) as i:
        timer = engine.timers.unchecked[i]
        with b.when((timer.due == due) & (timer.number < least.value)):
            first.value = i
            least.value = timer.number
    return first


def _hand_over(b: FunctionCode, engine: Record, state: Record, bar: Record, number: Expr) -> None:
    """The bar is whole; the next trade begins another one."""
    bar.started = False
    with b.when(handled(engine, "bar")):
        b.copy(engine.bar, bar.bar)
        call_handler(b, engine, state, "bar", number)


def _trade(b: FunctionCode) -> None:
    engine, price, qty = b.parameters
    now, closed = engine.now, b.variable(False)
    with b.loop(0, _bars(engine)) as i:
        builder = engine.bars.unchecked[i]
        bar, kind, size = builder.bar, builder.kind, builder.size
        timed = kind == OF_DURATION
        with b.when(~builder.started):
            b.clear(bar)
            builder.started = True
            for name in ("open", "high", "low"):
                bar[name] = price
            with b.when(timed):
                end = (now.quotient(size, "floor") + 1) * size
                builder.end = end
                engine.soonest = minimum(engine.soonest, end)
        bar.high = maximum(bar.high, price)
        bar.low = minimum(bar.low, price)
        bar.close = price
        bar.volume += qty
        bar.trades = bar.trades.wrapping_add(1)
        with b.when(~timed):
            reached = select(kind == OF_TRADES, bar.trades, bar.volume) >= size
            with b.when(reached):
                bar.ts = now
                builder.end = now
                closed.value = True
    b.ret(closed.value)


def _close_counted(b: FunctionCode) -> None:
    """Those that the last trade filled."""
    engine, state = b.parameters
    with b.loop(0, _bars(engine)) as i:
        builder = engine.bars.unchecked[i]
        bar = builder.bar
        counted = select(builder.kind == OF_TRADES, bar.trades, bar.volume)
        whole = all_of(builder.kind != OF_DURATION, builder.started, counted >= builder.size)
        with b.when(whole):
            _hand_over(b, engine, state, builder, i)
