"""Lists, ranges and what iterates: their methods, and `range len enumerate zip sum...` as functions. Lists change in place and
are shared on assignment; methods that make a new list say so."""

from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import Any

import numpy as np

from compiler.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    BOOL,
    I64,
    RANGE,
    STRING,
    UNIT,
    UNKNOWN,
    FunctionType,
    ListType,
    RangeType,
    Scalar,
    StringType,
    TensorType,
    TupleType,
    Type,
)
from runtime.tensor import Array, Tensor
from zynml.stdlib.creation import array_of_list
from zynml.stdlib.dtypes import dtype_of, type_name
from zynml.stdlib.family import Family
from zynml.stdlib.indexing import get_tensor, position, tensor_part
from zynml.stdlib.operators import BINARY, equal, is_number
from zynml.stdlib.printing import to_text
from zynml.stdlib.shapes import available_memory, bytes_text, is_int

family = Family()

ITERABLES = "List range"


# ---- what iterates ---------------------------------------------------------------------------------------------------


def items(value: Any) -> Iterable[Any]:
    """The values that `for x in value` goes through."""
    if isinstance(value, list | range | str | tuple):
        return value
    if isinstance(value, Tensor):
        if value.array.ndim == 0:
            raise LibraryFault("0301", "a tensor of rank 0 has no rows to go through")
        return (get_tensor(value, (row,)) for row in range(len(value.array)))
    if isinstance(value, dict | set):
        return list(value)
    raise LibraryFault("0203", f"{type_name(value)} can't be iterated")


def item_type(kind: Type) -> Type:
    """The type of one value of what iterates."""
    match kind:
        case ListType(element=element):
            return element
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
    return function(*values)


def holds(function: Any, value: Any) -> bool:
    found = call(function, value)
    if not isinstance(found, bool | np.bool_):
        raise LibraryFault("0203", f"the function answers with a bool here, not {type_name(found)}")
    return bool(found)


def require_count(count: Any, what: str = "a number of elements") -> int:
    if not is_int(count):
        raise LibraryFault("0203", f"{what} is an int, not {type_name(count)}")
    if count < 0:
        raise LibraryFault("0801", f"{what} can't be negative: {count}")
    return int(count)


def result_of(kind: Type) -> Type:
    return kind.result if isinstance(kind, FunctionType) else UNKNOWN


def _receiver(calls: CallTypes) -> Type:
    found: Type = calls.types.get("self", calls["values"])
    return found


def _element(calls: CallTypes) -> Type:
    return item_type(_receiver(calls))


def _listed(calls: CallTypes) -> Type:
    return ListType(_element(calls))


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
        if value.array.ndim == 0:
            raise LibraryFault("0301", "a tensor of rank 0 has no length")
        return len(value.array)
    if not isinstance(value, list | str | tuple | range | dict | set):
        raise LibraryFault("0203", f"{type_name(value)} has no length")
    return len(value)


@family.method("List String range tuple tensor", "len", result=_len_rule)
def len_method(self: Any) -> int:
    """How many elements, characters or rows."""
    return len_(self)


@family.method("List String range", "is_empty", result=BOOL)
def is_empty(self: Any) -> bool:
    """Whether there is no element."""
    return len_(self) == 0


def _enumerate_rule(calls: CallTypes) -> Type:
    return ListType(TupleType((I64, _element(calls))))


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


@family.method(ITERABLES, "zip", result=lambda calls: ListType(TupleType((_element(calls), item_type(calls["other"])))))
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
    raise LibraryFault("0808", to_text(message))


# ---- iterators -------------------------------------------------------------------------------------------------------


def _iterator(*names: str, result: Type | Callable[[CallTypes], Type]) -> Callable[[Any], Any]:
    """A method of whatever iterates."""
    return family.method(ITERABLES, *names, result=result)


@_iterator("iter", "collect", "to_list", result=_listed)
def collect(self: Any) -> list[Any]:
    """The values as a new list."""
    if isinstance(self, range):
        _require_room(len(self))
    return list(items(self))


def _require_room(count: int) -> None:
    if count * 32 > 1 << 24 and count * 32 > available_memory():
        raise LibraryFault("0804", f"a list of {count} elements takes about {bytes_text(count * 32)}, more than is free")


@_iterator("map", result=lambda calls: ListType(result_of(calls["function"])))
def map_(self: Any, function: Any) -> list[Any]:
    """The function's value for each element."""
    return [call(function, value) for value in items(self)]


@_iterator("filter", result=_listed)
def filter_(self: Any, function: Any) -> list[Any]:
    """The elements of which the function says true."""
    return [value for value in items(self) if holds(function, value)]


@_iterator("take", result=lambda calls: _receiver(calls))
def take(self: Any, count: Any) -> Any:
    """The first so many elements."""
    return self[: require_count(count)]


@_iterator("skip", result=lambda calls: _receiver(calls))
def skip(self: Any, count: Any) -> Any:
    """All but the first so many elements."""
    return self[require_count(count) :]


@_iterator("chain", result=_listed)
def chain(self: Any, other: Any) -> list[Any]:
    """The elements of both."""
    return [*items(self), *items(other)]


@_iterator("fold", result=lambda calls: _folded(calls))
def fold(self: Any, initial: Any, function: Any) -> Any:
    """function(... function(function(initial, first), second) ..., last)."""
    found = initial
    for value in items(self):
        found = call(function, found, value)
    return found


def _folded(calls: CallTypes) -> Type:
    found = result_of(calls["function"])
    kind = calls["initial"]
    if found is UNKNOWN or (isinstance(kind, Scalar) and kind.weak):
        return found
    return kind if found == kind else UNKNOWN


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
    return len(self) if function is None else sum(1 for value in items(self) if holds(function, value))


@_iterator("for_each", result=UNIT)
def for_each(self: Any, function: Any) -> None:
    """Calls the function with each element."""
    for value in items(self):
        call(function, value)


@_iterator("step_by", result=lambda calls: _receiver(calls))
def step_by(self: Any, count: Any) -> Any:
    """Every so-manieth element, from the first."""
    if require_count(count) == 0:
        raise LibraryFault("0806", "the step of a range can't be 0")
    return self[:: int(count)]


@_iterator("rev", "reversed", result=lambda calls: _receiver(calls))
def reversed_(self: Any) -> Any:
    """The elements from last to first, a new list."""
    return self[::-1]


def _any_all_rule(calls: CallTypes) -> Type:
    kind = calls["values"]
    if isinstance(kind, TensorType):
        from zynml.stdlib.reductions import reduced_type

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
        from zynml.stdlib.reductions import WORK, reduce_array

        return reduce_array(name, values.array, axis, keepdims, WORK[name])
    return test(values)


# ---- numbers in lists ------------------------------------------------------------------------------------------------


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
    listed = list(values)
    if not listed:
        raise LibraryFault("0803", f"`{name}` of an empty list")
    less = BINARY["lt" if name == "min" else "gt"]
    found = listed[0]
    for value in listed[1:]:
        if found != found:
            return found
        if less(value, found) or value != value:
            found = value
    dtype = dtype_of(found)
    return found if dtype is not None or isinstance(found, str) else _refuse(found, name)


def _refuse(value: Any, name: str) -> Any:
    raise LibraryFault("0203", f"`{name}` compares numbers or text, not {type_name(value)}")


# ---- lists that change -----------------------------------------------------------------------------------------------


@family.method("List", "push", "append", result=UNIT, mutates=True)
def push(self: Any, value: Any) -> None:
    """Adds an element at the end."""
    self.append(value)


@family.method("List", "pop", result=_element, mutates=True)
def pop(self: Any) -> Any:
    """Takes the last element away and gives it."""
    if not self:
        raise LibraryFault("0801", "`pop` of an empty list")
    return self.pop()


@family.method("List", "insert", result=UNIT, mutates=True)
def insert(self: Any, index: Any, value: Any) -> None:
    """Adds an element before that position."""
    if is_int(index) and index == len(self):
        self.append(value)
        return
    self.insert(position(index, len(self), "list"), value)


@family.method("List", "remove", result=_element, mutates=True)
def remove(self: Any, index: Any) -> Any:
    """Takes the element at a position away and gives it."""
    return self.pop(position(index, len(self), "list"))


@family.method("List", "clear", result=UNIT, mutates=True)
def clear(self: Any) -> None:
    """Takes all elements away."""
    self.clear()


@family.method("List", "extend", result=UNIT, mutates=True)
def extend(self: Any, other: Any) -> None:
    """Adds all elements of another list or range."""
    self.extend(list(items(other)))


@family.method("List", "reverse", result=UNIT, mutates=True)
def reverse(self: Any) -> None:
    """Turns the order around, in place."""
    self.reverse()


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1; nan sorts last, tuples and lists by their first difference."""
    if isinstance(left, list | tuple) and type(left) is type(right):
        for a, b in zip(left, right, strict=False):
            found = compare(a, b)
            if found:
                return found
        return (len(left) > len(right)) - (len(left) < len(right))
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    if BINARY["lt"](left, right):
        return -1
    if BINARY["gt"](left, right):
        return 1
    return int(left != left) - int(right != right)


def sort_list(values: list[Any], function: Any, descending: Any) -> list[Any]:
    if (
        values
        and function is None
        and (all(type(v) is int for v in values) or all(type(v) is str for v in values) or all(type(v) is float and v == v for v in values))
    ):
        return sorted(values, reverse=bool(descending))
    keys = values if function is None else [call(function, value) for value in values]

    def order(a: int, b: int) -> int:
        found = compare(keys[a], keys[b])
        return -found if descending and keys[a] == keys[a] and keys[b] == keys[b] else found

    return [values[index] for index in sorted(range(len(values)), key=cmp_to_key(order))]


@family.method("List", "sort", result=UNIT, mutates=True, keywords=("descending",))
def sort(self: Any, key: Any = None, descending: Any = False) -> None:
    """Sorts in place, stable, nan last; by a key function if given."""
    self[:] = sort_list(self, key, descending)


@family.method("List range", "sorted", result=_listed, keywords=("descending",))
def sorted_(self: Any, key: Any = None, descending: Any = False) -> list[Any]:
    """A sorted new list, stable, nan last; by a key function if given."""
    return sort_list(list(items(self)), key, descending)


@family.method("List", "set", result=UNIT, mutates=True)
def set_(self: Any, index: Any, value: Any) -> None:
    """Stores an element at a position."""
    self[position(index, len(self), "list")] = value


@family.method(ITERABLES, "get", result=_element)
def get(self: Any, index: Any) -> Any:
    """The element at a position."""
    return self[position(index, len(self), "range" if isinstance(self, range) else "list")]


@family.method("List", "first", result=_element)
def first(self: Any) -> Any:
    """The first element."""
    return self[position(0, len(self), "list")]


@family.method("List", "last", result=_element)
def last(self: Any) -> Any:
    """The last element."""
    return self[position(-1, len(self), "list")]


@family.method("List range tuple", "contains", result=BOOL)
def contains(self: Any, value: Any) -> bool:
    """Whether an element is equal to the value."""
    if isinstance(self, range):
        return is_int(value) and int(value) in self
    return any(equal(value, element) for element in self)


@family.function("operator in", result=BOOL)
def operator_in(left: Any, right: Any) -> bool:
    """`left in right`."""
    if isinstance(right, str):
        if not isinstance(left, str):
            raise LibraryFault("0208", f"`in` is not defined for {type_name(left)} and {type_name(right)}")
        return left in right
    if isinstance(right, list | tuple | range):
        return contains(right, left)
    if isinstance(right, dict | set):
        return left in right
    if isinstance(right, Tensor) and is_number(left):
        return bool(np.any(BINARY["eq"](right, left).array))
    raise LibraryFault("0208", f"`in` is not defined for {type_name(left)} and {type_name(right)}")


@family.method("List", "index_of", result=I64)
def index_of(self: Any, value: Any) -> int:
    """The position of the first element equal to the value, -1 when there is none."""
    return next((index for index, element in enumerate(self) if equal(value, element)), -1)


@family.method("List", "clone", result=_receiver)
def clone(self: Any) -> list[Any]:
    """A copy, deep through lists and tensors."""
    return _copied(self, 0)  # type: ignore[no-any-return]


def _copied(value: Any, depth: int) -> Any:
    if depth > 200:
        raise LibraryFault("0108", "values nested more than 200 deep can't be copied")
    match value:
        case list():
            return [_copied(v, depth + 1) for v in value]
        case tuple():
            return tuple(_copied(v, depth + 1) for v in value)
        case Tensor():
            return value.clone()
    return value


@family.method("List", "join", result=STRING)
def join(self: Any, separator: Any = "") -> str:
    """The texts of the elements with the separator between them."""
    if not isinstance(separator, str):
        raise LibraryFault("0203", f"the separator is a String, not {type_name(separator)}")
    return separator.join(map(to_text, self))


@family.method("List", "repeat", result=_receiver)
def repeat(self: Any, count: Any) -> list[Any]:
    """The elements so many times over, a new list."""
    times = require_count(count)
    _require_room(len(self) * times)
    return list(self) * times


@family.function("list", "List::new", "List::from", result=_listed)
def list_(values: Any = ()) -> list[Any]:
    """A new list of what iterates."""
    return collect(values) if isinstance(values, range) else list(items(values))
