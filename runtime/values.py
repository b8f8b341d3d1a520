"""Values of structs, enums, optionals and results of programs, as Python holds them: immutable tuples of a class for each struct and each
case. To change a part makes a new value, so that no two variables share one. The one part of a value that changes in place is a fixed array
`[T; N]`, an array of NumPy's or an `ElementArray`; `copied` gives a value with arrays of its own."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar

from runtime.lazy_numpy import np
from runtime.records import frozen

OF_DURATIONS = "·"
"""The suffix of `Duration`, which has several."""


@frozen
class RecordShape:
    """What makes classes of records one: how the program names the value, the names of its parts, and for a case its enum with the names of
    all cases and their parts. Parts named "0", "1" have no names of their own. `suffix`: of an abstract type, that of numbers that are its
    values as they stand, "" where there is none; None of all else."""

    name: str
    parts: tuple[str, ...]
    enum: str = ""
    cases: tuple[tuple[str, tuple[str, ...]], ...] = ()
    suffix: str | None = None

    def wrapped(self, number: str, value: Any) -> str:
        """A number as a value of an abstract type, whose shape this is: as the program writes it."""
        if self.suffix == OF_DURATIONS:
            return duration_text(value)
        return number + self.suffix if self.suffix else f"{self.shown}({number})"

    @property
    def shown(self) -> str:
        """The name as the program writes it: that of a module's type has the module before it, with a `·` between them."""
        return self.name.rpartition("·")[2]

    @property
    def is_numbered(self) -> bool:
        return self.parts[:1] == ("0",)


class RecordValue(tuple[Any, ...]):
    """A value with named parts, in the order of their declaration. `__record__` is its shape, one class for each; `__tag__` the number of a
    case, in the order of their declaration. All other attributes are the program's parts."""

    __slots__ = ()
    __record__: ClassVar[RecordShape] = RecordShape("", ())
    __tag__: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _same_parts(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.__record__, tuple(self)))

    def __repr__(self) -> str:
        shape = self.__record__
        if shape.suffix is not None:
            return shape.wrapped(repr(self[0]), self[0])
        if not shape.parts:
            return shape.shown
        if shape.is_numbered:
            return f"{shape.shown}({', '.join(map(repr, self))})"
        parts = (f"{name}: {value!r}" for name, value in zip(shape.parts, self, strict=True))
        return f"{shape.shown} {{ {', '.join(parts)} }}".lstrip()

    def __getattr__(self, name: str) -> Any:
        shown = self.__record__.shown
        raise AttributeError(f"a `{shown}` has no field `{name}`")

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.__record__, tuple(self))


class StructValue(RecordValue):
    """A value of a struct; of a Python dictionary that was given for one, where its shape has no name."""

    __slots__ = ()


class CaseValue(RecordValue):
    """A value of an enum: one of its cases."""

    __slots__ = ()


class ElementArray(list[Any]):
    """An array `[T; N]` whose elements are neither numbers nor bools."""

    __slots__ = ()


class _Sets(type):
    def __instancecheck__(cls, value: object) -> bool:
        return type(value) is defaultdict and value.default_factory is None

    def __call__(cls, elements: Mapping[Any, None] = MappingProxyType({})) -> Any:
        return defaultdict(None, elements)


class ElementSet(dict[Any, None], metaclass=_Sets):
    """A `HashSet`: its elements are the keys, in the order in which they came in. It is a `defaultdict` without a default, the one class of
    maps in C that no program has: classes that derive from `dict` in Python look keys up by half as fast."""


def struct_class(name: str, fields: Sequence[str], suffix: str | None = None) -> type[StructValue]:
    """The class of a struct's values, made from the values of its fields: `cls((x, y))`. The same for the same names."""
    return _struct_class(RecordShape(name, tuple(fields), suffix=suffix))


_LONG = (("d", 86_400 * 10**9), ("h", 3_600 * 10**9), ("m", 60 * 10**9), ("s", 10**9))
_SHORT = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))


def duration_text(nanoseconds: int) -> str:
    """A duration as programs write it: `2h`, `1.5s`, `20us`."""
    if nanoseconds < 0:
        return f"-{duration_text(-nanoseconds)}"
    whole = next((f"{nanoseconds // size}{unit}" for unit, size in _LONG if nanoseconds % size == 0 and (nanoseconds or unit == "s")), None)
    if whole is not None:
        return whole
    unit, size = next((unit, size) for unit, size in _SHORT if nanoseconds >= size)
    digits = str(nanoseconds % size).zfill(len(str(size)) - 1).rstrip("0") if size > 1 else ""
    return f"{nanoseconds // size}{'.' if digits else ''}{digits}{unit}"


def case_classes(enum: str, cases: Sequence[tuple[str, Sequence[str]]]) -> tuple[type[CaseValue], ...]:
    """The classes of an enum's cases, each with its parts, in the order of their declaration. The same for the same names."""
    return _case_classes(enum, tuple((name, tuple(parts)) for name, parts in cases))


@cache
def _struct_class(shape: RecordShape) -> type[StructValue]:
    return type(shape.name or "record", (StructValue,), _attributes(shape))


@cache
def _case_classes(enum: str, cases: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[type[CaseValue], ...]:
    shapes = [RecordShape(name, parts, enum, cases) for name, parts in cases]
    return tuple(type(shape.name, (CaseValue,), _attributes(shape) | {"__tag__": tag}) for tag, shape in enumerate(shapes))


def _attributes(shape: RecordShape) -> dict[str, Any]:
    """Parts are properties of the class, also those that are named as a method of tuples is."""
    parts = {name: property(itemgetter(place)) for place, name in enumerate(shape.parts)}
    return {"__slots__": (), "__record__": shape, **parts}


SHOWN_BY: ContextVar[Callable[[Any], str | None] | None] = ContextVar("SHOWN_BY", default=None)
"""How the running program shows values of its own types, inside of others too: the text of one whose type says, None of others."""

Nothing, Some = case_classes("Option", (("None", ()), ("Some", ("0",))))
Err, Ok = case_classes("Result", (("Err", ("0",)), ("Ok", ("0",))))
"""The tag of the case that holds what is wanted is 1, that of the other 0."""
NONE = Nothing()
"""The optional value that is none."""


def make_some(value: Any) -> CaseValue:
    """`Some(value)`, as Python gives it to a program where None wouldn't say enough."""
    return Some((value,))


def make_ok(value: Any) -> CaseValue:
    """`Ok(value)`: a result for a program."""
    return Ok((value,))


def make_err(error: Any) -> CaseValue:
    """`Err(error)`: a result for a program that is an error."""
    return Err((error,))


def replaced(value: tuple[Any, ...], index: int, part: Any) -> tuple[Any, ...]:
    """A record or tuple with another part at `index`."""
    return tuple.__new__(type(value), (*value[:index], part, *value[index + 1 :]))


def copied(value: Any) -> Any:
    """The value with arrays of its own; the same where it holds none. What is shared (lists, maps, tensors) stays so."""
    match value:
        case ElementArray():
            return ElementArray(map(copied, value))
        case tuple():
            parts = [copied(part) for part in value]
            return value if all(new is old for new, old in zip(parts, value, strict=True)) else tuple.__new__(type(value), parts)
    return value.copy() if is_number_array(value) else value


def is_array(value: object) -> bool:
    """Whether it is an array `[T; N]`."""
    return isinstance(value, ElementArray) or is_number_array(value)


def elements_of(values: Any) -> list[Any]:
    """The elements of an array as they are now; i64, f64 and bools as Python's own."""
    if type(values) is ElementArray:
        return [*values]
    found: list[Any] = values.tolist() if values.dtype in (np.int64, np.float64, np.bool_) else [*values]
    return found


def is_number_array(value: object) -> bool:
    """Whether it is an array `[T; N]` of numbers or bools. Asked by name, so that NumPy isn't imported for it."""
    return type(value).__name__ == "ndarray"


def _same_parts(left: Any, right: Any) -> bool:
    if isinstance(left, tuple | list) and type(left) is type(right):
        return len(left) == len(right) and all(map(_same_parts, left, right))
    return bool(np.array_equal(left, right)) if is_number_array(left) else bool(left == right)


def _again(shape: RecordShape, parts: tuple[Any, ...]) -> RecordValue:
    """A value that was pickled."""
    if shape == Nothing.__record__:
        return NONE
    if not shape.enum:
        return _struct_class(shape)(parts)
    classes = _case_classes(shape.enum, shape.cases)
    return next(cls for cls in classes if cls.__record__ == shape)(parts)
