"""Calls: of the program's functions, of cases of enums, and of what the prelude declares, which `emits` gives an emitter by name."""

from collections.abc import Callable, Mapping

from attrs import evolve

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, ERROR, OptionType, ResultType, Type
from quantdsl import types as qt
from quantdsl.check import heap, library
from quantdsl.check.generic import is_open, substituted, unify
from quantdsl.check.literals import settled
from quantdsl.check.patterns import cases_of
from quantdsl.check.resolve import resolve
from quantdsl.check.scope import CheckedVariable, CheckScope
from quantdsl.elaborate.changes import changes
from quantdsl.elaborate.context import FunctionContext, elaborates
from quantdsl.elaborate.expressions import case, place_of
from quantdsl.elaborate.function_code import invoke
from quantdsl.elaborate.instances import Callee
from quantdsl.elaborate.outside import call_outside
from quantdsl.elaborate.refused import not_in_place, not_supported
from quantdsl.elaborate.values import InMemory, Value
from runtime.records import frozen

_INSTEAD = {"print": "record numbers with `log_ring(x)`, or print in the functions of `main`"}


@frozen
class BoundCall:
    """A call whose arguments are computed: by the names of parameters. `bound`: what the callee's type parameters stand for; `constants`:
    the values of its `const` parameters; `place`: the type that the result is wanted as; `subject`: what a method is called on."""

    node: nodes.Call
    callee: Callee
    values: Mapping[str, Value]
    constants: Mapping[str, int]
    bound: Mapping[str, Type]
    place: Type | None
    subject: nodes.Expression | None = None

    def __getitem__(self, parameter: str) -> Value:
        return self.values[parameter]


Emitter = Callable[[FunctionContext, BoundCall], Value]
_EMITTERS: dict[str, Emitter] = {}
_OF_KIND: dict[type, Emitter] = {}


def emits(*names: str) -> Callable[[Emitter], Emitter]:
    """Registers what writes the calls of functions of the prelude."""

    def register(emitter: Emitter) -> Emitter:
        _EMITTERS.update(dict.fromkeys(names, emitter))
        return emitter

    return register


def calls(kind: type) -> Callable[[Emitter], Emitter]:
    """Registers what writes the calls of a program's functions, or of its signals."""

    def register(emitter: Emitter) -> Emitter:
        _OF_KIND[kind] = emitter
        return emitter

    return register


@elaborates(nodes.Call)
def call(c: FunctionContext, node: nodes.Call, place: Type | None) -> Value:
    match node.function:
        case nodes.Name(name="some" | "Ok" | "Err" as name) if name not in c.functions:
            return _wrapped(c, node, name, place)
        case nodes.Name(name=name) if name in c.functions and c.names.find(name) is None:
            return called(c, c.functions[name], node, None, place)
        case nodes.Name(name=name) if heap.is_function(name):
            found = node.type if heap.is_heap(node.type) else node.arguments[0].value.type
            raise not_in_place(found, node.span)
        case nodes.Field(value=subject) if heap.is_heap(subject.type):
            raise not_in_place(subject.type, node.span)
        case nodes.Name(name=name) | nodes.Path(segments=(_, name)):
            return _variant(c, node, name)
        case nodes.Field(value=subject, name=name):
            return called(c, c.functions[name], node, subject, place)
    raise AssertionError("what is called is a name")


def _wrapped(c: FunctionContext, node: nodes.Call, name: str, place: Type | None) -> Value:
    argument = node.arguments[0].value
    type = place if isinstance(place, OptionType if name == "some" else ResultType) else c.type(node)
    if isinstance(type, OptionType):
        return c.make(type, {"present": c.constant(True, BOOL), "value": c.value(argument, type.value)})
    assert isinstance(type, ResultType)
    part, inner = ("value", type.value) if name == "Ok" else ("error", type.error)
    return c.make(type, {"ok": c.constant(name == "Ok", BOOL), part: c.value(argument, inner)})


def _variant(c: FunctionContext, node: nodes.Call, name: str) -> Value:
    type = c.type(node)
    parts = (cases_of(c.elaboration.checker, type) or {})[name]
    values = {part: c.kept(c.value(argument.value, found)) for (part, found), argument in zip(parts, node.arguments, strict=True)}
    return case(c, type, name, values)


def called(c: FunctionContext, callee: Callee, node: nodes.Call, subject: nodes.Expression | None, place: Type | None) -> Value:
    """A call of a function or signal; `subject` is what a method is called on."""
    if c.elaboration.is_prelude(callee):
        emitter = _EMITTERS.get(callee.name)
        if emitter is None:
            raise not_supported(f"`{callee.name}` in compiled code", node.span, _INSTEAD.get(callee.name, "leave it out"))
    else:
        emitter = _OF_KIND[type(callee)]
    return emitter(c, bind_arguments(c, callee, node, subject, place))


def bind_arguments(c: FunctionContext, callee: Callee, node: nodes.Call, subject: nodes.Expression | None, place: Type | None) -> BoundCall:
    """Computes the arguments in the order written, then the defaults of what isn't given."""
    parameters = {parameter.name: parameter for parameter in callee.parameters}
    given: dict[str, nodes.Expression] = {}
    free = list(parameters)
    if subject is not None:
        given[free.pop(0)] = subject
    for number, written in enumerate(node.arguments):
        given[written.name or free[number]] = written.value
    values: dict[str, Value] = {}
    constants: dict[str, int] = {}
    bound: dict[str, Type] = {}
    names = {parameter.name for parameter in callee.type_parameters}
    prelude = c.elaboration.is_prelude(callee)
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
        value = _argument(c, argument, None if is_open(wanted, names) else wanted, is_self=prelude and name == "self")
        unify(type, settled(value.type), bound, names)
        wanted = substituted(type, bound, names)
        value = value if is_open(wanted, names) else c.fit(value, _with_sizes(wanted, value.type))
        changing = any(changes(c, later, None) for later in waiting) or (not prelude and c.changes_state(callee.name))
        values[name] = c.kept(value) if changing and name != "self" else value
    return BoundCall(node, callee, values, constants, bound, place, subject)


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
    checker, scope = c.elaboration.checker, CheckScope(c.sizes)
    for name, value in constants.items():
        scope.add(CheckedVariable(name, ERROR, "const parameter", constant=value))
    with checker.within(parameters=frozenset(names)):
        return resolve(checker, written, scope)


def _with_sizes(wanted: Type, found: Type) -> Type:
    """A capacity that the callee leaves open is that of the argument."""
    if isinstance(wanted, qt.Container) and isinstance(found, qt.Container) and wanted.size == qt.Size():
        return qt.Container(wanted.kind, wanted.elements, found.size)
    return wanted


@calls(nodes.Function)
def call_function(c: FunctionContext, call: BoundCall) -> Value:
    assert isinstance(call.callee, nodes.Function)
    if call.callee.body is None:
        return call_outside(c, call.callee, call.values, call.node.span)
    return call_instance(c, call)


def call_instance(c: FunctionContext, call: BoundCall) -> Value:
    """A call of the function that is written for these arguments."""
    try:
        instance = c.elaboration.instance(call.callee, call.bound, call.constants, {n: v.type for n, v in call.values.items()})
    except ZyntaxError as error:
        raise ZyntaxError(*(_told(found, call) for found in error.diagnostics)) from None
    return invoke(c, instance, [call.values[parameter.name] for parameter, _ in instance.parameters])


def _told(found: Diagnostic, call: BoundCall) -> Diagnostic:
    """What goes wrong inside the library is told of the program's call of it."""
    if found.span is None or not library.holds(found.span) or library.holds(call.node.span):
        return found
    return evolve(found, span=call.node.span, notes=(*found.notes, f"in `{call.callee.name}` of {found.span.path.strip('<>')}"))
