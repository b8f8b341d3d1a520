"""`yield` in reduce kernels: what is combined, over which loops, into a number or into the axes that are left.

A whole reduction keeps slots; one with `axis=` fills its result with the identity first and then combines into it at the index of
the loops that are left, as written. Sums in a wider type than the result's go through scratch memory. A function as the operator is
in `folds`."""

from collections.abc import Callable, Mapping, Sequence

from compiler.diagnostics import Diagnostic
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Combine
from compiler.hir.instruction import Value
from compiler.lowering import folds
from compiler.lowering.arithmetic import accumulating, form_of, kept_in
from compiler.lowering.body import Body, fault
from compiler.lowering.conditions import as_truth
from compiler.lowering.dtypes import highest, hir_name, lowest, totalled
from compiler.lowering.kernel import Equation
from compiler.lowering.numbers import Number, Operand, Tuple, literal, value_of
from compiler.lowering.ranges import NumberRange, extreme
from compiler.lowering.walk import evaluate
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from runtime.records import Factory, define, frozen

_OPERATORS = {
    "+": "add",
    "sum": "add",
    "add": "add",
    "*": "mul",
    "prod": "mul",
    "mul": "mul",
    "min": "min",
    "max": "max",
    "and": "and",
    "or": "or",
    "any": "or",
    "all": "and",
    "mean": "mean",
    "argmin": "argmin",
    "argmax": "argmax",
    folds.FUNCTION: folds.FUNCTION,
}
_LARGEST_INDEX = (1 << 63) - 1


@frozen
class Component:
    """One number of what is yielded: `kept` is the type it is combined in, `result` the type it comes back in."""

    kept: DType
    result: DType


@define(eq=False)
class Reduction:
    """`axes` None: all loops. `operators` one a component of a tuple, or one for all."""

    operators: tuple[str, ...]
    axes: tuple[int, ...] | None
    keepdims: bool
    span: Span
    components: list[Component] = Factory(list)
    index_parts: int = 0
    index_types: list[DType] = Factory(list)
    loops: tuple[NumberRange, ...] = ()
    names: tuple[str, ...] = ()
    """What the program calls the variables of `loops`."""
    slots: list[Value] = Factory(list)
    kept: list[Value] = Factory(list)
    results: list[Value] = Factory(list)
    seen: Span | None = None
    is_tuple: bool = False
    fold: folds.Combination | None = None
    shape: Operand = literal(0)
    """A value of the kind that is yielded."""
    entered: dict[int, NumberRange] = Factory(dict)
    opened: bool = False
    has_start: bool = False
    """Whether `init=` says what a reduction of nothing is."""
    strides: list[Affine] = Factory(list)
    starts: list[Affine] = Factory(list)

    @property
    def operator(self) -> str:
        return self.operators[0]

    @property
    def is_arg(self) -> bool:
        return self.operator in ("argmin", "argmax")

    def of(self, component: int) -> str:
        return self.operators[component] if len(self.operators) > 1 else self.operators[0]

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(range(len(self.loops))) if self.axes is None else self.axes

    @property
    def left(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(len(self.loops)) if axis not in self.reduced)

    @property
    def is_number(self) -> bool:
        """Whether the value is a number rather than a tensor."""
        return not self.left and not self.keepdims

    def open(self, body: Body) -> None:
        """Slots for one element of the result."""
        self.opened = True
        self.slots = [body.build.slot(start, "total") for start in _starts(body, self)]

    def close(self, body: Body) -> None:
        """Stores the element that the loops around belong to."""
        index = _position(body, self, self.entered)
        _hand_over(body.build, self, [body.build.get(slot) for slot in self.slots], index)
        self.slots = []

    def result_dims(self) -> tuple[Affine, ...]:
        if self.keepdims:
            return tuple(Affine((), 1) if axis in self.reduced else self.loops[axis].extent for axis in range(len(self.loops)))
        return tuple(self.loops[axis].extent for axis in self.left)


def reduction_of(body: Body, span: Span) -> Reduction:
    """The options of `@kernel(reduce, ...)` as the block writes them."""
    given = body.kernel.option("op", "+")
    fold = folds.fold_of(body)
    if fold is not None:
        given = folds.FUNCTION
    names = tuple(str(axis_name) for axis_name in given) if isinstance(given, (tuple, list)) else (str(given),)
    for name in names:
        if name not in _OPERATORS:
            raise fault("0401", f"`{name}` is no operator of `reduce`", span, hint="one of + * min max and or any all mean argmin argmax")
    operators = tuple(_OPERATORS[name] if name not in ("any", "all") else name for name in names)
    axis = body.kernel.option("axis")
    axes = None if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    has_start = body.kernel.option("init") is not None
    return Reduction(operators, axes, bool(body.kernel.option("keepdims", False)), span, fold=fold, has_start=has_start)


# ---- the walk that finds out ---------------------------------------------------------------------------------------------


def survey(body: Body, reduction: Reduction, node: nodes.Yield) -> None:
    """A `yield` in a walk that only finds out types and loops."""
    value = _yielded(body, reduction, node.value)
    parts = _parts(reduction, value, node)
    loops = tuple(loop for _, loop in body.here.loops)
    if reduction.seen is not None and len(loops) != len(reduction.loops):
        raise fault("0408", "two `yield`s stand in different numbers of loops", node.span, hint="yield from one nest")
    reduction.loops, reduction.seen = loops, node.span
    reduction.names = tuple(name for name, _ in body.here.loops)
    reduction.is_tuple = isinstance(value, Tuple)
    _normalise_axes(reduction)
    if not reduction.is_arg:
        reduction.shape = value if isinstance(value, Tuple) else parts[0]
        kept = folds.survey(body, reduction.fold, reduction.shape)
        if reduction.fold is not None:
            flows = [body.flows.new["yield", number] for number in range(len(parts))]
            reduction.components = [
                Component(dtype, flow.origin or flow.dtype if dtype.is_float else dtype) for dtype, flow in zip(kept, flows, strict=True)
            ]
            return
    components = []
    for number, part in enumerate(parts):
        components.append(_component(body, reduction, number, part, node))
        if reduction.is_arg:
            break
    reduction.components = components
    if reduction.is_arg:
        _survey_index(body, reduction, parts, node)


def _yielded(body: Body, reduction: Reduction, node: nodes.Expression) -> Operand:
    """What is yielded, each number of a tuple in the type of its own sum."""
    if isinstance(node, nodes.TupleLiteral) and not reduction.is_arg:
        return Tuple(tuple(_term(body, reduction, number, element) for number, element in enumerate(node.elements)))
    return _term(body, reduction, 0, node)


def _term(body: Body, reduction: Reduction, number: int, node: nodes.Expression) -> Operand:
    summed = number < len(reduction.components) and reduction.of(number) in ("add", "mul", "mean")
    return evaluate(body, node, reduction.components[number].kept if summed else None)


def _parts(reduction: Reduction, value: Operand, node: nodes.Yield) -> list[Number]:
    """The numbers yielded: (value, index...) flattened for argmin and argmax."""
    if reduction.is_arg:
        if not isinstance(value, Tuple) or len(value.elements) != 2:
            raise fault("0408", f"`reduce({reduction.operator})` needs `yield (value, index)`", node.span, hint="write `yield (x[i], i)`")
        first, index = value.elements
        flat = [first, *(index.elements if isinstance(index, Tuple) else (index,))]
    else:
        flat = list(value.elements) if isinstance(value, Tuple) else [value]
    for part in flat:
        if not isinstance(part, Number):
            raise fault("0408", "`yield` needs a number, or a tuple of numbers", node.span)
    if len(reduction.operators) > 1 and len(flat) != len(reduction.operators):
        raise fault("0408", f"{len(reduction.operators)} operators need a tuple of as many numbers", node.span)
    return [part for part in flat if isinstance(part, Number)]


def _component(body: Body, reduction: Reduction, number: int, part: Number, node: nodes.Yield) -> Component:
    operator = reduction.of(number)
    flow = body.flows.join(("yield", number), part)
    narrow = flow.origin or flow.dtype
    if operator in ("any", "all") or (operator in ("and", "or") and narrow is DType.BOOL):
        return Component(DType.BOOL, DType.BOOL)
    if operator in ("and", "or"):
        if narrow.is_float:
            raise fault("0208", f"`reduce({operator})` needs bools or ints: this is {part.shown}", node.value.span)
        return Component(narrow, narrow)
    if operator == "mean":
        return Component(kept_in(body, narrow), narrow) if narrow.is_float else Component(DType.F64, DType.F64)
    if operator in ("add", "mul"):
        combined_in = kept_in(body, narrow, totalled)
        return Component(combined_in, narrow if narrow.is_float else combined_in)
    return Component(narrow, narrow)


def _normalise_axes(reduction: Reduction) -> None:
    if reduction.axes is None:
        return
    rank = len(reduction.loops)
    axes = []
    for axis in reduction.axes:
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise fault(
                "0307",
                f"axis {axis} is outside the {rank} {'loop' if rank == 1 else 'loops'} around `yield`",
                reduction.span,
                hint=f"valid: {-rank} to {rank - 1}" if rank else None,
            )
        axes.append(axis % rank)
    if len(set(axes)) != len(axes):
        raise fault("0307", "an axis is named twice", reduction.span)
    reduction.axes = tuple(sorted(axes))


def _survey_index(body: Body, reduction: Reduction, parts: list[Number], node: nodes.Yield) -> None:
    index = parts[1:]
    for part in index:
        if not part.dtype.is_int:
            raise fault("0407", f"the index that `reduce({reduction.operator})` yields is {part.shown}, not an int", node.value.span)
    reduction.index_parts = len(index)
    if len(index) == 1:
        return
    reduction.starts, reduction.strides = [], []
    for part in index:
        low = extreme(part.form, body.here.ranges, upper=False) if part.form is not None else None
        high = extreme(part.form, body.here.ranges, upper=True) if part.form is not None else None
        varying = {loop.name for loop in body.here.ranges} | body.here.opaque
        if low is None or high is None or any(name in varying for name in (*low.names, *high.names)):
            raise fault(
                "0109",
                "an index tuple of values isn't supported yet in `argmin` and `argmax`",
                node.value.span,
                hint="yield loop variables, `(x[i, j], (i, j))`",
            )
        reduction.starts.append(low)
        reduction.strides.append(high - low + 1)


# ---- the walk that emits -------------------------------------------------------------------------------------------------


def identity(operator: str, dtype: DType) -> float | int | bool:
    """What changes nothing when it is combined."""
    match operator:
        case "add" | "mean":
            return 0
        case "mul":
            return 1
        case "min" | "argmin":
            return highest(dtype)
        case "max" | "argmax":
            return lowest(dtype)
        case "any" | "or":
            return False if dtype is DType.BOOL else 0
        case _:
            return True if dtype is DType.BOOL else -1


def constant(build: Builder, operator: str, dtype: DType) -> Value:
    value = identity(operator, dtype)
    return value_of(build, literal(value) if dtype is DType.BOOL else literal(value, dtype), dtype)


def kept_dtypes(reduction: Reduction) -> list[DType]:
    """Types of what is carried: each component, then the linear index of argmin and argmax."""
    return [component.kept for component in reduction.components] + ([DType.I64] if reduction.is_arg else [])


def prepare(body: Body, reduction: Reduction) -> None:
    """Start every accumulator at its identity: slots, or a nest over the result."""
    if reduction.fold is not None and reduction.left:
        return
    starts = _starts(body, reduction)
    if reduction.is_arg:
        starts.append(body.build.const(_LARGEST_INDEX, "i64"))
    if not reduction.left:
        reduction.slots = [body.build.slot(start, "total") for start in starts]
        return
    _over_result(
        body, reduction, lambda build, index: [build.store(mem, start, index) for mem, start in zip(reduction.kept, starts, strict=True)]
    )


def _starts(body: Body, reduction: Reduction) -> list[Value]:
    """What each component starts with."""
    given = None if reduction.is_arg else folds.initial(body, reduction.shape)
    if given is not None:
        return [_entry_of(body, c, number) for c, number in zip(reduction.components, given, strict=True)]
    return [constant(body.build, reduction.of(n), c.kept) for n, c in enumerate(reduction.components)]


def _over_result(body: Body, reduction: Reduction, inside: "Callable[[Builder, list[Affine]], object]") -> None:
    """A nest over the result's elements."""

    def nest(build: Builder, axis: int, index: list[Affine]) -> None:
        if axis == len(dims):
            inside(build, index)
            return
        with build.loop(f"r{axis}", 0, dims[axis]) as (inner, handle):
            nest(inner, axis + 1, [*index, Affine.of(handle.variable.name)])

    dims = reduction.result_dims()
    nest(body.build, 0, [])


def combine(body: Body, reduction: Reduction, node: nodes.Yield) -> None:
    """A `yield`: read what is kept, combine, write it back."""
    value = _yielded(body, reduction, node.value)
    parts = _parts(reduction, value, node)
    build = body.build
    if reduction.fold is not None:
        kept = [component.kept for component in reduction.components]
        totals = [build.get(slot) for slot in reduction.slots]
        for slot, total in zip(reduction.slots, folds.combined(body, reduction.fold, reduction.shape, totals, parts, kept), strict=True):
            build.set(slot, total)
        return
    new = [_entry(body, reduction, n, parts[n], node) for n in range(len(reduction.components))]
    if reduction.is_arg:
        new.append(_linear(body, reduction, parts[1:]))
    position = _position(body, reduction, dict(enumerate(loop for _, loop in body.here.loops)))
    if reduction.slots:
        old = [build.get(slot) for slot in reduction.slots]
    else:
        old = [build.load(mem, position) for mem in reduction.kept]
    if reduction.is_arg:
        combined = list(build.emit(Combine(monoid=reduction.operator, operands_=(*old, *new))).results)
    else:
        combined = [
            _combined(body, reduction.of(n), a, b, c.kept) for n, (a, b, c) in enumerate(zip(old, new, reduction.components, strict=True))
        ]
    for n, result in enumerate(combined):
        if reduction.slots:
            build.set(reduction.slots[n], result)
        else:
            build.store(reduction.kept[n], result, position)


def _entry(body: Body, reduction: Reduction, number: int, part: Number, node: nodes.Yield) -> Value:
    return _entry_of(body, reduction.components[number], part, node.value)


def _entry_of(body: Body, component: Component, part: Number, node: nodes.Expression | None = None) -> Value:
    if component.kept is DType.BOOL and part.dtype is not DType.BOOL:
        return as_truth(body, part, node or nodes.IntLiteral(value=0)).value
    return value_of(body.build, part, component.kept)


def _combined(body: Body, operator: str, old: Value, new: Value, dtype: DType) -> Value:
    name = {"any": "or", "all": "and", "mean": "add"}.get(operator, operator)
    return body.build.op(name, old, new, flags=accumulating(body, name, dtype))


def _linear(body: Body, reduction: Reduction, index: list[Number]) -> Value:
    """An index tuple as one number that orders like the tuple."""
    if len(index) == 1:
        return value_of(body.build, index[0], DType.I64)
    build = body.build
    total: Value | None = None
    for part, start, extent in zip(index, reduction.starts, reduction.strides, strict=True):
        assert part.form is not None
        position = build.index(part.form - start)
        total = position if total is None else build.add(build.mul(total, build.index(extent)), position)
    assert total is not None
    return build.cast(total, "i64")


def _position(body: Body, reduction: Reduction, loops: Mapping[int, NumberRange]) -> list[Affine]:
    """Index into the result of the iteration that yields, whose loops these are, by axes."""
    forms: list[Affine] = []
    for axis in range(len(reduction.loops)):
        if axis in reduction.reduced:
            if reduction.keepdims:
                forms.append(Affine())
            continue
        loop = loops[axis]
        offset = Affine.of(loop.name) - loop.low if loop.step > 0 else loop.low - loop.name
        if abs(loop.step) != 1:
            offset = form_of(body, Number(DType.I64, form=offset.floordiv(abs(loop.step))))
            offset = Affine.of(body.build.index(offset).name)
        forms.append(offset)
    return forms


def finish(body: Body, reduction: Reduction) -> None:
    """Hand the accumulators over to the results: means are divided, sums rounded, indices taken apart."""
    if reduction.fold is not None and reduction.left:
        return
    if reduction.slots:
        index = [Affine()] * len(reduction.result_dims())
        _hand_over(body.build, reduction, [body.build.get(slot) for slot in reduction.slots], index)
        return
    if (
        all(dtype is result for dtype, result in zip(reduction.kept, reduction.results, strict=False))
        and len(reduction.kept) == len(reduction.results)
        and "mean" not in reduction.operators
    ):
        return
    _over_result(body, reduction, lambda build, at: _hand_over(build, reduction, [build.load(mem, at) for mem in reduction.kept], at))


def _hand_over(build: Builder, reduction: Reduction, totals: list[Value], index: Sequence[Affine]) -> None:
    for n, component in enumerate(reduction.components):
        value = totals[n]
        if reduction.of(n) == "mean":
            value = build.op("div", value, _count(build, reduction, component.kept))
        build.store(reduction.results[n], build.cast(value, hir_name(component.result)), index)
    if not reduction.is_arg:
        return
    linear = totals[-1]
    parts: list[Value] = []
    if reduction.index_parts == 1:
        parts = [linear]
    else:
        rest = build.cast(linear, "index")
        for start, extent in reversed(list(zip(reduction.starts, reduction.strides, strict=True))):
            size = build.op("max", build.index(extent), build.const(1, "index"))
            digit = build.op("rem", rest, size)
            rest = build.op("div", rest, size)
            parts.insert(0, build.cast(build.add(digit, build.index(start)), "i64"))
    for mem, part, dtype in zip(reduction.results[len(reduction.components) :], parts, reduction.index_types, strict=True):
        build.store(mem, build.cast(part, hir_name(dtype)), index)


def _count(build: Builder, reduction: Reduction, dtype: DType) -> Value:
    total: Value | None = None
    for axis in reduction.reduced:
        extent = build.index(reduction.loops[axis].extent)
        total = extent if total is None else build.mul(total, extent)
    return build.cast(total, hir_name(dtype)) if total is not None else value_of(build, literal(1), dtype)


def emptiness(reduction: Reduction, at_launch: "Callable[[Affine], Affine]") -> list[Equation]:
    """min, max, argmin and argmax of nothing are errors (0803), where anything is asked for at all."""
    refuses = any(operator in ("min", "max", "argmin", "argmax") for operator in reduction.operators)
    if reduction.has_start or not refuses or not reduction.loops:
        return []
    names = {loop.name for loop in reduction.loops}
    if any(name in names for loop in reduction.loops for name in (*loop.low.names, *loop.last.names)):
        return []
    asked = tuple(at_launch(reduction.loops[axis].extent) for axis in reduction.left)
    shown = next(operator for operator in reduction.operators if operator in ("min", "max", "argmin", "argmax"))
    return [
        Equation(
            at_launch(reduction.loops[axis].extent),
            Affine((), 1),
            ">=",
            Diagnostic(
                "0803",
                f"`reduce({shown})` of nothing: the loop over `{reduction.names[axis]}` runs {{left}} times",
                reduction.seen,
                hint="give it at least one element, or reduce with `+`",
            ),
            asked,
        )
        for axis in reduction.reduced
    ]
