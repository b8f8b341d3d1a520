"""Values of structs, enums, optionals and results of programs, as Python holds them: immutable tuples of a class for each struct and each
case. To change a part makes a new value, so that no two variables share one."""

from collections.abc import Sequence
from typing import Any, ClassVar


class RecordValue(tuple[Any, ...]):
    """A value with named parts, in the order of their declaration. `shown_name` is how the program names it; parts called "0", "1" have no
    names of their own, and are shown in parentheses."""

    __slots__ = ()
    shown_name: ClassVar[str] = ""
    fields: ClassVar[tuple[str, ...]] = ()

    def replaced(self, index: int, value: Any) -> "RecordValue":
        """The same value with another part at `index`."""
        return tuple.__new__(type(self), (*self[:index], value, *self[index + 1 :]))

    def __eq__(self, other: object) -> bool:
        same = type(self) is type(other) or (isinstance(other, RecordValue) and self._kind == other._kind)
        return same and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self._kind, tuple(self)))

    @property
    def _kind(self) -> tuple[object, ...]:
        """What makes two classes the same: those of a program that is compiled twice, or of a value that was pickled."""
        return self.shown_name, self.fields, getattr(self, "enum", None)

    def __repr__(self) -> str:
        if not self.fields:
            return self.shown_name
        if self.fields[0] == "0":
            return f"{self.shown_name}({', '.join(map(repr, self))})"
        parts = (f"{name}: {value!r}" for name, value in zip(self.fields, self, strict=True))
        return f"{self.shown_name} {{ {', '.join(parts)} }}"

    def __getattr__(self, name: str) -> Any:
        try:
            return self[self.fields.index(name)]
        except ValueError:
            raise AttributeError(f"a `{self.shown_name}` has no field `{name}`") from None

    def __reduce__(self) -> tuple[Any, ...]:
        case = (self.enum, self.tag) if isinstance(self, CaseValue) else None
        return _again, (self.shown_name, self.fields, case, tuple(self))


class StructValue(RecordValue):
    """A value of a struct."""

    __slots__ = ()


class CaseValue(RecordValue):
    """A value of an enum: one of its cases. `tag`: the number of the case, in the order of their declaration."""

    __slots__ = ()
    enum: ClassVar[str] = ""
    tag: ClassVar[int] = 0


def struct_class(name: str, fields: Sequence[str]) -> type[StructValue]:
    """The class of a struct's values, made from the values of its fields: `cls((x, y))`."""
    return type(name, (StructValue,), {"__slots__": (), "shown_name": name, "fields": tuple(fields)})


def case_classes(enum: str, cases: Sequence[tuple[str, Sequence[str]]]) -> tuple[type[CaseValue], ...]:
    """The classes of an enum's cases, each with its parts, in the order of their declaration."""
    return tuple(
        type(name, (CaseValue,), {"__slots__": (), "shown_name": name, "fields": tuple(fields), "enum": enum, "tag": tag})
        for tag, (name, fields) in enumerate(cases)
    )


Nothing, Some = case_classes("Option", (("None", ()), ("Some", ("0",))))
Err, Ok = case_classes("Result", (("Err", ("0",)), ("Ok", ("0",))))
NONE = Nothing()
"""The optional value that is none."""


def _again(name: str, fields: tuple[str, ...], case: tuple[str, int] | None, parts: tuple[Any, ...]) -> RecordValue:
    """A value that was pickled; its class is made anew, except for those of optionals and results."""
    if case is None:
        return struct_class(name, fields)(parts)
    enum, tag = case
    for known in (Nothing, Some, Err, Ok):
        if (known.enum, known.shown_name) == (enum, name):
            return known(parts)
    cls: type[CaseValue] = type(name, (CaseValue,), {"__slots__": (), "shown_name": name, "fields": fields, "enum": enum, "tag": tag})
    return cls(parts)
