"""Type parameters: what is asked of them, what they stand for in a call or a literal."""

from collections.abc import Mapping, Sequence

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import ERROR, DType, OptionType, ResultType, Scalar, TupleType, Type
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.fits import report_optional, shown
from quantdsl.check.literals import settled

BOUNDS = ("Ordered", "Number")


def bounds_of(parameters: Sequence[nodes.TypeParameter]) -> dict[str, str]:
    """`Ordered` of those whose values compare with `<`, `Number` of those that stand for ints or floats."""
    return {p.name: b.name for p in parameters for b in p.bounds if isinstance(b, nodes.NamedTypeSyntax) and b.name in BOUNDS}


def meets(found: Type, bound: str) -> bool:
    """Whether a type is what a bound asks for."""
    match found:
        case Scalar(dtype=dtype):
            return dtype is not DType.BOOL
        case qt.TypeVariable(bound=own):
            return own == "Number" or own == bound
        case qt.Exact():
            return bound == "Ordered"
    return found == ERROR or (bound == "Ordered" and found in (qt.DURATION, qt.TIMESTAMP, qt.RATIO))


def require_bounds(checker: QuantChecker, name: str, bounds: Mapping[str, str], bound: Mapping[str, Type], span: Span) -> bool:
    """Reports a type parameter of `name` that stands for a type without what is asked of it."""
    for parameter, found in bound.items():
        asked = bounds.get(parameter)
        if asked is None or meets(found, asked):
            continue
        if isinstance(found, OptionType) and meets(found.value, asked):
            report_optional(checker, found, span)
            return False
        uses, is_none = ("compares", "is not ordered") if asked == "Ordered" else ("calculates with", "is no int or float")
        checker.report("0203", f"`{name}` {uses} its values, and a `{shown(found)}` {is_none}", span)
        return False
    return True


def is_open(found: Type, names: set[str]) -> bool:
    """Whether one of these type parameters is left in a type."""
    match found:
        case qt.TypeVariable(name=name):
            return name in names
        case OptionType(value=value):
            return is_open(value, names)
        case ResultType(value=value, error=error):
            return is_open(value, names) or is_open(error, names)
        case qt.Container(elements=elements, size=size):
            return any(is_open(one, names) for one in (*elements, size))
        case qt.StructType(arguments=arguments):
            return any(is_open(one, names) for one in arguments)
    return any(is_open(one, names) for one in getattr(found, "elements", ()))


def unify(place: Type, found: Type, bound: dict[str, Type], names: set[str]) -> None:
    """Finds what type parameters of a call stand for; the first argument that says so decides."""
    match place, found:
        case qt.TypeVariable(name=name), _ if name in names:
            if found != qt.NONE:
                bound.setdefault(name, settled(found))
        case OptionType(value=inner), OptionType(value=other):
            unify(inner, other, bound, names)
        case OptionType(value=inner), _:
            unify(inner, found, bound, names)
        case ResultType(value=a, error=b), ResultType(value=c, error=d):
            unify(a, c, bound, names)
            unify(b, d, bound, names)
        case qt.Container(elements=mine, size=size), qt.Container(elements=others, size=other):
            _all((*mine, size), (*others, other), bound, names)
        case TupleType(elements=mine), TupleType(elements=others):
            _all(mine, others, bound, names)
        case qt.StructType(arguments=mine), qt.StructType(arguments=others):
            _all(mine, others, bound, names)


def _all(places: Sequence[Type], found: Sequence[Type], bound: dict[str, Type], names: set[str]) -> None:
    for a, b in zip(places, found, strict=False):
        unify(a, b, bound, names)


def substituted(found: Type, bound: dict[str, Type], names: set[str]) -> Type:
    """A type with the type parameters that are known filled in."""
    match found:
        case qt.TypeVariable(name=name) if name in names:
            return bound.get(name, found)
        case OptionType(value=value):
            return OptionType(substituted(value, bound, names))
        case ResultType(value=value, error=error):
            return ResultType(substituted(value, bound, names), substituted(error, bound, names))
        case TupleType(elements=elements):
            return TupleType(tuple(substituted(element, bound, names) for element in elements))
        case qt.Container(kind=kind, elements=elements, size=size):
            return qt.Container(kind, tuple(substituted(e, bound, names) for e in elements), substituted(size, bound, names))
        case qt.StructType(name=name, arguments=arguments):
            return qt.StructType(name, tuple(substituted(argument, bound, names) for argument in arguments))
    return found
