"""The loop over events, as the runner calls it.

For each event: what is due by its time happens first; the event changes book and resting orders; reports that are due at that moment come
in; then its own handlers run. Between any two of these the loop may stop, for outputs to be collected; `phase` says where it goes on."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Optional, Record, all_of, assign, minimum, select
from compiler.hir.native_types import I1, I64, U8, U32
from compiler.hir.types import Pointer
from quantdsl.engine.book import known_order, says
from quantdsl.engine.clock import NEVER
from quantdsl.engine.delivery import anything_due, look_at_losses
from quantdsl.engine.handlers import BITS, call_handler, call_timed, handled
from quantdsl.engine.inside import Inner, declare
from quantdsl.engine.interface import OF_RUNNER
from quantdsl.engine.layout import EVENT
from quantdsl.engine.market import good_mark
from quantdsl.engine.outputs import begin_event, collect
from quantdsl.native.values import match, some
from runtime.replay.batches import NOBODY
from runtime.replay.events import EventKind, Flag

BEFORE, HANDLERS, STOPPING, STOPPED, UNHEARD, OVER = range(6)
"""Phases: before an event; its handlers are still to run (`engine.pending`); the data is over, `on stop` still to run; it ran; reports that
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
    engine, _, ts = b.parameters
    engine.now = ts
    engine.soonest = -NEVER
    engine.account.session_until = -NEVER
    engine.account.pnl_due = -NEVER
    engine.unsampled = select(engine.settings.sample > 0, b.const(1, "i64"), NEVER)


def _run(b: FunctionCode) -> None:
    engine, state, events, count, begin = b.parameters
    start = b.variable(begin)
    with b.when(engine.phase == HANDLERS):
        (stopped,) = b.call("loop.finish", engine, state)
        with b.when(stopped):
            b.ret(begin)
        start.value = begin.wrapping_add(1)
    with b.loop(start.value, count) as i:
        with b.when(begin_event(engine)):
            b.ret(i)
        event = b.row(events, i, count, proved=True)
        instrument = event.instrument
        with b.when((instrument != engine.settings.instrument) & (instrument != NOBODY)):
            b.continue_()
        ts = event.ts
        with b.when(anything_due(engine, ts)):
            with b.when(~engine.started):
                with b.when(says(event, Flag.WARM_UP)):
                    b.call("loop.warm_up", engine, state, event)
                    b.continue_()
                b.call("loop.begin", engine, state, ts)
            (stopped,) = b.call("until", engine, state, ts)
            with b.when(stopped):
                b.ret(i)
        _row(b, engine, state, event)
        (stopped,) = b.call("loop.finish", engine, state)
        with b.when(stopped):
            b.ret(i)
    b.ret(count)


def _end(b: FunctionCode) -> None:
    """What the market did by now is accounted though its report would come later; no handler hears of that."""
    engine, state = b.parameters
    for here, then in ((BEFORE, STOPPING), (STOPPING, STOPPED)):
        with b.when(engine.phase == here):
            (stopped,) = b.call("until", engine, state, engine.now)
            with b.when(stopped):
                b.ret(False)
            engine.phase = then
            if then == STOPPING:
                with b.when(engine.started & handled(engine, "stop")):
                    call_handler(b, engine, state, "stop")
    with b.when(engine.phase == STOPPED):
        engine.settings.handles = 0
        with b.repeat():
            with b.when(engine.reports.first == engine.reports.next):
                b.break_()
            with b.when(begin_event(engine)):
                b.ret(False)
            b.call("deliver", engine, state)
        engine.phase = UNHEARD
    with b.when(engine.phase == UNHEARD):
        with b.when(begin_event(engine)):
            b.ret(False)
        _after(b, engine, state, good_mark(b, engine))
        b.call("account.revalue", engine)
        b.call("account.require_balance", engine)
        b.call("account.record", engine)
        with b.loop(0, engine.open_count) as i:
            b.call("orders.record", engine, state, engine.open[i])
        engine.phase = OVER
    b.ret(True)


# ---- one event ----------------------------------------------------------------------------------------------------------------


def _first(b: FunctionCode) -> None:
    """Also for a program without timers: from here on `soonest` is when something is due."""
    engine, state, ts = b.parameters
    engine.now = ts
    engine.started = True
    with b.when(handled(engine, "start")):
        call_handler(b, engine, state, "start")
    b.call("timers.start", engine)


def _warm_up(b: FunctionCode) -> None:
    engine, state, event = b.parameters
    _row(b, engine, state, event)
    engine.pending = 0


def _row(b: FunctionCode, engine: Record, state: Record, event: Record) -> None:
    """Changes book, resting orders and marks, and notes which handlers are to run."""
    ts, kind = event.ts, event.kind
    engine.now = ts
    engine.instant = 0
    engine.row = event.row
    engine.stream = event.stream
    engine.events = engine.events.wrapping_add(1)
    with b.when(engine.day_orders != 0):
        b.call("exchange.expire", engine)

    def trade() -> None:
        price = event.price
        pending = b.call("loop.traded", engine, price, event.qty, event.side)[0]
        engine.trade.id = event.id
        engine.pending = pending
        good = good_mark(b, engine)
        _after(b, engine, state, Optional(b.const(True, "i1"), select(good.present, good.value, price.wrapping_mul(2))))

    def halt() -> None:
        halted = kind == int(EventKind.HALT)
        engine.market_halted = halted
        engine.halt.ts = ts
        engine.halt.halted = halted
        engine.pending = BITS["halt"]
        _after(b, engine, state, good_mark(b, engine))

    def book() -> None:
        engine.pending = b.call("loop.book", engine, event)[0]
        good = good_mark(b, engine)
        last = says(event, Flag.LAST) | (kind == int(EventKind.GAP))
        _after(b, engine, state, Optional(good.present & last, good.value))

    match(b, kind, {int(EventKind.TRADE): trade, int(EventKind.HALT): halt, int(EventKind.STATUS): halt}, book)


def _traded(b: FunctionCode) -> None:
    engine, price, qty, side = b.parameters
    now = engine.now
    engine.last = some(price)
    engine.last_ts = some(now)
    with b.when(engine.open_count != 0):
        b.call("exchange.trade", engine, price, qty, side)
    record = engine.trade
    assign(record, ts=now, price=price, qty=qty)
    known = side != 0
    record.side.present = known
    record.side.value = select(known, side.wrapping_sub(1), 0)
    closed = b.variable(0, "u32")
    with b.when((engine.settings.bars != 0) & engine.started):
        (any_closed,) = b.call("bars.trade", engine, price, qty)
        closed.value = select(any_closed, b.const(BITS["bar"], "u32"), 0)
    b.ret(closed.value | BITS["trade"])


def _book(b: FunctionCode) -> None:
    engine, event = b.parameters
    book, kind, id = engine.book, event.kind, event.id
    pending = b.variable(0, "u32")
    with b.when((kind == int(EventKind.EXECUTE)) & ~says(event, Flag.NOT_PRINTED)):
        there, side, own, resting = known_order(b, book, id)
        with b.when(there):
            price = select(says(event, Flag.OWN_PRICE), event.price, own)
            aggressor = b.wrapping("sub", 2, side)
            engine.trade.id = event.id2
            (notified,) = b.call("loop.traded", engine, price, minimum(event.qty, resting), aggressor)
            pending.value = notified
    good, unknown = b.call("book.take", book, event, engine.settings.trim)
    is_gap = kind == int(EventKind.GAP)
    with b.when(~good):
        collect(b, engine, "crossed", row=engine.row, stream=engine.stream)
    with b.when(is_gap | unknown):
        now, following = engine.now, select(is_gap, event.id2, 0)
        assign(engine.gap, ts=now, expected=id, found=following)
        pending.value |= BITS["gap"]
    with b.otherwise(), b.when(good & says(event, Flag.LAST)):
        with b.when(engine.open_count != 0):
            b.call("exchange.book_changed", engine)
        with b.when(kind == int(EventKind.QUOTE)):
            _quote(engine, event)
            pending.value |= BITS["quote"]
        pending.value |= BITS["book"]
    b.ret(pending.value)


def _quote(engine: Record, event: Record) -> None:
    engine.quote.ts = engine.now
    for name, of_event in (("bid", "price"), ("ask", "price2"), ("bid_qty", "qty"), ("ask_qty", "qty2")):
        engine.quote[name] = event[of_event]


def _after(b: FunctionCode, engine: Record, state: Record, mid: Optional) -> None:
    """Marks, and looks at the losses and at the time of the next record of profit and loss."""
    b.call("account.mark", engine, *mid.parts)
    look_at_losses(b, engine, state)
    account, now = engine.account, engine.now
    asked = engine.settings.pnl_every > 0
    with b.when(all_of(account.pnl_changed, asked, now >= account.pnl_due)):
        b.call("account.record", engine)


def _finish(b: FunctionCode) -> None:
    engine, state = b.parameters
    with b.when(anything_due(engine, engine.now)):
        (stopped,) = b.call("until", engine, state, engine.now)
        with b.when(stopped):
            engine.phase = HANDLERS
            b.ret(True)
    engine.phase = BEFORE
    with b.when((engine.pending & engine.settings.handles) != 0):
        b.call("loop.handlers", engine, state)
    b.ret(False)


def _handlers(b: FunctionCode) -> None:
    engine, state = b.parameters
    pending = engine.pending
    for event in ("trade", "gap", "quote", "book", "halt"):
        with b.when(((pending & BITS[event]) != 0) & handled(engine, event)):
            call_timed(b, engine, state, event)
    with b.when((pending & BITS["bar"]) != 0):
        b.call("bars.close_counted", engine, state)
