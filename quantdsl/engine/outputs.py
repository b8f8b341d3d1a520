"""Records that a run leaves: each is put at the end of its table in `layout.OUT`, until the runner has collected it."""

from compiler.hir.instruction import Value
from compiler.native.build import Body, Number
from quantdsl.engine.layout import RECORDS

ENOUGH = RECORDS // 2
"""So many records of one table stop the loop. One event and what follows from it at the same moment has the other half."""


def collect(b: Body, desk: Value, table: str, **fields: Number) -> None:
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


def side_of_record(b: Body, side: Value) -> Value:
    """Records count sides from 1."""
    return b.wrapping("add", side, 1)
