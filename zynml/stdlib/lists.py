"""Lists that change in place, sort, and are searched; and `in`."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cmp_to_key
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import (
    BOOL,
    I64,
    STRING,
    UNIT,
)
from runtime.tensor import Tensor
from runtime.values import ElementSet
from zynml.stdlib.collections import collect
from zynml.stdlib.dtypes import require_bool, type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.indexing import position
from zynml.stdlib.keys import as_key
from zynml.stdlib.operators import BINARY, equal, is_number
from zynml.stdlib.printing import to_text
from zynml.stdlib.sequences import call_each, element_type, items, listed_type, one_element, receiver_type, require_count, require_room
from zynml.stdlib.shapes import is_int

family = FunctionFamily()


@family.method("List", "push", "append", result=UNIT, mutates=True)
def push(self: Any, value: Any) -> None:
    """Adds an element at the end."""
    self.append(value)


@family.method("List", "pop", result=element_type, mutates=True)
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


@family.method("List", "remove", result=element_type, mutates=True)
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
            order = compare(a, b)
            if order:
                return order
        return (len(left) > len(right)) - (len(left) < len(right))
    if isinstance(left, bool) and isinstance(right, bool):
        return left - right
    if BINARY["lt"](left, right):
        return -1
    if BINARY["gt"](left, right):
        return 1
    return int(left != left) - int(right != right)


def _are_plain(keys: list[Any]) -> bool:
    """Whether Python orders the keys as the language does: all are ints, texts, floats without nan, or tuples of as many such parts."""
    kinds = set(map(type, keys))
    if kinds == {float}:
        return all(key == key for key in keys)
    if kinds == {tuple}:
        lengths = set(map(len, keys))
        return len(lengths) == 1 and all(_are_plain(list(column)) for column in zip(*keys, strict=True))
    return kinds in ({int}, {str})


def sort_list(values: list[Any], function: Any, descending: Any) -> list[Any]:
    downward = require_bool(descending, "`descending=`")
    keys = values if function is None else call_each(function, values)
    if _are_plain(keys):
        if function is None:
            return sorted(values, reverse=downward)
        following = iter(keys)
        return sorted(values, key=lambda value: next(following), reverse=downward)

    def order(a: int, b: int) -> int:
        order_ = compare(keys[a], keys[b])
        return -order_ if downward and keys[a] == keys[a] and keys[b] == keys[b] else order_

    return [values[index] for index in sorted(range(len(values)), key=cmp_to_key(order))]


@family.method("List", "sort", result=UNIT, mutates=True, keywords=("descending",), handed=one_element)
def sort(self: Any, key: Any = None, descending: Any = False) -> None:
    """Sorts in place, stable, nan last; by a key function if given."""
    self[:] = sort_list(self, key, descending)


@family.method("List range", "sorted", result=listed_type, keywords=("descending",), handed=one_element)
def sorted_(self: Any, key: Any = None, descending: Any = False) -> list[Any]:
    """A sorted new list, stable, nan last; by a key function if given."""
    return sort_list(list(items(self)), key, descending)


@family.method("List", "set", result=UNIT, mutates=True)
def set_(self: Any, index: Any, value: Any) -> None:
    """Stores an element at a position."""
    self[position(index, len(self), "list")] = value


@family.method("List range", "get", result=element_type)
def get(self: Any, index: Any) -> Any:
    """The element at a position."""
    return self[position(index, len(self), "range" if isinstance(self, range) else "list")]


@family.method("List", "first", result=element_type)
def first(self: Any) -> Any:
    """The first element."""
    if isinstance(self, Iterator):
        return _of_stream("first", self)
    return self[position(0, len(self), "list")]


@family.method("List", "last", result=element_type)
def last(self: Any) -> Any:
    """The last element."""
    if isinstance(self, Iterator):
        return _of_stream("last", deque(self, maxlen=1))
    return self[position(-1, len(self), "list")]


def _of_stream(which: str, values: Iterable[Any]) -> Any:
    for value in values:
        return value
    raise LibraryFault("0801", f"`{which}` of an empty stream")


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
    if isinstance(right, dict):
        return as_key(left) in right
    if isinstance(right, Tensor) and is_number(left):
        return bool(np.any(BINARY["eq"](right, left).contents))
    raise LibraryFault("0208", f"`in` is not defined for {type_name(left)} and {type_name(right)}")


@family.method("List", "index_of", result=I64)
def index_of(self: Any, value: Any) -> int:
    """The position of the first element equal to the value, -1 when there is none."""
    return next((index for index, element in enumerate(self) if equal(value, element)), -1)


@family.method("List HashMap HashSet", "clone", result=receiver_type)
def clone(self: Any) -> Any:
    """A copy, deep through lists, maps, sets and tensors."""
    return _copied(self, 0)


def _copied(value: Any, depth: int) -> Any:
    if depth > 200:
        raise LibraryFault("0108", "values nested more than 200 deep can't be copied")
    match value:
        case list():
            return [_copied(v, depth + 1) for v in value]
        case tuple():
            return tuple(_copied(v, depth + 1) for v in value)
        case ElementSet():
            return ElementSet(value)
        case dict():
            return {key: _copied(part, depth + 1) for key, part in value.items()}
        case Tensor():
            return value.clone()
    return value


@family.method("List", "join", result=STRING)
def join(self: Any, separator: Any = "") -> str:
    """The texts of the elements with the separator between them."""
    if not isinstance(separator, str):
        raise LibraryFault("0203", f"the separator is a String, not {type_name(separator)}")
    return separator.join(map(to_text, self))


@family.method("List", "repeat", result=receiver_type)
def repeat(self: Any, count: Any) -> list[Any]:
    """The elements so many times over, a new list."""
    times = require_count(count)
    require_room(len(self) * times)
    return list(self) * times


@family.function("list", "List::new", "List::from", result=listed_type)
def list_(values: Any = ()) -> list[Any]:
    """A new list of what iterates."""
    return collect(values) if isinstance(values, range) else list(items(values))
