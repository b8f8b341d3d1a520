"""Records that a run leaves: each is put at the end of its table in `layout.OUT`, until the runner has collected it."""

from compiler.hir.instruction import Value
from quantdsl.engine.layout import ENOUGH, RECORDS
from quantdsl.native.build import FunctionCode, Number


def begin_event(b: FunctionCode, desk: Value) -> Value:
    """Something happens next; whether the loop must stop for its records first."""
    b.put(desk, "out", "begun", b.get(desk, "out", "log", "count"))
    return b.get(desk, "out", "full")


def place_of_log(b: FunctionCode, desk: Value) -> Value:
    """The record for what the log is told next: the place behind the others, or that of the oldest one of this event."""
    table = b.at(desk, "out", "log")
    begun, count, lost = b.get(desk, "out", "begun"), b.get(table, "count"), b.get(table, "lost")
    around = b.ge(b.wrapping("sub", count, begun), ENOUGH)
    number = b.select(around, b.wrapping("add", begun, b.wrapping("and", lost, ENOUGH - 1)), count)
    b.put(table, "lost", b.select(around, b.wrapping("add", lost, 1), lost))
    more = b.select(around, count, b.wrapping("add", count, 1))
    b.put(table, "count", more)
    with b.when(b.ge(more, ENOUGH)):
        b.put(desk, "out", "full", True)
    return b.at(table, "records", number, proved=True)


def collect(b: FunctionCode, desk: Value, table: str, **fields: Number) -> None:
    """One more record; fields not named are 0 or what they were. Without room it is counted as lost."""
    place = b.at(desk, "out", table)
    count = b.get(place, "count")
    with b.choice(b.lt(count, RECORDS)) as room:
        with room.then():
            record = b.at(place, "records", count, proved=True)
            for name, value in fields.items():
                b.put(record, name, value)
            more = b.wrapping("add", count, 1)
            b.put(place, "count", more)
            with b.when(b.ge(more, ENOUGH)):
                b.put(desk, "out", "full", True)
        with room.otherwise():
            b.put(place, "lost", b.wrapping("add", b.get(place, "lost"), 1))


def side_of_record(b: FunctionCode, side: Value) -> Value:
    """Records count sides from 1."""
    return b.wrapping("add", side, 1)
