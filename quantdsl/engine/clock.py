"""Timers, and bars as they close. Timers count from the first event that handlers see. A bar of a duration ends at a multiple of it since
1970, by the clock and not by the next trade; one in which nothing traded is left out. A bar of so many trades, or of a volume, ends with
the trade that reaches that; its handler runs after the trade's own."""

from compiler.hir.instruction import Value
from quantdsl.engine.handlers import call_handler, handled
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.layout import BARS, TIMERS
from quantdsl.native.build import FunctionCode, ModuleBuilder, NativeVariable
from quantdsl.native.types import I1, I64

NEVER = (1 << 63) - 1
OF_DURATION, OF_TRADES, OF_VOLUME = range(3)

CLOCK = {
    "clock": Inner({}, stateful=True),
    "clock.look": Inner({}),
    "timers.start": Inner({}),
    "bars.trade": Inner({"price": I64, "qty": I64}, (I1,)),
    "bars.close_counted": Inner({}, stateful=True),
}
"""`clock` does what is due at `desk.soonest`; `look` finds when that is. `bars.trade` takes a trade into the bars, and gives whether it
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


def _timers(b: FunctionCode, desk: Value) -> Value:
    return b.smaller(b.get(desk, "settings", "timers"), TIMERS)


def _bars(b: FunctionCode, desk: Value) -> Value:
    return b.smaller(b.get(desk, "settings", "bars"), BARS)


def _running(b: FunctionCode, bar: Value) -> Value:
    """Whether a bar ends by the clock."""
    return b.both(b.eq(b.get(bar, "kind"), OF_DURATION), b.get(bar, "started"))


def _start(b: FunctionCode) -> None:
    (desk,) = b.parameters
    with b.loop(0, _timers(b, desk)) as i:
        timer = b.at(desk, "timers", i, proved=True)
        _schedule(b, desk, timer)
    b.call("clock.look", desk)


def _schedule(b: FunctionCode, desk: Value, timer: Value) -> None:
    """One period from now; `number` tells which of two at the same moment was set first."""
    number = b.get(desk, "scheduled")
    b.put(timer, "due", b.saturating("add", b.get(desk, "now"), b.get(timer, "period")))
    b.put(timer, "number", number)
    b.put(desk, "scheduled", b.wrapping("add", number, 1))


def _look(b: FunctionCode) -> None:
    (desk,) = b.parameters
    soonest = b.variable(b.const(NEVER, "i64"))
    with b.loop(0, _timers(b, desk)) as i:
        b.set(soonest, b.smaller(b.now(soonest), b.get(desk, "timers", i, "due", proved=True)))
    with b.loop(0, _bars(b, desk)) as i:
        bar = b.at(desk, "bars", i, proved=True)
        b.set(soonest, b.select(_running(b, bar), b.smaller(b.now(soonest), b.get(bar, "end")), b.now(soonest)))
    b.put(desk, "soonest", b.now(soonest))


def _clock(b: FunctionCode) -> None:
    desk, state = b.parameters
    due = b.get(desk, "soonest")
    with b.loop(0, _bars(b, desk)) as i:
        bar = b.at(desk, "bars", i, proved=True)
        with b.when(b.both(_running(b, bar), b.eq(b.get(bar, "end"), due))):
            b.put(bar, "bar", "ts", due)
            _hand_over(b, desk, state, bar, i)
            b.call("clock.look", desk)
            b.give()
    first = _first_set(b, desk, due)
    number = b.now(first)
    with b.when(b.ge(number, 0)):
        _schedule(b, desk, b.at(desk, "timers", number))
        with b.when(handled(b, desk, "timer")):
            call_handler(b, desk, state, "timer", number)
    b.call("clock.look", desk)


def _first_set(b: FunctionCode, desk: Value, due: Value) -> NativeVariable:
    """The timer due now that was set before the others, -1 without one."""
    found, least = b.variable(b.const(-1, "i64")), b.variable(b.const(NEVER, "i64"))
    with b.loop(0, _timers(b, desk)) as i:
        timer = b.at(desk, "timers", i, proved=True)
        with b.when(b.both(b.eq(b.get(timer, "due"), due), b.lt(b.get(timer, "number"), b.now(least)))):
            b.set(found, i)
            b.set(least, b.get(timer, "number"))
    return found


def _hand_over(b: FunctionCode, desk: Value, state: Value, bar: Value, number: Value) -> None:
    """The bar is whole; the next trade begins another one."""
    b.put(bar, "started", False)
    with b.when(handled(b, desk, "bar")):
        b.copy(b.at(desk, "bar"), b.at(bar, "bar"))
        call_handler(b, desk, state, "bar", number)


def _trade(b: FunctionCode) -> None:
    desk, price, qty = b.parameters
    now, closed = b.get(desk, "now"), b.variable(b.const(False, "i1"))
    with b.loop(0, _bars(b, desk)) as i:
        builder = b.at(desk, "bars", i, proved=True)
        bar, kind, size = b.at(builder, "bar"), b.get(builder, "kind"), b.get(builder, "size")
        timed = b.eq(kind, OF_DURATION)
        with b.when(b.negate(b.get(builder, "started"))):
            b.clear(bar)
            b.put(builder, "started", True)
            for name in ("open", "high", "low"):
                b.put(bar, name, price)
            with b.when(timed):
                end = b.mul(b.add(b.quotient(now, size, "floor"), 1), size)
                b.put(builder, "end", end)
                b.put(desk, "soonest", b.smaller(b.get(desk, "soonest"), end))
        b.put(bar, "high", b.larger(b.get(bar, "high"), price))
        b.put(bar, "low", b.smaller(b.get(bar, "low"), price))
        b.put(bar, "close", price)
        b.put(bar, "volume", b.add(b.get(bar, "volume"), qty))
        b.put(bar, "trades", b.wrapping("add", b.get(bar, "trades"), 1))
        with b.when(b.negate(timed)):
            reached = b.ge(b.select(b.eq(kind, OF_TRADES), b.get(bar, "trades"), b.get(bar, "volume")), size)
            with b.when(reached):
                b.put(bar, "ts", now)
                b.put(builder, "end", now)
                b.set(closed, True)
    b.give(b.now(closed))


def _close_counted(b: FunctionCode) -> None:
    """Those that the last trade filled."""
    desk, state = b.parameters
    with b.loop(0, _bars(b, desk)) as i:
        builder = b.at(desk, "bars", i, proved=True)
        bar = b.at(builder, "bar")
        counted = b.select(b.eq(b.get(builder, "kind"), OF_TRADES), b.get(bar, "trades"), b.get(bar, "volume"))
        whole = b.both(b.ne(b.get(builder, "kind"), OF_DURATION), b.get(builder, "started"), b.ge(counted, b.get(builder, "size")))
        with b.when(whole):
            _hand_over(b, desk, state, builder, i)
