"""Calls: of the program's functions, of cases of enums, and of what the prelude declares."""

from collections.abc import Mapping
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.native_expressions import Expr
from compiler.lowering.native.changes import changes
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.expressions import NO_INDICES, case, place_of
from compiler.lowering.native.function_code import invoke
from compiler.lowering.native.outside import call_outside
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.statements import indices_of, target_of
from compiler.lowering.native.values import InMemory, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.arguments import ArgumentSlot, Misfit, assigned
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.declarations import CallableDeclaration, changes_receiver
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.type_arguments import is_open, substituted, unify_argument
from compiler.typed_ast.types import BOOL, ERROR, UNIT, OptionType, ResultType, Scalar, Size, Type, TypeVariable
from runtime.records import evolve, frozen


@frozen
class BoundCall:
    """A call whose arguments are computed: by the names of parameters. `bound`: what the callee's type parameters stand for; `constants`:
    the values of its `const` parameters; `place`: the type that the result is wanted as; `subject`: what a method is called on, with the
    `indices` in it where the method changes it."""

    node: nodes.Call
    callee: CallableDeclaration
    values: Mapping[str, Value]
    constants: Mapping[str, int]
    bound: Mapping[str, Type]
    place: Type | None
    subject: nodes.Expression | None = None
    indices: Mapping[int, Expr] = NO_INDICES

    def __getitem__(self, parameter: str) -> Value:
        return self.values[parameter]


@CORE.elaborates(nodes.Call)
def call(c: FunctionContext, node: nodes.Call, place: Type | None) -> Value:
    if node.callee:
        subject = node.function.value if isinstance(node.function, nodes.Field) else None
        return called(c, c.functions[node.callee], node, subject, place)
    match node.function:
        case nodes.Name(name=name) if name in (c.elaboration.rules.meaning.some, "Ok", "Err"):
            return _wrapped(c, node, name, place)
        case nodes.Name(name=name) | nodes.Path(segments=(_, name)):
            return _variant(c, node, name)
    raise AssertionError("what is called is declared")


def _wrapped(c: FunctionContext, node: nodes.Call, name: str, place: Type | None) -> Value:
    argument = node.arguments[0].value
    type = place if isinstance(place, OptionType if name == c.elaboration.rules.meaning.some else ResultType) else c.type(node)
    if isinstance(type, OptionType):
        return c.make(type, {"present": c.constant(True, BOOL), "value": c.value(argument, type.value)})
    assert isinstance(type, ResultType)
    part, inner = ("value", type.value) if name == "Ok" else ("error", type.error)
    return c.make(type, {"ok": c.constant(name == "Ok", BOOL), part: c.value(argument, inner)})


def _variant(c: FunctionContext, node: nodes.Call, name: str) -> Value:
    type = c.type(node)
    parts = c.layouts.cases(type)[name]
    values = {part: c.kept(c.value(argument.value, found)) for (part, found), argument in zip(parts, node.arguments, strict=True)}
    return case(c, type, name, values)


def called(
    c: FunctionContext, callee: CallableDeclaration, node: nodes.Call, subject: nodes.Expression | None, place: Type | None
) -> Value:
    """A call of a function or signal; `subject` is what a method is called on."""
    if c.elaboration.is_prelude(callee):
        emit = c.tables.prelude.get(callee.name)
        if emit is None:
            hint = c.elaboration.rules.hints.get(callee.name, "leave it out")
            raise c.not_supported(f"`{callee.name}` in compiled code", hint, node.span)
    else:
        emit = c.tables.of_declarations[type(callee)]
    found: Value = emit(c, bind_arguments(c, callee, node, subject, place))
    return found


def bind_arguments(
    c: FunctionContext, callee: CallableDeclaration, node: nodes.Call, subject: nodes.Expression | None, place: Type | None
) -> BoundCall:
    """Computes the arguments in the order written, then the defaults of what isn't given."""
    parameters = {parameter.name: parameter for parameter in callee.parameters}
    values_given = [*([] if subject is None else [subject]), *(written.value for written in node.arguments)]
    names_given = [*([] if subject is None else [None]), *(written.name for written in node.arguments)]
    slots = [ArgumentSlot(parameter.name, parameter.default is None) for parameter in callee.parameters]
    places = assigned(slots, names_given)
    assert not isinstance(places, Misfit), "the checker lets no such call through"
    given = {name: values_given[at] for name, [at] in places.items()}
    prelude = c.elaboration.is_prelude(callee)
    copied = subject is not None and changes_receiver(callee) and not prelude
    indices = indices_of(c, subject) if subject is not None and copied else NO_INDICES
    values: dict[str, Value] = {}
    constants: dict[str, int] = {}
    bound: dict[str, Type] = {}
    open_types: dict[str, Type] = {}
    names = {parameter.name for parameter in callee.type_parameters}
    waiting = list(given.values())
    for name in (*given, *(name for name in parameters if name not in given)):
        parameter = parameters[name]
        waiting = waiting[1:]
        argument = given.get(name, parameter.default)
        assert parameter.annotation is not None and argument is not None
        if isinstance(parameter.annotation, nodes.ConstantTypeSyntax):
            constants[name] = _constant(c, parameter, argument)
            continue
        type = _parameter_type(c, parameter.annotation, names, constants)
        wanted = substituted(type, bound, names)
        meets_others = isinstance(type, TypeVariable) and isinstance(wanted, Scalar)
        as_type = None if is_open(wanted, names) or meets_others else wanted
        if copied and argument is subject:
            value = c.read(target_of(c, argument, indices))
        else:
            value = _argument(c, argument, as_type, is_self=prelude and name == "self")
        unify_argument(type, strong(value.type), bound, names, c.elaboration.rules.meaning.meet)
        wanted = substituted(type, bound, names)
        value = value if is_open(wanted, names) else c.fit(value, _with_sizes(c, wanted, value.type))
        changing = any(changes(c, later, None) for later in waiting) or (not prelude and c.changes_state(node.callee))
        values[name] = c.kept(value) if changing and not (prelude and name == "self") else value
        open_types[name] = type
    for name, value in values.items():
        wanted = substituted(open_types[name], bound, names)
        if isinstance(wanted, Scalar) and value.type != wanted:
            values[name] = c.fit(value, wanted)
    return BoundCall(node, callee, values, constants, bound, place, subject, indices)


def _argument(c: FunctionContext, node: nodes.Expression, wanted: Type | None, is_self: bool) -> Value:
    """A method's subject is where it is kept, so that the method may change it."""
    location = place_of(c, node) if is_self else None
    if isinstance(location, InMemory) and c.layouts.in_memory(location.type):
        return location
    return c.value(node, wanted)


def _constant(c: FunctionContext, parameter: nodes.Parameter, argument: nodes.Expression) -> int:
    known = c.whole_number(argument)
    if known is None:
        raise c.refuse("0204", f"the parameter `{parameter.name}` wants a constant", "use a number, a `const` or a `param`", argument.span)
    return known


def _parameter_type(c: FunctionContext, written: nodes.TypeSyntax, names: set[str], constants: Mapping[str, int]) -> Type:
    """The type of a parameter, with variables for the callee's own type parameters."""
    scope = Scope(c.sizes)
    for name, value in constants.items():
        scope.add(Variable(name, ERROR, VariableKind.CONSTANT_PARAMETER, constant=value))
    with c.elaboration.checker.within(parameters=frozenset(names)):
        return c.elaboration.resolve(written, scope)


def _with_sizes(c: FunctionContext, wanted: Type, actual: Type) -> Type:
    """A capacity that the callee leaves open is that of the argument."""
    place: Any = wanted
    if c.layouts.is_sized(wanted) and c.layouts.is_sized(actual) and place.size == Size():
        sized: Type = evolve(place, size=getattr(actual, "size", None))
        return sized
    return wanted


@CORE.calls(nodes.Function)
def call_function(c: FunctionContext, call: BoundCall) -> Value:
    assert isinstance(call.callee, nodes.Function)
    if call.callee.body is None:
        return call_outside(c, call.callee, call.values, call.node.span)
    return call_instance(c, call)


def call_instance(c: FunctionContext, call: BoundCall) -> Value:
    """A call of the function that is written for these arguments."""
    try:
        given = {name: value.type for name, value in call.values.items()}
        instance = c.elaboration.instance(call.callee, call.bound, call.constants, given, c.wraps)
    except ZyntaxError as error:
        raise ZyntaxError(*(_told(c, found, call) for found in error.diagnostics)) from None
    found = invoke(c, instance, [call.values[parameter.name] for parameter, _ in instance.parameters])
    if instance.receiver is None or call.subject is None:
        return found
    left = found if instance.result == UNIT else c.part(found, "1")
    target = target_of(c, call.subject, call.indices)
    c.write(target, c.fit(left, target.type))
    return Whole(UNIT, ()) if instance.result == UNIT else c.part(found, "0")


def _told(c: FunctionContext, found: Diagnostic, call: BoundCall) -> Diagnostic:
    """What goes wrong inside the library is told of the program's call of it."""
    in_library = c.elaboration.rules.in_library
    if found.span is None or not in_library(found.span) or in_library(call.node.span):
        return found
    return evolve(found, span=call.node.span, notes=(*found.notes, f"in `{call.callee.name}` of {found.span.path.strip('<>')}"))
