"""Functions of the library that have native code, which gives what they give on Python to the last bit. Those of C's <math.h> that round as
each library likes aren't among them."""

from collections.abc import Callable, Mapping

from compiler.hir.native_expressions import Expr, select
from compiler.hir.native_types import F64
from compiler.hir.numbers import limits
from compiler.hir.types import is_float, is_signed
from compiler.lowering.native.calls import call as call_declared
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.tensors import extent
from compiler.lowering.native.values import ScalarValue, Text, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.native_calls import EXTREMES
from compiler.typed_ast.types import BOOL, I64, UNIT, Scalar, TensorType, Type

TABLES = CORE.extended()
"""How ZynML's functions are written."""

Unary = Callable[[FunctionContext, Expr], Expr]


def _absolute(c: FunctionContext, x: Expr) -> Expr:
    if is_float(x.dtype):
        return c.b.op("abs", x)
    if not is_signed(x.dtype):
        return x
    low, high = limits(x.dtype)
    message = f"integer overflow in `abs`: a result does not fit {x.dtype} ({low} to {high})"
    c.b.require(x != low, code="0806", message=message, hint="convert to a wider type with `as`")
    return select(x < 0, x.wrapping_neg(), x)


def _rounding(name: str) -> Unary:
    return lambda c, x: c.b.op(name, x) if is_float(x.dtype) else x


def _is_nan(c: FunctionContext, x: Expr) -> Expr:
    return c.b.of(c.b.here.isnan(x.hir))


KEPT: Mapping[str, Unary] = {"abs": _absolute, "floor": _rounding("floor"), "ceil": _rounding("ceil")}


@TABLES.elaborates(nodes.Call)
def call(c: FunctionContext, node: nodes.Call, place: Type | None) -> Value:
    """A call of the library, or of what the program declares."""
    meaning = c.elaboration.rules.meaning
    cases = (meaning.some, meaning.none, "Ok", "Err", *c.elaboration.checker.declarations.cases)
    given = [argument.value for argument in node.arguments]
    match node.function:
        case _ if node.callee:
            return call_declared(c, node, place)
        case nodes.Name(name=name) if name not in cases:
            return library_call(c, node, name, given)
        case nodes.Field(value=receiver, name=name):
            return library_call(c, node, name, [receiver, *given])
        case nodes.Path(segments=segments) if segments[0] not in c.elaboration.checker.declarations.enums:
            return library_call(c, node, segments[-1], given)
    return call_declared(c, node, place)


def library_call(c: FunctionContext, node: nodes.Call, name: str, given: list[nodes.Expression]) -> Value:
    if name == "assert":
        return _assertion(c, node)
    if given and isinstance(given[0].type, TensorType):
        return _count_of(c, node, name, given)
    numbers = [c.number(one) for one in given]
    type = c.type(node)
    if name == "isnan":
        return c.truth(_is_nan(c, numbers[0].value))
    assert isinstance(type, Scalar)
    fitted = [c.fit(number, type) for number in numbers]
    values = [number.value for number in fitted if isinstance(number, ScalarValue)]
    if name == "sqrt":
        return ScalarValue(type, c.b.op("sqrt", values[0]))
    if name in EXTREMES:
        best = values[0]
        for value in values[1:]:
            best = _extreme(c, name, best, value)
        return ScalarValue(type, best)
    return ScalarValue(type, KEPT[name](c, values[0]))


def _count_of(c: FunctionContext, node: nodes.Call, name: str, given: list[nodes.Expression]) -> Value:
    """An extent of a tensor, how many elements it has, or how many axes."""
    tensor = c.value(given[0])
    assert isinstance(tensor.type, TensorType)
    rank = tensor.type.shape.rank or 0
    if name == "ndim":
        return c.constant(rank, I64)
    if name == "numel":
        count = extent(tensor, 0)
        for axis in range(1, rank):
            count = count.wrapping_mul(extent(tensor, axis))
        return ScalarValue(I64, count)
    axis = given[1].value if name == "shape" and isinstance(given[1], nodes.IntLiteral) else 0
    return ScalarValue(I64, extent(tensor, axis))


def _extreme(c: FunctionContext, name: str, left: Expr, right: Expr) -> Expr:
    """Of floats: NaN where one side is; of two zeros the second, as NumPy has it."""
    less = left < right if name == "min" else left > right
    return select(less | _is_nan(c, left) if is_float(left.dtype) else less, left, right)


def power(c: FunctionContext, x: Expr, y: Expr) -> Expr:
    """`x ** y` of doubles by the function of C, which is what Python calls."""
    program = c.elaboration.program
    if not program.has("pow"):
        program.external("pow", {"x": F64, "y": F64}, [F64], "none", attributes=["nobuiltin"])
    (found,) = c.b.call("pow", x, y)
    return found


def _assertion(c: FunctionContext, node: nodes.Call) -> Value:
    condition = c.number(node.arguments[0].value, BOOL)
    text = c.value(node.arguments[1].value) if len(node.arguments) > 1 else Text("")
    assert isinstance(text, Text)
    said = text.text.replace("{", "{{").replace("}", "}}")
    c.b.require(condition.value, code="0808", message="assertion failed" + (f": {said}" if len(node.arguments) > 1 else ""))
    return Whole(UNIT, ())

