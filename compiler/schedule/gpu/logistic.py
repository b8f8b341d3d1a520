"""`1 + tanh(u)` as `2 / (1 + exp(-2 u))`, where the hardware's functions are good enough: one exponential and one quotient, without the
cancellation that a tanh near -1 leaves. Every GELU by tanh has it."""

from math import log

from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Binary, Const, Unary, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile

_FACTOR = -2 / log(2)


def with_logistics(field: HirFunction) -> HirFunction:
    """The field with such sums, of tanhs that may be approximated (`afn`) and that nothing else reads; itself where it has none."""
    readers: dict[Value, int] = {}
    for op in field.body.body:
        for value in op.operand_values:
            readers[value] = readers.get(value, 0) + 1
    found = {op.result: inner for op in field.body.body if (inner := _inner(op, readers)) is not None}
    if not found:
        return field
    out = FunctionBuilder(field.name, field.form)
    for axis, extent in field.axes.items():
        out.axis(axis, extent)
    values = {parameter: out.parameter(parameter.name, parameter.type) for parameter in field.parameters}
    b = out.body
    for op in field.body.body:
        if op.results and op.result in found:
            u = values[found[op.result]]
            factor, one, two = (b.const(number, Tile("f32")) for number in (_FACTOR, 1.0, 2.0))
            power = b.emit(Unary(operator="exp2", value=b.op("mul", u, factor), flags=("afn", "ftz"))).result
            quotient = Binary(operator="div", left=two, right=b.op("add", power, one), flags=("afn",))
            values[op.result] = b.emit(quotient, op.result.name).result
            continue
        copy = b.emit(rebuilt(op, values.__getitem__), op.results[0].name if op.results else "")
        values.update(zip(op.results, copy.results, strict=True))
    made_field = out.finish()
    made_field.kernel_info, made_field.constraints, made_field.sites = field.kernel_info, field.constraints, field.sites
    made_field.linkage, made_field.span = field.linkage, field.span
    return made_field


def _inner(op: object, readers: dict[Value, int]) -> Value | None:
    """What the tanh is of, in a sum of 1 and a tanh."""
    if not isinstance(op, Binary) or op.operator != "add" or dtype_of(op.result) != "f32":
        return None
    for one, other in ((op.left, op.right), (op.right, op.left)):
        tanh = other.source
        if (
            isinstance(one.source, Const)
            and one.source.value == 1
            and isinstance(tanh, Unary)
            and tanh.operator == "tanh"
            and "afn" in tanh.flags
            and readers[other] == 1
        ):
            return tanh.value
    return None
