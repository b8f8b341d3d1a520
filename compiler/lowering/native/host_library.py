"""Functions of the library that have native code, which gives what they give on Python to the last bit."""

import math
from collections.abc import Callable, Mapping

from compiler.hir.native_expressions import Expr, select
from compiler.hir.native_types import F64
from compiler.hir.numbers import limits
from compiler.hir.types import is_float, is_signed
from compiler.lowering.native.calls import call as call_declared
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.operators import combined
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.tensors import extent
from compiler.lowering.native.values import ScalarValue, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, I64, UNIT, OptionType, ResultType, Scalar, TensorType, Type

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


def _sign(c: FunctionContext, x: Expr) -> Expr:
    """Of NaN NaN, of either zero 0."""
    if not is_signed(x.dtype):
        return select(x > 0, c.b.const(1, x.dtype), 0)
    other = select(_is_nan(c, x), x, 0) if is_float(x.dtype) else c.b.const(0, x.dtype)
    return select(x > 0, c.b.const(1, x.dtype), select(x < 0, c.b.const(-1, x.dtype), other))


def _is_nan(c: FunctionContext, x: Expr) -> Expr:
    return c.b.of(c.b.here.isnan(x.hir)) if is_float(x.dtype) else c.b.const(False, "i1")


def _is_infinite(c: FunctionContext, x: Expr) -> Expr:
    return c.b.op("abs", x) == math.inf if is_float(x.dtype) else c.b.const(False, "i1")


KEPT: Mapping[str, Unary] = {
    "abs": _absolute,
    "sign": _sign,
    "relu": lambda c, x: _extreme(c, "max", x, c.b.const(0, x.dtype)),
    **{name: _rounding(name) for name in ("floor", "ceil", "round", "trunc")},
}
COUNTED = {"popcount": "popcount", "clz": "leading_zeros", "ctz": "trailing_zeros"}
TESTED: Mapping[str, Unary] = {
    "isnan": _is_nan,
    "isinf": _is_infinite,
    "isfinite": lambda c, x: ~(_is_nan(c, x) | _is_infinite(c, x)),
}


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
    if isinstance(given[0].type, OptionType | ResultType):
        return _of_optional(c, name, given)
    if name == "panic":
        text, told = _message(c, given[0])
        c.b.require(c.b.const(False, "i1"), *told, code="0808", message=text or "panic")
        return Whole(UNIT, ())
    numbers = [c.number(one) for one in given]
    type = c.type(node)
    if name in TESTED:
        return c.truth(TESTED[name](c, numbers[0].value))
    assert isinstance(type, Scalar)
    if name in COUNTED:
        return ScalarValue(type, c.b.op(COUNTED[name], numbers[0].value).cast("i32"))
    if name == "pow":
        return combined(c, "**", numbers[0], numbers[1], type)
    condition = numbers.pop(0) if name == "where" else None
    fitted = [c.fit(number, type) for number in numbers]
    values = [number.value for number in fitted if isinstance(number, ScalarValue)]
    return ScalarValue(type, _computed(c, name, values, condition))


def _computed(c: FunctionContext, name: str, values: list[Expr], condition: ScalarValue | None) -> Expr:
    """A function of numbers that have the type of the result."""
    first, *others = values
    match name:
        case "min" | "max":
            for value in others:
                first = _extreme(c, name, first, value)
            return first
        case "clamp" | "clip":
            low, high = others
            return _extreme(c, "min", _extreme(c, "max", first, low), high)
        case "fma":
            factor, term = others
            return first * factor + term
        case "bit_and" | "bit_or" | "bit_xor":
            return c.b.wrapping(name.removeprefix("bit_"), first, others[0])
        case "sqrt":
            return c.b.op("sqrt", first)
        case "where":
            assert condition is not None
            holds = condition.value if condition.value.dtype == "i1" else condition.value != 0
            return select(holds, first, others[0])
    if name in KEPT:
        return KEPT[name](c, first)
    return real(c, name, [value.cast("f64") for value in values]).cast(first.dtype)


def real(c: FunctionContext, name: str, values: list[Expr]) -> Expr:
    """A function of f64 as `zynml/stdlib/scalar_math.py` has it."""
    x = values[0]
    match name:
        case "rsqrt":
            return c.b.const(1.0, "f64") / c.b.op("sqrt", x)
        case "sigmoid":
            small = from_c(c, "exp", -c.b.op("abs", x))
            return select(_is_nan(c, x), x, select(x >= 0.0, c.b.const(1.0, "f64"), small) / (1.0 + small))
        case "gelu":
            found = x * 0.5 * (1.0 + from_c(c, "erf", x / c.b.op("sqrt", c.b.const(2.0, "f64"))))
            return select(x == -math.inf, -0.0, found)
        case "silu":
            return select(x == -math.inf, -0.0, x * real(c, "sigmoid", [x]))
    return from_c(c, name, *values)


def _of_optional(c: FunctionContext, name: str, given: list[nodes.Expression]) -> Value:
    """Whether an optional or a result holds a value, or that value."""
    found = c.value(given[0])
    assert isinstance(found.type, OptionType | ResultType)
    there = c.part(found, "present" if isinstance(found.type, OptionType) else "ok")
    assert isinstance(there, ScalarValue)
    match name:
        case "is_some" | "is_ok":
            return there
        case "is_none" | "is_err":
            return c.truth(~there.value)
        case "unwrap_or":
            kept = c.kept(found)
            otherwise = c.kept(c.value(given[1], found.type.value))
            joined = c.variable(otherwise)
            with c.b.when(there.value):
                c.write(joined, c.part(kept, "value"))
            return c.read(joined)
    hint = "give a default with `e ?? d`, or take the value out with `if let` or `match`"
    if isinstance(found.type, OptionType):
        c.b.require(there.value, code="0808", message="`unwrap` of nothing: the value is none", hint=hint)
    else:
        error = c.part(found, "error")
        assert isinstance(error, ScalarValue)
        c.b.require(there.value, error.value, code="0808", message="`unwrap` of an error: {0}", hint=hint)
    return c.part(found, "value")


def escaped(text: str) -> str:
    """A text for a message, in which braces are for values."""
    return text.replace("{", "{{").replace("}", "}}")


def _count_of(c: FunctionContext, node: nodes.Call, name: str, given: list[nodes.Expression]) -> Value:
    """An extent of a tensor, how many elements it has, or how many axes."""
    tensor = c.value(given[0])
    assert isinstance(tensor.type, TensorType)
    rank = tensor.type.shape.rank or 0
    if name in ("ndim", "rank"):
        return c.constant(rank, I64)
    if name in ("numel", "size"):
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
    """`x ** y` of doubles."""
    return from_c(c, "pow", x, y)


def from_c(c: FunctionContext, name: str, *values: Expr) -> Expr:
    """A function of doubles by C's, which is what Python calls."""
    program = c.elaboration.program
    if not program.has(name):
        program.external(name, {f"x{number}": F64 for number in range(len(values))}, [F64], "none", attributes=["nobuiltin"])
    (found,) = c.b.call(name, *values)
    return found


def _assertion(c: FunctionContext, node: nodes.Call) -> Value:
    condition = c.number(node.arguments[0].value, BOOL)
    text, told = _message(c, node.arguments[1].value) if len(node.arguments) > 1 else ("", [])
    said = f": {text}" if len(node.arguments) > 1 else ""
    c.b.require(condition.value, *told, code="0808", message=f"assertion failed{said}")
    return Whole(UNIT, ())


def _message(c: FunctionContext, text: nodes.Expression) -> tuple[str, list[Expr]]:
    """A message with places for its numbers, and these."""
    if isinstance(text, nodes.StringLiteral):
        return escaped(text.value), []
    assert isinstance(text, nodes.FString)
    words, told = "", list[Expr]()
    for part in text.parts:
        if part.value is None:
            words += escaped(part.text)
        else:
            words += f"{{{len(told)}}}"
            told.append(c.number(part.value).value)
    return words, told

