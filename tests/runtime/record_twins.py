"""All classes of fields beside twins that attrs writes from the same declarations. Run in a process of its own, where nobody has used a class
yet: prints what differs, and last how many classes were compared."""

import importlib
import inspect
import operator
import pkgutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from runtime import record_methods, records

PACKAGES = ("runtime", "grammars", "compiler", "zynml", "quantdsl", "imagepipe", "zyntax")
NOT_OWN = ("__dict__", "__weakref__", "__init_subclass__")
"""What a twin doesn't take over: what each class has for itself, and registers of classes."""

DECLARED: dict[type, tuple[dict[str, Any], dict[str, Any]]] = {}
"""What each class has when it is declared, and the options."""

TWINS: dict[type, type] = {}
WRITTEN: dict[type, frozenset[str]] = {}
"""By twin, the methods that attrs has written for it."""


def modules() -> Iterator[str]:
    for package in PACKAGES:
        yield package
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if ".template" not in found.name and not found.name.endswith("__main__"):
                yield found.name


def declare(cls: type | None, options: dict[str, Any], as_before: Callable[..., Any] = records._declared) -> Any:
    """As `_declared`, and remembers the declaration as it was."""
    if cls is None:
        return lambda cls: declare(cls, options)
    DECLARED[cls] = dict(vars(cls)), dict(options)
    return as_before(cls, options)


def declared_classes() -> list[type]:
    """Those that come up when all modules are imported."""
    records._declared = declare
    for name in modules():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as missing:  # of an extra that isn't installed
            if (missing.name or "").partition(".")[0] in PACKAGES:
                raise
    return sorted(DECLARED, key=lambda cls: (cls.__module__, cls.__qualname__))


def twin(cls: type) -> type:
    """The class as attrs writes it, with twins for bases."""
    if cls not in DECLARED:
        return cls
    if cls in TWINS:
        return TWINS[cls]
    said, options = DECLARED[cls]
    own = {
        name: value.for_attrs() if isinstance(value, records._LateField | records._LateFactory) else value
        for name, value in said.items()
        if name not in NOT_OWN
    }
    bare = type(cls)(cls.__name__, tuple(map(twin, cls.__bases__)), own)
    by_types = {"on_setattr": attrs.setters.NO_OP} if options.get("by_types") else {}
    made: type = attrs.define(bare, slots=False, **{name: value for name, value in options.items() if name != "by_types"}, **by_types)
    WRITTEN[made] = frozenset(vars(made).keys() - own.keys())
    TWINS[cls] = made
    return made


def outcome(do: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return do(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


class Value:
    """What a field holds: equal to itself alone, and written by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def same_hash(one: Any, other: Any) -> bool:
    return hash(one) == hash(other)


def assigned(made: Any, name: str, value: Any) -> Any:
    setattr(made, name, value)
    return getattr(made, name)


def filled(cls: type, values: dict[str, Any]) -> Any:
    made = object.__new__(cls)
    vars(made).update(values)
    return made


def is_written_by_attrs(cls: type, method: str) -> bool:
    """Whether a twin has the method from attrs, or from no class of fields at all."""
    owner = next((base for base in cls.__mro__ if method in vars(base)), object)
    return owner is object or method in WRITTEN.get(owner, ())


def signature(init: Callable[..., None]) -> list[tuple[str, Any, bool]]:
    return [(each.name, each.kind, each.default is not each.empty) for each in inspect.signature(init).parameters.values()]


def differences(cls: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """What is compared, as the class has it, and as attrs has it."""
    fields = attrs.fields(other)
    told = [(each.name, each.type, each.metadata) for each in records.fields_of(cls)]
    yield "fields", told, [(each.name, each.type, dict(each.metadata)) for each in fields]
    declared = vars(cls)["__declared__"]
    declared._values(cls, (), {"no such field": None})  # as the first object of a class does
    if declared._fields is None:
        return  # nothing but attrs makes objects of it
    if "__init__" in WRITTEN[other] and not declared._is_by_both:
        mine = record_methods.init_of(cls, declared._fields, declared._parameters, declared._finishes, False)
        yield "parameters", signature(mine), signature(other.__init__)
    yield "patterns", cls.__match_args__, other.__match_args__
    values = {each.name: Value(each.name) for each in fields}
    both = [(filled(cls, values), cls), (filled(other, values), other)]
    if is_written_by_attrs(other, "__repr__"):
        yield "text", *(outcome(repr, made) for made, _ in both)
    for method in ("__eq__", "__hash__"):
        if not is_written_by_attrs(other, method):
            continue
        for name in (None, *values):
            changed = values if name is None else {**values, name: Value("another")}
            if method == "__eq__":
                yield f"equal but for {name}", *(outcome(operator.eq, made, filled(of, changed)) for made, of in both)
            else:
                yield f"hash but for {name}", *(outcome(same_hash, made, filled(of, changed)) for made, of in both)
    if is_written_by_attrs(other, "__lt__"):
        yield "order", *(outcome(operator.le, made, filled(of, values)) for made, of in both)
    if is_written_by_attrs(other, "__setattr__") and values:
        name, is_converted = fields[0].name, fields[0].converter is not None
        given = () if is_converted else Value("new")  # which any converter of a sequence takes
        yield "assigned", *(outcome(assigned, made, name, given) for made, _ in both)
        yield "deleted", *(outcome(delattr, made, name) for made, _ in both)


def main() -> None:
    classes = declared_classes()
    pairs = [(cls, twin(cls)) for cls in classes]  # all, before any is used
    for cls, other in pairs:
        for what, mine, of_attrs in differences(cls, other):
            if repr(mine) != repr(of_attrs):
                print(f"{cls.__module__}.{cls.__qualname__}: {what}: {mine!r}, by attrs {of_attrs!r}")
    print(len(classes))


if __name__ == "__main__":
    sys.exit(main())
