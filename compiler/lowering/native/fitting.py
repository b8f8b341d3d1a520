"""Values as their places want them: numbers widened without loss, `T` as `T?`, `none` and errors of any type."""

from compiler.hir.native_expressions import Expr
from compiler.hir.numbers import limits
from compiler.hir.types import is_float
from compiler.lowering.native.holding import Holding
from compiler.lowering.native.values import InMemory, ScalarValue, Value, Whole
from compiler.typed_ast.types import ArrayType, DType, NoneType, OptionType, ResultType, Scalar, TupleType, Type


def fit(c: Holding, value: Value, place: Type) -> Value:
    """The value as one of type `place`, which the checker has found it to fit."""
    if value.type == place:
        return value
    match value.type, place:
        case Scalar(), Scalar():
            assert isinstance(value, ScalarValue)
            return ScalarValue(place, converted(c, value, place.dtype))
        case NoneType(), OptionType():
            return c.zero(place)
        case OptionType(), OptionType(value=inner):
            return c.make(place, {"present": c.part(value, "present"), "value": fit(c, c.part(value, "value"), inner)})
        case _, OptionType(value=inner):
            return c.make(place, {"present": c.constant(True, Scalar(DType.BOOL)), "value": fit(c, value, inner)})
        case ResultType(), ResultType(value=good, error=bad):
            parts = {"ok": c.part(value, "ok")}
            for name, wanted in (("value", good), ("error", bad)):
                part = c.part(value, name)
                parts[name] = fit(c, part, wanted) if c.layouts.number(part.type) or part != Whole(part.type, ()) else c.zero(wanted)
            return c.make(place, parts)
        case TupleType(), TupleType(elements=elements):
            return c.make(place, {str(n): fit(c, c.part(value, str(n)), element) for n, element in enumerate(elements)})
        case ArrayType(), ArrayType():
            return _array(c, value, place)
    fitted: Value | None = c.layouts.added(value.type).fit(c, value, place)
    if fitted is not None:
        return fitted
    if c.layouts.memory(value.type) == c.layouts.memory(place):
        return relabelled(value, place)
    shown = c.layouts.rules.shown
    raise c.not_supported(f"a `{shown(value.type)}` as a `{shown(place)}`", "write the type where the value is made")


def relabelled(value: Value, type: Type) -> Value:
    """The same bits under another type."""
    match value:
        case ScalarValue():
            return ScalarValue(type, value.value)
        case Whole():
            return Whole(type, value.parts)
        case InMemory():
            return InMemory(type, value.pointer, value.fresh)
    return value


def _array(c: Holding, value: Value, place: ArrayType) -> Value:
    """An array of wider numbers."""
    assert isinstance(value, InMemory) and isinstance(value.type, ArrayType)
    wanted = ArrayType(place.element, value.type.size)
    if c.layouts.memory(value.type) == c.layouts.memory(wanted):
        return relabelled(value, wanted)
    made = c.room(wanted)
    with c.b.loop(0, c.layouts.size(wanted)) as i:
        one = c.read(InMemory(value.type.element, c.b.at(value.pointer, i, proved=True)))
        c.write(InMemory(place.element, c.b.at(made.pointer, i, proved=True)), fit(c, one, place.element))
    return made


# ---- numbers ----------------------------------------------------------------------------------------------------------------------


def converted(c: Holding, value: ScalarValue, to: DType) -> Expr:
    """A number as another type that holds it; an int beside a float becomes the float nearest to it. A literal that its new type can't
    hold is an error; a weak int that is known when the program runs stops there."""
    target = "i1" if to is DType.BOOL else to.value
    known = value.constant
    if known is not None and not isinstance(known, bool) and is_float(target):
        return c.b.const(float(known), target)
    if isinstance(known, int) and not isinstance(known, bool) and not is_float(target):
        low, high = limits(target)
        if not low <= known <= high:
            raise c.refuse("0705", f"{known} does not fit {target}", f"{target} holds {low} to {high}")
        return c.b.const(known, target)
    number = value.value
    return number.cast(target) if _holds(target, number.dtype) else number.narrow(target)


def _holds(wide: str, dtype: str) -> bool:
    """Whether a type has all values of another one; floats take the nearest."""
    if is_float(wide) or "i1" in (wide, dtype):
        return True
    (low, high), (least, most) = limits(wide), limits(dtype)
    return low <= least and most <= high


def common(c: Holding, left: Scalar, right: Scalar) -> str:
    """The type in which two numbers are compared: one that holds both, 128 bits where no other int does."""
    if left.dtype.is_float or right.dtype.is_float:
        found = c.layouts.rules.meaning.meet(left, right)
        assert found is not None, "the checker has found that the two compare"
        return found.dtype.value
    if left.dtype is right.dtype:
        return "i1" if left.dtype is DType.BOOL else left.dtype.value
    wide, narrow_ = (left.dtype, right.dtype) if left.dtype.bits >= right.dtype.bits else (right.dtype, left.dtype)
    if wide.is_signed == narrow_.is_signed or (wide.is_signed and narrow_.bits < wide.bits):
        return wide.value
    return "i64" if wide.bits < 64 else "i128"


def as_i64(c: Holding, value: ScalarValue) -> Expr:
    """An int of any type as i64; one that i64 can't hold stops."""
    return value.value.narrow("i64") if value.value.dtype == "u64" else value.value.cast("i64")
