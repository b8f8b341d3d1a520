"""The methods of classes of fields as attrs would write them, for plain classes: written in a tenth of the time, without its import."""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any


class _Missing:
    def __repr__(self) -> str:
        return "NOTHING"


_MISSING = _Missing()

Fields = Mapping[str, tuple[str, dict[str, Any]]]
"""By the name of its parameter, the name of each field and what is said of it."""


def init_of(cls: type, fields: Fields, by_place: Sequence[str], finishes: bool, plainly_set: bool) -> Callable[..., None]:
    """`__init__`, whose parameters `by_place` may be given by their place, all by name. `finishes`: `__attrs_post_init__` follows;
    `plainly_set`: fields are set as any attributes are."""
    known: dict[str, Any] = {"missing_": _MISSING}
    heads, lines = {}, [] if plainly_set else ["held_ = self.__dict__"]
    for parameter, (name, said) in fields.items():
        value, head, taken = parameter, parameter, said.get("init", True)
        if "factory" in said:
            known[f"make_{name}"] = said["factory"]
            value = f"make_{name}()"
            if taken:
                head, value = f"{parameter}=missing_", f"{value} if {parameter} is missing_ else {parameter}"
        elif "default" in said:
            known[f"default_{name}"] = said["default"]
            head = f"{parameter}=default_{name}"
            value = parameter if taken else f"default_{name}"
        elif not taken:
            continue
        if taken:
            heads[parameter] = head
        if said.get("converter") is not None:
            known[f"convert_{name}"] = said["converter"]
            value = f"convert_{name}({value})"
        lines.append(f"self.{name} = {value}" if plainly_set else f"held_[{name!r}] = {value}")
    if finishes:
        lines.append("self.__attrs_post_init__()")
    named = [heads[parameter] for parameter in heads if parameter not in by_place]
    head = ", ".join(["self", *(heads[parameter] for parameter in by_place), *(["*"] if named else []), *named])
    body = "\n    ".join(lines or ["pass"])
    exec(compile(f"def __init__({head}):\n    {body}", "<record>", "exec"), known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


def repr_of(fields: Fields) -> Callable[[Any], str]:
    """`__repr__`, with three dots where an object holds itself."""
    shown = [(name, said.get("repr", True)) for name, said in fields.values() if said.get("repr", True)]

    def text(record: Any) -> str:
        parts = [f"{name}={(how if callable(how) else repr)(getattr(record, name, _MISSING))}" for name, how in shown]
        return f"{type(record).__qualname__.rsplit('>.', 1)[-1]}({', '.join(parts)})"

    return reprlib.recursive_repr()(text)


def compared_of(fields: Fields) -> Callable[[Any], Any]:
    """What counts of an object when it is compared, in one value."""
    names = [name for name, said in fields.values() if said.get("eq", True)]
    return attrgetter(*names) if names else lambda record: ()


def equal_of(fields: Fields) -> Callable[[Any, object], Any]:
    """`__eq__`."""
    compared = compared_of(fields)

    def equal(record: Any, other: object) -> Any:
        if other.__class__ is not record.__class__:
            return NotImplemented
        return bool(compared(record) == compared(other))

    return equal


def hash_of(cls: type, fields: Fields) -> Callable[[Any], int]:
    """`__hash__`."""
    compared, of_class = compared_of(fields), hash(cls)

    def hashed(record: Any) -> int:
        return hash(compared(record)) ^ of_class

    return hashed


def converting_setattr(fields: Fields) -> Callable[[Any, str, Any], None]:
    """`__setattr__` of a class whose assignments convert."""
    converters = {name: said["converter"] for name, said in fields.values() if said.get("converter") is not None}

    def assign(record: Any, name: str, value: Any) -> None:
        convert = converters.get(name)
        object.__setattr__(record, name, value if convert is None else convert(value))

    return assign
