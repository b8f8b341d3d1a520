"""Arrays of fixed size in kernel bodies, `var s: [f32; 16] = [0.0; 16]`: memory of the iteration that declares them. They are values:
what is assigned, or bound to a name, is copied. `passes/arrays_to_slots.py` keeps the elements of small ones in variables."""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TypeGuard

from compiler.hir.affine import Affine
from compiler.hir.memory import Alloc
from compiler.hir.types import Mem, Space
from compiler.lowering.bindings import Binding
from compiler.lowering.body import Body, Memory, fault
from compiler.lowering.declared_types import resolved
from compiler.lowering.dtypes import hir_name, keeps_value, scalar_named
from compiler.lowering.flows import Key
from compiler.lowering.indices import load
from compiler.lowering.numbers import Number, Operand, TensorOperand, Tuple, literal, meet, typed, value_of
from compiler.lowering.walk import as_number, evaluate, lowers, number
from compiler.lowering.words import words
from compiler.lowering.writes import require_writable, variable_flow
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from runtime.records import frozen

MOST_PARTS = 64
"""Elements of an array that are taken apart."""
MOST_BYTES = 16 * 1024
"""Of one array: every thread of a GPU has its own, in memory that is as large as all threads need at once."""


@frozen(eq=False)
class Repeated:
    """`[e; N]`."""

    count: int
    element: "Elements"


@frozen(eq=False)
class Listed:
    """`[a, b, c]`."""

    elements: "tuple[Elements, ...]"


Elements = Number | TensorOperand | Repeated | Listed
"""What an array is made of: numbers, another array, or more of those."""


def is_array(operand: Operand, body: Body) -> TypeGuard[TensorOperand]:
    return isinstance(operand, TensorOperand) and body.memories[operand.name].role == "array"


# ---- types ---------------------------------------------------------------------------------------------------------------


def written_type(body: Body, annotation: nodes.TypeSyntax | None) -> nodes.ArrayTypeSyntax | None:
    """The array type that is written, also by an alias."""
    if annotation is None:
        return None
    found = resolved(body, annotation, {})
    return found if isinstance(found, nodes.ArrayTypeSyntax) else None


def _declared(body: Body, written: nodes.ArrayTypeSyntax) -> tuple[tuple[int, ...], DType]:
    """The extents and the elements' type that a type says."""
    dims = [_count(body, written.size)]
    element = resolved(body, written.element, {})
    while isinstance(element, nodes.ArrayTypeSyntax):
        dims.append(_count(body, element.size))
        element = resolved(body, element.element, {})
    dtype = scalar_named(element)
    if dtype is None:
        raise fault("0410", "an array in a kernel holds numbers", element.span, hint="use an array for each number of the elements")
    return tuple(dims), dtype


def _count(body: Body, node: nodes.Expression) -> int:
    with body.here.sizing(node):
        extent = number(body, node)
    count = extent.constant
    if count is None and extent.dtype.is_int:
        if extent.form is not None and all(map(body.is_of_launch, extent.form.names)):
            body.factors.update(extent.form.names)
        raise fault(
            "0303",
            f"the extent `{words(node)}` of an array isn't known when the kernel is launched",
            node.span,
            hint="write a number, a size, or an int from before the block",
        )
    if count is None or count < 0:
        shown = f"`{words(node)}` is {extent.shown if count is None else count}"
        raise fault("0203", f"the extent of an array is an int that isn't negative: {shown}", node.span, hint="write a number")
    return count


# ---- values --------------------------------------------------------------------------------------------------------------


@lowers(nodes.Repeat, nodes.ListLiteral)
def _literal(body: Body, node: nodes.Repeat | nodes.ListLiteral, into: DType | None) -> Operand:
    """An array that is written out, in memory of its own."""
    return TensorOperand(_made(body, _elements(body, node, None), None, node.span, "an array").name)


def _elements(body: Body, node: nodes.Expression, into: DType | None) -> Elements:
    match node:
        case nodes.Repeat(element=element, count=count):
            return Repeated(_count(body, count), _elements(body, element, into))
        case nodes.ListLiteral(elements=elements):
            if not elements:
                raise fault("0203", "an array in a kernel has at least one element", node.span)
            listed = Listed(tuple(_elements(body, element, into) for element in elements))
            shapes = [_shape(body, element) for element in listed.elements]
            if any(shape != shapes[0] for shape in shapes):
                raise fault("0301", "elements of an array have one shape, and these have several", node.span)
            return listed
        case _:
            operand = evaluate(body, node, into)
            if isinstance(operand, TensorOperand) and is_array(operand, body):
                return operand
            return as_number(body, operand, node)


def _shape(body: Body, elements: Elements) -> tuple[int, ...]:
    match elements:
        case Repeated(count=count, element=element):
            return (count, *_shape(body, element))
        case Listed(elements=parts):
            return (len(parts), *_shape(body, parts[0]))
        case TensorOperand(name=name):
            return extents_of(body.memories[name])
        case _:
            return ()


def extents_of(memory: Memory) -> tuple[int, ...]:
    return tuple(dim.value or 0 for dim in memory.dims)


def _leaves(body: Body, elements: Elements) -> list[Number]:
    """The numbers that are elements; of another array one of its type."""
    match elements:
        case Repeated(element=element):
            return _leaves(body, element)
        case Listed(elements=parts):
            return [leaf for part in parts for leaf in _leaves(body, part)]
        case TensorOperand(name=name):
            memory = body.memories[name]
            if memory.flow is None:
                return [Number(memory.dtype, origin=memory.dtype)]
            flow = body.flows.before(memory.flow, memory.dtype)
            return [Number(flow.dtype, weak=flow.weak, origin=flow.origin)]
        case number_:
            return [number_]


def _made(
    body: Body, elements: Elements, declared: tuple[tuple[int, ...], DType] | None, span: Span, name: str, key: str = "array"
) -> Memory:
    """A new array of these elements. Where no type is written, it is that in which its elements meet and what is assigned to them later."""
    shape = _shape(body, elements)
    if declared is not None:
        _require_shape(declared[0], shape, span, name)
    flow: Key | None = None
    if declared is not None:
        dtype = declared[1]
        for leaf in _leaves(body, elements):
            _require_kept(leaf, dtype, span)
    else:
        leaves = _leaves(body, elements)
        dtype, weak, _ = meet(*leaves)
        if weak:
            flow = (key, span.start, span.path, tuple(place.start for _, place in body.inlining))
            for leaf in leaves:
                variable_flow(body, flow, leaf)
            dtype = body.flows.before(flow, dtype).dtype
    memory = room(body, shape, dtype, flow, span, name)
    put(body, memory, (), elements)
    return memory


def room(body: Body, shape: tuple[int, ...], dtype: DType, flow: Key | None, span: Span, name: str) -> Memory:
    """Memory for an array."""
    size = prod(shape) * max(dtype.bits, 8) // 8
    if size > MOST_BYTES and (flow is None or body.final):
        raise fault(
            "0503",
            f"an array of {' x '.join(map(str, shape))} {dtype.value} takes {size} bytes, and every iteration has its own",
            span,
            f"the limit is {MOST_BYTES} bytes",
            "make it smaller, or a tensor that the block updates",
        )
    dims = tuple(Affine((), extent) for extent in shape)
    mem = Mem(hir_name(dtype), dims, space=Space.LOCAL)
    value = body.build.emit(Alloc(type=mem, array=True), name if name.isidentifier() else "array").result
    memory = Memory(value.name, value, dtype, dims, "array", True, shape=dims, called=name, flow=flow)
    body.memories[memory.name] = memory
    return memory


def put(body: Body, memory: Memory, index: tuple[Affine, ...], elements: Elements) -> None:
    """Stores the elements, from this index on."""
    build = body.build
    match elements:
        case Repeated(count=count, element=element):
            with build.loop("element", 0, count) as (inner, loop), body.at(inner):
                put(body, memory, (*index, Affine.of(loop.variable.name)), element)
        case Listed(elements=parts):
            for position, part in enumerate(parts):
                put(body, memory, (*index, Affine((), position)), part)
        case TensorOperand(name=name):
            _copy(body, memory, index, body.memories[name], ())
        case number_:
            build.store(memory.value, value_of(build, number_, memory.dtype), index)


def _copy(body: Body, memory: Memory, index: tuple[Affine, ...], source: Memory, at: tuple[Affine, ...]) -> None:
    if len(at) == len(source.dims):
        element = typed(body.build.load(source.value, at), source.dtype, source.dtype)
        body.build.store(memory.value, value_of(body.build, element, memory.dtype), (*index, *at))
        return
    with body.build.loop("element", 0, source.dims[len(at)]) as (inner, loop), body.at(inner):
        _copy(body, memory, index, source, (*at, Affine.of(loop.variable.name)))


def _require_shape(wanted: tuple[int, ...], shape: tuple[int, ...], span: Span, name: str) -> None:
    if wanted != shape:
        have, want = (" x ".join(map(str, dims)) or "no" for dims in (shape, wanted))
        raise fault("0301", f"`{name}` has {want} elements, and this has {have}", span, hint=f"write `[...; {wanted[0]}]`")


def _require_kept(value: Number, dtype: DType, span: Span) -> None:
    lossless = not (value.dtype.is_float and not dtype.is_float) if value.weak else keeps_value(value.dtype, dtype)
    if not lossless:
        message = f"an element is {value.shown}, which doesn't fit {dtype.value} without loss"
        raise fault("0207", message, span, f"this is {value.shown}", f"convert it with `as {dtype.value}`")


# ---- names and assignments -----------------------------------------------------------------------------------------------


def declares_array(body: Body, node: nodes.Let) -> bool:
    """Whether the statement binds an array, as far as one can see before its value is computed."""
    if not isinstance(node.pattern, nodes.BindingPattern):
        return False
    return written_type(body, node.annotation) is not None or isinstance(node.value, nodes.Repeat | nodes.ListLiteral)


def declare(body: Body, node: nodes.Let) -> None:
    """`var s: [f32; 16] = [0.0; 16]`; without a value its elements are 0."""
    assert isinstance(node.pattern, nodes.BindingPattern)
    written = written_type(body, node.annotation)
    declared = None if written is None else _declared(body, written)
    if node.value is None:
        assert declared is not None
        elements: Elements = literal(False) if declared[1] is DType.BOOL else literal(0 if declared[1].is_int else 0.0, declared[1])
        for extent in reversed(declared[0]):
            elements = Repeated(extent, elements)
    else:
        elements = _elements(body, node.value, None)
    span = node.span if node.value is None else node.value.span
    bind(body, node.pattern.name, _made(body, elements, declared, span, node.pattern.name), node)


def bind_copy(body: Body, name: str, operand: TensorOperand, node: nodes.Let) -> None:
    """A name for an array that an expression has come to: a copy, since what it was may change."""
    bind(body, name, _made(body, operand, None, node.pattern.span, name, f"copy {name}"), node)


def bind(body: Body, name: str, memory: Memory, node: nodes.Let) -> None:
    memory.called, memory.span, memory.writable = name, node.pattern.span, node.mutable
    body.names.bind(name, TensorOperand(memory.name), node.pattern.span, "a `var`" if node.mutable else "a `let`")


def copied(body: Body, operand: Operand, span: Span) -> Operand:
    """An array as it is now, in memory of its own; any other value itself."""
    return TensorOperand(_made(body, operand, None, span, "copy", "copy").name) if is_array(operand, body) else operand


def parts_of(body: Body, operand: TensorOperand, node: nodes.Expression) -> Tuple:
    """All elements of an array, in order."""
    memory = body.memories[operand.name]
    extents = extents_of(memory)
    if prod(extents) > MOST_PARTS:
        message = f"an array of {prod(extents)} elements isn't supported here yet in a kernel: {MOST_PARTS} are the most"
        raise fault("0109", message, node.span, hint="assign its elements in a loop")
    places = (tuple(Affine((), at) for at in index) for index in product(*map(range, extents)))
    return Tuple(tuple(load(body, memory, index, node, (), None) for index in places))


def apart(body: Body, operand: Operand, node: nodes.Expression) -> Operand:
    """An array as the tuple of its elements; any other value itself."""
    return parts_of(body, operand, node) if is_array(operand, body) else operand


def of_parts(body: Body, shape: Sequence[int], parts: Sequence[Number], span: Span) -> TensorOperand:
    """An array of these elements, in order."""
    listed: list[Elements] = [*parts]
    for extent in reversed(shape[1:]):
        listed = [Listed(tuple(listed[start : start + extent])) for start in range(0, len(listed), extent)]
    return TensorOperand(_made(body, Listed(tuple(listed)), None, span, "chosen", "chosen").name)


def assign_operand(body: Body, memory: Memory, binding: Binding, operand: Operand, node: nodes.Assign) -> None:
    """An array's part of `(a, b) = (b, a)`."""
    require_writable(memory, binding, node.target.span)
    if not isinstance(operand, TensorOperand) or not is_array(operand, body):
        raise fault("0203", f"`{memory.in_words}` is an array, and this is none", node.value.span)
    _assign(body, memory, operand, node)


def fitted_array(body: Body, operand: TensorOperand, annotation: nodes.TypeSyntax, span: Span, what: str) -> TensorOperand:
    """An array as one of a written type: a parameter, a result."""
    written = written_type(body, annotation)
    if written is None:
        raise fault("0203", f"{what} is no array, and this is one", span)
    memory, declared = body.memories[operand.name], _declared(body, written)
    _require_shape(declared[0], extents_of(memory), span, what)
    return operand if memory.dtype is declared[1] else TensorOperand(_made(body, operand, declared, span, what).name)


def assign(body: Body, memory: Memory, binding: Binding, node: nodes.Assign) -> None:
    """`s = [0.0; 16]`, `s = other`, `s = f(s)`."""
    name = memory.in_words
    if node.operator is not None:
        message = f"`{node.operator}=` needs a number, and `{name}` is an array"
        raise fault("0208", message, node.span, hint="write a loop over its elements")
    require_writable(memory, binding, node.target.span)
    _assign(body, memory, _elements(body, node.value, memory.dtype), node)


def _assign(body: Body, memory: Memory, elements: Elements, node: nodes.Assign) -> None:
    _require_shape(extents_of(memory), _shape(body, elements), node.value.span, memory.in_words)
    for leaf in _leaves(body, elements):
        if memory.flow is not None:
            variable_flow(body, memory.flow, leaf)
        else:
            _require_kept(leaf, memory.dtype, node.value.span)
    put(body, memory, (), elements)

