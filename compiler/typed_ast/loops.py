"""What a loop hands out: the element type of a source, and the variables of a `for` clause or a comprehension."""

from collections.abc import Sequence

from compiler.source import Span
from compiler.typed_ast.checker import AWAIT_HINT, Checker
from compiler.typed_ast.conversions import is_silent, join, strong
from compiler.typed_ast.infer_index import without_leading_axis
from compiler.typed_ast.nodes import Expression
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import (
    I64,
    UNKNOWN,
    FutureType,
    ListType,
    RangeType,
    Scalar,
    StringType,
    TensorType,
    TupleType,
    Type,
)


def bind_loop_names(
    checker: Checker, scope: Scope, names: tuple[str, ...], spans: tuple[Span, ...], source: Expression, found: Type
) -> None:
    """Declares the variables of a `for` clause or a comprehension over a source of type `found`."""
    element = iterated(checker, found, source.span)
    parts: Sequence[Type] = [element]
    if len(names) > 1:
        parts = [UNKNOWN] * len(names)
        if isinstance(element, TupleType):
            if len(element.elements) == len(names):
                parts = element.elements
            else:
                checker.report(
                    "0203", f"{len(names)} names for a tuple of {len(element.elements)}", source.span, f"this hands out {element}"
                )
        elif isinstance(element, Scalar):
            checker.report(
                "0203",
                f"{len(names)} names for one value: each step hands out {element}",
                source.span,
                hint=f"`enumerate(...)` hands out `({names[0]}, {names[1]})`" if len(names) == 2 else None,
            )
    for i, (name, part) in enumerate(zip(names, parts, strict=True)):
        span = spans[i] if i < len(spans) else source.span
        if name != "_":
            scope.entries[name] = Variable(name, part, VariableKind.LOOP, span, frame=checker.frame)


def iterated(checker: Checker, source: Type, span: Span) -> Type:
    """What a loop over `source` hands out."""
    match source:
        case RangeType():
            return I64
        case ListType(element=element):
            return strong(element)
        case StringType():
            return UNKNOWN
        case TupleType(elements=elements):
            found = elements[0]
            for element in elements[1:]:
                found = join(found, element)
            return strong(found)
        case TensorType():
            if source.shape.rank == 0:
                return checker.report("0203", "a tensor without axes has nothing to loop over", span, f"this is {source}")
            return without_leading_axis(source)
    if is_silent(source):
        return UNKNOWN
    hint = AWAIT_HINT if isinstance(source, FutureType) else "loop over a range: `for i in 0..n`" if isinstance(source, Scalar) else None
    return checker.report("0203", f"nothing to loop over: this is {source}", span, f"this is {source}", hint=hint)
