"""Structs, enums, optionals, results and arrays `[T; N]` of a running program: conversion to declared types, parts, and changes of parts.
A change gives a new value; only an array that a variable of its own holds changes in place."""

from collections.abc import Callable
from operator import index as whole
from typing import Any

from compiler.backends.host.layouts import RecordLayouts
from compiler.backends.host.numbers import dtype_of, plain, scalar_class
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import ArrayType, DType, EnumType, OptionType, ResultType, Scalar, Size, StructType, Type
from runtime.lazy_numpy import np
from runtime.values import CaseValue, ElementArray, Nothing, Ok, RecordValue, Some, elements_of, is_array, is_number_array, replaced

Convert = Callable[[Any, Type], Any]
Describe = Callable[[Any], str]

RECORD_TYPES = (StructType, EnumType, OptionType, ResultType, ArrayType)
PLAIN_DTYPES = (DType.I64, DType.F64, DType.BOOL)
"""Their elements are Python's own numbers outside of arrays."""


def enum_of(value: object) -> str:
    """The enum of a case, "Option" and "Result" among them; "" of everything else."""
    return value.__record__.enum if isinstance(value, CaseValue) else ""


def as_declared(value: Any, to: Type, layouts: RecordLayouts, convert: Convert, describe: Describe) -> Any:
    """The value as a struct, enum, optional, result or array has it; `convert` serves its parts. The same object where nothing changes."""
    match to:
        case OptionType(value=inner):
            if enum_of(value) != "Option":
                return Some((convert(value, inner),))
            return value if type(value) is Nothing else _with_parts(value, (convert(value[0], inner),))
        case ResultType(value=good, error=error) if enum_of(value) == "Result":
            return _with_parts(value, (convert(value[0], good if type(value) is Ok else error),))
        case StructType(arguments=arguments):
            case = next(iter((layouts.cases(to) or {}).values()), None)
            if case is not None and type(value) is case.values:
                types = [type_ for _, type_ in case.parts]
                return _with_parts(value, list(map(convert, value, types))) if arguments else value
        case EnumType(arguments=arguments):
            case = next((one for one in (layouts.cases(to) or {}).values() if type(value) is one.values), None)
            if case is not None:
                types = [type_ for _, type_ in case.parts]
                return _with_parts(value, list(map(convert, value, types))) if arguments else value
        case ArrayType() if is_array(value) or type(value) is list:
            return _as_array(value, to, convert)
    raise LibraryFault("0807", f"expected {to}, found {describe(value)}")


def _with_parts(value: Any, parts: Any) -> Any:
    return value if all(new is old for new, old in zip(parts, value, strict=True)) else type(value)(parts)


def _as_array(value: Any, to: ArrayType, convert: Convert) -> Any:
    count = to.size.value if isinstance(to.size, Size) else None
    if count is not None and len(value) != count:
        raise LibraryFault("0807", f"expected {to}, found {len(value)} elements")
    element = to.element
    if is_number_array(value) and isinstance(element, Scalar) and dtype_of(value.dtype.type()) is element.dtype:
        return value
    elements = list(value) if not is_number_array(value) else list(elements_of(value))
    converted = [convert(part, element) for part in elements]
    if type(value) is ElementArray and all(new is old for new, old in zip(converted, value, strict=True)):
        return value
    return array_of(converted, element)


def array_of(elements: list[Any], element: Type) -> Any:
    """The array of elements that have its element type."""
    dtype = element.dtype if isinstance(element, Scalar) else dtype_of(elements[0])
    if dtype is None or not all(dtype_of(part) is dtype for part in elements):
        return ElementArray(elements)
    return np.array(elements, _numpy_dtype(dtype))


def filled(value: Any, count: Any, element: Type, copied: Callable[[Any], Any]) -> Any:
    """`[value; count]`."""
    times = whole(count)
    if times < 1:
        raise LibraryFault("0301", f"an array has at least 1 element, and this has {times}")
    dtype = element.dtype if isinstance(element, Scalar) else dtype_of(value)
    if dtype is None:
        return ElementArray(copied(value) for _ in range(times))
    return np.full(times, value, _numpy_dtype(dtype))


def _numpy_dtype(dtype: DType) -> Any:
    return {DType.BOOL: np.bool_, DType.I64: np.int64, DType.F64: np.float64}.get(dtype) or scalar_class(dtype)


# ---- elements --------------------------------------------------------------------------------------------------------


def place_in(values: Any, index: Any) -> int:
    """An index into an array, in range. Raises LibraryFault (0801)."""
    place = index if type(index) is int else _whole(index)
    if 0 <= place < len(values):
        return place
    message = f"index {place} is out of range: the array has {len(values)}, indices go from 0 to {len(values) - 1}"
    raise LibraryFault("0801", message)


def _whole(index: Any) -> int:
    dtype = dtype_of(index)
    if dtype is None or not dtype.is_int:
        raise LibraryFault("0407", "the index of an array is an int")
    return int(index)


def plain_element(values: Any, index: Any) -> Any:
    """`a[i]` of an array of i64, f64 or bool."""
    return values.item(place_in(values, index))


def element_at(values: Any, index: Any) -> Any:
    """`a[i]` of any array."""
    found = values[place_in(values, index)]
    return found if type(values) is ElementArray else _outside(found)


def _outside(number: Any) -> Any:
    """A number of an array as it is outside of it."""
    dtype = dtype_of(number)
    return plain(number, dtype) if dtype in PLAIN_DTYPES and dtype is not None else number


def store_element(values: Any, index: Any, new: Any) -> None:
    """`a[i] = new` in an array that nobody else has."""
    values[place_in(values, index)] = new


# ---- parts of records ------------------------------------------------------------------------------------------------


def part_index(value: tuple[Any, ...], name: str, describe: Describe) -> int:
    """Where a part lies in a record or tuple. Raises LibraryFault (0801, 0807) where there is none."""
    if isinstance(value, RecordValue):
        if name in value.__record__.parts:
            return value.__record__.parts.index(name)
        raise LibraryFault("0807", f"a `{value.__record__.name}` has no field `{name}`")
    if name.isdecimal():
        if int(name) < len(value):
            return int(name)
        raise LibraryFault("0801", f"there is no element {name} in a tuple of {len(value)}")
    raise LibraryFault("0807", f"{describe(value)} has no field `{name}`")


def with_part(value: tuple[Any, ...], index: int, part: Any, layouts: RecordLayouts, convert: Convert) -> tuple[Any, ...]:
    """The record or tuple with another part, which becomes what its struct or case declares."""
    parts = layouts.parts(value) if isinstance(value, RecordValue) else None
    return replaced(value, index, part if parts is None else convert(part, parts[index][1]))


def with_element(values: Any, index: Any, new: Any, convert: Convert) -> Any:
    """A copy of the array with another element."""
    place = place_in(values, index)
    changed = ElementArray(values) if type(values) is ElementArray else values.copy()
    dtype = dtype_of(values[0]) if type(values) is not ElementArray else None
    changed[place] = new if dtype is None else convert(new, Scalar(dtype))
    return changed


# ---- patterns and optionals ------------------------------------------------------------------------------------------


def is_one_of(value: Any, *classes: type) -> bool:
    return type(value) in classes


def has_value(value: Any, word: str, describe: Describe) -> bool:
    """Whether an optional or a result that only its value tells holds what is wanted. Raises LibraryFault (0807) for anything else."""
    if enum_of(value) not in ("Option", "Result"):
        raise LibraryFault("0807", f"{word} takes a value that may be none, and this is {describe(value)}")
    tag: int = value.__tag__
    return tag == 1


def is_tuple_of(value: Any, count: int) -> bool:
    return type(value) in (tuple, list) and len(value) == count


def misfit_of_pattern(text: str) -> Any:
    """A value of unknown type doesn't fit the pattern of a `let`."""
    raise LibraryFault("0807", f"{text} doesn't fit this pattern", "take it apart in a `match`, which has an arm for the rest")


def unmatched(text: str) -> Any:
    """No arm of a `match` takes the value."""
    raise LibraryFault("0807", f"no arm of this `match` takes {text}", "add an arm `_ => ...`")
