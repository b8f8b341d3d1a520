"""The launches behind a sort of row numbers (`sorted_rows.py`). The lanes of a team take the columns of a row, and go through a share of
the sorted rows: while the next one has the same key it is added, else the sum goes to its row of the result. A sum that began before the
share, or goes on behind it, is left in part, and a second launch joins such parts in order. Shares depend on sizes alone.

A sum is made in f64, one of f64 in two words, of which the second has what the first rounds away (Knuth's sum of two numbers)."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import Mem, Space
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import small
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.pieces import align
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.gpu.scattered.scattered import ScatterCopy, ScatteredSums
from compiler.schedule.gpu.scattered.sorted_rows import SortedRows
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Around, Start, iterations
from compiler.schedule.threads import BLOCK
from runtime.records import evolve, frozen

LANES = 32
"""Of a team, at most: so many columns lie side by side."""
MOST_EACH = 4
"""Columns of a lane."""
AHEAD = 8
"""Elements that a lane reads before it adds the first of them."""
SHARES = 16, 256
"""Rows of a share, fewest and most: as many as leave shares for all threads that a GPU holds."""
THREADS = 2048
PARTS = 4
"""Of what shares leave of one sum, side by side."""
BLOCKS = 4
"""Of a processor, at least, so that enough is read at a time."""

Words = list[Value]
"""A sum on its way: one f64, or two."""


@frozen
class RowShares:
    """How rows are shared: `lanes` of a team, columns of `each` lane, and rows of a team."""

    lanes: int
    each: int
    rows: int

    @staticmethod
    def of(found: SortedRows, facts: Facts) -> "RowShares":
        columns = most_elements([iterations(loop) for loop in found.inner], facts) or LANES
        rows = most_elements([iterations(found.loop)], facts) or 1
        lanes = min(LANES, power_of_two(columns))
        each = min(MOST_EACH, power_of_two(-(-columns // lanes)))
        fewest, most = SHARES
        wanted = rows * columns // (each * THREADS * facts.processors)
        return RowShares(lanes, each, max(fewest, min(most, power_of_two(wanted + 1) // 2)))


def left_of_shares(found: SortedRows, facts: Facts) -> Value:
    """The memory of what shares leave: parts of a sum that began before, and of one that goes on."""
    shares = iterations(found.loop).ceildiv(RowShares.of(found, facts).rows)
    dims = [shares, Affine((), 2), *(iterations(loop) for loop in found.inner), Affine((), words_of(found.target))]
    return Value(f"{found.target.name}_left", Mem("f64", dims, align=64))


def words_of(target: Value) -> int:
    return 2 if mem_of(target).dtype == "f64" else 1


def added(b: Builder, total: Sequence[Value], further: Sequence[Value]) -> Words:
    """A sum and a term, or another sum."""
    sum_ = b.add(total[0], further[0])
    if len(total) == 1:
        return [sum_]
    seen = b.sub(sum_, total[0])
    lost = b.add(b.sub(total[0], b.sub(sum_, seen)), b.sub(further[0], seen))
    return [sum_, b.add(total[1], b.add(lost, further[1]) if len(further) > 1 else lost)]


def rounded(b: Builder, total: Sequence[Value]) -> Value:
    if len(total) == 1:
        return total[0]
    # of what isn't finite the second word says nothing
    finite = b.op("lt", b.op("abs", total[0]), b.const(float("inf"), "f64"))
    return b.select(finite, b.add(total[0], total[1]), total[0])


@frozen(eq=False)
class SortedRowNest:
    """What is added, the sorted `keys` and `rows`, and the memory of what shares leave."""

    found: SortedRows
    keys: Value
    rows: Value
    left: Value


@frozen
class SortedRowSums:
    """The launches of one nest."""

    around: Around
    number: int
    sums: ScatteredSums
    nest: SortedRowNest
    facts: Facts

    @property
    def shares(self) -> RowShares:
        return RowShares.of(self.nest.found, self.facts)

    def words(self) -> str:
        found, shares = self.nest.found, self.shares
        variable, names = found.loop.variable.name, ", ".join(loop.variable.name for loop in found.inner)
        return f"{variable}: rows are sorted by where they are added, and {shares.lanes} lanes take {names} of {shares.rows} of them"

    def launches(self) -> list[Launch]:
        return [self.summed(), self.joined()]

    def summed(self) -> Launch:
        """What each share adds up."""
        team = _Team(self, "sums", BLOCK // self.shares.lanes)
        b = team.b
        with b.when(b.op("lt", team.first, team.count)) as inner:
            key = team.key(inner, team.first)
            now, begun = inner.slot(key, "key"), inner.slot(team.begins_before(inner, key), "begun")
            totals = [[inner.slot(inner.const(0.0, "f64"), "total") for _ in range(team.words)] for _ in range(self.shares.each)]

            def sums(at: Builder) -> list[Words]:
                return [[at.get(word) for word in total] for total in totals]

            def set_all(at: Builder, values: Sequence[Words]) -> None:
                for total, value in zip(totals, values, strict=True):
                    for slot, word in zip(total, value, strict=True):
                        at.set(slot, word)

            end, together = inner.sub(team.last, inner.const(1, "index")), AHEAD // self.shares.each

            def entries(at: Builder, first: Affine) -> list[Value]:
                number = at.cast(at.index(first), "u32")
                places = [at.add(number, at.const(n, "u32")) if n else number for n in range(together)]
                return [at.cast(at.op("min", place, at.cast(end, "u32")), "index") for place in places]

            def terms(at: Builder, rows: Sequence[Value]) -> list[Value]:
                return [term for row in rows for term in team.terms(at, row)]

            # what is added in a turn was read in the one before, at places that were read in the one before that
            begin = Affine.of(team.first.name)
            first_terms = terms(inner, [team.row(inner, entry) for entry in entries(inner, begin)])
            first_rows = [team.row(inner, entry) for entry in entries(inner, begin + together)]
            with inner.loop("entry", begin, team.last.name, together, [*first_terms, *first_rows]) as (body, loop):
                place = Affine.of(loop.variable.name)
                next_rows = [team.row(body, entry) for entry in entries(body, place + 2 * together)]
                next_terms = terms(body, loop.carried[len(first_terms) :])
                keys = [team.key(body, entry) for entry in entries(body, place)]
                for n, key in enumerate(keys):
                    with body.when(body.op("le", body.cast(body.index(place + n), "u32"), body.cast(end, "u32"))) as one:
                        with one.when(one.op("ne", key, one.get(now))) as other:
                            with other.branch(other.get(begun)) as (yes, no, _):
                                team.leave(yes, 0, sums(yes))
                                team.put(no, no.get(now), sums(no))
                            other.set(now, key)
                            other.set(begun, other.const(False, "i1"))
                            set_all(other, [[other.const(0.0, "f64")] * team.words] * len(totals))
                        term = loop.carried[n * len(totals) : (n + 1) * len(totals)]
                        set_all(one, [added(one, total, [one.cast(value, "f64")]) for total, value in zip(sums(one), term, strict=True)])
                body.yield_(*next_terms, *next_rows)
            with inner.branch(inner.get(begun)) as (yes, no, _):
                team.leave(yes, 0, sums(yes))
                with no.branch(team.goes_on(no, no.get(now))) as (some, none, _):
                    team.leave(some, 1, sums(some))
                    team.put(none, none.get(now), sums(none))
        return team.finish()

    def joined(self) -> Launch:
        """What shares have left of a sum, by a block for each that begins in a share and goes on: each team takes as many shares."""
        lanes, each, parts = self.shares.lanes, self.shares.each, PARTS
        team = _Team(self, "joined", 1, lanes * parts)
        b, one = team.b, team.b.const(1, "index")
        key = team.key(b, b.op("max", b.sub(team.last, one), b.const(0, "index")))
        alone = b.op("xor", team.begins_before(b, key), b.const(True, "i1"))
        here = b.op("and", b.op("lt", team.first, team.count), b.op("and", alone, team.goes_on(b, key)))
        box = b.emit(SharedAlloc(type=Mem("f64", (parts, each * team.words, lanes), space=Space.SHARED, align=16)), "parts").result
        part = small(b, "div", team.thread, b.const(lanes, "index"))
        with b.when(here) as inner:
            further = team.shares_with(inner, key)
            count = inner.add(further, one)
            mine = small(inner, "div", inner.add(count, inner.const(parts - 1, "index")), inner.const(parts, "index"))
            low = inner.mul(part, mine)
            high = inner.op("min", inner.add(low, mine), count)
            zeros = [inner.const(0.0, "f64")] * (each * team.words)
            with inner.loop("share", low.name, high.name, carried=zeros) as (body, loop):
                share = body.add(team.share, loop.variable)
                slot = body.select(body.op("eq", loop.variable, body.const(0, "index")), one, body.const(0, "index"))
                read = team.left(body, share, slot)
                sums = [added(body, total, word) for total, word in zip(team.by_column(loop.carried), read, strict=True)]
                body.yield_(*(word for total in sums for word in total))
            for n, word in enumerate(loop.results):
                inner.store(box, word, [part.name, n, team.lane.name])
        b.emit(SyncThreads())
        with b.when(b.op("and", here, b.op("eq", part, b.const(0, "index")))) as inner:
            totals = team.by_column([inner.load(box, [0, n, team.lane.name]) for n in range(each * team.words)])
            for other in range(1, parts):
                read = team.by_column([inner.load(box, [other, n, team.lane.name]) for n in range(each * team.words)])
                totals = [added(inner, total, word) for total, word in zip(totals, read, strict=True)]
            team.put(inner, key, totals)
        return team.finish()


class _Team:
    """A team of lanes in one launch: the share and the columns that it has."""

    def __init__(self, plan: SortedRowSums, name: str, teams: int, threads: int = BLOCK) -> None:
        self.plan, self.found, self.teams, self.threads = plan, plan.nest.found, teams, threads
        self.start = start = Start(plan.around, f"{plan.number}_{name}", (threads, 1, 1))
        align(start, plan.facts)
        self.b = b = start.out.body
        self.keys, self.rows = start.values[plan.nest.keys], start.values[plan.nest.rows]
        self.memory = start.workspaces[plan.around.others[plan.nest.left]]
        self.words = words_of(self.found.target)
        self.copy = ScatterCopy(start.out, start.values, plan.sums, lambda at, change: None)
        shares, zero = plan.shares, b.const(0, "index")
        self.extents = [b.count(start.copy.form(iterations(loop))) for loop in self.found.inner]
        self.columns = b.product(self.extents)
        wide = b.const(shares.lanes * shares.each, "index")
        self.slices = b.op("div", b.add(self.columns, b.sub(wide, b.const(1, "index"))), wide, name="slices")
        self.thread = b.index(start.thread, "thread")
        self.lane = small(b, "rem", self.thread, b.const(shares.lanes, "index"))
        number = b.index(start.number.name)
        if teams > 1:
            number = b.add(b.mul(number, b.const(teams, "index")), small(b, "div", self.thread, b.const(shares.lanes, "index")))
        self.share, slice_ = b.op("div", number, self.slices), b.op("rem", number, self.slices)
        self.count = b.count(start.copy.form(iterations(self.found.loop)))
        self.first = b.index(Affine.of(self.share.name) * shares.rows)
        self.last = b.op("min", b.index(Affine.of(self.first.name) + shares.rows), self.count)
        column = b.add(b.mul(slice_, wide), self.lane)
        last = b.op("max", b.sub(self.columns, b.const(1, "index")), zero)
        self.places = [b.index(Affine.of(column.name) + n * shares.lanes) for n in range(shares.each)]
        self.inside = [b.op("lt", place, self.columns) for place in self.places]
        # a lane behind the last column reads that one once more
        self.digits = [b.digits(b.op("min", place, last), self.extents[1:]) for place in self.places]

    def finish(self) -> Launch:
        shares = self.start.copy.form(iterations(self.found.loop)).ceildiv(self.plan.shares.rows)
        launch = self.start.finish((shares, Affine.of(self.slices.name)), self.teams)
        info = launch.function.kernel_info
        assert info is not None and info.launch_bounds is not None
        if self.threads == BLOCK and self.plan.facts.machine.threads >= BLOCKS * BLOCK:
            launch.function.kernel_info = evolve(info, launch_bounds=evolve(info.launch_bounds, min_blocks_per_sm=BLOCKS))
        return launch

    def by_column(self, words: Sequence[Value]) -> list[Words]:
        return [list(words[n : n + self.words]) for n in range(0, len(words), self.words)]

    # ---- keys ----

    def key(self, b: Builder, entry: Value) -> Value:
        return b.load(self.keys, [entry.name])

    def begins_before(self, b: Builder, key: Value) -> Value:
        """Whether the entry in front of the share has this key."""
        before = b.op("max", b.sub(self.first, b.const(1, "index")), b.const(0, "index"))
        return b.op("and", b.op("gt", self.first, b.const(0, "index")), b.op("eq", self.key(b, before), key))

    def goes_on(self, b: Builder, key: Value) -> Value:
        """Whether the entry behind the share has this key."""
        behind = b.op("max", b.op("min", self.last, b.sub(self.count, b.const(1, "index"))), b.const(0, "index"))
        return b.op("and", b.op("lt", self.last, self.count), b.op("eq", self.key(b, behind), key))

    def shares_with(self, b: Builder, key: Value) -> Value:
        """How many shares behind this one begin with this key, one at least: twice as far each time, then half as far."""
        one = b.const(1, "index")

        def begins(at: Builder, further: Value) -> Value:
            first = at.mul(at.add(self.share, further), at.const(self.plan.shares.rows, "index"))
            there = at.op("lt", first, self.count)
            return at.op("and", there, at.op("eq", self.key(at, at.select(there, first, self.first)), key))

        low, high = b.slot(one, "low"), b.slot(b.const(2, "index"), "high")
        with b.repeat() as (before, body):
            before.condition(begins(before, before.get(high)))
            body.set(low, body.get(high))
            body.set(high, body.mul(body.get(high), body.const(2, "index")))
        with b.repeat() as (before, body):
            before.condition(before.op("gt", before.sub(before.get(high), before.get(low)), one))
            middle = body.op("div", body.add(body.get(low), body.get(high)), body.const(2, "index"))
            with body.branch(begins(body, middle)) as (yes, no, _):
                yes.set(low, middle)
                no.set(high, middle)
        return b.get(low)

    # ---- columns ----

    def row(self, b: Builder, entry: Value) -> Value:
        return b.load(self.rows, [entry.name])

    def terms(self, b: Builder, row: Value) -> list[Value]:
        """What a row adds to each column."""
        values, found = self.start.values, self.found
        values[found.loop.variable] = b.index(self.copy.form(found.loop.low) + b.cast(row, "index").name)
        terms = []
        for digits in self.digits:
            self.enter(b, digits)
            self.copy.guarding, self.copy.guard = found.guarded, None
            self.copy.all(found.adding, b)
            terms.append(self.copy.joined(found.update, b))
        return terms

    def enter(self, b: Builder, digits: Sequence[Value]) -> None:
        for loop, digit in zip(self.found.inner, digits, strict=True):
            self.copy.variable(loop, digit, b)

    def put(self, b: Builder, key: Value, totals: Sequence[Words]) -> None:
        """Adds sums to the key's row, unless a check has failed for it."""
        found, values = self.found, self.start.values
        target = values[found.target]
        extents = [b.index(self.copy.form(extent)) for extent in found.cells]
        row, *further = b.digits(b.cast(key, "index"), extents[1:])
        data = dict(zip(found.by_data, (row, *further), strict=True))
        known = b.op("lt", row, extents[0])
        for digits, inside, total in zip(self.digits, self.inside, totals, strict=True):
            self.enter(b, digits)
            forms = enumerate(found.update.store.index)
            index = [Affine.of(data[dim].name) if dim in data else self.copy.form(form) for dim, form in forms]
            with b.when(b.op("and", known, inside)) as some:
                old = [] if found.fresh else [some.cast(some.load(target, index), "f64")]
                new = rounded(some, added(some, total, old) if old else total)
                some.store(target, some.cast(new, mem_of(target).dtype), index)

    # ---- what shares leave ----

    def leave(self, b: Builder, part: int, totals: Sequence[Words]) -> None:
        for digits, inside, total in zip(self.digits, self.inside, totals, strict=True):
            for n, word in enumerate(total):
                b.store(self.memory, word, [self.share.name, part, *(digit.name for digit in digits), n], inside)

    def left(self, b: Builder, share: Value, part: Value) -> list[Words]:
        return [
            [b.load(self.memory, [share.name, part.name, *(digit.name for digit in digits), n]) for n in range(self.words)]
            for digits in self.digits
        ]
