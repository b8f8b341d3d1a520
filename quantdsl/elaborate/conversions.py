"""Fields that convert: `.f64`, `.ticks`, `.lots`, `.units`, `.ns`, `.sign`, `.opposite`."""

from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import InMemory, ScalarValue, Value
from compiler.typed_ast.types import F64, I64, ArrayType, EnumType
from quantdsl import types as qt
from quantdsl.check.exact import decimal_places
from quantdsl.elaborate.exact import divided
from quantdsl.elaborate.exact_literals import step
from quantdsl.elaborate.rules import TABLES


@TABLES.gives_fields(ArrayType, qt.Container)
def field_in_place(c: FunctionContext, value: InMemory, name: str) -> Value:
    """The count of a ring or table, and of what each risk rule refused."""
    return ScalarValue(I64, value.pointer.unchecked[qt.RULES.index(name)] if name in qt.RULES else value.pointer.count)


@TABLES.gives_fields(qt.PriceType, qt.TicksType, qt.QtyType, qt.MoneyType, qt.PlainType, EnumType)
def field_of(c: FunctionContext, value: ScalarValue, name: str) -> Value:
    """What a number converts to."""
    match name:
        case "ticks" | "lots" | "units" | "ns":
            return ScalarValue(I64, value.value)
        case "f64":
            return ScalarValue(F64, as_float(c, value).value)
        case "sign":
            return ScalarValue(I64, c.b.wrapping("sub", 1, value.value.cast("i64").wrapping_mul(2)))
        case "opposite":
            return ScalarValue(qt.SIDE, value.value ^ 1)
    if value.type == qt.REJECT_MASK:
        return c.truth((value.value & (1 << qt.RULES.index(name))) != 0)
    raise AssertionError(f"a `{value.type}` has no field {name}")


def as_float(c: FunctionContext, value: ScalarValue) -> ScalarValue:
    """An exact number in its instrument's or currency's units, as a double: one division, which rounds to the nearest."""
    if not isinstance(value.type, qt.Exact):
        return value
    if value.type.of is None:
        raise c.refuse("0203", f"nothing says of which instrument this `{value.type}` is", "write the type where the value is made")
    size = step(c, value.type)
    digits = decimal_places(size)
    return ScalarValue(F64, divided(c, value.value, int(size * 10**digits), 10**digits))
