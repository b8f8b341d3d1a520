"""Calls of the program's own functions from a kernel: pure functions of numbers are written out in place. The function's
body sees its parameters only; what it may not contain is refused where it stands, with the chain of calls."""

from collections.abc import Sequence

from compiler.diagnostics import Label
from compiler.lowering.body import Body, fault
from compiler.lowering.dtypes import scalar_named
from compiler.lowering.numbers import Number, Operand, typed, value_of
from compiler.typed_ast import nodes

_DEEPEST = 40
_MOST_CALLS = 1000


def call_function(body: Body, function: nodes.Function, arguments: Sequence[tuple[str | None, Operand]], node: nodes.Call) -> Operand:
    """The value of the call. The result has the type the function declares."""
    name = function.name
    if any(inlined == name for inlined, _ in body.inlining):
        chain = " -> ".join(f"`{inlined}`" for inlined, _ in (*body.inlining, (name, node.span)))
        raise fault(
            "0410",
            f"`{name}` calls itself, which a kernel can't",
            node.span,
            others=(Label(function.name_span, "declared here"),),
            notes=(f"call chain: {chain}",),
            hint="write the recursion as a loop",
        )
    if len(body.inlining) >= _DEEPEST:
        raise fault("0410", f"calls nest deeper than {_DEEPEST} in a kernel", node.span, hint="write some of them out")
    body.calls += 1
    if body.calls > _MOST_CALLS:
        raise fault(
            "0410",
            f"more than {_MOST_CALLS} calls, written out in place, make this kernel too large",
            node.span,
            hint="compute what they share once, before the loop",
        )
    if function.body is None or function.is_async or function.type_parameters:
        what = "an `extern` function" if function.body is None else "an async function" if function.is_async else "a generic function"
        raise fault(
            "0410", f"`{name}` is {what}, which a kernel can't call", node.span, others=(Label(function.name_span, "declared here"),)
        )
    values = _bound(function, arguments, node)
    with _isolated(body):
        body.inlining.append((name, node.span))
        try:
            for parameter, value in values:
                given = value if isinstance(value, Number) else None
                if isinstance(value, nodes.Expression):
                    evaluated = body.extra["evaluate"](body, value)
                    given = evaluated if isinstance(evaluated, Number) else None
                if given is None:
                    body.bind(parameter.name, value, parameter.span, "a parameter")  # type: ignore[arg-type]
                    continue
                body.bind(parameter.name, _converted(body, given, parameter.annotation), parameter.span, "a parameter")
            result = body.extra["function_value"](body, function)
        finally:
            body.inlining.pop()
    if function.result is not None and isinstance(result, Number):
        return _converted(body, result, function.result)
    return result  # type: ignore[no-any-return]


class _isolated:
    """While inside, the names of the kernel are out of sight."""

    def __init__(self, body: Body) -> None:
        self.body = body

    def __enter__(self) -> None:
        body = self.body
        self.kept = body.scopes, body.sizes, body.size_candidates
        body.scopes, body.sizes, body.size_candidates = [{}], {}, frozenset()

    def __exit__(self, *_: object) -> None:
        self.body.scopes, self.body.sizes, self.body.size_candidates = self.kept


def _bound(
    function: nodes.Function, arguments: Sequence[tuple[str | None, Operand]], node: nodes.Call
) -> list[tuple[nodes.Parameter, Operand | nodes.Expression]]:
    """Parameters with their arguments, positional first, then named, then defaults."""
    shown = f"{function.name}({', '.join(p.name for p in function.parameters)})"
    declared = (Label(function.name_span, "declared here"),)
    positional = [value for name, value in arguments if name is None]
    named = {name: value for name, value in arguments if name is not None}
    if len(positional) > len(function.parameters):
        raise fault(
            "0204", f"`{shown}` takes {len(function.parameters)} arguments, but {len(positional)} are given", node.span, others=declared
        )
    bound: list[tuple[nodes.Parameter, Operand | nodes.Expression]] = []
    for place, parameter in enumerate(function.parameters):
        if place < len(positional):
            bound.append((parameter, positional[place]))
        elif parameter.name in named:
            bound.append((parameter, named.pop(parameter.name)))
        elif parameter.default is not None:
            bound.append((parameter, parameter.default))
        else:
            raise fault("0204", f"`{shown}` lacks an argument for `{parameter.name}`", node.span, others=declared)
    if named:
        raise fault("0204", f"`{shown}` has no parameter `{next(iter(named))}`", node.span, others=declared)
    return bound


def _converted(body: Body, number: Number, annotation: nodes.TypeSyntax | None) -> Number:
    dtype = scalar_named(annotation)
    if annotation is not None and dtype is None and not isinstance(annotation, nodes.TupleTypeSyntax):
        raise fault("0410", "a function called from a kernel takes and gives numbers only", annotation.span)
    if dtype is None or (number.dtype is dtype and not number.weak):
        return number
    if number.form is not None and dtype.value == "i64":
        return Number(dtype, form=number.form, origin=number.origin)
    return typed(value_of(body.build, number, dtype), dtype, number.origin and dtype)
