"""What the prelude's plain functions compute."""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne

from compiler.hir.native_expressions import maximum
from compiler.lowering.native.calls import BoundCall
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import ScalarValue, Text, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.scope import VariableKind
from compiler.typed_ast.types import BOOL, F64, UNIT
from compiler.typed_ast.walk import walk
from quantdsl.elaborate.rules import emits


def _number(value: Value) -> ScalarValue:
    assert isinstance(value, ScalarValue)
    return value


@emits("sqrt", "exp", "log", "sin", "cos", "tanh", "erf", "floor", "ceil")
def function(c: FunctionContext, call: BoundCall) -> Value:
    return ScalarValue(F64, c.b.op(call.callee.name, _number(call["x"]).value))


@emits("pow")
def power(c: FunctionContext, call: BoundCall) -> Value:
    return ScalarValue(F64, c.b.op("pow", _number(call["x"]).value, _number(call["y"]).value))


@emits("is_nan")
def is_nan(c: FunctionContext, call: BoundCall) -> Value:
    return c.truth(c.b.of(c.b.here.isnan(_number(call["x"]).value.hir)))


@emits("abs")
def magnitude(c: FunctionContext, call: BoundCall) -> Value:
    x = _number(call["x"])
    return ScalarValue(x.type, c.b.op("abs", x.value) if c.wraps else abs(x.value))


@emits("min", "max")
def extreme(c: FunctionContext, call: BoundCall) -> Value:
    """Of floats: NaN where one side is."""
    x, y = _number(call["a"]), _number(call["b"])
    return ScalarValue(x.type, c.b.op(call.callee.name, x.value, y.value))


@emits("assert")
def assertion(c: FunctionContext, call: BoundCall) -> Value:
    """One about constant parameters is looked at when the function is compiled for them."""
    text = call["text"]
    assert isinstance(text, Text)
    known = _known(c, call.node.arguments[0].value)
    if known is False:
        raise c.refuse("0705", f"an assertion about constants doesn't hold{': ' * bool(text.text)}{text.text}", None, call.node.span)
    if known:
        return Whole(UNIT, ())
    message = "assertion failed" + (f": {_escaped(text.text)}" if text.text else "")
    c.b.require(_number(call["condition"]).value, code="0808", message=message)
    return Whole(UNIT, ())


_ORDERS: dict[str, Callable[[int, int], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


def _known(c: FunctionContext, condition: nodes.Expression) -> bool | None:
    """Whether a comparison of constant parameters holds; None where it isn't one."""
    named = [c.sizes.variable(found.name) for found in walk(condition) if isinstance(found, nodes.Name)]
    if not any(variable is not None and variable.kind is VariableKind.CONSTANT_PARAMETER for variable in named):
        return None
    match condition:
        case nodes.Binary(operator=operator, left=left, right=right) if operator in _ORDERS:
            a, b = whole_constant(left, c.sizes), whole_constant(right, c.sizes)
            return None if a is None or b is None else _ORDERS[operator](a, b)
    return None


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@emits("approx")
def approx(c: FunctionContext, call: BoundCall) -> Value:
    """|a - b| <= rel * max(|a|, |b|); equal infinities are approximately equal, NaN is not equal to anything."""
    b = c.b
    x, y, rel = (_number(call[name]).value for name in ("a", "b", "rel"))
    scale = maximum(b.op("abs", x), b.op("abs", y))
    near = b.op("abs", x - y) <= rel * scale
    finite = scale < float("inf")
    return ScalarValue(BOOL, (x == y) | (near & finite))
