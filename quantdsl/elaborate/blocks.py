"""Compute blocks in compiled code: a reduction is the loops as written, which combine what they yield in variables. Ints wrap there and
in the functions called from there, as in all compute blocks."""

from compiler.hir.native_expressions import Expr
from compiler.hir.types import is_float
from compiler.lowering.dtypes import hir_name
from compiler.lowering.native.context import FunctionContext, ReductionBlock
from compiler.lowering.native.values import Location, ScalarValue, Value
from compiler.lowering.reductions import identity
from compiler.typed_ast import nodes
from compiler.typed_ast.types import Scalar, TupleType, Type
from compiler.typed_ast.yielded import Yielded
from quantdsl.check.blocks import operators_of
from quantdsl.elaborate.rules import elaborates, executes, not_supported


@elaborates(nodes.Compute)
def compute(c: FunctionContext, node: nodes.Compute, place: Type | None) -> Value:
    operators = operators_of(node)
    if operators is None:
        hint = "`@kernel(reduce, +)` and the other operators work here; programs with a `main` have all kinds"
        raise not_supported("a compute block that is no reduction", node.span, hint)
    result = c.type(node)
    types = list(result.elements) if isinstance(result, TupleType) else [result]
    yielded = Yielded(operators, types)
    with c.scope():
        for given in node.inputs:
            c.let(given.name, c.value(given.value))
        totals = tuple(c.variable(_start(c, yielded.operator(n), type)) for n, type in enumerate(types))
        outside = c.block, c.wraps
        c.block, c.wraps = ReductionBlock(yielded, totals), True
        c.body(node.body)
        c.block, c.wraps = outside
        values = [c.read(total) for total in totals]
    return c.make(result, {str(n): value for n, value in enumerate(values)}) if isinstance(result, TupleType) else values[0]


def _start(c: FunctionContext, operator: str, type: Type) -> ScalarValue:
    """What changes nothing when it is combined."""
    assert isinstance(type, Scalar)
    return c.constant(identity(operator, type.dtype), type)


@executes(nodes.Yield)
def yield_(c: FunctionContext, node: nodes.Yield) -> None:
    block = c.block
    assert block is not None, "a `yield` stands in a block"
    found = c.value(node.value)
    for n, total in enumerate(block.totals):
        part = c.part(found, str(n)) if isinstance(found.type, TupleType) else found
        assert isinstance(part, ScalarValue) and isinstance(part.type, Scalar)
        _combine(c, block.yielded.operator(n), total, part)


def _combine(c: FunctionContext, operator: str, total: Location, part: ScalarValue) -> None:
    assert isinstance(total.type, Scalar)
    before = c.read(total)
    assert isinstance(before, ScalarValue)
    value: Expr = part.value.cast(hir_name(total.type.dtype))
    if operator in ("add", "mul") and is_float(hir_name(total.type.dtype)):
        made = c.b.arithmetic(operator, before.value, value)
    else:
        made = c.b.wrapping(operator, before.value, value)
    c.write(total, ScalarValue(total.type, made))
