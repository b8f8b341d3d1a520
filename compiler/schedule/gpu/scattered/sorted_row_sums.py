"""The launches behind a sort of row numbers (`sorted_rows.py`). Equal keys stand side by side then: a run of them is what one row of the
result adds up. The lanes of a team take the columns of a row, and go through its run. Where the result was zeros before, a launch looks
first for the run of every row, so that rows without terms are stored like the others and nobody has to clear the result; else each run is
found from its first entry.

A run that has a whole share of the sorted entries to itself is too long for a team: teams have summed its shares before, and what these
come to is added up in their order. Shares depend on sizes alone.

A sum is made in f64, one of f64 in two words, of which the second has what the first rounds away (Knuth's sum of two numbers)."""

from collections.abc import Callable, Sequence
from math import isqrt

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import Mem, Tile, bytes_of
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
"""Of a team, at most."""
EACH_BYTES = 32
"""Of the columns of a lane, at most: what so many rows of a team need is under way then."""
TOGETHER = 2
"""Entries whose terms a team reads before it adds the first of them, where these have no loops."""
FEWEST = 128
"""Entries of a share, at least."""
BLOCKS = 4
"""Of a processor, at least, so that enough is read at a time."""

Words = list[Value]
"""A sum on its way: one f64, or two."""
Read = Callable[[Builder, Sequence[Value], Sequence[Value]], list[list[Words]]]
"""What is read of each place for each column, where there is such a place."""


@frozen
class RowShares:
    """How rows are shared: `lanes` of a team, columns of `each` lane, entries of a share, and those whose terms are under way together."""

    lanes: int
    each: int
    rows: int
    together: int

    @staticmethod
    def of(found: SortedRows, facts: Facts) -> "RowShares":
        columns = most_elements([iterations(loop) for loop in found.inner], facts) or LANES
        rows = most_elements([iterations(found.loop)], facts) or 1
        most = EACH_BYTES // max(4, bytes_of(mem_of(found.target).dtype))
        # terms with loops are computed one after the other
        alone = any(op.regions for op in found.adding)
        each, together = (1, 1) if alone else (min(most, power_of_two(columns)), TOGETHER)
        lanes = min(LANES, power_of_two(-(-columns // each)))
        # as many shares as entries of one, of which a run that has all entries needs the sum
        return RowShares(lanes, each, max(FEWEST, power_of_two(isqrt(rows))), together)


def left_of_shares(found: SortedRows, facts: Facts) -> Value:
    """The memory of what shares leave: parts of a run that began before, and of one that goes on."""
    shares = iterations(found.loop).ceildiv(RowShares.of(found, facts).rows)
    dims = [shares, Affine((), 2), *(iterations(loop) for loop in found.inner), Affine((), words_of(found.target))]
    return Value(f"{found.target.name}_left", Mem("f64", dims, align=64))


def runs_of_rows(found: SortedRows, facts: Facts) -> Value:
    """The memory of where the run of each row begins and ends, and of the rows that its first entries name."""
    return Value(f"{found.target.name}_runs", Mem("u32", (*found.cells, Affine((), 2 + RowShares.of(found, facts).together)), align=64))


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
    """What is added, the sorted `keys` and `rows`, the memories of what shares leave and of where runs lie."""

    found: SortedRows
    keys: Value
    rows: Value
    left: Value
    runs: Value

    @property
    def memories(self) -> dict[Value, Mem]:
        return {memory: mem_of(memory) for memory in (self.left, *([self.runs] if self.found.fresh else []))}


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
        return f"{variable}: rows are sorted by where they are added, and {shares.lanes} lanes take {names} of each sum"

    def launches(self) -> list[Launch]:
        return [*([self.looked_for()] if self.nest.found.fresh else []), self.parts(), self.summed()]

    def looked_for(self) -> Launch:
        """Where the run of each row begins and ends: a thread a row finds the beginning."""
        start, cells = Start(self.around, f"{self.number}_runs", (BLOCK, 1, 1)), self.nest.found.cells
        b, runs = start.out.body, start.workspaces[self.around.others[self.nest.runs]]
        extents = [b.count(start.copy.form(cell)) for cell in cells]
        count, one = b.count(start.copy.form(iterations(self.nest.found.loop))), b.const(1, "index")
        number = b.index(start.place, "place")
        rows = b.product(extents)
        with b.when(b.op("lt", number, rows)) as inner:
            keys, end = start.values[self.nest.keys], inner.sub(count, one)
            begin = _first(inner, keys, number, inner.const(0, "index"), count)
            own = [digit.name for digit in inner.digits(number, extents[1:])]
            inner.store(runs, inner.cast(begin, "u32"), [*own, 0])
            for n in range(self.shares.together):
                place = inner.op("min", inner.index(Affine.of(begin.name) + n), end)
                there = inner.op("le", inner.const(0, "index"), place)
                inner.store(runs, inner.load(start.values[self.nest.rows], [place.name], there), [*own, 2 + n])
            before, last = inner.sub(number, one), inner.op("eq", inner.add(number, one), rows)
            for where, row, value in ((inner.op("lt", inner.const(0, "index"), number), before, begin), (last, number, count)):
                with inner.when(where) as some:
                    some.store(runs, some.cast(value, "u32"), [*(digit.name for digit in some.digits(row, extents[1:])), 1])
        return start.finish(cells, BLOCK)

    def parts(self) -> Launch:
        """What each share has of runs that are too long for a team: of the one with which it begins, and of the one with which it ends."""
        team = _Team(self, "parts")
        b, rows, one = team.b, self.shares.rows, team.b.const(1, "index")
        first = b.index(Affine.of(team.unit.name) * rows)
        behind = b.index(Affine.of(team.unit.name) * rows + rows)
        last = b.op("min", behind, team.count)
        with b.when(b.op("lt", first, team.count)) as some, some.loop("part", 0, 2) as (inner, part):
            head = inner.op("eq", part.variable, inner.const(0, "index"))
            begins = team.key(inner, first)
            key = inner.select(head, begins, team.key(inner, inner.sub(last, one)))
            # a run that has the first and the last entry of a share has all of it
            far = inner.select(head, inner.index(Affine.of(first.name) - rows), inner.index(Affine.of(behind.name) + (rows - 1)))
            whole = inner.both(inner.op("eq", key, team.key(inner, inner.sub(last, one))), inner.op("eq", last, behind))
            long = inner.op("or", inner.both(head, whole), team.has(inner, far, key))
            mine = inner.both(long, inner.op("or", head, inner.op("ne", key, begins)))
            with inner.when(mine) as own:
                wide = own.cast(key, "index")
                low = _first(own, team.keys, wide, first, last)
                high = _first(own, team.keys, own.add(wide, one), low, last)
                team.leave(own, part.variable, team.of_entries(own, low, high))
        return team.finish((iterations(self.nest.found.loop).ceildiv(rows),))

    def summed(self) -> Launch:
        """What each row of the result comes to."""
        team, found = _Team(self, "sums"), self.nest.found
        b, rows, one = team.b, self.shares.rows, team.b.const(1, "index")
        if found.fresh:
            row = b.digits(team.unit, team.cells[1:])
            there = b.op("lt", row[0], team.cells[0])
        else:
            here = b.op("lt", team.unit, team.count)
            row = b.digits(b.cast(team.key(b, b.select(here, team.unit, b.const(0, "index")), here), "index"), team.cells[1:])
            key = team.key(b, b.select(here, team.unit, b.const(0, "index")), here)
            again = team.has(b, b.sub(team.unit, one), key)
            # a key whose check has failed is behind the last row
            there = b.both(b.both(here, b.op("xor", again, b.const(True, "i1"))), b.op("lt", row[0], team.cells[0]))
        with b.when(there) as inner:
            if found.fresh:
                runs = team.start.workspaces[team.plan.around.others[self.nest.runs]]
                low_, high_, *first_rows = (inner.load(runs, [*(digit.name for digit in row), n]) for n in range(2 + self.shares.together))
                low, high = (inner.cast(end, "index") for end in (low_, high_))
            else:
                low, high, first_rows = team.unit, team.run_end(inner, key), []
            behind = Affine.of(inner.index(Affine.of(low.name).ceildiv(rows) * rows + rows).name)
            types = [Tile("f64")] * (self.shares.each * team.words)
            with inner.branch(inner.op("le", inner.index(behind), high), types) as (long, short, both):
                first, end = long.index(Affine.of(low.name).floordiv(rows)), long.index(Affine.of(high.name).ceildiv(rows))
                long.yield_(*_flat(team.of_shares(long, first, end, long.index(Affine.of(low.name) % rows))))
                short.yield_(*_flat(team.of_entries(short, low, high, first_rows)))
            team.put(inner, row, team.by_column(both.results))
        return team.finish(found.cells if found.fresh else (iterations(found.loop),))


def _flat(totals: Sequence[Words]) -> list[Value]:
    return [word for total in totals for word in total]


def _first(b: Builder, keys: Value, key: Value, low: Value, high: Value) -> Value:
    """The first entry from `low` on whose key isn't below this one; `high` where there is none before."""
    begin, end = b.slot(low, "begin"), b.slot(high, "end")
    with b.repeat() as (before, body):
        before.condition(before.op("lt", before.get(begin), before.get(end)))
        middle = body.op("shr", body.add(body.get(begin), body.get(end)), body.const(1, "index"))
        below = body.op("lt", body.cast(body.load(keys, [middle.name]), "index"), key)
        with body.branch(below) as (yes, no, _):
            yes.set(begin, yes.add(middle, yes.const(1, "index")))
            no.set(end, middle)
    return b.get(begin)


class _Team:
    """A team of lanes in one launch: the columns that it has of one of the launch's units."""

    def __init__(self, plan: SortedRowSums, name: str) -> None:
        self.plan, self.found, self.teams = plan, plan.nest.found, BLOCK // plan.shares.lanes
        self.start = start = Start(plan.around, f"{plan.number}_{name}", (BLOCK, 1, 1))
        align(start, plan.facts)
        self.b = b = start.out.body
        self.keys, self.rows = start.values[plan.nest.keys], start.values[plan.nest.rows]
        self.memory = start.workspaces[plan.around.others[plan.nest.left]]
        self.words = words_of(self.found.target)
        self.copy = ScatterCopy(start.out, start.values, plan.sums, lambda at, change: None)
        shares, zero = plan.shares, b.const(0, "index")
        self.cells = [b.index(start.copy.form(extent)) for extent in self.found.cells]
        self.extents = [b.count(start.copy.form(iterations(loop))) for loop in self.found.inner]
        width = b.product(self.extents)
        wide = b.const(shares.lanes * shares.each, "index")
        self.slices = b.op("div", b.add(width, b.sub(wide, b.const(1, "index"))), wide, name="slices")
        thread, lanes = b.index(start.thread, "thread"), b.const(shares.lanes, "index")
        number = b.add(b.mul(b.index(start.number.name), b.const(self.teams, "index")), small(b, "div", thread, lanes))
        few = most_elements([iterations(loop) for loop in self.found.inner], plan.facts)
        alone = few is not None and few <= shares.lanes * shares.each
        self.unit, slice_ = (number, zero) if alone else (b.op("div", number, self.slices), b.op("rem", number, self.slices))
        self.count = b.count(start.copy.form(iterations(self.found.loop)))
        column = b.add(b.mul(slice_, wide), small(b, "rem", thread, lanes))
        places = [b.index(Affine.of(column.name) + n * shares.lanes) for n in range(shares.each)]
        self.inside = [b.op("lt", place, width) for place in places]
        self.digits = [b.digits(place, self.extents[1:]) for place in places]
        self.columns = list(zip(self.digits, self.inside, strict=True))

    def finish(self, units: tuple[Affine, ...]) -> Launch:
        launch = self.start.finish((*units, Affine.of(self.slices.name)), self.teams)
        info = launch.function.kernel_info
        assert info is not None and info.launch_bounds is not None
        if self.plan.facts.machine.threads >= BLOCKS * BLOCK:
            launch.function.kernel_info = evolve(info, launch_bounds=evolve(info.launch_bounds, min_blocks_per_sm=BLOCKS))
        return launch

    def by_column(self, words: Sequence[Value]) -> list[Words]:
        return [list(words[n : n + self.words]) for n in range(0, len(words), self.words)]

    # ---- keys ----

    def key(self, b: Builder, entry: Value, where: Value | None = None) -> Value:
        return b.load(self.keys, [entry.name], where)

    def has(self, b: Builder, entry: Value, key: Value) -> Value:
        """Whether there is such an entry, and it has this key."""
        there = b.both(b.op("le", b.const(0, "index"), entry), b.op("lt", entry, self.count))
        return b.both(there, b.op("eq", self.key(b, b.select(there, entry, b.const(0, "index")), there), key))

    def run_end(self, b: Builder, key: Value) -> Value:
        """Where the run of this key ends that begins with the unit: twice as far each time, then half as far."""
        one, far = b.const(1, "index"), b.slot(b.const(1, "index"), "far")
        with b.repeat() as (before, body):
            before.condition(self.has(before, before.add(self.unit, before.get(far)), key))
            body.set(far, body.mul(body.get(far), body.const(2, "index")))
        low = b.add(self.unit, b.op("shr", b.get(far), one))
        return _first(b, self.keys, b.add(b.cast(key, "index"), one), low, b.op("min", b.add(self.unit, b.get(far)), self.count))

    # ---- sums ----

    def total(self, b: Builder, low: Value, high: Value, read: Read, first: Sequence[Value] = ()) -> list[Words]:
        """What is read of the places of a range, added up in their order; what is read at several of them is under way at once. Where
        entries are added, the rows of a turn are known before: `first` those of the first one."""
        together, nothing, last = self.plan.shares.together, b.const(0.0, "f64"), b.sub(high, b.const(1, "index"))
        zeros = [nothing] * (self.plan.shares.each * self.words)
        with b.loop("entry", low.name, high.name, together, [*zeros, *first], unroll=1) as (body, loop):
            places = [body.index(Affine.of(loop.variable.name) + n) for n in range(2 * together)]
            there = [body.op("lt", place, high) for place in places[:together]]
            ahead = [self.row(body, body.op("min", place, last)) for place in places[together:]] if first else []
            totals = self.by_column(loop.carried[: len(zeros)])
            every = read(body, loop.carried[len(zeros) :] if first else places[:together], there)
            for holds, terms in zip(there, every, strict=True):
                terms = [[body.select(holds, word, nothing) for word in term] for term in terms]
                totals = [added(body, total, term) for total, term in zip(totals, terms, strict=True)]
            body.yield_(*_flat(totals), *ahead)
        return self.by_column(loop.results[: len(zeros)])

    def of_entries(self, b: Builder, low: Value, high: Value, first: Sequence[Value] = ()) -> list[Words]:
        """What the terms of entries come to; `first`: their first rows, where these are known."""

        def read(at: Builder, rows: Sequence[Value], there: Sequence[Value]) -> list[list[Words]]:
            return [[[at.cast(term, "f64")] for term in self.terms(at, row, holds)] for row, holds in zip(rows, there, strict=True)]

        return self.total(b, low, high, read, first or self.first_rows(b, low, b.sub(high, b.const(1, "index"))))

    def first_rows(self, b: Builder, low: Value, last: Value) -> list[Value]:
        """The rows of the first entries of a run that ends with `last`; of one without entries, any."""
        last = b.op("max", last, b.const(0, "index"))
        return [self.row(b, b.op("min", b.index(Affine.of(low.name) + n), last)) for n in range(self.plan.shares.together)]

    def row(self, b: Builder, entry: Value) -> Value:
        return b.load(self.rows, [entry.name])

    def of_shares(self, b: Builder, first: Value, end: Value, behind: Value) -> list[Words]:
        """What these shares have left; of the first, in which the run begins so far `behind` its first entry, of its end."""

        def read(at: Builder, shares: Sequence[Value], there: Sequence[Value]) -> list[list[Words]]:
            late = [at.both(at.op("eq", share, first), at.op("ne", behind, at.const(0, "index"))) for share in shares]
            parts = [at.select(is_late, at.const(1, "index"), at.const(0, "index")) for is_late in late]
            return [self.left(at, *each) for each in zip(shares, parts, there, strict=True)]

        return self.total(b, first, end, read)

    def left(self, b: Builder, share: Value, part: Value, there: Value) -> list[Words]:
        columns = [([share.name, part.name, *(digit.name for digit in digits)], b.both(inside, there)) for digits, inside in self.columns]
        return [[b.load(self.memory, [*place, n], where) for n in range(self.words)] for place, where in columns]

    def terms(self, b: Builder, row: Value, there: Value) -> list[Value]:
        """What a row adds to each column."""
        values, found = self.start.values, self.found
        values[found.loop.variable] = b.index(self.copy.form(found.loop.low) + b.cast(row, "index").name)
        terms = []
        for digits, inside in self.columns:
            self.enter(b, digits)
            self.copy.guarding, self.copy.guard = found.guarded, b.both(inside, there)
            self.copy.all(found.adding, b)
            terms.append(self.copy.joined(found.update, b))
        return terms

    def enter(self, b: Builder, digits: Sequence[Value]) -> None:
        for loop, digit in zip(self.found.inner, digits, strict=True):
            self.copy.variable(loop, digit, b)

    def put(self, b: Builder, row: Sequence[Value], totals: Sequence[Words]) -> None:
        """Stores sums in a row of the result, or adds them to what is there."""
        found, target = self.found, self.start.values[self.found.target]
        data = dict(zip(found.by_data, row, strict=True))
        for digits, inside, total in zip(self.digits, self.inside, totals, strict=True):
            self.enter(b, digits)
            forms = enumerate(found.update.store.index)
            index = [Affine.of(data[dim].name) if dim in data else self.copy.form(form) for dim, form in forms]
            with b.when(inside) as some:
                old = [] if found.fresh else [some.cast(some.load(target, index), "f64")]
                new = rounded(some, added(some, total, old) if old else total)
                some.store(target, some.cast(new, mem_of(target).dtype), index)

    def leave(self, b: Builder, part: Value, totals: Sequence[Words]) -> None:
        for digits, inside, total in zip(self.digits, self.inside, totals, strict=True):
            for n, word in enumerate(total):
                b.store(self.memory, word, [self.unit.name, part.name, *(digit.name for digit in digits), n], inside)
