"""The loop over events, as the runner calls it.

For each event: what is due by its time happens first; the event changes book and resting orders; reports that are due at that moment come
in; then its own handlers run. Between any two of these the loop may stop, for outputs to be collected; `phase` says where it goes on."""

from compiler.hir.instruction import Value
from compiler.hir.types import Pointer
from quantdsl.engine.account import mark, require_balance
from quantdsl.engine.book import known_order, says
from quantdsl.engine.clock import NEVER
from quantdsl.engine.delivery import anything_due, look_at_losses
from quantdsl.engine.handlers import BITS, call_handler, call_timed, handled
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.interface import OF_RUNNER
from quantdsl.engine.layout import EVENT
from quantdsl.engine.market import good_mark
from quantdsl.engine.outputs import begin_event, collect
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I1, I64, U8, U32
from quantdsl.native.values import Optional, match, some, write_optional
from runtime.replay.batches import NOBODY
from runtime.replay.events import EventKind, Flag

BEFORE, HANDLERS, STOPPING, STOPPED, UNHEARD, OVER = range(6)
"""Phases: before an event; its handlers are still to run (`desk.pending`); the data is over, `on stop` still to run; it ran; reports that
are still on their way are accounted; all is written down."""

LOOP = {
    "loop.begin": Inner({"ts": I64}, stateful=True),
    "loop.warm_up": Inner({"event": Pointer(EVENT)}, stateful=True),
    "loop.book": Inner({"event": Pointer(EVENT)}, (U32,)),
    "loop.traded": Inner({"price": I64, "qty": I64, "side": U8}, (U32,), out_of_line=False),
    "loop.finish": Inner({}, (I1,), stateful=True, out_of_line=False),
    "loop.handlers": Inner({}, stateful=True, out_of_line=False),
}
"""`begin`: what happens before the first event that handlers see; `warm_up` takes one before that. `book`: an event of the book, `traded`:
a trade; both give the events to tell of. `finish` an event, after what it changed; true: it stopped before its handlers. `handlers` calls
those that are `pending`."""


def define_loop(program: ModuleBuilder) -> None:
    declare(program, LOOP)
    for name, signature in OF_RUNNER.items():
        program.declare(name, signature.whole(), signature.results)
    for name, write in (
        ("loop.begin", _first),
        ("loop.warm_up", _warm_up),
        ("loop.book", _book),
        ("loop.traded", _traded),
        ("loop.finish", _finish),
        ("loop.handlers", _handlers),
        ("engine.begin", _begin),
        ("engine.run", _run),
        ("engine.end", _end),
    ):
        with program.define(name) as b:
            write(b)


# ---- what the runner calls ------------------------------------------------------------------------------------------------


def _begin(b: FunctionCode) -> None:
    desk, _, ts = b.parameters
    b.put(desk, "now", ts)
    b.put(desk, "soonest", -NEVER)
    b.put(desk, "account", "session_until", -NEVER)
    b.put(desk, "account", "pnl_due", -NEVER)
    b.put(desk, "unsampled", b.select(b.gt(b.get(desk, "settings", "sample"), 0), b.const(1, "i64"), NEVER))


def _run(b: FunctionCode) -> None:
    desk, state, events, count, begin = b.parameters
    start = b.variable(begin)
    with b.when(b.eq(b.get(desk, "phase"), HANDLERS)):
        (stopped,) = b.call("loop.finish", desk, state)
        with b.when(stopped):
            b.give(begin)
        b.set(start, b.wrapping("add", begin, 1))
    with b.loop(b.now(start), count) as i:
        with b.when(begin_event(b, desk)):
            b.give(i)
        event = b.row(events, i, count, proved=True)
        instrument = b.get(event, "instrument")
        with b.when(b.both(b.ne(instrument, b.get(desk, "settings", "instrument")), b.ne(instrument, NOBODY))):
            b.again()
        ts = b.get(event, "ts")
        with b.when(anything_due(b, desk, ts)):
            with b.when(b.negate(b.get(desk, "started"))):
                with b.when(says(b, event, Flag.WARM_UP)):
                    b.call("loop.warm_up", desk, state, event)
                    b.again()
                b.call("loop.begin", desk, state, ts)
            (stopped,) = b.call("until", desk, state, ts)
            with b.when(stopped):
                b.give(i)
        _row(b, desk, state, event)
        (stopped,) = b.call("loop.finish", desk, state)
        with b.when(stopped):
            b.give(i)
    b.give(count)


def _end(b: FunctionCode) -> None:
    """What the market did by now is accounted though its report would come later; no handler hears of that."""
    desk, state = b.parameters
    for here, then in ((BEFORE, STOPPING), (STOPPING, STOPPED)):
        with b.when(b.eq(b.get(desk, "phase"), here)):
            (stopped,) = b.call("until", desk, state, b.get(desk, "now"))
            with b.when(stopped):
                b.give(False)
            b.put(desk, "phase", then)
            if then == STOPPING:
                with b.when(b.both(b.get(desk, "started"), handled(b, desk, "stop"))):
                    call_handler(b, desk, state, "stop")
    with b.when(b.eq(b.get(desk, "phase"), STOPPED)):
        b.put(desk, "settings", "handles", 0)
        with b.repeat():
            with b.when(b.eq(b.get(desk, "reports", "first"), b.get(desk, "reports", "next"))):
                b.leave()
            with b.when(begin_event(b, desk)):
                b.give(False)
            b.call("deliver", desk, state)
        b.put(desk, "phase", UNHEARD)
    with b.when(b.eq(b.get(desk, "phase"), UNHEARD)):
        with b.when(begin_event(b, desk)):
            b.give(False)
        _after(b, desk, state, good_mark(b, desk))
        b.call("account.revalue", desk)
        require_balance(b, desk)
        b.call("account.record", desk)
        with b.loop(0, b.get(desk, "open_count")) as i:
            b.call("orders.record", desk, b.get(desk, "open", i))
        b.put(desk, "phase", OVER)
    b.give(True)


# ---- one event ----------------------------------------------------------------------------------------------------------------


def _first(b: FunctionCode) -> None:
    """Also for a program without timers: from here on `soonest` is when something is due."""
    desk, state, ts = b.parameters
    b.put(desk, "now", ts)
    b.put(desk, "started", True)
    with b.when(handled(b, desk, "start")):
        call_handler(b, desk, state, "start")
    b.call("timers.start", desk)


def _warm_up(b: FunctionCode) -> None:
    desk, state, event = b.parameters
    _row(b, desk, state, event)
    b.put(desk, "pending", 0)


def _row(b: FunctionCode, desk: Value, state: Value, event: Value) -> None:
    """Changes book, resting orders and marks, and notes which handlers are to run."""
    ts, kind = b.get(event, "ts"), b.get(event, "kind")
    b.put(desk, "now", ts)
    b.put(desk, "instant", 0)
    b.put(desk, "row", b.get(event, "row"))
    b.put(desk, "stream", b.get(event, "stream"))
    b.put(desk, "events", b.wrapping("add", b.get(desk, "events"), 1))
    with b.when(b.ne(b.get(desk, "day_orders"), 0)):
        b.call("exchange.expire", desk)

    def trade() -> None:
        price = b.get(event, "price")
        pending = b.call("loop.traded", desk, price, b.get(event, "qty"), b.get(event, "side"))[0]
        b.put(desk, "trade", "id", b.get(event, "id"))
        b.put(desk, "pending", pending)
        good = good_mark(b, desk)
        _after(b, desk, state, Optional(b.const(True, "i1"), b.select(good.present, good.value, b.wrapping("mul", price, 2))))

    def halt() -> None:
        halted = b.eq(kind, int(EventKind.HALT))
        b.put(desk, "market_halted", halted)
        b.put(desk, "halt", "ts", ts)
        b.put(desk, "halt", "halted", halted)
        b.put(desk, "pending", BITS["halt"])
        _after(b, desk, state, good_mark(b, desk))

    def book() -> None:
        b.put(desk, "pending", b.call("loop.book", desk, event)[0])
        good = good_mark(b, desk)
        last = b.either(says(b, event, Flag.LAST), b.eq(kind, int(EventKind.GAP)))
        _after(b, desk, state, Optional(b.both(good.present, last), good.value))

    match(b, kind, {int(EventKind.TRADE): trade, int(EventKind.HALT): halt, int(EventKind.STATUS): halt}, book)


def _traded(b: FunctionCode) -> None:
    desk, price, qty, side = b.parameters
    now = b.get(desk, "now")
    for name, value in (("last", price), ("last_ts", now)):
        write_optional(b, desk, name, value=some(b, value))
    with b.when(b.ne(b.get(desk, "open_count"), 0)):
        b.call("exchange.trade", desk, price, qty, side)
    record = b.at(desk, "trade")
    for name, value in (("ts", now), ("price", price), ("qty", qty)):
        b.put(record, name, value)
    known = b.ne(side, 0)
    b.put(record, "side", "present", known)
    b.put(record, "side", "value", b.select(known, b.wrapping("sub", side, 1), 0))
    closed = b.variable(b.const(0, "u32"))
    with b.when(b.both(b.ne(b.get(desk, "settings", "bars"), 0), b.get(desk, "started"))):
        (any_closed,) = b.call("bars.trade", desk, price, qty)
        b.set(closed, b.select(any_closed, b.const(BITS["bar"], "u32"), 0))
    b.give(b.wrapping("or", b.now(closed), BITS["trade"]))


def _book(b: FunctionCode) -> None:
    desk, event = b.parameters
    book, kind, id = b.at(desk, "book"), b.get(event, "kind"), b.get(event, "id")
    pending = b.variable(b.const(0, "u32"))
    with b.when(b.both(b.eq(kind, int(EventKind.EXECUTE)), b.negate(says(b, event, Flag.NOT_PRINTED)))):
        there, side, own, resting = known_order(b, book, id)
        with b.when(there):
            price = b.select(says(b, event, Flag.OWN_PRICE), b.get(event, "price"), own)
            aggressor = b.wrapping("sub", 2, side)
            b.put(desk, "trade", "id", b.get(event, "id2"))
            (told,) = b.call("loop.traded", desk, price, b.smaller(b.get(event, "qty"), resting), aggressor)
            b.set(pending, told)
    good, unknown = b.call("book.take", book, event, b.get(desk, "settings", "trim"))
    is_gap = b.eq(kind, int(EventKind.GAP))
    with b.when(b.negate(good)):
        collect(b, desk, "crossed", row=b.get(desk, "row"), stream=b.get(desk, "stream"))

    def tell(bits: int) -> None:
        b.set(pending, b.wrapping("or", b.now(pending), bits))

    with b.choice(b.either(is_gap, unknown)) as missing:
        with missing.then():
            for name, value in (("ts", b.get(desk, "now")), ("expected", id), ("found", b.select(is_gap, b.get(event, "id2"), 0))):
                b.put(desk, "gap", name, value)
            tell(BITS["gap"])
        with missing.otherwise(), b.when(b.both(good, says(b, event, Flag.LAST))):
            with b.when(b.ne(b.get(desk, "open_count"), 0)):
                b.call("exchange.book_changed", desk)
            with b.when(b.eq(kind, int(EventKind.QUOTE))):
                _quote(b, desk, event)
                tell(BITS["quote"])
            tell(BITS["book"])
    b.give(b.now(pending))


def _quote(b: FunctionCode, desk: Value, event: Value) -> None:
    b.put(desk, "quote", "ts", b.get(desk, "now"))
    for name, of_event in (("bid", "price"), ("ask", "price2"), ("bid_qty", "qty"), ("ask_qty", "qty2")):
        b.put(desk, "quote", name, b.get(event, of_event))


def _after(b: FunctionCode, desk: Value, state: Value, found: Optional) -> None:
    """Marks, and looks at the losses and at the time of the next record of profit and loss."""
    mark(b, desk, found)
    look_at_losses(b, desk, state)
    account, now = b.at(desk, "account"), b.get(desk, "now")
    asked = b.gt(b.get(desk, "settings", "pnl_every"), 0)
    with b.when(b.both(b.get(account, "pnl_changed"), asked, b.ge(now, b.get(account, "pnl_due")))):
        b.call("account.record", desk)


def _finish(b: FunctionCode) -> None:
    desk, state = b.parameters
    with b.when(anything_due(b, desk, b.get(desk, "now"))):
        (stopped,) = b.call("until", desk, state, b.get(desk, "now"))
        with b.when(stopped):
            b.put(desk, "phase", HANDLERS)
            b.give(True)
    b.put(desk, "phase", BEFORE)
    with b.when(b.ne(b.wrapping("and", b.get(desk, "pending"), b.get(desk, "settings", "handles")), 0)):
        b.call("loop.handlers", desk, state)
    b.give(False)


def _handlers(b: FunctionCode) -> None:
    desk, state = b.parameters
    pending = b.get(desk, "pending")
    for event in ("trade", "gap", "quote", "book", "halt"):
        with b.when(b.both(b.ne(b.wrapping("and", pending, BITS[event]), 0), handled(b, desk, event))):
            call_timed(b, desk, state, event)
    with b.when(b.ne(b.wrapping("and", pending, BITS["bar"]), 0)):
        b.call("bars.close_counted", desk, state)
