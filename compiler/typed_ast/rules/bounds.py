"""Bounds of type parameters: what is asked of the types that they stand for."""

from collections.abc import Mapping, Sequence

from compiler.source import Span
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.nodes import NamedTypeSyntax, TypeParameter
from compiler.typed_ast.requirements import report_optional
from compiler.typed_ast.types import ERROR, DType, OptionType, Scalar, Type, TypeVariable

BOUNDS = ("Ordered", "Number")


def bounds_of(parameters: Sequence[TypeParameter]) -> dict[str, str]:
    """`Ordered` of those whose values compare with `<`, `Number` of those that stand for ints or floats."""
    return {p.name: b.name for p in parameters for b in p.bounds if isinstance(b, NamedTypeSyntax) and b.name in BOUNDS}


def meets(type_: Type, bound: str) -> bool:
    """Whether a type is what a bound asks for."""
    match type_:
        case Scalar(dtype=dtype):
            return dtype is not DType.BOOL
        case TypeVariable(bound=own):
            return own == "Number" or own == bound
    return type_ == ERROR or (bound == "Ordered" and type_.is_ordered)


def require_bounds(checker: Checker, name: str, bounds: Mapping[str, str], bound: Mapping[str, Type], span: Span) -> bool:
    """Reports a type parameter of `name` that stands for a type without what is asked of it."""
    for parameter, found in bound.items():
        asked = bounds.get(parameter)
        if asked is None or meets(found, asked):
            continue
        if isinstance(found, OptionType) and meets(found.value, asked):
            report_optional(checker, found, span)
            return False
        uses, is_none = ("compares", "is not ordered") if asked == "Ordered" else ("calculates with", "is no int or float")
        checker.report("0203", f"`{name}` {uses} its values, and a `{checker.show(found)}` {is_none}", span)
        return False
    return True
