"""Calls of generic functions: what their type parameters stand for, from the arguments, from what is wanted, or as the call says, and
whether these types are what is asked of them."""

from collections.abc import Iterator

from compiler.diagnostics import Label
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import Fit, scalar_fit, strong
from compiler.typed_ast.declarations import is_method
from compiler.typed_ast.rules.bounds import BOUNDS
from compiler.typed_ast.rules.calls import Receiver, argument_type
from compiler.typed_ast.scope import Scope, UserFunction, name_place
from compiler.typed_ast.signatures import parameter_type, result_type
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.traits import implemented_by, missing_impl
from compiler.typed_ast.type_arguments import is_open, substituted, unify, unify_argument
from compiler.typed_ast.type_parts import inner_types
from compiler.typed_ast.types import ERROR, NONE, UNKNOWN, Scalar, Type

Known = dict[int, Type]
"""Types of arguments that needn't be looked at again, by the identity of their nodes."""
Placed = list[tuple[nodes.Parameter, nodes.Argument]]
_LOOKED_AT_ONCE = (nodes.Call, nodes.Binary, nodes.Index, nodes.Field, nodes.Unary, nodes.Comprehension, nodes.Compute)


def type_arguments(
    checker: Checker,
    call: nodes.Call,
    function: UserFunction,
    placed: Placed,
    receiver: Receiver | None,
    scope: Scope,
    expected: Type | None,
    known: Known,
) -> dict[str, Type] | None:
    """What the type parameters of a function stand for in a call, those that nothing tells left out. None where they can't be what the call
    makes of them, which is reported."""
    node = function.node
    names = {parameter.name for parameter in node.type_parameters}
    bound: dict[str, Type] = {}
    if not _written(checker, call, node, scope, bound, names):
        return None
    places = {parameter.name: parameter_type(checker, node, parameter, function.scope) for parameter, _ in placed}
    fixed = frozenset(bound)
    for parameter, argument in _lambdas_last(placed):
        place = substituted(places[parameter.name], {name: bound[name] for name in fixed & bound.keys()}, names)
        is_lambda = isinstance(argument.value, nodes.Lambda)
        wanted = substituted(place, {**dict.fromkeys(names, UNKNOWN), **bound}, names) if is_lambda else substituted(place, bound, names)
        actual = argument_type(checker, argument, receiver, scope, wanted if is_lambda or not is_open(wanted, names) else None)
        if actual == ERROR:
            return None
        if isinstance(argument.value, _LOOKED_AT_ONCE) and not _may_say_more(actual):
            known[id(argument.value)] = actual
        unify_argument(place, actual, bound, names, checker.meaning.meet)
    _from_wanted(checker, function, scope, expected, bound, names)
    bound = {name: strong(one) for name, one in bound.items()}
    origins = {parameter.name: argument.value.span for parameter, argument in placed}
    return bound if _meets_bounds(checker, call, function, bound, places, origins) else None


def _lambdas_last(placed: Placed) -> Iterator[tuple[nodes.Parameter, nodes.Argument]]:
    """What the other arguments say is what lambdas take."""
    yield from (pair for pair in placed if not isinstance(pair[1].value, nodes.Lambda))
    yield from (pair for pair in placed if isinstance(pair[1].value, nodes.Lambda))


def _may_say_more(type_: Type) -> bool:
    """Whether a value may have another type where one is wanted."""
    return type_ in (UNKNOWN, NONE) or (isinstance(type_, Scalar) and type_.weak) or any(map(_may_say_more, inner_types(type_)))


def _written(
    checker: Checker, call: nodes.Call, node: nodes.Function, scope: Scope, bound: dict[str, Type], names: set[str]
) -> bool:
    """Takes the type arguments that stand in the call: `f::<int>(x)`, `Stack<int>::new()`."""
    impl = checker.declarations.impl_of.get(id(node))
    of_impl = len(impl.type_parameters) if impl is not None else 0
    own = node.type_parameters[of_impl:]
    if call.type_arguments:
        if len(call.type_arguments) != len(own):
            others = (Label(name_place(node), "declared here"),)
            message = f"`{node.name}` has {_count(len(own))}, and {len(call.type_arguments)} are given"
            checker.report("0204", message, call.type_arguments[0].span.to(call.type_arguments[-1].span), others=others)
            return False
        bound.update({p.name: checker.resolve(w, scope) for p, w in zip(own, call.type_arguments, strict=True)})
    if isinstance(call.function, nodes.Path) and call.function.arguments:
        given = [checker.resolve(written, scope) for written in call.function.arguments]
        of_type = impl.target.arguments if impl is not None and isinstance(impl.target, nodes.NamedTypeSyntax) else ()
        if len(of_type) == len(given):
            variables = frozenset(names)
            with checker.within(parameters=checker.frame.parameters | variables):
                places = [checker.resolve(one, scope) for one in of_type]
            for place, one in zip(places, given, strict=True):
                unify(place, one, bound, names)
    return ERROR not in bound.values()


def _count(number: int) -> str:
    return f"{number} type parameter{'' if number == 1 else 's'}" if number else "no type parameters of its own"


def _from_wanted(
    checker: Checker, function: UserFunction, scope: Scope, expected: Type | None, bound: dict[str, Type], names: set[str]
) -> None:
    """What the place of a call wants decides what the arguments leave open: numbers that are written out, too."""
    if expected is None or function.node.result is None:
        return
    wanted: dict[str, Type] = {}
    unify(result_type(checker, function.node, function.scope), expected, wanted, names)
    for name, found in wanted.items():
        have = bound.get(name)
        written = isinstance(have, Scalar) and have.weak and isinstance(found, Scalar) and scalar_fit(have, found) is Fit.YES
        if have in (None, UNKNOWN) or written:
            bound[name] = found


# ---- bounds ----------------------------------------------------------------------------------------------------------


def check_bounds(checker: Checker, node: nodes.Function) -> None:
    """Reports bounds that are no traits."""
    for parameter in node.type_parameters:
        for bound in parameter.bounds:
            name = bound.name if isinstance(bound, nodes.NamedTypeSyntax) else ""
            if name not in checker.declarations.traits and name not in BOUNDS and not checker.open_names:
                hint = did_you_mean(name, (*checker.declarations.traits, *BOUNDS))
                checker.report("0201", f"there is no trait `{name}`", bound.span, "not found", hint=hint)


def _meets_bounds(
    checker: Checker, call: nodes.Call, function: UserFunction, bound: dict[str, Type], places: dict[str, Type], origins: dict[str, Span]
) -> bool:
    """Reports a type parameter that stands for a type without what is asked of it."""
    node = function.node
    for parameter in node.type_parameters:
        found = bound.get(parameter.name, UNKNOWN)
        for asked in parameter.bounds:
            if not isinstance(asked, nodes.NamedTypeSyntax) or implemented_by(checker, found, asked):
                continue
            where = next((origins[name] for name, place in places.items() if is_open(place, {parameter.name})), call.span)
            others = (Label(asked.span, f"`{node.name}` asks for it here"),)
            message = f"`{asked.name}` is not implemented for `{checker.show(found)}`"
            if is_method(node) and where == call.span:
                message += f", which `{node.name}` asks for"
            checker.report("0208", message, where, f"this is {checker.show(found)}", others, hint=missing_impl(checker, found, asked))
            return False
    return True
