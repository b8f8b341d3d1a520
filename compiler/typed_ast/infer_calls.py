"""Calls of ZynML's library: functions, methods, and members of modules. The program's own functions are in infer_functions.py."""

from compiler.diagnostics import Diagnostic, Label
from compiler.typed_ast.arguments import ArgumentSlot, Callee, match_arguments, place
from compiler.typed_ast.bind_sizes import ragged_rows
from compiler.typed_ast.checker import ZYNML_RULES, Checker
from compiler.typed_ast.conversions import is_silent, list_leaf, strong
from compiler.typed_ast.declarations import changes_receiver
from compiler.typed_ast.elsewhere import METHODS
from compiler.typed_ast.infer_functions import call_user_function
from compiler.typed_ast.infer_index import kind_of
from compiler.typed_ast.library import REQUIRED, TARGET, CallTypes, LibraryFunction, TypeFault
from compiler.typed_ast.meaning import CallRules
from compiler.typed_ast.nodes import Argument, Call, Expression, Field, Function, Lambda, ListLiteral, Name, Path
from compiler.typed_ast.overloads import into, natural, shown_arguments
from compiler.typed_ast.requirements import AWAIT_HINT
from compiler.typed_ast.rules.abstract_types import of_library
from compiler.typed_ast.rules.assignment import require_mutable
from compiler.typed_ast.rules.calls import method_of
from compiler.typed_ast.rules.cases import infer_arguments
from compiler.typed_ast.rules.names import member_of_unknown_module, undefined, unknown_path
from compiler.typed_ast.scope import Scope, UserFunction
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.traits import associated
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    NONE,
    UNKNOWN,
    CharType,
    FunctionType,
    FutureType,
    ListType,
    OptionType,
    RangeType,
    Scalar,
    StringType,
    TensorType,
    TupleType,
    Type,
    UnitType,
)
from compiler.typed_ast.user_iterators import ITERATED, chained


def _find(checker: Checker, name: str, scope: Scope) -> UserFunction | Function | None:
    found = scope.find(name)
    if isinstance(found, UserFunction):
        return found
    method = checker.declarations.functions.get(name) if found is None else None
    return checker.methods.get(name) or (method if method is not None and changes_receiver(method) else None)


def _outside(checker: Checker, node: Call, scope: Scope) -> Type:
    """A call of a library function, or of what isn't there."""
    target = node.function
    segments = target.segments if isinstance(target, Path) else (target.name,) if isinstance(target, Name) else ()
    external = len(segments) > 1 and segments[0] == "extern"
    name = segments[1] if external else "::".join(segments)
    if name == ITERATED:
        given = checker.infer(node.arguments[0].value, scope)
        return ListType(given.result.value if isinstance(given, FunctionType) and isinstance(given.result, OptionType) else UNKNOWN)
    function = checker.library.functions.get(name)
    if function is not None:
        found = call_library(checker, node, function, scope)
        if name in _PRINTING and checker.declarations.impls:
            shown_arguments(checker, node, scope)
        return found
    infer_arguments(checker, node, scope)
    if external:
        hint = did_you_mean(name, checker.library.functions)
        return checker.report("0201", f"there is no runtime function `{name}`", target.span, "not found", hint=hint)
    return unknown_path(checker, target, scope) if isinstance(target, Path) else undefined(checker, name, target.span, scope)


_PRINTING = ("print", "println", "eprint", "eprintln", "to_string", "to text")
_OF_NESTED_LISTS = frozenset(["tensor", "Tensor::from_array"])


def _report_ragged(checker: Checker, short: ListLiteral, first: ListLiteral) -> Type:
    """A row that has another length than the first one of its list."""
    wanted, given = len(first.elements), len(short.elements)
    message = f"rows differ in length: this one has {given} element{'' if given == 1 else 's'}, and the first has {wanted}"
    others = (Label(first.span, "the first row"),)
    lacks = f"{'add' if given < wanted else 'remove'} {abs(wanted - given)} element{'' if abs(wanted - given) == 1 else 's'} here"
    return checker.report("0301", message, short.span, "", others, hint=lacks)


# ---- the library -----------------------------------------------------------------------------------------------------


def call_library(checker: Checker, node: Call, function: LibraryFunction, scope: Scope, receiver: Type | None = None) -> Type:
    """A call of a library function, or of a method when there is a receiver."""
    parameters = [p for p in function.parameters if (p.name != "self" or receiver is None) and p.types != TARGET]
    slots = [ArgumentSlot(p.name, p.default is REQUIRED, p.variadic, p.keyword_only) for p in parameters]
    matched = match_arguments(slots, node, Callee(function.name, lambda: function.signature))
    # The library takes lists, whatever `[1, 2]` is alone.
    handed = function.handed(receiver) if function.handed is not None and receiver is not None and not is_silent(receiver) else None
    found = {id(a): checker.infer(a.value, scope, _expected(a, handed)) for a in node.arguments}
    if isinstance(matched, Diagnostic):
        return checker.add(matched)
    if function.name in _OF_NESTED_LISTS and node.arguments and (rows := ragged_rows(node.arguments[0].value)) is not None:
        return _report_ragged(checker, *rows)
    if ERROR in found.values() or not _are_there(checker, function, receiver, node, found):
        return ERROR
    abstract = None if receiver is not None else of_library(checker, node, function.name, [*found.values()])
    if abstract is not None:
        return abstract
    types: dict[str, object] = {} if receiver is None else {"self": receiver}
    constants: dict[str, object] = {}
    for parameter in parameters:
        given = matched.get(parameter.name)
        if given is None:
            continue
        for argument in given:
            if not _accepts(checker, function, parameter.name, parameter.types, argument, found[id(argument)]):
                return ERROR
        if parameter.variadic:
            types[parameter.name] = tuple(found[id(a)] for a in given)
            values = [_known(checker, a.value, scope, parameter.name) for a in given]
            if all(v is not None for v in values):
                constants[parameter.name] = tuple(values)
        else:
            types[parameter.name] = found[id(given[0])]
            value = _known(checker, given[0].value, scope, parameter.name)
            if value is not None:
                constants[parameter.name] = value
    if isinstance(function.result, Type):
        return function.result
    try:
        return function.result(CallTypes(types, constants))
    except TypeFault as fault:
        where = matched.get(fault.parameter or "")
        span = place(where[0]) if where else node.span
        return checker.report(fault.code, fault.message, span, fault.label, hint=fault.hint)


def _known(checker: Checker, node: Expression, scope: Scope, parameter: str) -> object:
    """What is known of an argument now. Of a shape that is written as a list that is at least how many extents it has."""
    value = checker.constant(node, scope)
    if value is None and parameter == "shape" and isinstance(node, ListLiteral):
        return [checker.constant(element, scope) for element in node.elements]
    return value


def _expected(argument: Argument, handed: tuple[Type, ...] | None) -> Type | None:
    """What a lambda is called with, by the method that takes it; a list without a type of its own."""
    if isinstance(argument.value, Lambda) and handed is not None:
        return FunctionType(tuple(map(strong, handed)), UNKNOWN)
    return ListType(UNKNOWN) if isinstance(argument.value, ListLiteral) else None


def _are_there(checker: Checker, function: LibraryFunction, receiver: Type | None, node: Call, found: dict[int, Type]) -> bool:
    """Reports arguments that are futures: of the library only lists take them, to keep them."""
    if isinstance(receiver, ListType):
        return True
    pending = [a for a in node.arguments if isinstance(found[id(a)], FutureType)]
    for argument in pending:
        kind = found[id(argument)]
        message = f"`{function.name}` takes values, not {kind}"
        checker.report("0203", message, argument.value.span, f"this is {kind}", hint=AWAIT_HINT)
    return not pending


_WORDS: dict[str, tuple[type[Type], ...]] = {
    "tensor": (TensorType, ListType),
    "Tensor": (TensorType, ListType),
    "list": (ListType,),
    "List": (ListType,),
    "string": (StringType, CharType),
    "String": (StringType, CharType),
    "text": (StringType, CharType),
    "tuple": (TupleType,),
    "range": (RangeType,),
    "function": (FunctionType,),
}
_NUMBERS = {"int": "int", "float": "number", "number": "number", "bool": "bool", "scalar": "any"}


def _accepts(checker: Checker, function: LibraryFunction, name: str, words: str, argument: Argument, actual: Type) -> bool:
    """Checks an argument against the parameter's words, where all of them are known ones; only what is certainly wrong counts."""
    wanted = [w.strip() for w in words.replace(",", " or ").split(" or ")]
    if is_silent(actual) or not all(w in _WORDS or w in _NUMBERS for w in wanted):
        return True
    if any(_is_a(actual, word) for word in wanted):
        return True
    hint = None
    if isinstance(actual, Scalar) and actual.dtype.is_float and "int" in wanted:
        hint = "write `... as i64`"
    checker.report(
        "0203",
        f"`{name}` of `{function.name}` is {words}, not {actual}",
        argument.value.span,
        f"this is {actual}",
        notes=(f"its signature is `{function.signature}`",),
        hint=hint,
    )
    return False


def _is_a(type_: Type, word: str) -> bool:
    if isinstance(type_, TensorType) and type_.shape.rank in (None, 0):
        return True
    if word in _WORDS:
        if isinstance(type_, Scalar):
            return word in ("tensor", "Tensor")
        if word in ("tensor", "Tensor") and isinstance(type_, ListType):
            leaf = list_leaf(type_)
            return isinstance(leaf, (Scalar, TensorType)) or is_silent(leaf)
        return isinstance(type_, _WORDS[word])
    if not isinstance(type_, Scalar):
        return False
    match _NUMBERS[word]:
        case "int":
            return type_.dtype.is_int
        case "number":
            return type_ != BOOL
        case "bool":
            return type_ == BOOL
    return True


# ---- methods ---------------------------------------------------------------------------------------------------------


def _member(checker: Checker, node: Call, target: Field, scope: Scope) -> Type | None:
    """A call of `m.f()` where `m` is a module, or one that is only known elsewhere; and of steps over values of the program's own
    iterators."""
    checker.findings.rewrites.pop(id(node), None)
    steps = chained(checker, node, target, scope)
    if steps is not None:
        return steps
    function = _module_function(checker, target, scope)
    if function is not None:
        return call_library(checker, node, function, scope)
    fault = member_of_unknown_module(checker, target, scope)
    if fault is not None:
        infer_arguments(checker, node, scope)
    return fault


def _method(checker: Checker, node: Call, target: Field, receiver: Type, scope: Scope, expected: Type | None) -> Type | None:
    if receiver == NONE:
        known = target.name == "unwrap_or" and node.arguments
        receiver = OptionType(strong(checker.infer(node.arguments[0].value, scope)) if known else UNKNOWN)
    function = checker.library.methods.get((kind_of(receiver) or "", target.name))
    checker.findings.rewrites.pop(id(node), None)
    if function is None:
        if method_of(checker, target.name, receiver, scope) is not None:
            return None
        return into(checker, node, target, receiver, scope, expected) or natural(checker, node, target, receiver, scope)
    if function.mutates:
        require_mutable(checker, target.value, scope)
    return call_library(checker, node, function, scope, receiver)


def _module_function(checker: Checker, target: Field, scope: Scope) -> LibraryFunction | None:
    """`tensor.zeros(...)` where `tensor` is a module of the library."""
    if not isinstance(target.value, Name) or scope.find(target.value.name) is not None:
        return None
    module = target.value.name
    if module not in checker.library.modules:
        return None
    functions = checker.library.functions
    return functions.get(f"{module}::{target.name}") or functions.get(target.name)


def _no_method(checker: Checker, target: Field, receiver: Type, scope: Scope, hint: str | None) -> Type:
    name, kind = target.name, kind_of(receiver)
    if isinstance(receiver, UnitType):
        return checker.report("0202", f"`()` has no method `{name}`: the value before the point is nothing", target.span)
    if isinstance(receiver, TensorType) and receiver.shape.rank is None and any(method == name for _, method in checker.library.methods):
        return UNKNOWN
    if isinstance(receiver, TupleType) and name.isdigit() and int(name) < len(receiver.elements):
        return UNKNOWN
    methods = [method for owner, method in checker.library.methods if owner == kind]
    hint = hint or (AWAIT_HINT if isinstance(receiver, FutureType) else METHODS.get(name) if kind == "tensor" else None)
    hint = hint or did_you_mean(name, methods)
    if hint is None and (name in checker.library.functions or isinstance(scope.find(name), UserFunction)):
        hint = f"`{name}` is a function: write `{name}(...)` or `... |> {name}`"
    if hint is None and methods:
        shown = sorted(methods)
        hint = "it has " + ", ".join(f"`{m}`" for m in shown[:12]) + (", ..." if len(shown) > 12 else "")
    return checker.report("0202", f"{_article(receiver)} has no method `{name}`", target.span, f"the value is {receiver}", hint=hint)


def _article(receiver: Type) -> str:
    return "a tensor" if isinstance(receiver, TensorType) else str(receiver)


ZYNML_RULES.calls = CallRules(_find, call_user_function, _outside, _member, _method, _no_method, associated)
