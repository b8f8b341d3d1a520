"""What a value's type and making say of its range: a byte, however widened, is below 256. Sees through casts, masks and remainders
only; affine ranges of loops are analysis' business."""

from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Const
from compiler.hir.identity import highest, lowest
from compiler.hir.instruction import Value
from compiler.hir.types import Tile, is_float

Range = tuple[int, int]
"""The least and the greatest number, both possible."""


def range_of(value: Value) -> Range | None:
    """The range of an int, None where nothing better than a wide type's is known."""
    if not isinstance(value.type, Tile) or is_float(value.type.dtype):
        return None
    whole = _of_type(value.type.dtype)
    match value.source:
        case Const(value=number):
            return int(number), int(number)
        case Cast(value=inner):
            range_ = range_of(inner)
            return range_ if range_ is not None and _fits(range_, whole) else _narrow(value.type.dtype)
        case Binary(operator="and", right=Value(source=Const(value=mask))) if int(mask) >= 0:
            return 0, int(mask)
        case Binary(operator="rem", left=left, right=Value(source=Const(value=divisor))) if int(divisor) > 0:
            range_ = range_of(left)
            if range_ is not None and range_[0] >= 0:
                return 0, min(range_[1], int(divisor) - 1)
        case _:
            pass
    return _narrow(value.type.dtype)


def range_of_form(form: Affine, named: dict[str, Value]) -> Range | None:
    """The range of a form over values known by name."""
    low = high = form.constant
    for name, coefficient in form.terms:
        if not isinstance(name, str) or name not in named:
            return None
        range_ = range_of(named[name])
        if range_ is None:
            return None
        ends = coefficient * range_[0], coefficient * range_[1]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _of_type(dtype: str) -> Range:
    wide = "i64" if dtype == "index" else dtype
    return (0, 1) if dtype == "i1" else (int(lowest(wide)), int(highest(wide)))


def _narrow(dtype: str) -> Range | None:
    return _of_type(dtype) if dtype in ("i1", "i8", "u8", "i16", "u16") else None


def _fits(range_: Range, whole: Range) -> bool:
    return whole[0] <= range_[0] and range_[1] <= whole[1]
