"""Which loops of a block's work are spread over its threads: those whose iterations may run in any order, up to values that a monoid
joins. Everything else is done by all threads alike (values), or by one of them (what writes memory)."""

from collections.abc import Mapping, Sequence

from compiler.analysis.accesses import NestAccess, NestLoop
from compiler.analysis.affine_sets import upper
from compiler.analysis.dependence import LoopKind, NestFacts, carried_update
from compiler.hir.affine import Affine
from compiler.hir.control import Call, For, Return, While, Yield
from compiler.hir.core import dtype_of
from compiler.hir.instruction import Effect, Instruction, InstructionFamily, Region, Value
from compiler.hir.memory import Alloc, Store, mem_of
from compiler.hir.types import Slot
from compiler.schedule.copying import privately
from runtime.records import frozen

SMALL = 32
"""Iterations below which a loop isn't worth spreading where a loop inside it is."""


@frozen(eq=False)
class JoinedCells:
    """Cells (carried values, or a slot) that a monoid joins; `argmin` and `argmax` have two, a value and its index."""

    monoid: str
    cells: tuple[Value, ...]

    @property
    def dtypes(self) -> list[str]:
        return [dtype_in(cell) for cell in self.cells]


def dtype_in(cell: Value) -> str:
    """The scalar type of a carried value or of what a slot holds."""
    return cell.type.dtype if isinstance(cell.type, Slot) else dtype_of(cell)


@frozen(eq=False)
class Spread:
    """Loops, one directly in the other, that threads share out as one. `between`: what each of them computes before the next."""

    loops: tuple[For, ...]
    between: tuple[Instruction, ...]
    folds: tuple[JoinedCells, ...]
    private: tuple[Value, ...]
    """Scratch memories of which each iteration has its own."""

    @property
    def outer(self) -> For:
        return self.loops[0]

    @property
    def inner(self) -> For:
        return self.loops[-1]


def spread_of(op: For, facts: NestFacts) -> Spread | None:
    """The loop, with the loops that fill it, as threads would share it; None where its iterations need their order, or memory of a
    size that a thread can't have."""
    spread = _together(op, facts)
    if spread is None:
        return None
    own = [inside.result for inside in op.walk() if isinstance(inside, Alloc)]
    return spread if all(dim.value is not None for mem in (*spread.private, *own) for dim in mem_of(mem).dims) else None


def _together(op: For, facts: NestFacts) -> Spread | None:
    folds = _folds(op, facts)
    if folds is None:
        return None
    loops, between = [op], list[Instruction]()
    while (inner := _filling(loops[-1])) is not None and _folds(inner, facts) is not None and _joins_through(loops[-1], inner):
        if _depends(inner, [*loops], between):
            break
        between += [o for o in loops[-1].body.body if o is not inner and not isinstance(o, Yield)]
        loops.append(inner)
    private = [mem for loop in loops for mem in privately(facts.loops[loop]) if not isinstance(mem.type, Slot)]
    return Spread(tuple(loops), tuple(between), folds, tuple(dict.fromkeys(private)))


def _folds(op: For, facts: NestFacts) -> tuple[JoinedCells, ...] | None:
    """What joins the loop's iterations; None where they can't be joined in another order."""
    loop_facts = facts.loops.get(op)
    if loop_facts is None or loop_facts.kind not in (LoopKind.PARALLEL, LoopKind.REDUCTION):
        return None
    if any(isinstance(inside, Return | Call) or inside.family is InstructionFamily.LIBRARY for inside in op.walk()):
        return None
    if any(not fold.reorders or fold.in_memory for fold in loop_facts.folds):
        return None
    folds = [JoinedCells(fold.monoid, (fold.cell,)) for fold in loop_facts.folds if isinstance(fold.cell.type, Slot)]
    if any(fold.monoid in ("argmin", "argmax") for fold in folds):
        return None
    return (*folds, *carried_folds(op))


def carried_folds(op: For) -> list[JoinedCells]:
    """The carried values, in the groups that change together."""
    folds: list[JoinedCells] = []
    if not op.carried:
        return folds
    last = op.body.body[-1]
    assert isinstance(last, Yield)
    done: set[Value] = set()
    for parameter, value in zip(op.body.parameters[1:], last.values, strict=True):
        if parameter in done or value is parameter:
            continue
        update = carried_update(value, parameter)
        assert update is not None, "the analysis found a monoid"
        folds.append(JoinedCells(update[0], tuple(update[2])))
        done.update(update[2])
    return folds


def _filling(op: For) -> For | None:
    """The loop that fills this one: all else in it only computes values."""
    loops = [inside for inside in op.body.body if isinstance(inside, For)]
    others = [o for o in op.body.body if not isinstance(o, For | Yield) and (o.effects is not Effect.PURE or o.regions)]
    return loops[0] if len(loops) == 1 and not others else None


def _joins_through(outer: For, inner: For) -> bool:
    """What the outer loop carries goes into the inner one and comes out of it, and nowhere else."""
    if not outer.carried:
        return not inner.carried
    last = outer.body.body[-1]
    return tuple(inner.carried) == tuple(outer.body.parameters[1:]) and tuple(last.operand_values) == tuple(inner.results)


def _depends(inner: For, loops: Sequence[For], between: Sequence[Instruction]) -> bool:
    """Whether the inner loop's bounds change with the loops around it."""
    computed = [o for o in loops[-1].body.body if o is not inner]
    changing = {loop.variable.name for loop in loops} | {r.name for o in (*between, *computed) for r in o.results}
    return bool(changing.intersection((*inner.low.names, *inner.high.names)))


def leading_of(op: For, facts: NestFacts) -> Spread | None:
    """The leading nest at a loop of the top level: the parallel loops that hold nothing but the next."""
    if facts.loops[op].kind is not LoopKind.PARALLEL or op.carried:
        return None
    return _together(op, facts)


# ---- a block's work ------------------------------------------------------------------------------------------------------


def spreads_in(region: Region, facts: NestFacts) -> dict[For, Spread]:
    """The loops of a block's work that its threads share: the outermost that may be; a short one that holds such loops stays whole."""
    spreads: dict[For, Spread] = {}
    for op in region.body:
        if isinstance(op, For) and (spread := spread_of(op, facts)) is not None:
            inside = spreads_in(spread.inner.body, facts)
            if not (inside and len(spread.loops) == 1 and not op.carried and is_short(facts.nest.of_loop(op))):
                spreads[op] = spread
                continue
        for inner in op.regions:
            spreads.update(spreads_in(inner, facts))
    return spreads


def is_short(loop: NestLoop) -> bool:
    extent = loop.extent.value
    return extent is not None and extent < SMALL


def holds_spread(op: Instruction, spreads: Mapping[For, Spread]) -> bool:
    return any(isinstance(inside, For) and inside in spreads for inside in op.walk())


def is_single(op: Instruction, spreads: Mapping[For, Spread]) -> bool:
    """Whether one thread does the whole loop for the block: it writes memory, and there is nothing to share in it."""
    return isinstance(op, For | While) and not holds_spread(op, spreads) and any(isinstance(inside, Store) for inside in op.walk())


def is_plain(op: Instruction, spreads: Mapping[For, Spread]) -> bool:
    """Whether all threads do the whole branch or loop alike, each for itself: it writes nothing, and there is nothing to share in it."""
    return bool(op.regions) and not holds_spread(op, spreads) and not any(isinstance(inside, Store) for inside in op.walk())


def extents_of(spreads: Mapping[For, Spread], facts: NestFacts, leading: Sequence[For]) -> list[Affine] | None:
    """How often the spread loops run at most, over what is known before the launch; None where that isn't known."""
    box = {loop.axis: loop.extent for op in leading for loop in facts.nest.around[op]}
    known = {parameter.name for parameter in facts.nest.function.parameters}
    extents_ = []
    for spread in spreads.values():
        extents = [upper(facts.nest.of_loop(loop).extent, box) for loop in spread.loops]
        if len(extents) > 1 and any(extent.value is None for extent in extents[1:]):
            extents = extents[-1:]  # a product is no affine form: the last loop's extent is a lower bound
        elif len(extents) > 1:
            whole = extents[0]
            for extent in extents[1:]:
                whole = whole * (extent.value or 0)
            extents = [whole]
        if not known.issuperset(extents[0].names):
            return None
        extents_.append(extents[0])
    return extents_


def is_contiguous(spreads: Mapping[For, Spread], leading: Sequence[For], facts: NestFacts) -> bool:
    """Whether more accesses of the spread loops walk memory along these than along the last leading loop."""
    inner = {facts.nest.of_loop(spread.inner).axis for spread in spreads.values()}
    outer = {facts.nest.of_loop(leading[-1]).axis} if leading else set[str]()
    along = [access for access in facts.nest.accesses if any(loop.axis in inner for loop in access.loops)]
    return _walking(along, inner) >= _walking(along, outer)


def _walking(accesses: Sequence[NestAccess], axes: set[str]) -> int:
    return sum(bool(access.index) and any(abs(access.index[-1].coefficient(axis)) == 1 for axis in axes) for access in accesses)
