"""`yield` in scan and sort kernels: one element of the result for each iteration.

A scan carries a slot along its axis, whose loop stands innermost; a sort writes keys and payload and then sorts them in place.
Axes are numbered by the loops around the `yield` as the program writes them."""

from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.library import Sort
from compiler.lowering import folds
from compiler.lowering.arithmetic import accumulating, kept_in
from compiler.lowering.body import Body, fault
from compiler.lowering.conditions import as_truth
from compiler.lowering.dtypes import hir_name, totalled
from compiler.lowering.flows import Flow
from compiler.lowering.loops import has_jump, loop_bounds, ranged
from compiler.lowering.numbers import Number, Operand, Tuple, literal, value_of
from compiler.lowering.ranges import NumberRange, loop_range, mentions
from compiler.lowering.reductions import identity
from compiler.lowering.walk import evaluate, run_block
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk
from runtime.records import Factory, define

_OPERATORS = {
    "+": "add", "sum": "add", "*": "mul", "prod": "mul", "min": "min", "max": "max", "and": "and", "or": "or",
    folds.FUNCTION: folds.FUNCTION,
}


@define(eq=False)
class Collection:
    """A scan (`operator` set) or a sort. `kept` and `dtypes`: what is carried, and what the results hold."""

    kind: KernelType
    operator: str
    axis: int
    exclusive: bool
    reverse: bool
    descending: bool
    span: Span
    fold: folds.Combination | None = None
    shape: Operand = literal(0)
    """A value of the kind that is yielded."""
    loops: tuple[NumberRange, ...] = ()
    dtypes: list[DType] = Factory(list)
    kept: list[DType] = Factory(list)
    conditional: bool = False
    seen: Span | None = None
    results: list[Value] = Factory(list)
    slots: list[Value] = Factory(list)
    entered: dict[int, NumberRange] = Factory(dict)

    def result_dims(self) -> tuple[Affine, ...]:
        return tuple(loop.extent for loop in self.loops)


def collection_of(body: Body, span: Span) -> Collection:
    """The options of `@kernel(scan, ...)` or `@kernel(sort, ...)`."""
    kernel = body.kernel
    kind = kernel.kernel_type or KernelType.SCAN
    fold = folds.fold_of(body)
    name = folds.FUNCTION if fold is not None else str(kernel.option("op", "+"))
    if kind is KernelType.SCAN and name not in _OPERATORS:
        raise fault("0401", f"`{name}` is no operator of `scan`", span, hint="one of + * min max and or")
    axis = kernel.option("axis", -1)
    if not isinstance(axis, int):
        raise fault("0307", f"a {kind.value} goes along one axis: `axis={axis}` is none", span)
    return Collection(
        kind,
        _OPERATORS.get(name, ""),
        axis,
        bool(kernel.option("exclusive", False)),
        bool(kernel.option("reverse", False)),
        bool(kernel.option("descending", False)),
        span,
        fold,
    )


def survey(body: Body, collection: Collection, node: nodes.Yield) -> None:
    """A `yield` in a walk that only finds out types and loops."""
    parts = _parts(body, collection, node)
    loops = tuple(loop for _, loop in body.here.loops)
    if not loops:
        raise fault("0408", f"a {collection.kind.value} needs a `yield` inside a loop", node.span, hint="write `for i in 0..N: yield x[i]`")
    if collection.seen is not None and collection.seen != node.span and len(loops) != len(collection.loops):
        raise fault("0408", "two `yield`s stand in different numbers of loops", node.span, hint="yield from one nest")
    rank = len(loops)
    if not -rank <= collection.axis < rank:
        raise fault(
            "0307",
            f"axis {collection.axis} is outside the {rank} {'loop' if rank == 1 else 'loops'} around `yield`",
            collection.span,
            hint=f"valid: {-rank} to {rank - 1}",
        )
    if body.here.depth > rank:
        raise fault("0408", f"a {collection.kind.value} can't yield from a `while`", node.span, hint="use a `for` loop")
    names = {loop.name for loop in loops} | body.here.opaque
    for loop in loops:
        if mentions(loop.low, names) or mentions(loop.last, names):
            raise fault(
                "0109",
                f"a {collection.kind.value} over loops whose bounds depend on other loops isn't supported yet",
                node.span,
                hint="use rectangular loops",
            )
        if abs(loop.step) != 1:
            raise fault(
                "0109", f"a {collection.kind.value} over a loop with a step isn't supported yet", node.span, hint="count by 1 and multiply"
            )
    collection.axis %= rank
    collection.loops, collection.seen = loops, node.span
    collection.conditional = collection.conditional or bool(body.here.path)
    if collection.kind is KernelType.SORT:
        collection.dtypes = [_narrow(body.flows.join(("yield", number), part)) for number, part in enumerate(parts)]
        return
    collection.shape = parts[0] if len(parts) == 1 else Tuple(tuple(parts))
    kept = folds.survey(body, collection.fold, collection.shape)
    narrow = [_narrow(body.flows.new["yield", number]) for number in range(len(parts))]
    if collection.operator in ("and", "or") and narrow[0].is_float:
        raise fault("0208", f"`scan({collection.operator})` needs bools or ints: this is {narrow[0].value}", node.value.span)
    if collection.fold is None:
        kept = [kept_in(body, narrow[0], totalled) if collection.operator in ("add", "mul") else narrow[0]]
    collection.kept = kept
    collection.dtypes = [small if small.is_float else wide for small, wide in zip(narrow, kept, strict=True)]


def _narrow(flow: Flow) -> DType:
    return flow.origin or flow.dtype


def _parts(body: Body, collection: Collection, node: nodes.Yield) -> list[Number]:
    summed = bool(collection.kept) and collection.operator in ("add", "mul")
    value = evaluate(body, node.value, collection.kept[0] if summed else None)
    flat = list(_flat(value))
    if collection.kind is KernelType.SCAN and collection.fold is None and len(flat) != 1:
        raise fault("0408", "a scan yields one number", node.span, hint="use a kernel for each scan, or a function as the operator")
    for part in flat:
        if not isinstance(part, Number):
            raise fault("0408", "`yield` needs a number, or a tuple `(key, payload)`", node.span)
    return [part for part in flat if isinstance(part, Number)]


def _flat(value: object) -> list[object]:
    return [leaf for element in value.elements for leaf in _flat(element)] if isinstance(value, Tuple) else [value]


# ---- the walk that emits -------------------------------------------------------------------------------------------------


def nest(body: Body, collection: Collection, node: nodes.For) -> bool:
    """The hook on loops: those around the `yield`, reordered so that the scanned one stands innermost."""
    if not folds.yields(node):
        return False
    clauses, inner = folds.chain(node)
    first = len(collection.entered)
    further = any(isinstance(part, nodes.For) and folds.yields(part) for statement in inner.statements for part in walk(statement))
    order = list(range(len(clauses)))
    along = collection.axis - first
    if collection.kind is KernelType.SCAN and 0 <= along < len(clauses):
        if further:
            raise fault(
                "0109",
                "a scan along an outer loop with statements before the inner loop isn't supported yet",
                node.span,
                hint="move the statements into the innermost loop",
            )
        order = [axis for axis in order if axis != along] + [along]
    _enter(body, collection, clauses, order, first, inner)
    return True


def _enter(body: Body, collection: Collection, clauses: list[nodes.ForClause], order: list[int], first: int, inner: nodes.Block) -> None:
    if not order:
        run_block(body, inner)
        return
    axis, *rest = order
    clause = clauses[axis]
    low, high, step = loop_bounds(body, clause)
    scanned = collection.kind is KernelType.SCAN and first + axis == collection.axis
    if scanned:
        starts = folds.initial(body, collection.shape) or [_identity(collection)]
        values = [value_of(body.build, start, dtype) for start, dtype in zip(starts, collection.kept, strict=True)]
        collection.slots = [body.build.slot(value, "running") for value in values]
        if collection.reverse:
            low, high, step = (high - 1, low - 1, -1) if step > 0 else (high + 1, low + 1, 1)
    with body.build.loop(clause.names[0], low, high, step, (), "time", **body.marks.get(clause.span, {})) as (builder, handle):
        loop = loop_range(handle.variable.name, low, high, step)
        with body.at(builder), body.names.scope(), ranged(body, clause, loop):
            collection.entered[first + axis] = loop
            if has_jump(inner):
                with body.here.branch(body.construct(), 0):
                    _enter(body, collection, clauses, rest, first, inner)
            else:
                _enter(body, collection, clauses, rest, first, inner)
            del collection.entered[first + axis]


def _identity(collection: Collection) -> Number:
    kept = collection.kept[0]
    value = identity(collection.operator, kept)
    return literal(value) if kept is DType.BOOL else literal(value, kept)


def collect(body: Body, collection: Collection, node: nodes.Yield) -> None:
    """A `yield`: one element of the result."""
    parts = _parts(body, collection, node)
    build = body.build
    position = [_offset(collection.entered[axis], collection.loops[axis]) for axis in range(len(collection.loops))]
    if collection.kind is KernelType.SORT:
        for mem, part, dtype in zip(collection.results, parts, collection.dtypes, strict=True):
            build.store(mem, value_of(build, part, dtype), position)
        return
    old = [build.get(slot) for slot in collection.slots]
    new = _combined(body, collection, old, parts, node)
    for slot, mem, before, after, dtype in zip(collection.slots, collection.results, old, new, collection.dtypes, strict=True):
        build.set(slot, after)
        build.store(mem, build.cast(before if collection.exclusive else after, hir_name(dtype)), position)


def _combined(body: Body, collection: Collection, old: list[Value], parts: list[Number], node: nodes.Yield) -> list[Value]:
    if collection.fold is not None:
        return folds.combined(body, collection.fold, collection.shape, old, parts, collection.kept)
    kept, build = collection.kept[0], body.build
    if kept is DType.BOOL and parts[0].dtype is not DType.BOOL:
        new = as_truth(body, parts[0], node.value).value
    else:
        new = value_of(build, parts[0], kept)
    return [build.op(collection.operator, old[0], new, flags=accumulating(body, collection.operator, kept))]


def _offset(loop: NumberRange, written: NumberRange) -> Affine:
    """How many iterations the loop, as written, has behind it."""
    return Affine.of(loop.name) - written.low if written.step > 0 else written.low - loop.name


def finish(body: Body, collection: Collection) -> None:
    """Sort what was written."""
    if collection.kind is KernelType.SORT:
        keys, *payload = collection.results
        body.build.emit(Sort(keys=keys, payload=tuple(payload), axis=collection.axis, descending=collection.descending))
