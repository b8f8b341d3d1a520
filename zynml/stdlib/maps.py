"""Maps and sets: made from pairs and elements, looked up, changed in place. Both keep the order in which keys came in."""

from collections.abc import Callable, Iterable
from typing import Any

from compiler.typed_ast.conversions import fits, strong
from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import BOOL, UNIT, UNKNOWN, DictType, ListType, OptionType, Scalar, SetType, TupleType, Type
from runtime.values import NONE, ElementSet, RecordValue, Some
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.keys import PLAIN, as_key
from zynml.stdlib.sequences import call, item_type, items, receiver_type, result_of

family = FunctionFamily()

EITHER = "HashMap HashSet"


def key_type(calls: CallTypes) -> Type:
    kind = receiver_type(calls)
    return kind.key if isinstance(kind, DictType) else kind.element if isinstance(kind, SetType) else UNKNOWN


def value_type(calls: CallTypes) -> Type:
    kind = receiver_type(calls)
    return kind.value if isinstance(kind, DictType) else UNKNOWN


# ---- making them -----------------------------------------------------------------------------------------------------


def _map_rule(calls: CallTypes) -> Type:
    element = item_type(calls["pairs"])
    if isinstance(element, TupleType) and len(element.elements) == 2:
        return DictType(*element.elements)
    return DictType(UNKNOWN, UNKNOWN)


@family.function("HashMap::from", "HashMap::new", "dict", result=_map_rule)
def map_of(pairs: Any = ()) -> dict[Any, Any]:
    """A map of pairs `(key, value)`; the last value of a key counts."""
    if isinstance(pairs, dict) and not isinstance(pairs, ElementSet):
        return dict(pairs)
    found: dict[Any, Any] = {}
    for pair in items(pairs):
        if not isinstance(pair, tuple) or isinstance(pair, RecordValue) or len(pair) != 2:
            raise LibraryFault("0203", f"a map is made of pairs `(key, value)`, not of {type_name(pair)}")
        found[as_key(pair[0])] = pair[1]
    return found


@family.function("HashSet::from", "HashSet::new", "set", result=lambda calls: SetType(item_type(calls["elements"])))
def set_of(elements: Any = ()) -> ElementSet:
    """A set of what iterates."""
    values = list(items(elements))
    if set(map(type, values)) <= PLAIN:
        return ElementSet(dict.fromkeys(values))
    return ElementSet({as_key(element): None for element in values})


def _of_iterables(name: str, result: Callable[[CallTypes], Type], make: Callable[[Any], Any], doc: str) -> None:
    def method(self: Any) -> Any:
        return make(self)

    method.__doc__ = doc
    family.method("List range HashMap HashSet", name, result=result)(method)


def _to_map_rule(calls: CallTypes) -> Type:
    element = item_type(receiver_type(calls))
    known = isinstance(element, TupleType) and len(element.elements) == 2
    return DictType(*element.elements) if known and isinstance(element, TupleType) else DictType(UNKNOWN, UNKNOWN)


_of_iterables("to_map", _to_map_rule, map_of, "A map of the pairs; the last value of a key counts.")
_of_iterables("to_set", lambda calls: SetType(item_type(receiver_type(calls))), set_of, "A set of the elements.")


# ---- maps ------------------------------------------------------------------------------------------------------------


@family.method("HashMap", "get", result=lambda calls: OptionType(value_type(calls)))
def get(self: Any, key: Any) -> Any:
    """The value of a key as an optional: none where there is no such key."""
    return Some((self[key],)) if as_key(key) in self else NONE


def _value_or_given(calls: CallTypes) -> Type:
    wanted, given = value_type(calls), calls["default"]
    if not fits(given, wanted):
        raise TypeFault("0203", f"`get_or` gives {wanted}, not {given}", "default", f"this is {given}")
    same = not isinstance(given, Scalar) or given.weak or given == strong(wanted)
    return wanted if same else UNKNOWN


@family.method("HashMap", "get_or", result=_value_or_given)
def get_or(self: Any, key: Any, default: Any) -> Any:
    """The value of a key, or the default where there is no such key."""
    return self.get(as_key(key), default)


@family.method("HashMap", "insert", "set", result=UNIT, mutates=True)
def insert(self: Any, key: Any, value: Any) -> None:
    """Stores the value of a key."""
    self[as_key(key)] = value


@family.method("HashMap", "remove", result=lambda calls: OptionType(value_type(calls)), mutates=True)
def remove(self: Any, key: Any) -> Any:
    """Takes a key away and gives its value as an optional."""
    return Some((self.pop(key),)) if as_key(key) in self else NONE


@family.method("HashMap", "contains_key", "contains", result=BOOL)
def contains_key(self: Any, key: Any) -> bool:
    """Whether there is such a key."""
    return as_key(key) in self


@family.method("HashMap", "keys", result=lambda calls: ListType(key_type(calls)))
def keys(self: Any) -> list[Any]:
    """The keys, in the order in which they came in."""
    return list(self)


@family.method("HashMap", "values", result=lambda calls: ListType(value_type(calls)))
def values(self: Any) -> list[Any]:
    """The values, in the order of their keys."""
    return list(self.values())


@family.method("HashMap", "items", "entries", result=lambda calls: ListType(TupleType((key_type(calls), value_type(calls)))))
def entries(self: Any) -> list[Any]:
    """Pairs of key and value."""
    return list(self.items())


@family.method("HashMap", "extend", "update", result=UNIT, mutates=True)
def extend(self: Any, other: Any) -> None:
    """Stores all pairs of another map, or of what iterates."""
    self.update(map_of(other))


@family.method("HashMap", "change", result=UNIT, mutates=True)
def change(self: Any, key: Any, default: Any, function: Any) -> None:
    """Stores the function's value for what the key has, or for the default where there is no such key."""
    self[key] = call(function, self.get(as_key(key), default))


def _mapped(calls: CallTypes) -> Type:
    return DictType(key_type(calls), result_of(calls["function"]))


@family.method("HashMap", "map_values", result=_mapped)
def map_values(self: Any, function: Any) -> dict[Any, Any]:
    """A new map with the function's value for each value."""
    return {key: call(function, value) for key, value in self.items()}


@family.method(EITHER, "clear", result=UNIT, mutates=True)
def clear(self: Any) -> None:
    """Takes everything away."""
    self.clear()


# ---- sets ------------------------------------------------------------------------------------------------------------


@family.method("HashSet", "insert", "add", result=BOOL, mutates=True)
def add(self: Any, value: Any) -> bool:
    """Adds an element. Whether it is new."""
    new = as_key(value) not in self
    self[value] = None
    return new


@family.method("HashSet", "remove", result=BOOL, mutates=True)
def discard(self: Any, value: Any) -> bool:
    """Takes an element away. Whether it was there."""
    there = as_key(value) in self
    self.pop(value, None)
    return there


@family.method("HashSet", "contains", result=BOOL)
def holds(self: Any, value: Any) -> bool:
    """Whether the value is an element."""
    return as_key(value) in self


@family.method("HashSet", "extend", result=UNIT, mutates=True)
def extend_set(self: Any, other: Any) -> None:
    """Adds all elements of what iterates."""
    self.update(set_of(other))


def _joined(calls: CallTypes) -> Type:
    own, other = key_type(calls), item_type(calls["other"])
    return SetType(own if own == other else UNKNOWN)


Choose = Callable[[ElementSet, ElementSet], Iterable[Any]]


def _of_two(*names: str, doc: str, result: Callable[[CallTypes], Type] = receiver_type) -> Callable[[Choose], None]:
    """A method of two sets that gives a third one."""

    def declare(choose: Choose) -> None:
        def method(self: Any, other: Any) -> ElementSet:
            return ElementSet(dict.fromkeys(choose(self, set_of(other))))

        method.__doc__ = doc
        family.method("HashSet", *names, result=result)(method)

    return declare


_of_two("union", result=_joined, doc="The elements of both.")(lambda a, b: [*a, *b])
_of_two("intersection", doc="The elements that both have.")(lambda a, b: [x for x in a if x in b])
_of_two("difference", doc="The elements that the other doesn't have.")(lambda a, b: [x for x in a if x not in b])
_of_two("symmetric_difference", result=_joined, doc="The elements that one of the two has.")(
    lambda a, b: [*(x for x in a if x not in b), *(x for x in b if x not in a)]
)


@family.method("HashSet", "is_subset", result=BOOL)
def is_subset(self: Any, other: Any) -> bool:
    """Whether the other has all elements of this set."""
    return all(x in set_of(other) for x in self)


@family.method("HashSet", "is_superset", result=BOOL)
def is_superset(self: Any, other: Any) -> bool:
    """Whether this set has all elements of the other."""
    return all(x in self for x in set_of(other))


