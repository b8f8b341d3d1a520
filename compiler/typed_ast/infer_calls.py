"""Types of calls: to library functions, to methods, to values that are functions. The program's own functions are in
infer_functions.py."""

from compiler.diagnostics import Diagnostic, Label
from compiler.typed_ast.arguments import ArgumentSlot, Callee, match_arguments, place
from compiler.typed_ast.bind_sizes import ragged_rows
from compiler.typed_ast.checker import AWAIT_HINT, Checker, infers
from compiler.typed_ast.conversions import is_silent, list_leaf
from compiler.typed_ast.elsewhere import METHODS
from compiler.typed_ast.infer_functions import call_user_function
from compiler.typed_ast.infer_index import kind_of
from compiler.typed_ast.library import REQUIRED, CallTypes, LibraryFunction, TypeFault
from compiler.typed_ast.nodes import Argument, Call, Field, ListLiteral, Name, Path
from compiler.typed_ast.rules.assignment import require_mutable
from compiler.typed_ast.rules.cases import case_with_values, wrapped, wrappers
from compiler.typed_ast.rules.names import member_of_unknown_module, undefined, unknown_path
from compiler.typed_ast.scope import Scope, UserFunction, Variable
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    UNKNOWN,
    CharType,
    EnumType,
    FunctionType,
    FutureType,
    ListType,
    RangeType,
    Scalar,
    StringType,
    TensorType,
    TupleType,
    Type,
    UnitType,
)


@infers(Call)
def call(checker: Checker, node: Call, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.type_arguments:
        infer_arguments(checker, node, scope)
        return checker.later("a call with type arguments", node.span, "leave them out: types are found from the arguments")
    match node.function:
        case Name(name=name):
            return _call_name(checker, node, name, scope, expected)
        case Path(segments=segments):
            name = segments[1] if segments[0] == "extern" else "::".join(segments)
            function = checker.library.functions.get(name)
            if function is not None:
                return call_library(checker, node, function, scope)
            if len(segments) == 2 and segments[0] in checker.declarations.enums and segments[1] in checker.declarations.cases:
                return case_with_values(checker, node, segments[1], scope, EnumType(segments[0]))
            infer_arguments(checker, node, scope)
            if segments[0] == "extern":
                hint = did_you_mean(name, checker.library.functions)
                message = f"there is no runtime function `{name}`"
                return checker.report("0201", message, node.function.span, "not found", hint=hint)
            return unknown_path(checker, node.function, scope)
        case Field():
            return _call_method(checker, node, node.function, scope)
    return _call_value(checker, node, checker.infer(node.function, scope), scope)


def infer_arguments(checker: Checker, node: Call, scope: Scope) -> None:
    for argument in node.arguments:
        checker.infer(argument.value, scope)


def _call_name(checker: Checker, node: Call, name: str, scope: Scope, expected: Type | None) -> Type:
    entry = scope.find(name)
    match entry:
        case UserFunction():
            return call_user_function(checker, node, entry, scope)
        case Variable():
            return _call_value(checker, node, checker.infer(node.function, scope), scope)
    function = checker.library.functions.get(name)
    if function is not None:
        return call_library(checker, node, function, scope)
    if name in wrappers(checker):
        return wrapped(checker, node, name, scope, expected)
    if name in checker.declarations.cases:
        return case_with_values(checker, node, name, scope, expected)
    infer_arguments(checker, node, scope)
    return undefined(checker, name, node.function.span, scope)


def _call_value(checker: Checker, node: Call, function: Type, scope: Scope) -> Type:
    if not isinstance(function, FunctionType):
        infer_arguments(checker, node, scope)
        if is_silent(function):
            return function if function == ERROR else UNKNOWN
        return checker.report("0203", f"only a function can be called, and this is {function}", node.function.span, f"this is {function}")
    if len(node.arguments) != len(function.parameters):
        infer_arguments(checker, node, scope)
        wants, given = len(function.parameters), len(node.arguments)
        plural = "argument" if wants == 1 else "arguments"
        are = "is" if given == 1 else "are"
        return checker.report(
            "0204", f"the function takes {wants} {plural}, but {given} {are} given", node.span, notes=(f"its type is `{function}`",)
        )
    for argument, wanted in zip(node.arguments, function.parameters, strict=True):
        checker.value(argument.value, scope, wanted)
    return function.result


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
    parameters = [p for p in function.parameters if p.name != "self" or receiver is None]
    slots = [ArgumentSlot(p.name, p.default is REQUIRED, p.variadic, p.keyword_only) for p in parameters]
    matched = match_arguments(slots, node, Callee(function.name, function.signature))
    found = {id(a): checker.infer(a.value, scope) for a in node.arguments}
    if isinstance(matched, Diagnostic):
        return checker.add(matched)
    if function.name in _OF_NESTED_LISTS and node.arguments and (rows := ragged_rows(node.arguments[0].value)) is not None:
        return _report_ragged(checker, *rows)
    if ERROR in found.values() or not _are_there(checker, function, receiver, node, found):
        return ERROR
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
            values = [checker.constant(a.value, scope) for a in given]
            if all(v is not None for v in values):
                constants[parameter.name] = tuple(values)
        else:
            types[parameter.name] = found[id(given[0])]
            value = checker.constant(given[0].value, scope)
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


def _accepts(checker: Checker, function: LibraryFunction, name: str, words: str, argument: Argument, found: Type) -> bool:
    """Checks an argument against the parameter's words, where all of them are known ones; only what is certainly wrong counts."""
    wanted = [w.strip() for w in words.replace(",", " or ").split(" or ")]
    if is_silent(found) or not all(w in _WORDS or w in _NUMBERS for w in wanted):
        return True
    if any(_is_a(found, word) for word in wanted):
        return True
    hint = None
    if isinstance(found, Scalar) and found.dtype.is_float and "int" in wanted:
        hint = "write `... as i64`"
    checker.report(
        "0203",
        f"`{name}` of `{function.name}` is {words}, not {found}",
        argument.value.span,
        f"this is {found}",
        notes=(f"its signature is `{function.signature}`",),
        hint=hint,
    )
    return False


def _is_a(found: Type, word: str) -> bool:
    if isinstance(found, TensorType) and found.shape.rank in (None, 0):
        return True
    if word in _WORDS:
        if isinstance(found, Scalar):
            return word in ("tensor", "Tensor")
        if word in ("tensor", "Tensor") and isinstance(found, ListType):
            leaf = list_leaf(found)
            return isinstance(leaf, (Scalar, TensorType)) or is_silent(leaf)
        return isinstance(found, _WORDS[word])
    if not isinstance(found, Scalar):
        return False
    match _NUMBERS[word]:
        case "int":
            return found.dtype.is_int
        case "number":
            return found != BOOL
        case "bool":
            return found == BOOL
    return True


# ---- methods ---------------------------------------------------------------------------------------------------------


def _call_method(checker: Checker, node: Call, target: Field, scope: Scope) -> Type:
    module = _module_function(checker, target, scope)
    if module is not None:
        return call_library(checker, node, module, scope)
    fault = member_of_unknown_module(checker, target, scope)
    if fault is not None:
        infer_arguments(checker, node, scope)
        return fault
    receiver = checker.infer(target.value, scope)
    kind = kind_of(receiver)
    if kind is None:
        infer_arguments(checker, node, scope)
        if is_silent(receiver):
            return receiver if receiver == ERROR else UNKNOWN
        if isinstance(receiver, UnitType):
            message = f"`()` has no method `{target.name}`: the value before the point is nothing"
            return checker.report("0202", message, target.span)
        hint = AWAIT_HINT if isinstance(receiver, FutureType) else None
        message = f"{receiver} has no method `{target.name}`"
        return checker.report("0202", message, target.span, f"the value is {receiver}", hint=hint)
    function = checker.library.methods.get((kind, target.name))
    if function is not None:
        if function.mutates:
            require_mutable(checker, target.value, scope)
        return call_library(checker, node, function, scope, receiver)
    infer_arguments(checker, node, scope)
    return _no_method(checker, target, receiver, kind, scope)


def _module_function(checker: Checker, target: Field, scope: Scope) -> LibraryFunction | None:
    """`tensor.zeros(...)` where `tensor` is a module of the library."""
    if not isinstance(target.value, Name) or scope.find(target.value.name) is not None:
        return None
    module = target.value.name
    if module not in checker.library.modules:
        return None
    functions = checker.library.functions
    return functions.get(f"{module}::{target.name}") or functions.get(target.name)


def _no_method(checker: Checker, target: Field, receiver: Type, kind: str, scope: Scope) -> Type:
    name = target.name
    if name in checker.declarations.method_names:
        return ERROR
    if isinstance(receiver, TensorType) and receiver.shape.rank is None and any(method == name for _, method in checker.library.methods):
        return UNKNOWN
    if isinstance(receiver, TupleType) and name.isdigit() and int(name) < len(receiver.elements):
        return UNKNOWN
    methods = [method for owner, method in checker.library.methods if owner == kind]
    hint = METHODS.get(name) if kind == "tensor" else None
    hint = hint or did_you_mean(name, methods)
    if hint is None and (name in checker.library.functions or isinstance(scope.find(name), UserFunction)):
        hint = f"`{name}` is a function: write `{name}(...)` or `... |> {name}`"
    if hint is None and methods:
        shown = sorted(methods)
        hint = "it has " + ", ".join(f"`{m}`" for m in shown[:12]) + (", ..." if len(shown) > 12 else "")
    return checker.report("0202", f"{_article(receiver)} has no method `{name}`", target.span, f"the value is {receiver}", hint=hint)


def _article(receiver: Type) -> str:
    return "a tensor" if isinstance(receiver, TensorType) else str(receiver)
