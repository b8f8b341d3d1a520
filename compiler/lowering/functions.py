"""Calls of the program's own functions from a kernel: pure functions of numbers are written out in place. The function's
body sees its parameters only; what it may not contain is refused where it stands, with the chain of calls."""

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.lowering import arrays
from compiler.lowering.bindings import Bindings
from compiler.lowering.body import Body, fault
from compiler.lowering.conditions import choose
from compiler.lowering.declared_types import fitted
from compiler.lowering.dtypes import scalar_named
from compiler.lowering.numbers import Choice, Nothing, Number, Operand, Record, Tuple, typed, value_of
from compiler.lowering.patterns import match_of
from compiler.lowering.walk import Arguments, calls, evaluate, run
from compiler.typed_ast import nodes
from compiler.typed_ast.arguments import ArgumentSlot, Callee, match_arguments, place
from compiler.typed_ast.types import DType
from runtime.records import evolve

_DEEPEST = 40
_MOST_CALLS = 1000
_MOST_BRANCHES = 1000


@calls(nodes.Function)
def call_function(body: Body, function: nodes.Function, arguments: Arguments, node: nodes.Call, into: DType | None) -> Operand:
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
    if function.body is None or function.is_async:
        kind = "an `extern` function" if function.body is None else "an async function"
        raise fault(
            "0410", f"`{name}` is {kind}, which a kernel can't call", node.span, others=(Label(function.name_span, "declared here"),)
        )
    values = _bound(function, arguments, node)
    with _isolated(body):
        body.inlining.append((name, node.span))
        try:
            for parameter, value in values:
                given = evaluate(body, value, into) if isinstance(value, nodes.Expression) else value
                if arrays.is_array(given, body) and parameter.annotation is not None:
                    given = arrays.fitted_array(body, given, parameter.annotation, node.span, f"the parameter `{parameter.name}`")
                elif isinstance(given, Number | Tuple | Record | Choice):
                    given = _converted(body, given, parameter.annotation, function, f"the parameter `{parameter.name}`", node)
                body.names.bind(parameter.name, given, parameter.span, "a parameter")
            result = _value(body, function, into)
        finally:
            body.inlining.pop()
    if function.result is not None and arrays.is_array(result, body):
        return arrays.fitted_array(body, result, function.result, node.span, f"the result of `{name}`")
    if function.result is not None and isinstance(result, Number | Tuple | Record | Choice):
        return _converted(body, result, function.result, function, f"the result of `{name}`", node)
    return result


@contextmanager
def _isolated(body: Body) -> Iterator[None]:
    """While inside, the names of the kernel are out of sight."""
    names, body.names = body.names, Bindings(of_loops=body.names.of_loops)
    try:
        yield
    finally:
        body.names = names


def _bound(
    function: nodes.Function, arguments: Arguments, node: nodes.Call
) -> list[tuple[nodes.Parameter, Operand | nodes.Expression]]:
    """Parameters with their arguments, or with what is computed where none is given."""
    slots = [ArgumentSlot(parameter.name, parameter.default is None) for parameter in function.parameters]
    own = [place(argument) for argument in node.arguments]
    spans = [*[node.span] * (len(arguments) - len(own)), *own]
    written = tuple(nodes.Argument(value=node, name=name, span=span) for (name, _), span in zip(arguments, spans, strict=True))
    callee = Callee(function.name, lambda: f"{function.name}({', '.join(slot.name for slot in slots)})", function.name_span)
    found = match_arguments(slots, evolve(node, arguments=written), callee)
    if isinstance(found, Diagnostic):
        raise ZyntaxError(found)
    values = {id(argument): value for argument, (_, value) in zip(written, arguments, strict=True)}
    bound: list[tuple[nodes.Parameter, Operand | nodes.Expression]] = []
    for parameter in function.parameters:
        given = values[id(found[parameter.name][0])] if parameter.name in found else parameter.default
        assert given is not None
        bound.append((parameter, given))
    return bound


def _converted(
    body: Body, value: Operand, annotation: nodes.TypeSyntax | None, function: nodes.Function, what: str, node: nodes.Call
) -> Operand:
    """A number as one of the type that is written; tuples, structs and enums must be of theirs."""
    dtype = scalar_named(annotation)
    if annotation is None or (isinstance(value, Tuple) and value.counts):
        return value
    if dtype is None or not isinstance(value, Number):
        return fitted(body, value, annotation, node.span, what, function.type_parameters)
    if value.dtype is dtype and not value.weak:
        return value
    if value.form is not None and dtype.value == "i64":
        return Number(dtype, form=value.form, origin=value.origin)
    return typed(value_of(body.build, value, dtype), dtype, value.origin and dtype)


# ---- bodies as values --------------------------------------------------------------------------------------------------


def _value(body: Body, function: nodes.Function, into: DType | None) -> Operand:
    """The body of a called function as a value; `return` may stand last on each way through it."""
    assert function.body is not None
    return _tail(body, function.body.statements, function, into)


def _tail(body: Body, statements: tuple[nodes.Statement, ...], function: nodes.Function, into: DType | None) -> Operand:
    for position, statement in enumerate(statements):
        rest = statements[position + 1 :]
        match statement:
            case nodes.Return(value=value):
                return Nothing() if value is None else evaluate(body, value, into)
            case nodes.ExpressionStatement(value=nodes.If() as branch) if not rest or _returns(branch):
                otherwise = branch.otherwise.statements if branch.otherwise is not None else ()
                return _choose_tail(body, branch, branch.then.statements, otherwise, rest, function, into)
            case nodes.ExpressionStatement(value=nodes.Match() as match_) if not rest or _returns(match_):
                return _match_tail(body, match_, rest, function, into)
            case nodes.ExpressionStatement(value=value) if not rest and not _is_assert(value):
                return evaluate(body, value, into)
            case _:
                run(body, statement, into)
    return Nothing()


def _is_assert(value: nodes.Expression) -> bool:
    return isinstance(value, nodes.Call) and isinstance(value.function, nodes.Name) and value.function.name == "assert"


def _choose_tail(
    body: Body,
    branch: nodes.If,
    then: tuple[nodes.Statement, ...],
    otherwise: tuple[nodes.Statement, ...],
    rest: tuple[nodes.Statement, ...],
    function: nodes.Function,
    into: DType | None,
) -> Operand:
    body.calls += 1
    if body.calls > _MOST_BRANCHES:
        raise fault(
            "0410",
            f"`{function.name}` returns on too many ways to be written out in place",
            branch.span,
            hint="give it one `return`, at its end",
        )

    def side(first: tuple[nodes.Statement, ...]) -> Operand:
        return _way(body, (*first, *rest), function, into, branch)

    return choose(body, branch.condition, lambda: side(then), lambda: side(otherwise))


def _way(
    body: Body, statements: tuple[nodes.Statement, ...], function: nodes.Function, into: DType | None, branch: nodes.Expression
) -> Operand:
    """The value on one way through the function."""
    with body.names.scope():
        value = _tail(body, statements, function, into)
    if not isinstance(value, Number | Tuple | Record | Choice) and not arrays.is_array(value, body):
        raise fault(
            "0209", f"`{function.name}` gives no number on this path", branch.span, others=(Label(function.name_span, "declared here"),)
        )
    return value


def _match_tail(body: Body, node: nodes.Match, rest: tuple[nodes.Statement, ...], function: nodes.Function, into: DType | None) -> Operand:
    body.calls += len(node.arms)

    def value(arm: nodes.Arm) -> Operand:
        own = arm.body.statements if isinstance(arm.body, nodes.Block) else (nodes.ExpressionStatement(value=arm.body, span=arm.span),)
        return _way(body, (*own, *rest), function, into, node)

    return match_of(body, node, value)


def _returns(branch: nodes.If | nodes.Match) -> bool:
    """Whether a `return` stands in a branch, loops aside."""
    if isinstance(branch, nodes.Match):
        blocks = [arm.body for arm in branch.arms if isinstance(arm.body, nodes.Block)]
    else:
        blocks = [branch.then, *([branch.otherwise] if branch.otherwise is not None else [])]
    return any(_leaves(statement) for block in blocks for statement in block.statements)


def _leaves(statement: nodes.Statement) -> bool:
    match statement:
        case nodes.Return():
            return True
        case nodes.ExpressionStatement(value=nodes.If() | nodes.Match() as branch):
            return _returns(branch)
    return False
