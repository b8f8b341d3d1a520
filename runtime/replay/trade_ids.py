"""Trades that come twice, within a file or in two of them: the same id of the same instrument at about the same time.

Ids mostly rise by one, so they are kept as runs of consecutive ones: a million trades are a handful of numbers, and of ids without any
order the last `REMEMBERED` are known. Venues count anew each day, so an id counts for its time: the day is cut into quarters, and an id of
a quarter meets those of the same and of the neighbouring ones."""

from collections import deque
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from runtime.records import define, field, frozen
from runtime.replay.bad_rows import Why
from runtime.replay.batches import Batch, DataSource, refuse
from runtime.replay.events import EventKind

REMEMBERED = 1 << 16
"""Runs of an instrument in a file among which an id is looked up."""
QUARTER = 6 * 3600 * 10**9
"""ns: ids less than this apart are the same trade, ids twice as far apart never."""

Ids = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]


@frozen
class Runs:
    """Consecutive ids of one quarter each: `low` to `high`."""

    quarters: I64
    low: Ids
    high: Ids

    @classmethod
    def of(cls, ids: Ids, quarters: I64) -> "Runs":
        if not bool((ids[1:] > ids[:-1]).all()):
            order = np.lexsort((ids, quarters))
            ids, quarters = ids[order], quarters[order]
            fresh = np.append(True, (ids[1:] != ids[:-1]) | (quarters[1:] != quarters[:-1]))
            ids, quarters = ids[fresh], quarters[fresh]
        ends = np.flatnonzero((ids[1:] - ids[:-1] != 1) | (quarters[1:] != quarters[:-1]))
        starts = np.concatenate(([0], ends + 1))
        return cls(quarters[starts], ids[starts], ids[np.append(ends, ids.size - 1)])

    @classmethod
    def joined(cls, some: "Iterable[Runs]") -> "Runs":
        held = list(some)
        return cls(*(np.concatenate([getattr(runs, name) for runs in held]) for name in ("quarters", "low", "high")))

    @property
    def size(self) -> int:
        return self.low.size

    def near(self, ids: Ids, quarters: I64) -> "Runs":
        """Those that may hold one of the ids."""
        there = (self.high >= ids.min()) & (self.low <= ids.max())
        there &= (self.quarters >= quarters.min() - 1) & (self.quarters <= quarters.max() + 1)
        return Runs(self.quarters[there], self.low[there], self.high[there])

    def hold(self, ids: Ids, quarters: I64) -> Marks:
        """Which ids lie in a run of their quarter: sorted together, each id stands behind the run that may hold it."""
        count = self.size
        if not count:
            return np.zeros(ids.size, np.bool_)
        is_id = np.repeat([False, True], [count, ids.size])
        order = np.lexsort((is_id, np.concatenate((self.low, ids)), np.concatenate((self.quarters, quarters))))
        last = np.maximum.accumulate(np.where(order < count, np.arange(order.size), -1))
        asked = order >= count
        found, before = order[asked] - count, last[asked]
        run = order[np.maximum(before, 0)]
        held = np.zeros(ids.size, np.bool_)
        run = np.where(run < count, run, 0)
        held[found] = (before >= 0) & (self.quarters[run] == quarters[found]) & (ids[found] <= self.high[run])
        return held


@define
class Known:
    """The ids of one instrument in one file."""

    chunks: deque[Runs] = field(factory=deque)
    size: int = 0
    newest: int = -1
    """The highest id of the last quarters: higher ones are new."""
    low: int = 2**64
    high: int = -1
    first: int = 2**63
    last: int = -(2**63)
    """The lowest and the highest id ever, the first and the last quarter."""

    def hold(self, ids: Ids, quarters: I64) -> tuple[Marks, Marks]:
        """Which of the ids were there in their quarter, and which in that or one beside it."""
        runs = Runs.joined(chunk.near(ids, quarters) for chunk in self.chunks)
        same, before, after = (runs.hold(ids, quarters + shift) for shift in (0, -1, 1))
        return same, same | before | after

    def may_hold(self, ids: Ids, quarters: I64) -> bool:
        """False only where none can be there."""
        in_time = int(quarters.max()) + 1 >= self.first and int(quarters.min()) - 1 <= self.last
        return in_time and int(ids.max()) >= self.low and int(ids.min()) <= self.high

    def add(self, ids: Ids, quarters: I64) -> None:
        runs = Runs.of(ids, quarters)
        self.size += runs.size
        small = bool(self.chunks) and self.chunks[-1].size < REMEMBERED // 64
        self.chunks.append(Runs.joined((self.chunks.pop(), runs)) if small else runs)
        while self.size - self.chunks[0].size >= REMEMBERED:
            self.size -= self.chunks.popleft().size
        low, high = int(runs.low.min()), int(runs.high.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.first, self.last = min(self.first, int(quarters.min())), max(self.last, int(quarters.max()))
        self.newest = max(self.newest, high)

    def look_back(self) -> None:
        """Venues that count anew: what was highest long ago says nothing of ids that come now."""
        self.newest = max(int(runs.high[runs.quarters >= self.last - 1].max(initial=0)) for runs in self.chunks)


@define
class Trades:
    """Refuses a trade whose id was there before, used or not; the first one stands. `others`: of the files beside this one."""

    name: str = ""
    others: "tuple[Trades, ...]" = ()
    known: dict[int, Known] = field(factory=dict)

    def check(self, batch: Batch, source: DataSource) -> None:
        events = batch.events
        places = np.flatnonzero((events["kind"] == EventKind.TRADE) & (events["id"] != 0))
        if not places.size:
            return
        again, where = np.zeros(events.size, np.bool_), dict[int, str]()
        instruments = events["instrument"][places]
        for instrument in np.unique(instruments).tolist():
            here = places[instruments == instrument]
            again[here] = self._again(instrument, events["id"][here], _quarters(events["ts"][here]), here, where)

        def text(place: int) -> str:
            return str(events["id"][place])

        refuse(batch, again, source, batch.id, text, Why.REPEATED_TRADE, detail=lambda place: where.get(place, ""))

    def _again(self, instrument: int, ids: Ids, quarters: I64, places: I64, where: dict[int, str]) -> Marks:
        known, again = self.known.setdefault(instrument, Known()), np.zeros(ids.size, np.bool_)
        held = np.zeros(ids.size, np.bool_)
        if not bool((ids[1:] > ids[:-1]).all()):
            order = np.argsort(ids, kind="stable")
            close = np.abs(quarters[order[1:]] - quarters[order[:-1]]) <= 1
            again[order[1:][(ids[order[1:]] == ids[order[:-1]]) & close]] = True
        anew = int(ids.min()) <= known.newest
        if anew:
            held, near = known.hold(ids, quarters)
            again |= near
        for other in self.others:
            theirs = other.known.get(instrument)
            if theirs is not None and theirs.size and theirs.may_hold(ids, quarters):
                of_theirs = theirs.hold(ids, quarters)[1] & ~again
                where.update(dict.fromkeys(places[of_theirs].tolist(), f"in {other.name}"))
                again |= of_theirs
        if not held.all():
            known.add(ids[~held], quarters[~held])
            if anew:
                known.look_back()
        return again


def _quarters(times: I64) -> I64:
    first, last = int(times.min()) // QUARTER, int(times.max()) // QUARTER
    return np.full(times.size, first) if first == last else times // QUARTER
