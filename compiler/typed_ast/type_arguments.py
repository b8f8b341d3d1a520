"""What type parameters stand for."""

from collections.abc import Callable, Mapping

from compiler.typed_ast.conversions import strong
from compiler.typed_ast.type_parts import inner_types, with_inner_types
from compiler.typed_ast.types import NONE, UNKNOWN, OptionType, Scalar, Type, TypeVariable

Meet = Callable[[Type, Type], Scalar | None]
"""The type in which two numbers are computed; None: none."""


def is_open(found: Type, names: set[str]) -> bool:
    """Whether one of these type parameters is left in a type."""
    return found.name in names if isinstance(found, TypeVariable) else any(is_open(inside, names) for inside in inner_types(found))


def substituted(found: Type, bound: Mapping[str, Type], names: set[str]) -> Type:
    """A type with the type parameters that are known filled in."""
    if isinstance(found, TypeVariable):
        return bound.get(found.name, found) if found.name in names else found
    return with_inner_types(found, lambda inside: substituted(inside, bound, names))


def unify(place: Type, found: Type, bound: dict[str, Type], names: set[str]) -> None:
    """Finds what type parameters of a call stand for; the first argument that says so decides."""
    match place:
        case TypeVariable(name=name) if name in names:
            if found not in (NONE, UNKNOWN):
                bound.setdefault(name, strong(found))
        case OptionType(value=inner) if not isinstance(found, OptionType):
            unify(inner, found, bound, names)
        case _ if type(place) is type(found):
            for a, b in zip(inner_types(place), inner_types(found), strict=False):
                unify(a, b, bound, names)


def unify_argument(place: Type, found: Type, bound: dict[str, Type], names: set[str], meet: Meet) -> None:
    """Finds what type parameters of a call stand for: what the first argument says that says so, and of several numbers the type in which
    they meet, in which those that are weak take the type of the others."""
    if isinstance(place, TypeVariable) and place.name in names and isinstance(found, Scalar):
        before = bound.get(place.name, found)
        bound[place.name] = meet(before, found) or before
    else:
        unify(place, found, bound, names)
