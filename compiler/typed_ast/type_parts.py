"""The types inside of types: elements, arguments, sizes."""

from collections.abc import Callable

from compiler.typed_ast.types import ERROR, Type
from runtime.records import evolve, fields_of


def inner_types(type_: Type) -> tuple[Type, ...]:
    """Elements, arguments, sizes: all types that a type is made of."""
    values = (getattr(type_, field.name) for field in fields_of(type(type_)))
    several = ((value,) if isinstance(value, Type) else value for value in values if isinstance(value, Type | tuple))
    return tuple(inside for value in several for inside in value if isinstance(inside, Type))


def with_inner_types(type_: Type, change: Callable[[Type], Type]) -> Type:
    """The type with each of the types inside changed."""
    changes: dict[str, object] = {}
    for field in fields_of(type(type_)):
        value = getattr(type_, field.name)
        if isinstance(value, Type):
            changes[field.name] = change(value)
        elif isinstance(value, tuple) and value and all(isinstance(inside, Type) for inside in value):
            changes[field.name] = tuple(map(change, value))
    return evolve(type_, **changes) if changes else type_


def outline(type_: Type) -> Type:
    """What a type is apart from the types inside."""
    return with_inner_types(type_, lambda inside: ERROR)
