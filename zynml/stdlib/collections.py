"""Iterating: methods of lists and ranges that go through their elements, and `range len enumerate zip any all assert`."""

from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    BOOL,
    I64,
    RANGE,
    UNIT,
    UNKNOWN,
    DictType,
    FunctionType,
    ListType,
    OptionType,
    Scalar,
    SetType,
    TensorType,
    TupleType,
    Type,
)
from runtime.tensor import Tensor
from runtime.values import NONE, RecordValue, Some, is_array
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.printing import to_text
from zynml.stdlib.reductions import WORK, reduce_array, reduced_type
from zynml.stdlib.sequences import (
    as_answer,
    call,
    call_each,
    element_type,
    holds,
    item_type,
    items,
    listed_type,
    one_element,
    receiver_type,
    require_count,
    require_room,
    result_of,
)
from zynml.stdlib.shapes import is_int

family = FunctionFamily()

ITERABLES = "List range HashMap HashSet"


# ---- functions -------------------------------------------------------------------------------------------------------


@family.function("range", result=RANGE, start="int", stop="int", step="int")
def range_(start: Any, stop: Any = None, step: Any = 1) -> range:
    """start, start + step, ... up to but without stop; from 0 when only one bound is given."""
    for bound in (start, step, 0 if stop is None else stop):
        if not is_int(bound):
            raise LibraryFault("0203", f"the bounds of a range are ints, not {type_name(bound)}")
    if step == 0:
        raise LibraryFault("0806", "the step of a range can't be 0")
    return range(int(start), int(stop), int(step)) if stop is not None else range(0, int(start), int(step))


def _len_rule(calls: CallTypes) -> Type:
    kind = calls.types.get("self", calls["value"])
    if isinstance(kind, Scalar | FunctionType):
        raise TypeFault("0203", f"{kind} has no length")
    return I64


@family.function("len", "string_length", "list_length", result=_len_rule)
def len_(value: Any) -> int:
    """How many elements, characters or rows."""
    if isinstance(value, Tensor):
        if value.shape == ():
            raise LibraryFault("0301", "a tensor of rank 0 has no length")
        return len(value)
    if not (is_array(value) or isinstance(value, list | str | tuple | range | dict)) or isinstance(value, RecordValue):
        raise LibraryFault("0203", f"{type_name(value)} has no length")
    return len(value)


@family.method("List String range tuple tensor array HashMap HashSet", "len", result=_len_rule)
def len_method(self: Any) -> int:
    """How many elements, characters or rows."""
    return len_(self)


@family.method("List String range HashMap HashSet", "is_empty", result=BOOL)
def is_empty(self: Any) -> bool:
    """Whether there is no element."""
    return len_(self) == 0


def _enumerate_rule(calls: CallTypes) -> Type:
    return ListType(TupleType((I64, element_type(calls))))


@family.function("enumerate", result=_enumerate_rule)
def enumerate_(values: Any) -> list[Any]:
    """Pairs of position and value."""
    return list(enumerate(items(values)))


@family.method(ITERABLES, "enumerate", result=_enumerate_rule)
def enumerate_method(self: Any) -> list[Any]:
    """Pairs of position and value."""
    return enumerate_(self)


@family.function("zip", result=lambda calls: ListType(TupleType(tuple(map(item_type, calls.types.get("lists", ()))))), variadic="lists")
def zip_(lists: tuple[Any, ...]) -> list[Any]:
    """Tuples of values side by side, as many as the shortest has."""
    return list(zip(*map(items, lists), strict=False))


@family.method(ITERABLES, "zip", result=lambda calls: ListType(TupleType((element_type(calls), item_type(calls["other"])))))
def zip_method(self: Any, other: Any) -> list[Any]:
    """Pairs of values side by side, as many as the shorter has."""
    return zip_((self, other))


@family.function("assert", result=UNIT, message="String")
def assert_(condition: Any, message: Any = None) -> None:
    """Stops the program unless the condition holds."""
    if not isinstance(condition, bool | np.bool_):
        raise LibraryFault("0203", f"`assert` tests a bool, not {type_name(condition)}")
    if not condition:
        raise LibraryFault("0808", "assertion failed" + ("" if message is None else f": {to_text(message)}"))


@family.function("panic", result=UNIT, message="String")
def panic(message: Any) -> None:
    """Stops the program."""
    raise LibraryFault("0808", to_text(message) or "panic")


# ---- iterators -------------------------------------------------------------------------------------------------------


def _iterator(*names: str, result: Type | Callable[[CallTypes], Type]) -> Callable[[Any], Any]:
    """A method of whatever iterates."""
    return family.method(ITERABLES, *names, result=result, handed=_fold_values if names == ("fold",) else one_element)


def _fold_values(receiver: Type) -> tuple[Type, ...]:
    return (UNKNOWN, item_type(receiver))


@_iterator("iter", "collect", "to_list", result=listed_type)
def collect(self: Any) -> list[Any]:
    """The values as a new list."""
    if isinstance(self, range):
        require_room(len(self))
    return list(items(self))


@_iterator("map", result=lambda calls: ListType(result_of(calls["function"])))
def map_(self: Any, function: Any) -> list[Any]:
    """The function's value for each element."""
    return call_each(function, items(self))


@_iterator("filter", result=listed_type)
def filter_(self: Any, function: Any) -> list[Any]:
    """The elements of which the function says true."""
    values = self if type(self) is list else list(items(self))
    answers = call_each(function, values)
    return list(compress(values, answers if set(map(type, answers)) <= {bool} else map(as_answer, answers)))


@_iterator("find", result=lambda calls: OptionType(element_type(calls)))
def find(self: Any, function: Any) -> Any:
    """The first element of which the function says true, as an optional."""
    return next((Some((value,)) for value in items(self) if holds(function, value)), NONE)


def sliceable(value: Any) -> Any:
    return list(items(value)) if isinstance(value, dict) else value


def _part_type(calls: CallTypes) -> Type:
    kind = receiver_type(calls)
    return listed_type(calls) if isinstance(kind, DictType | SetType) else kind


@_iterator("take", result=_part_type)
def take(self: Any, count: Any) -> Any:
    """The first so many elements."""
    return sliceable(self)[: require_count(count)]


@_iterator("skip", result=_part_type)
def skip(self: Any, count: Any) -> Any:
    """All but the first so many elements."""
    return sliceable(self)[require_count(count) :]


def _chained(calls: CallTypes) -> Type:
    element = element_type(calls)
    return ListType(element if item_type(calls["other"]) == element else UNKNOWN)


@_iterator("chain", result=_chained)
def chain(self: Any, other: Any) -> list[Any]:
    """The elements of both."""
    return [*items(self), *items(other)]


@_iterator("fold", result=lambda calls: _folded(calls))
def fold(self: Any, initial: Any, function: Any) -> Any:
    """function(... function(function(initial, first), second) ..., last)."""
    total = initial
    for value in items(self):
        total = call(function, total, value)
    return total


def _folded(calls: CallTypes) -> Type:
    result = result_of(calls["function"])
    kind = calls["initial"]
    if result is UNKNOWN or (isinstance(kind, Scalar) and kind.weak):
        return result
    return kind if result == kind else UNKNOWN


@_iterator("any", result=BOOL)
def any_(self: Any, function: Any = None) -> bool:
    """Whether one element is true, or the function says so of one."""
    return any(holds(function if function is not None else _itself, value) for value in items(self))


@_iterator("all", result=BOOL)
def all_(self: Any, function: Any = None) -> bool:
    """Whether all elements are true, or the function says so of all."""
    return all(holds(function if function is not None else _itself, value) for value in items(self))


def _itself(value: Any) -> Any:
    return value


@_iterator("count", result=I64)
def count_(self: Any, function: Any = None) -> int:
    """How many elements, or of how many the function says true."""
    if function is None:
        return sum(1 for _ in self) if isinstance(self, Iterator) else len(self)
    return sum(1 for value in items(self) if holds(function, value))


@_iterator("for_each", result=UNIT)
def for_each(self: Any, function: Any) -> None:
    """Calls the function with each element."""
    for value in items(self):
        call(function, value)


@_iterator("step_by", result=_part_type)
def step_by(self: Any, count: Any) -> Any:
    """Every so-manieth element, from the first."""
    if require_count(count) == 0:
        raise LibraryFault("0806", "the step of a range can't be 0")
    return sliceable(self)[:: int(count)]


@_iterator("rev", "reversed", result=_part_type)
def reversed_(self: Any) -> Any:
    """The elements from last to first, a new list."""
    return sliceable(self)[::-1]


def _any_all_rule(calls: CallTypes) -> Type:
    kind = calls["values"]
    if isinstance(kind, TensorType):
        return reduced_type("any", CallTypes({**calls.types, "self": kind}, calls.constants))
    item_type(kind)
    return BOOL if kind is not UNKNOWN else UNKNOWN


@family.function("any", result=_any_all_rule, keywords=("axis", "keepdims"))
def any_of(values: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """Whether an element is true."""
    return _test("any", any_, values, axis, keepdims)


@family.function("all", result=_any_all_rule, keywords=("axis", "keepdims"))
def all_of(values: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """Whether all elements are true."""
    return _test("all", all_, values, axis, keepdims)


def _test(name: str, test: Callable[[Any], bool], values: Any, axis: Any, keepdims: Any) -> Any:
    if isinstance(values, Tensor):
        return reduce_array(name, values.contents, axis, keepdims, WORK[name])
    return test(values)
