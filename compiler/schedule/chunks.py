"""Which reductions of a nest may be cut in chunks for threads: the outermost ones, whose sums, products, least or greatest values may
be joined in another order, kept in carried values or in memories so small that each chunk can have one."""

from math import prod

from compiler.analysis.dependence import Fold, LoopFacts, LoopKind, NestFacts
from compiler.hir.control import Break, Continue, For, Return, While
from compiler.hir.instruction import Region, Value
from compiler.hir.memory import Load, Store
from compiler.hir.types import Mem
from runtime.records import frozen

MOST_ELEMENTS = 4096
"""Of a memory that every chunk gets a copy of."""


@frozen(eq=False)
class Chunked:
    """Loops, one directly in the other, that are cut in chunks together, and what joins their iterations."""

    loops: tuple[For, ...]
    folds: tuple[Fold, ...]
    private: tuple[Value, ...]
    workspaces: tuple[Value, ...]

    def monoid(self, cell: Value) -> str:
        return next(fold.monoid for fold in self.folds if fold.cell is cell)

    @property
    def memories(self) -> tuple[Value, ...]:
        return tuple(dict.fromkeys(fold.cell for fold in self.folds if fold.in_memory))


def chunked_loops(op: For, facts: NestFacts) -> Chunked | None:
    """The loop, with those that fill it alone, if they can be cut in chunks."""
    loops: list[For] = []
    folds: dict[Value, Fold] = {}
    inside: LoopFacts | None = None
    while True:
        loop_facts = facts.loops.get(op)
        if loop_facts is None or not _joins(op, loop_facts, facts) or _moves(loops, op):
            break
        loops.append(op)
        folds.update({fold.cell: fold for fold in loop_facts.folds})
        inside = loop_facts
        body = op.body.body
        if op.carried or len(body) != 1 or not isinstance(body[0], For) or body[0].carried:
            break
        op = body[0]
    if inside is None or not folds:
        return None
    return Chunked(tuple(loops), tuple(folds.values()), inside.private, inside.workspaces)


def _moves(outer: list[For], op: For) -> bool:
    """Whether the loop's bounds change with the loops around it."""
    variables = {loop.variable.name for loop in outer}
    return bool(variables.intersection((*op.low.names, *op.high.names)))


def _joins(op: For, loop_facts: LoopFacts, facts: NestFacts) -> bool:
    """Whether the loop's iterations may be joined in chunks."""
    if loop_facts.kind not in (LoopKind.REDUCTION, LoopKind.PARALLEL) or op.step != 1 or leaves(op.body):
        return False
    if any(not fold.reorders or fold.monoid in ("argmin", "argmax") for fold in loop_facts.folds):
        return False
    carried = {fold.cell for fold in loop_facts.folds if not fold.in_memory}
    if carried != set(op.body.parameters[1:]):
        return False
    return all(_is_small(fold.cell) and _only_folded(op, fold, facts) for fold in loop_facts.folds if fold.in_memory)


def _is_small(mem: Value) -> bool:
    assert isinstance(mem.type, Mem)
    extents = [dim.value for dim in mem.type.dims]
    return mem.type.strides is None and all(extent is not None for extent in extents) and prod(e or 0 for e in extents) <= MOST_ELEMENTS


def _only_folded(op: For, fold: Fold, facts: NestFacts) -> bool:
    """Whether the loop does nothing with the memory but fold into it by the one monoid."""
    within = {id(inner) for inner in op.walk()}
    accesses = [a for a in facts.nest.accesses if a.mem is fold.cell and id(a.op) in within]
    updates = [a.accumulates for a in accesses if a.accumulates is not None]
    old = {id(update.load) for update in updates}
    if any(update.monoid != fold.monoid or len(facts.nest.uses.get(update.load.result, ())) != 1 for update in updates):
        return False
    if any(a.accumulates is None and id(a.op) not in old for a in accesses):
        return False
    return all(isinstance(inner, Load | Store) for inner in op.walk() if fold.cell in inner.operand_values)


def leaves(region: Region) -> bool:
    """Whether control may leave the loop of this region."""
    for op in region.body:
        if isinstance(op, Break | Continue | Return):
            return True
        if not isinstance(op, For | While) and any(leaves(inner) for inner in op.regions):
            return True
    return False
