"""What type parameters stand for."""

from collections.abc import Callable, Mapping

from compiler.typed_ast.conversions import strong
from compiler.typed_ast.type_parts import inner_types, with_inner_types
from compiler.typed_ast.types import NONE, UNKNOWN, OptionType, Scalar, Type, TypeVariable

Meet = Callable[[Type, Type], Scalar | None]
"""The type in which two numbers are computed; None: none."""


def is_open(type_: Type, names: set[str]) -> bool:
    """Whether one of these type parameters is left in a type."""
    return type_.name in names if isinstance(type_, TypeVariable) else any(is_open(inside, names) for inside in inner_types(type_))


def substituted(type_: Type, bound: Mapping[str, Type], names: set[str]) -> Type:
    """A type with the type parameters that are known filled in."""
    if isinstance(type_, TypeVariable):
        return bound.get(type_.name, type_) if type_.name in names else type_
    return with_inner_types(type_, lambda inside: substituted(inside, bound, names))


def unify(place: Type, actual: Type, bound: dict[str, Type], names: set[str]) -> None:
    """Finds what type parameters of a call stand for; the first argument that says so decides."""
    match place:
        case TypeVariable(name=name) if name in names:
            if actual not in (NONE, UNKNOWN):
                bound.setdefault(name, strong(actual))
        case OptionType(value=inner) if not isinstance(actual, OptionType):
            unify(inner, actual, bound, names)
        case _ if type(place) is type(actual):
            for a, b in zip(inner_types(place), inner_types(actual), strict=False):
                unify(a, b, bound, names)


def unify_argument(place: Type, actual: Type, bound: dict[str, Type], names: set[str], meet: Meet) -> None:
    """Finds what type parameters of a call stand for: what the first argument says that says so, and of several numbers the type in which
    they meet, in which those that are weak take the type of the others."""
    if isinstance(place, TypeVariable) and place.name in names and isinstance(actual, Scalar):
        before = bound.get(place.name, actual)
        bound[place.name] = meet(before, actual) or before
    else:
        unify(place, actual, bound, names)
