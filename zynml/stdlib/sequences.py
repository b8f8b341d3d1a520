"""What iterates, and what lists of numbers are for reductions: shared by the files about lists and about tensors."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    I64,
    STRING,
    UNKNOWN,
    ArrayType,
    DictType,
    FunctionType,
    ListType,
    RangeType,
    Scalar,
    SetType,
    StringType,
    TensorType,
    TupleType,
    Type,
)
from runtime.free_memory import available_memory
from runtime.tensor import Array, Tensor
from runtime.values import ElementSet, RecordValue, elements_of, is_array
from zynml.stdlib.creation import array_of_list
from zynml.stdlib.dtypes import dtype_of, type_name
from zynml.stdlib.indexing import get_tensor, tensor_part
from zynml.stdlib.operators import BINARY, is_number
from zynml.stdlib.shapes import MAX_EXTENT, bytes_text, is_int


def items(value: Any) -> Iterable[Any]:
    """The values that `for x in value` goes through."""
    if is_array(value):
        return elements_of(value)
    if isinstance(value, list | range | str | tuple | Iterator) and not isinstance(value, RecordValue):
        return value
    if isinstance(value, Tensor):
        if value.shape == ():
            raise LibraryFault("0301", "a tensor of rank 0 has no rows to go through")
        return (get_tensor(value, (row,)) for row in range(len(value)))
    if isinstance(value, ElementSet):
        return list(value)
    if isinstance(value, dict):
        return list(value.items())
    raise LibraryFault("0203", f"{type_name(value)} can't be iterated")


def item_type(kind: Type) -> Type:
    """The type of one value of what iterates."""
    match kind:
        case ListType(element=element) | ArrayType(element=element):
            return element
        case SetType(element=element):
            return element
        case DictType(key=key, value=value):
            return TupleType((key, value))
        case RangeType():
            return I64
        case StringType():
            return STRING
        case TensorType():
            return tensor_part(kind, (I64,), (None,))
        case TupleType(elements=elements) if elements and all(e == elements[0] for e in elements):
            return elements[0]
        case Scalar() | FunctionType():
            raise TypeFault("0203", f"{kind} can't be iterated")
    return UNKNOWN


def call(function: Any, *values: Any) -> Any:
    """A call of a function that the program handed over."""
    if not callable(function):
        raise LibraryFault("0203", f"a function is expected here, not {type_name(function)}")
    try:
        return function(*values)
    except TypeError as error:
        # Raised by the call itself, not in the function: the number of arguments is wrong.
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            count = "1 argument" if len(values) == 1 else f"{len(values)} arguments"
            raise LibraryFault("0204", f"the function is called with {count}, which it does not take") from None
        raise


def call_each(function: Any, values: Iterable[Any]) -> list[Any]:
    """What a function that the program handed over gives of each value."""
    if not callable(function):
        raise LibraryFault("0203", f"a function is expected here, not {type_name(function)}")
    try:
        return list(map(function, values))
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise LibraryFault("0204", "the function is called with 1 argument, which it does not take") from None
        raise


def one_element(receiver: Type) -> tuple[Type, ...]:
    """What methods give to a function of one value."""
    return (item_type(receiver),)


def holds(function: Any, value: Any) -> bool:
    answer = call(function, value)
    return answer if answer is True or answer is False else as_answer(answer)


def as_answer(answer: Any) -> bool:
    """What a function answers that is to say true or false."""
    if not isinstance(answer, bool | np.bool_):
        raise LibraryFault("0203", f"the function answers with a bool here, not {type_name(answer)}")
    return bool(answer)


def require_count(count: Any, what: str = "a number of elements") -> int:
    if not is_int(count):
        raise LibraryFault("0203", f"{what} is an int, not {type_name(count)}")
    if count < 0:
        raise LibraryFault("0801", f"{what} can't be negative: {count}")
    if count >= MAX_EXTENT:
        raise LibraryFault("0804", f"{count} is more than any memory can hold")
    return int(count)


def numbers_array(values: list[Any]) -> Array:
    """A list's numbers as an array that keeps their types: Python floats as f64."""
    if values and all(type(value) is float for value in values):
        return np.array(values, dtype=np.float64)
    if not values:
        return np.zeros(0, dtype=np.int64)
    if any(type(value) is float for value in values) and all(is_number(value) for value in values):
        for value in values:
            if isinstance(value, bool | np.bool_):
                raise LibraryFault("0203", "a list of bools and numbers can't be reduced")
        return np.array([float(value) for value in values], dtype=np.float64)
    return array_of_list(values)


def extreme(values: Any, name: str) -> Any:
    """The largest or smallest of a list; nan wins."""
    following = iter(items(values))
    try:
        best = next(following)
    except StopIteration:
        raise LibraryFault("0803", f"`{name}` of an empty {'stream' if following is values else 'list'}") from None
    less = BINARY["lt" if name == "min" else "gt"]
    for value in following:
        if best != best:
            return best
        if less(value, best) or value != value:
            best = value
    dtype = dtype_of(best)
    return best if dtype is not None or isinstance(best, str) else _refuse(best, name)


def _refuse(value: Any, name: str) -> Any:
    raise LibraryFault("0203", f"`{name}` compares numbers or text, not {type_name(value)}")


def result_of(kind: Type) -> Type:
    return kind.result if isinstance(kind, FunctionType) else UNKNOWN


def receiver_type(calls: CallTypes) -> Type:
    type_: Type = calls.types.get("self", calls["values"])
    return type_


def element_type(calls: CallTypes) -> Type:
    return item_type(receiver_type(calls))


def listed_type(calls: CallTypes) -> Type:
    return ListType(element_type(calls))


def require_room(count: int) -> None:
    if count * 32 > 1 << 24 and count * 32 > available_memory():
        raise LibraryFault("0804", f"a list of {count} elements takes about {bytes_text(count * 32)}, more than is free")
