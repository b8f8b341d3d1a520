"""Whole-tensor lines of fused kernels: `out = x - m`, `let m = reduce(max, x, axis=1, keepdims=true)`. Each becomes a nest over the
elements of what it assigns; operands broadcast as in NumPy. A `reduce` is computed first, into scratch memory or a number."""

from collections.abc import Callable, Sequence

from compiler.diagnostics import Diagnostic, Label
from compiler.hir.affine import Affine
from compiler.hir.types import Mem
from compiler.lowering import reductions
from compiler.lowering.arithmetic import accumulating, binary, kept_in
from compiler.lowering.body import Body, Fault, Memory, fault
from compiler.lowering.dtypes import hir_name, totalled
from compiler.lowering.flows import Flow
from compiler.lowering.indices import guard, load, note
from compiler.lowering.kernel import Equation
from compiler.lowering.numbers import Number, Operand, TensorOperand, typed, value_of
from compiler.lowering.ranges import loop_range
from compiler.lowering.walk import number
from compiler.lowering.words import words
from compiler.lowering.writes import result_flow
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk

Inside = Callable[[tuple[Affine, ...]], object]

_OPERATORS = ("+", "*", "min", "max", "and", "or", "any", "all", "mean")


KINDS = (KernelType.FUSED, None)
"""Kernels whose bodies may have such lines."""


# ---- lines -------------------------------------------------------------------------------------------------------------


def assign_whole(body: Body, target: nodes.Name, node: nodes.Assign, into: DType | None) -> None:
    """`out = e`, `x += e` of a whole tensor."""
    binding = body.names.lookup(target.name)
    assert binding is not None and isinstance(binding.value, TensorOperand)
    memory = body.memories[binding.value.name]
    if not memory.writable:
        raise fault(
            "0409",
            f"`{target.name}` is {binding.how}, and a kernel may not write it",
            target.span,
            hint=f"update it in place: `compute(mut {target.name})`",
            others=(Label(binding.span, f"`{target.name}` is {'an input' if memory.role == 'input' else 'no input'} of this block"),),
        )
    _prepare_reductions(body, node.value)
    shape = _shape(body, node.value)
    if memory.open:
        if not shape:
            raise fault(
                "0203", f"`{target.name}` gets one number: a kernel writes elements", node.span, hint=f"write `{target.name}[0] = ...`"
            )
        memory.settle_rank(len(shape))
    if len(shape) > len(memory.dims):
        raise _misfit(target, node.value, memory.dims, shape, node.span)
    dims = shape if memory.role == "result" and not body.final and len(shape) == len(memory.dims) else memory.dims
    for have, want in zip(shape, memory.dims[len(memory.dims) - len(shape) :], strict=True):
        if memory.role != "result" or body.final:
            require_equal(body, have, want, node.span, target.name)
    _nest(body, dims, lambda index: _store(body, memory, index, target, node, into))


def _store(body: Body, memory: Memory, index: tuple[Affine, ...], target: nodes.Name, node: nodes.Assign, into: DType | None) -> None:
    value = _at(body, index, node.value, memory.dtype if node.operator is not None else into)
    flowing = value
    if node.operator is not None:
        value = binary(body, node.operator, load(body, memory, index, target, (), into), value, node)
    note(body, memory, index, target, (), is_write=True, accumulates=node.operator is not None, number=flowing)
    if memory.role == "result":
        result_flow(body, memory.name, flowing)
    if value.dtype.is_float and not memory.dtype.is_float and (body.final or memory.role != "result"):
        raise fault(
            "0207",
            f"`{words(node.value)}` is {value.shown}, which doesn't fit {memory.dtype.value} without loss",
            node.value.span,
            hint=f"convert it: `({words(node.value)}) as {memory.dtype.value}`",
        )
    if body.final:
        guard(body, memory, index, target, ())
    body.build.store(memory.value, value_of(body.build, value, memory.dtype), index)


def let_whole(body: Body, node: nodes.Let, into: DType | None) -> bool:
    """`let t = e` of a whole tensor: scratch memory. False where the value is a number."""
    if node.value is None or not isinstance(node.pattern, nodes.BindingPattern) or not _mentions_tensor(body, node.value):
        return False
    _prepare_reductions(body, node.value)
    shape = _shape(body, node.value)
    if not shape:
        return False
    reduced = body.reduced.get(id(node.value))
    if isinstance(reduced, TensorOperand):
        body.memories[reduced.name].called = node.pattern.name
        body.names.bind(node.pattern.name, reduced, node.pattern.span, "a `let`")
        return True
    key = ("temporary", node.span.start)
    dtype = body.flows.before(key, DType.F32).dtype
    memory = _scratch(body, node.pattern.name, dtype, shape, node.span)

    def store(index: tuple[Affine, ...]) -> None:
        value = _at(body, index, node.value, into)  # type: ignore[arg-type]
        body.flows.new[key] = Flow(value.dtype, value.weak, value.origin)
        body.build.store(memory.value, value_of(body.build, value, memory.dtype), index)

    _nest(body, shape, store)
    body.names.bind(node.pattern.name, TensorOperand(memory.name), node.pattern.span, "a `let`")
    return True


def _scratch(body: Body, name: str, dtype: DType, shape: tuple[Affine, ...], span: Span) -> Memory:
    value = body.owner.value(name, Mem(hir_name(dtype), shape))
    body.workspaces.append((value, dtype, shape))
    memory = Memory(value.name, value, dtype, shape, "workspace", True, shape=shape, span=span, called=name)
    body.memories[value.name] = memory
    return memory


# ---- elements ----------------------------------------------------------------------------------------------------------


def _nest(body: Body, dims: Sequence[Affine], inside: Inside) -> None:
    """A nest over the dims around what `inside` emits for one index."""

    def go(index: tuple[Affine, ...]) -> None:
        if len(index) == len(dims):
            inside(index)
            return
        if dims[len(index)].value == 1:
            go((*index, Affine()))
            return
        with body.build.loop(f"e{len(index)}", 0, dims[len(index)]) as (inner, handle):
            loop = loop_range(handle.variable.name, Affine(), dims[len(index)], 1)
            mark, depth = body.here.facts.mark(), len(body.here.ranges)
            with body.at(inner):
                body.here.enter_range(loop)
                body.here.depth += 1
                go((*index, Affine.of(loop.name)))
                body.here.depth -= 1
            body.here.facts.forget(mark)
            del body.here.ranges[depth:]

    go(())


def _at(body: Body, index: tuple[Affine, ...], node: nodes.Expression, into: DType | None) -> Number:
    """The expression's element at the index."""
    before, body.here.element = body.here.element, index
    try:
        return number(body, node, into)
    finally:
        body.here.element = before


def _mentions_tensor(body: Body, node: nodes.Expression) -> bool:
    match node:
        case nodes.Name(name=name):
            binding = body.names.lookup(name)
            return binding is not None and isinstance(binding.value, TensorOperand) and body.memories[binding.value.name].role != "array"
        case nodes.Index():
            return False
        case nodes.Call(function=nodes.Name(name="reduce")):
            return True
        case nodes.Call(arguments=arguments, function=nodes.Name(name=name)):
            return name != "len" and any(_mentions_tensor(body, argument.value) for argument in arguments)
        case nodes.Binary(left=left, right=right):
            return _mentions_tensor(body, left) or _mentions_tensor(body, right)
        case nodes.Unary(operand=operand):
            return _mentions_tensor(body, operand)
        case nodes.Cast(value=value):
            return _mentions_tensor(body, value)
        case nodes.Conditional(condition=a, then=b, otherwise=c):
            return any(_mentions_tensor(body, part) for part in (a, b, c))
        case _:
            return False


def _shape(body: Body, node: nodes.Expression) -> tuple[Affine, ...]:
    """The shape of a whole-tensor expression; empty for a number."""
    match node:
        case nodes.Name(name=name):
            binding = body.names.lookup(name)
            return body.memories[binding.value.name].dims if binding is not None and isinstance(binding.value, TensorOperand) else ()
        case nodes.Call(function=nodes.Name(name="reduce")):
            reduced = body.reduced.get(id(node))
            return body.memories[reduced.name].dims if isinstance(reduced, TensorOperand) else ()
        case nodes.Call(arguments=arguments):
            return _common(body, [_shape(body, argument.value) for argument in arguments], node)
        case nodes.Binary(operator="@"):
            raise fault("0109", "`@` of whole tensors isn't supported yet in a kernel", node.span, hint="write the sum as a loop")
        case nodes.Binary(left=left, right=right):
            return _common(body, [_shape(body, left), _shape(body, right)], node)
        case nodes.Unary(operand=operand):
            return _shape(body, operand)
        case nodes.Cast(value=value):
            return _shape(body, value)
        case nodes.Conditional(condition=a, then=b, otherwise=c):
            return _common(body, [_shape(body, part) for part in (a, b, c)], node)
        case _:
            return ()


def _common(body: Body, shapes: Sequence[tuple[Affine, ...]], node: nodes.Expression) -> tuple[Affine, ...]:
    """The shapes broadcast against each other."""
    rank = max((len(shape) for shape in shapes), default=0)
    dims: list[Affine] = [Affine((), 1)] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            if dim.value == 1:
                continue
            if dims[axis].value == 1:
                dims[axis] = dim
            else:
                require_equal(body, dim, dims[axis], node.span, words(node))
    return tuple(dims)


def require_equal(body: Body, have: Affine, want: Affine, span: Span, text: str) -> None:
    """Two extents must be one: known now, or asked at launch."""
    if have == want or not body.final:
        return
    if have.value is not None and want.value is not None:
        if have.value == 1:
            return
        raise fault(
            "0301",
            f"shapes in `{text}` don't fit: an axis has {want} and {have} elements",
            span,
            hint="axes align from the last; one of 1 repeats",
        )
    if body.here.facts.proves_equal(have, want):
        return
    body.equations.append(
        Equation(
            want,
            have,
            "==",
            Diagnostic(
                "0802", f"shapes in `{text}` don't fit: an axis has {{left}} and {{right}} elements", span, hint="axes align from the last"
            ),
        )
    )


def _misfit(target: nodes.Name, value: nodes.Expression, have: Sequence[Affine], want: Sequence[Affine], span: Span) -> Fault:
    return fault("0301", f"`{words(value)}` has {len(want)} axes, but `{target.name}` has {len(have)}", span)


# ---- reductions --------------------------------------------------------------------------------------------------------


def _prepare_reductions(body: Body, node: nodes.Expression) -> None:
    """Compute every `reduce` of the expression before the nest that reads it, innermost first."""
    for part in reversed(list(walk(node))):
        if isinstance(part, nodes.Call) and isinstance(part.function, nodes.Name) and part.function.name == "reduce":
            body.reduced[id(part)] = _reduce(body, part)


def reduced(body: Body, node: nodes.Call) -> Operand:
    """A `reduce` where its value is needed."""
    if id(node) not in body.reduced:
        _prepare_reductions(body, node)
    return body.reduced[id(node)]


def _reduce(body: Body, node: nodes.Call) -> Operand:
    """`reduce(op, x, axis=, keepdims=)`: a number, or scratch memory."""
    positional = [argument.value for argument in node.arguments if argument.name is None]
    named = {argument.name: argument.value for argument in node.arguments if argument.name is not None}
    if len(positional) != 2 or set(named) - {"axis", "keepdims"}:
        raise fault(
            "0204", "`reduce` takes an operator, a tensor, and `axis=`, `keepdims=`", node.span, hint="write `reduce(max, x, axis=1)`"
        )
    operator = _operator(positional[0])
    source = positional[1]
    shape = _shape(body, source)
    if not shape:
        raise fault("0203", f"`{words(source)}` is a number: there is nothing to reduce", source.span)
    axes = _axes(body, named.get("axis"), len(shape), node)
    keepdims = isinstance(named.get("keepdims"), nodes.BoolLiteral) and named["keepdims"].value  # type: ignore[attr-defined]
    summed = tuple(Affine((), 1) if axis in axes else dim for axis, dim in enumerate(shape))
    dims = summed if keepdims else tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
    key = ("reduced", node.span.start)
    narrow = body.flows.before(key, DType.F32).dtype
    dtype = _kept_dtype(body, operator, narrow)
    if operator in ("min", "max") and body.final:
        asked = tuple(dim for axis, dim in enumerate(shape) if axis not in axes)
        for axis in axes:
            body.equations.append(
                Equation(
                    shape[axis],
                    Affine((), 1),
                    ">=",
                    Diagnostic(
                        "0803", f"`reduce({operator})` of nothing: axis {axis} of `{words(source)}` has {{left}} elements", node.span
                    ),
                    asked,
                )
            )
    memory = _scratch(body, "reduced", dtype, dims, node.span)
    start = reductions.constant(body.build, operator, dtype)
    _nest(body, dims, lambda index: body.build.store(memory.value, start, index))

    def step(index: tuple[Affine, ...]) -> None:
        value = _at(body, index, source, dtype if operator in ("add", "mul", "mean") else None)
        body.flows.join(key, Number(value.origin or value.dtype, weak=value.weak and value.origin is None))
        index_ = _left(index, axes, keepdims)
        old = body.build.load(memory.value, index_)
        name = {"any": "or", "all": "and", "mean": "add"}.get(operator, operator)
        flags = accumulating(body, name, dtype)
        body.build.store(memory.value, body.build.op(name, old, value_of(body.build, value, dtype), flags=flags), index_)

    _nest(body, shape, step)
    if operator == "mean":
        _nest(body, dims, lambda index: _divide(body, memory, index, [shape[axis] for axis in axes]))
    if dims:
        return TensorOperand(memory.name)
    return typed(body.build.load(memory.value, ()), dtype, narrow if narrow.is_float else dtype)


def _kept_dtype(body: Body, operator: str, narrow: DType) -> DType:
    if operator in ("any", "all"):
        return DType.BOOL
    if operator == "mean":
        return kept_in(body, narrow) if narrow.is_float else DType.F64
    return kept_in(body, narrow, totalled) if operator in ("add", "mul") else narrow


def _left(index: tuple[Affine, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[Affine, ...]:
    if keepdims:
        return tuple(Affine() if axis in axes else form for axis, form in enumerate(index))
    return tuple(form for axis, form in enumerate(index) if axis not in axes)


def _divide(body: Body, memory: Memory, index: tuple[Affine, ...], extents: Sequence[Affine]) -> None:
    build = body.build
    count = build.const(1, "index")
    for extent in extents:
        count = build.op("mul", count, build.index(extent))
    total = build.load(memory.value, index)
    build.store(memory.value, build.op("div", total, build.cast(count, hir_name(memory.dtype))), index)


def _operator(node: nodes.Expression) -> str:
    word = node.operator if isinstance(node, nodes.OperatorValue) else node.name if isinstance(node, nodes.Name) else ""
    if word not in _OPERATORS:
        raise fault(
            "0401", f"`{words(node)}` is no operator of `reduce` over a whole tensor", node.span, hint="one of " + " ".join(_OPERATORS)
        )
    return {"+": "add", "*": "mul"}.get(word, word)


def _axes(body: Body, node: nodes.Expression | None, rank: int, call: nodes.Call) -> tuple[int, ...]:
    if node is None:
        return tuple(range(rank))
    parts = node.elements if isinstance(node, nodes.TupleLiteral) else (node,)
    axes = []
    for part in parts:
        axis = number(body, part).constant
        if axis is None or not -rank <= axis < rank:
            raise fault(
                "0307",
                f"axis `{words(part)}` is outside the {rank} axes of `{words(call.arguments[1].value)}`",
                part.span,
                f"valid: {-rank} to {rank - 1}",
            )
        axes.append(axis % rank)
    return tuple(sorted(set(axes)))
