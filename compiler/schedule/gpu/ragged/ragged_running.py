"""Running values along rows of a ragged axis: `for k in ptr[r]..ptr[r + 1]: s += x[k]; out[k] = s`. The threads of a row take neighbouring
elements in turns; what the elements before a thread's own come to goes from lane to lane, and from turn to turn."""

from collections.abc import Sequence

from compiler.analysis.dependence import LoopKind, NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.gpu import SharedAlloc
from compiler.hir.instruction import Value
from compiler.hir.memory import Check, Store
from compiler.hir.types import Mem, Space
from compiler.schedule.gpu.library.block_scan import Joining
from compiler.schedule.gpu.nests.at_once import PASSED, AtOnce, Piece, is_running, overlaps
from compiler.schedule.gpu.nests.cooperate import Cooperation
from compiler.schedule.gpu.nests.spread import JoinedCells, Spread, carried_folds
from compiler.schedule.gpu.tiles.reduction import combined, flags_of, identities


def running_rows(ops: Sequence[object], facts: NestFacts) -> dict[For, Spread]:
    """The loops with running values that the threads of a row can share."""
    found: dict[For, Spread] = {}
    for op in ops:
        if not isinstance(op, For) or facts.loops[op].kind is not LoopKind.SCAN or any(not fold.reorders for fold in facts.loops[op].folds):
            continue
        spread = Spread((op,), (), tuple(carried_folds(op)), facts.loops[op].private)
        if all(len(fold.cells) == 1 for fold in spread.folds) and overlaps(spread) and is_running(op):
            found[op] = spread
    return found


class RowWork(AtOnce):
    """The work of a row by all threads of a block."""

    def spread(self, spread: Spread, b: Builder) -> None:
        if is_running(spread.outer):
            run_along(self, spread, self.thread, self.start.threads, b)
        else:
            super().spread(spread, b)

    def most(self, count: Value, b: Builder) -> Value:
        """The largest of what threads have that go through a loop together."""
        return count

    def before_own(self, fold: JoinedCells, value: Value, b: Builder) -> tuple[Value, Value]:
        """What the values of the row's threads before this one come to, and those of all."""
        return before_thread(fold, value, self, b)


def run_along(work: RowWork, spread: Spread, number: Value, stride: int, b: Builder) -> None:
    """The iterations of a row, of which the thread has every `stride`th, and what the cells hold behind them."""
    loop = spread.outer
    low, end = (b.index(form) for form in work.ends(loop, b))
    length, started = b.sub(end, low), [work.values[old] for old in loop.carried]
    failed = b.slot(b.const(False, "i1")) if any(isinstance(op, Check) for op in loop.body.body) else None
    if work.held is not None:
        results = _turns(work, spread, (low, length), number, (stride, work.held), started, failed, b)
    else:
        each = stride * work.turns
        chunks = work.most(b.index(Affine.of(length.name).ceildiv(each)), b)
        with b.loop("chunk", 0, chunks.name, 1, started, unroll=1) as (inner, walked):
            done = inner.mul(walked.variable, inner.const(each, "index"))
            part = inner.add(low, done), inner.sub(length, done)
            inner.yield_(*_turns(work, spread, part, number, (stride, work.turns), walked.carried, failed, inner))
        results = list(walked.results)
    if failed is not None:
        with b.when(b.get(failed)) as again:
            Cooperation.share(work, spread, number, stride, again)
    work.values.update(zip(loop.results, results, strict=True))


def _turns(
    work: RowWork,
    spread: Spread,
    part: tuple[Value, Value],
    number: Value,
    shape: tuple[int, int],
    cells: Sequence[Value],
    failed: Value | None,
    b: Builder,
) -> list[Value]:
    """What the cells hold behind so many turns of all threads, or all elements of a `part`: its first, and how many there are."""
    loop, (low, length), (stride, turns) = spread.outer, part, shape
    parameters, own = loop.body.parameters[1:], b.cast(number, "i32")
    last = b.cast(b.op("max", b.op("min", length, b.const(stride * turns, "index")), b.const(0, "index")), "i32")
    ahead = [b.add(own, b.const(stride * turn, "i32")) for turn in range(turns)]
    inside: list[Value | None] = [b.op("lt", each, last) for each in ahead]
    items = [Piece(b.add(low, b.cast(each, "index")), 1) for each in ahead]
    sofar = dict(zip(parameters, cells, strict=True))
    for (values,), holds in zip(work.computed(loop, items, failed, b, inside), inside, strict=True):
        assert holds is not None
        for fold in spread.folds:
            (cell,), nothing = fold.cells, identities(b, fold.monoid, fold.dtypes)
            work.values.update(values)
            work.values.update({**sofar, cell: nothing[0]})
            work.copy.all([op for op in work.late(loop) if not isinstance(op, Store)], b)
            before, total = work.before_own(fold, b.select(holds, work.values[_update(loop, cell)], nothing[0]), b)
            values = {**values, cell: combined(b, fold.monoid, [sofar[cell]], [before])[0]}
            sofar[cell] = combined(b, fold.monoid, [sofar[cell]], [total])[0]
        work.values.update(values)
        for op in work.late(loop):
            work.late_one(op, values.get(PASSED, holds), b)
    return [sofar[parameter] for parameter in parameters]


def _update(loop: For, cell: Value) -> Value:
    """What a cell holds behind an iteration."""
    last = loop.body.body[-1]
    assert isinstance(last, Yield)
    return last.values[loop.body.parameters.index(cell) - 1]


def before_lane(fold: JoinedCells, value: Value, lane: Value, lanes: int, b: Builder) -> tuple[Value, Value]:
    """What the values of the lanes before come to, and those of all lanes."""
    (nothing,) = identities(b, fold.monoid, fold.dtypes)
    return Joining(b, fold.monoid, flags_of(fold.monoid), lanes).over_lanes(value, lane, nothing) if lanes > 1 else (nothing, value)


def before_thread(fold: JoinedCells, value: Value, work: AtOnce, b: Builder) -> tuple[Value, Value]:
    """What the values of the block's threads before come to, and those of all threads."""
    warps, joined = work.start.threads // work.lanes, Joining(b, fold.monoid, flags_of(fold.monoid))
    lane, warp = (b.op(operator, work.thread, b.const(work.lanes, "index")) for operator in ("rem", "div"))
    before, own = before_lane(fold, value, lane, work.lanes, b)
    if warps == 1:
        return before, own
    (nothing,) = identities(b, fold.monoid, fold.dtypes)
    shared = work.start.out.body.emit(SharedAlloc(type=Mem(fold.dtypes[0], (warps,), space=Space.SHARED)), "warps").result
    ahead, total = joined.over_warps(own, warp, nothing, shared, warps, where=b.op("eq", lane, b.const(0, "index")))
    return joined(ahead, before), total
