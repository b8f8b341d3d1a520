"""Loops whose iterations write rows that data bound: `for r in 0..R: for k in ptr[r]..ptr[r + 1]: out[k] = ...`. Their iterations are
independent where each row ends before the next one begins. Only the data tell: schedules have it checked before anything is stored."""

from collections.abc import Iterable, Sequence

from compiler.analysis.accesses import Nest, NestAccess, NestLoop
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, mem_of
from runtime.records import frozen

MARK = "disjoint"
"""The mark of a loop whose rows are taken to be disjoint."""


@frozen
class RowSpan:
    """The elements of one access in an iteration: those from `low` to before `high`, as `loop` says, so far from there."""

    loop: For
    dim: int
    offset: Affine

    @property
    def low(self) -> Affine:
        return self.loop.low + self.offset

    @property
    def high(self) -> Affine:
        return self.loop.high + self.offset


@frozen(eq=False)
class DisjointRows:
    """What an iteration writes of memories, `spans`, of which none may reach into the next iteration's; `ops`: what computes where these
    begin and end; `loops`: the loops that this depends on, the last one is the loop of rows; `checked`: what of `ops` may read outside."""

    spans: tuple[RowSpan, ...]
    ops: tuple[Instruction, ...]
    loops: tuple[For, ...]
    checked: frozenset[Instruction]


def row_memories(nest: Nest, loop: NestLoop) -> dict[Value, list[RowSpan]]:
    """The memories that iterations of a loop write along rows alone, with the rows of all accesses there."""
    inside = [access for access in nest.accesses if loop in access.loops]
    found: dict[Value, list[RowSpan]] = {}
    for mem in dict.fromkeys(access.mem for access in inside if access.is_store):
        if loop in nest.allocated.get(mem, ()):
            continue
        spans = [_spans(access, loop, nest) for access in inside if access.mem is mem]
        shared = set.intersection(*({span.dim for span in own} for own in spans))
        if shared:
            found[mem] = [span for own in spans for span in own if span.dim == min(shared)]
    return found


def _spans(access: NestAccess, loop: NestLoop, nest: Nest) -> list[RowSpan]:
    """The indices of an access that walk along a loop inside, whose bounds are computed in an iteration."""
    known = {parameter.name for parameter in nest.function.parameters}
    spans = []
    for inner in access.loops[access.loops.index(loop) + 1 :]:
        bounded = any(loop in nest.home[nest.definitions[name]] for name in (*inner.op.low.names, *inner.op.high.names))
        for dim, form in enumerate(access.index) if bounded and inner.op.step > 0 else ():
            offset = form - inner.variable
            if form.coefficient(inner.axis) == inner.op.step and known.issuperset(offset.names):
                spans.append(RowSpan(inner.op, dim, offset))
    return spans


def disjoint_rows(nest: Nest, op: For) -> DisjointRows | None:
    """What has to be known of the rows of a loop, so that its iterations are independent; None where it writes none, or where to tell
    where they begin and end takes more than elements of memory that nothing writes."""
    loop = nest.of_loop(op)
    if op.step < 1 or op.carried:
        return None
    spans = [span for own in row_memories(nest, loop).values() for span in own]
    spans = list({(span.low, span.high): span for span in spans}.values())
    names = [name for span in spans for form in (span.low, span.high) for name in form.names]
    ops = _computing(names, nest, loop) if spans else None
    if ops is None:
        return None
    used = {*names, *(name for each in ops for name in (*each.symbols, *(value.name for value in each.operand_values)))}
    around = [one for one in nest.around[op] if one is loop or one.op.variable.name in used]
    known = {parameter.name for parameter in nest.function.parameters} | {one.op.variable.name for one in around}
    if any(not known.issuperset((*one.op.low.names, *one.op.high.names)) for one in around):
        return None
    proven = {id(access.op) for access in nest.accesses if access.op in ops and _is_inside(access, nest)}
    checked = frozenset(each for each in ops if isinstance(each, Load) and id(each) not in proven)
    return DisjointRows(tuple(spans), tuple(ops), tuple(one.op for one in around), checked)


def _is_inside(access: NestAccess, nest: Nest) -> bool:
    """Whether an access lies in its memory, wherever its loops are."""
    known, extents = nest.facts(access.loops), mem_of(access.mem).dims
    return access.exact and all(known.proves_inside(form, extent) for form, extent in zip(access.index, extents, strict=True))


def _computing(names: Iterable[str], nest: Nest, loop: NestLoop) -> Sequence[Instruction] | None:
    """The instructions of an iteration that compute values of these names, in order; None where others would have to be done, too."""
    written = {access.mem for access in nest.accesses if access.is_store}
    ops: list[Instruction] = []
    waiting = list(names)
    while waiting:
        value = nest.definitions[waiting.pop()]
        if not nest.home[value] or any(value is one.op.variable for one in nest.around[loop.op]) or value.source in ops:
            continue
        op = value.source
        if op is None or op.regions:
            return None
        if isinstance(op, Load) and (op.mem not in nest.function.parameters or op.mem in written or op.where is not None):
            return None
        if not isinstance(op, Load) and op.effects is not Effect.PURE:
            return None
        ops.append(op)
        waiting += [*op.symbols, *(operand.name for operand in op.operand_values if operand is not getattr(op, "mem", None))]
    order = {id(op): number for number, op in enumerate(inside for top in nest.function.body.body for inside in top.walk())}
    return sorted(ops, key=lambda op: order[id(op)])
