"""Values as their places want them: numbers widened without loss, `T` as `T?`, `none` and errors of any type."""

from compiler.hir import instruction as hir
from compiler.hir.core import dtype_of
from compiler.hir.numbers import limits
from compiler.hir.types import is_float
from compiler.typed_ast.types import DType, OptionType, ResultType, Scalar, TupleType, Type
from quantdsl import types as qt
from quantdsl.check.fits import shown
from quantdsl.elaborate.holding import Holding
from quantdsl.elaborate.layouts import MARKET_BOOK
from quantdsl.elaborate.refused import not_supported
from quantdsl.elaborate.values import InMemory, ScalarValue, Value, Whole


def fit(c: Holding, value: Value, place: Type) -> Value:
    """The value as one of type `place`, which the checker has found it to fit."""
    if value.type == place:
        return value
    match value.type, place:
        case Scalar(), Scalar():
            assert isinstance(value, ScalarValue)
            return ScalarValue(place, converted(c, value, place.dtype))
        case qt.NoneType(), OptionType():
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
        case qt.Container(kind="array"), qt.Container(kind="array", elements=(element,)):
            return _array(c, value, place, element)
    if value.type == MARKET_BOOK:
        raise not_supported(f"the market's book as a `{shown(place)}`", c.span(), "take it as `fn f<N>(b: book<N>)`")
    if c.layouts.memory(value.type) == c.layouts.memory(place):
        return relabelled(value, place)
    raise not_supported(f"a `{shown(value.type)}` as a `{shown(place)}`", c.span(), "write the type where the value is made")


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


def _array(c: Holding, value: Value, place: qt.Container, element: Type) -> Value:
    """An array of wider numbers."""
    assert isinstance(value, InMemory) and isinstance(value.type, qt.Container)
    wanted = qt.Container("array", place.elements, value.type.size)
    if c.layouts.memory(value.type) == c.layouts.memory(wanted):
        return relabelled(value, wanted)
    made = c.room(wanted)
    with c.b.loop(0, c.layouts.size(wanted)) as i:
        one = c.read(InMemory(value.type.elements[0], c.b.at(value.pointer, i, proved=True)))
        c.write(InMemory(element, c.b.at(made.pointer, i, proved=True)), fit(c, one, element))
    return made


# ---- numbers ----------------------------------------------------------------------------------------------------------------------


def converted(c: Holding, value: ScalarValue, to: DType) -> hir.Value:
    """A number as another type that holds it; an int beside a float becomes the float nearest to it. A literal that its new type can't
    hold is an error."""
    target = "i1" if to is DType.BOOL else to.value
    known = value.constant
    if known is not None and not isinstance(known, bool) and is_float(target):
        return c.b.const(float(known), target)
    if isinstance(known, int) and not isinstance(known, bool) and not is_float(target):
        low, high = limits(target)
        if not low <= known <= high:
            raise c.refuse("0705", f"the constant {known} doesn't fit `{target}`", f"`{target}` holds {low} to {high}")
        return c.b.const(known, target)
    return c.b.cast(value.value, target)


def common(left: Scalar, right: Scalar) -> str:
    """The type in which two numbers are compared: one that holds both, 128 bits where no other int does."""
    if left.dtype.is_float or right.dtype.is_float:
        narrow = all(found.weak or found.dtype is DType.F32 for found in (left, right))
        return "f32" if narrow and DType.F32 in (left.dtype, right.dtype) else "f64"
    if left.dtype is right.dtype:
        return "i1" if left.dtype is DType.BOOL else left.dtype.value
    wide, narrow_ = (left.dtype, right.dtype) if left.dtype.bits >= right.dtype.bits else (right.dtype, left.dtype)
    if wide.is_signed == narrow_.is_signed or (wide.is_signed and narrow_.bits < wide.bits):
        return wide.value
    return "i64" if wide.bits < 64 else "i128"


def as_i64(c: Holding, value: ScalarValue) -> hir.Value:
    """An int of any type as i64; one that i64 can't hold stops."""
    return c.b.narrow(value.value, "i64") if dtype_of(value.value) == "u64" else c.b.cast(value.value, "i64")
