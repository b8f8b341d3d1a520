"""Records that a run leaves: each is put at the end of its table in `layout.OUT`, until the runner has collected it."""

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Number, Record, assign, select
from quantdsl.engine.layout import ENOUGH, RECORDS


def begin_event(engine: Record) -> Expr:
    """Something happens next; whether the loop must stop for its records first."""
    engine.out.begun = engine.out.log.count
    return engine.out.full


def place_of_log(b: FunctionCode, engine: Record) -> Record:
    """The record for what the log is told next: the place behind the others, or that of the oldest one of this event."""
    table = engine.out.log
    begun, count, lost = engine.out.begun, table.count, table.lost
    around = count.wrapping_sub(begun) >= ENOUGH
    number = select(around, begun.wrapping_add(lost & (ENOUGH - 1)), count)
    table.lost = select(around, lost.wrapping_add(1), lost)
    more = select(around, count, count.wrapping_add(1))
    table.count = more
    with b.when(more >= ENOUGH):
        engine.out.full = True
    return table.records.unchecked[number]


def collect(b: FunctionCode, engine: Record, table: str, **fields: Number) -> None:
    """One more record; fields not named are 0 or what they were. Without room it is counted as lost."""
    rows = engine.out[table]
    count = rows.count
    with b.when(count < RECORDS):
        assign(rows.records.unchecked[count], **fields)
        more = count.wrapping_add(1)
        rows.count = more
        with b.when(more >= ENOUGH):
            engine.out.full = True
    with b.otherwise():
        rows.lost = rows.lost.wrapping_add(1)


def side_of_record(side: Expr) -> Expr:
    """Records count sides from 1."""
    return side.wrapping_add(1)
