"""Tensors that a function makes: they lie on the heap of the run, and are freed when the function is left, or in the next turn of the loop
that made them. What is returned stays."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from compiler.hir.layout import size_of
from compiler.hir.native_expressions import Expr, select
from compiler.hir.types import Array
from compiler.lowering.native import expressions, host_library, statements
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.fitting import as_i64
from compiler.lowering.native.host_library import TABLES
from compiler.lowering.native.tensors import Enumerated, TensorElements, distance, element, extent, part, whole
from compiler.lowering.native.values import Cells, ScalarValue, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.native_tensors import (
    creation,
    enumerated_tensor,
    lengths,
    makes_tensors,
    numbers_given,
    reassigned,
    row_type,
    shape_of,
)
from compiler.typed_ast.types import I64, Scalar, TensorType, Type

LARGEST = 1 << 62
"""Bytes that no tensor has."""


def begins(c: FunctionContext, body: nodes.Node) -> None:
    """What a function that makes tensors frees when it is left."""
    c.reassigned = reassigned(body)
    if makes_tensors(body):
        mark = c.b.heap_mark()
        c.ends = lambda result: c.b.release(mark, *_addresses(c, result))


def _addresses(c: FunctionContext, value: Value) -> list[Expr]:
    """Where the tensors in a value lie."""
    if isinstance(value, Whole) and isinstance(value.type, TensorType):
        return [next(c.carried(value))]
    return [address for part in value.parts for address in _addresses(c, part)] if isinstance(value, Whole) else []


@TABLES.executes(nodes.For)
def for_(c: FunctionContext, node: nodes.For) -> None:
    _looped(c, node, node.body, statements.for_)


@TABLES.executes(nodes.While)
def while_(c: FunctionContext, node: nodes.While) -> None:
    _looped(c, node, node.body, statements.while_)


def _looped(c: FunctionContext, node: nodes.For | nodes.While, body: nodes.Block, write: Callable[[FunctionContext, Any], None]) -> None:
    """Each turn begins by freeing what earlier ones made, but for the tensors that variables from outside have now, and those that loops
    go over."""
    if not makes_tensors(node):
        write(c, node)
        return
    mark, outer = c.b.heap_mark(), c.gone_over
    variables = [held for name in sorted(reassigned(node)) if isinstance(held := c.location(name), Cells)]

    def free() -> None:
        values = [*(c.read(held) for held in variables), *c.gone_over]
        c.b.release(mark, *(address for one in values for address in _addresses(c, one)))

    c.turns[id(body)] = free
    write(c, node)
    c.gone_over = outer
    if not c.b.ended:
        free()


@TABLES.goes_over(TensorType)
def elements(c: FunctionContext, value: Value) -> tuple[Expr, Callable[[Expr], Value]]:
    """The elements of a vector, the rows of a matrix: as they are in their turn."""
    assert isinstance(value.type, TensorType)
    c.gone_over = [*c.gone_over, value]
    if value.type.shape.rank == 1:
        return extent(value, 0), lambda at: c.read(element(c, value, [at], checked=False))
    return extent(value, 0), lambda at: part(c, value, [at], checked=False)


@TABLES.goes_over(Enumerated)
def enumerated(c: FunctionContext, value: Value) -> tuple[Expr, Callable[[Expr], Value]]:
    assert isinstance(value, Whole)
    count, element_at = elements(c, value.parts[0])
    return count, lambda at: Whole(value.type, (ScalarValue(I64, at), element_at(at)))


# ---- calls ---------------------------------------------------------------------------------------------------------------------------


@TABLES.elaborates(nodes.Call)
def call(c: FunctionContext, node: nodes.Call, place: Type | None) -> Value:
    if not node.callee and creation(node) is not None:
        return made(c, node)
    tensor = enumerated_tensor(node)
    if not node.callee and tensor is not None:
        source = c.value(tensor)
        return Whole(Enumerated((I64, row_type_of(source.type))), (source,))
    return host_library.call(c, node, place)


@TABLES.elaborates(nodes.Index)
def index(c: FunctionContext, node: nodes.Index, place: Type | None) -> Value:
    """Also `x.shape()[1]`."""
    subject = shape_of(node)
    if subject is None:
        return expressions.index(c, node, place)
    axis = node.indices[0]
    assert isinstance(axis, nodes.IntLiteral)
    return ScalarValue(I64, extent(c.value(subject), axis.value))


# ---- made by the library ---------------------------------------------------------------------------------------------------------


def made(c: FunctionContext, node: nodes.Call) -> Value:
    """A tensor that a function of the library makes."""
    type, name, given = c.type(node), creation(node), numbers_given(node)
    assert isinstance(type, TensorType) and isinstance(type.element, Scalar)
    if name == "clone":
        return _clone(c, c.value(given[0]))
    numbers = [c.number(one) for one in given]
    match name:
        case "arange":
            return _arange(c, type, numbers)
        case "linspace":
            return _linspace(c, type, numbers)
        case "tensor":
            return _listed(c, type, numbers, lengths(node))
        case "full":
            return _uniform(c, type, numbers[:-1], _as_element(c, numbers[-1], type.element).value)
        case "ones":
            return _uniform(c, type, numbers, c.constant(1, type.element).value)
        case "eye":
            return _identity(c, type, numbers * (3 - len(numbers)))
    return allocated(c, type, [as_i64(c, one) for one in numbers])


def _uniform(c: FunctionContext, type: TensorType, counts: list[ScalarValue], value: Expr) -> Value:
    fresh = allocated(c, type, [as_i64(c, count) for count in counts])
    _filled(c, fresh, lambda at: value)
    return fresh


def _identity(c: FunctionContext, type: TensorType, counts: list[ScalarValue]) -> Value:
    fresh = allocated(c, type, [as_i64(c, count) for count in counts])
    shorter = select(extent(fresh, 0) < extent(fresh, 1), extent(fresh, 0), extent(fresh, 1))
    with c.b.loop(0, shorter) as i:
        c.write(element(c, fresh, [i, i], checked=False), c.constant(1, type.element))
    return fresh


def allocated(c: FunctionContext, type: TensorType, counts: Sequence[Expr]) -> Whole:
    """A tensor of zeros without gaps. Extents below 0 stop, and so does what memory can't hold."""
    b, shape = c.b, f"[{', '.join(f'{{{axis}}}' for axis in range(len(counts)))}]"
    for axis, count in enumerate(counts):
        message = f"a shape can't have the negative extent {{{axis}}}: {shape}"
        b.require(count >= 0, *counts, code="0301", message=message)
    memory = c.layouts.memory(TensorElements(type.element))
    assert isinstance(memory, Array)
    large = f"a tensor of shape {shape} takes more memory than is free"
    size = reduce(lambda x, y: x * y, [count.cast("f64") for count in counts]) * float(size_of(memory.element))
    b.require(size < float(LARGEST), *counts, code="0804", message=large)
    distances = [b.const(1, "i64")]
    for count in reversed(counts[1:]):
        distances.insert(0, distances[0].wrapping_mul(count))
    total = distances[0].wrapping_mul(counts[0])
    b.require(total >= 0, *counts, code="0804", message=large)
    return whole(c, row_type(type, 0), b.allocate(memory.element, total, large.format(*["?"] * len(counts))), counts, distances)


def _filled(c: FunctionContext, fresh: Whole, value: Callable[[Expr], Expr]) -> None:
    """Every element by its position."""
    assert isinstance(fresh.type, TensorType)
    count = extent(fresh, 0).wrapping_mul(distance(fresh, 0))
    flat = whole(c, row_type(fresh.type, (fresh.type.shape.rank or 1) - 1), next(c.numbers(fresh)), [count], [c.b.const(1, "i64")])
    with c.b.loop(0, count) as i:
        c.write(element(c, flat, [i], checked=False), ScalarValue(fresh.type.element, value(i)))


def _as_element(c: FunctionContext, value: ScalarValue, type: Scalar) -> ScalarValue:
    return value if value.type == type else ScalarValue(type, value.value.cast("i1" if type.dtype.value == "bool" else type.dtype.value))


def _arange(c: FunctionContext, type: TensorType, given: list[ScalarValue]) -> Value:
    """As `zynml/stdlib/creation.py` has it: ints exactly, floats in f64."""
    b = c.b
    assert isinstance(type.element, Scalar)
    low, high = (c.constant(0, I64), given[0]) if len(given) == 1 else (given[0], given[1])
    step = given[2] if len(given) == 3 else c.constant(1, I64)
    zero = "the step of `arange` can't be 0"
    if all(isinstance(one.type, Scalar) and one.type.dtype.is_int for one in (low, high, step)):
        start, stop, by = (as_i64(c, one) for one in (low, high, step))
        b.require(by != 0, code="0203", message=zero)
        count = statements.rounds(c, start, stop, ScalarValue(I64, by), False)
        fresh = allocated(c, type, [count])
        _filled(c, fresh, lambda at: start.wrapping_add(at.wrapping_mul(by)).cast(_number(c, type)))
        return fresh
    start, stop, by = (one.value.cast("f64") for one in (low, high, step))
    for bound in (start, stop, by):
        b.require(b.op("abs", bound) < float("inf"), bound, code="0203", message="`arange` takes finite numbers, not {0}")
    b.require(by != 0.0, code="0203", message=zero)
    count_of = b.op("ceil", (stop - start) / by)
    counted = select(count_of > 0.0, count_of, 0.0)
    b.require(counted < float(LARGEST), code="0804", message="a tensor takes more memory than is free")
    fresh = allocated(c, type, [counted.narrow("i64")])
    _filled(c, fresh, lambda at: (start + by * at.cast("f64")).cast(_number(c, type)))
    return fresh


def _linspace(c: FunctionContext, type: TensorType, given: list[ScalarValue]) -> Value:
    """As NumPy has it: steps from the start, and the last is the end."""
    start, stop = (one.value.cast("f64") for one in given[:2])
    count = as_i64(c, given[2])
    fresh = allocated(c, type, [count])
    last = count.wrapping_sub(1)
    span = stop - start
    parts = last.cast("f64")
    step = span / parts

    def value(at: Expr) -> Expr:
        i = at.cast("f64")
        inner = select(last > 0, select(step == 0.0, i / parts * span, i * step), i * span) + start
        return select((at == last) & (last > 0), stop, inner).cast(_number(c, type))

    _filled(c, fresh, value)
    return fresh


def _listed(c: FunctionContext, type: TensorType, given: list[ScalarValue], counts: list[int]) -> Value:
    """Nested lists, written out."""
    assert isinstance(type.element, Scalar)
    fresh = allocated(c, type, [c.b.const(count, "i64") for count in counts])
    flat = whole(c, row_type(type, len(counts) - 1), next(c.numbers(fresh)), [c.b.const(len(given), "i64")], [c.b.const(1, "i64")])
    for number, one in enumerate(given):
        c.write(element(c, flat, [c.b.const(number, "i64")], checked=False), _as_element(c, one, type.element))
    return fresh


def _clone(c: FunctionContext, source: Value) -> Value:
    assert isinstance(source.type, TensorType)
    rank = source.type.shape.rank or 0
    fresh = allocated(c, source.type, [extent(source, axis) for axis in range(rank)])

    def copied(at: list[Expr]) -> None:
        if len(at) == rank:
            c.write(element(c, fresh, at, checked=False), c.read(element(c, source, at, checked=False)))
            return
        with c.b.loop(0, extent(source, len(at))) as i:
            copied([*at, i])

    copied([])
    return fresh


def _number(c: FunctionContext, type: TensorType) -> str:
    number = c.layouts.number(type.element)
    assert number is not None
    return number.dtype


def row_type_of(type_: Type) -> Type:
    """The type of what a `for` over a tensor gives."""
    assert isinstance(type_, TensorType)
    return type_.element if type_.shape.rank == 1 else row_type(type_, 1)

