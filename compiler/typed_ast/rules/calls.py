"""Calls: what is called, which argument goes to which parameter, and what the callee's type parameters stand for.

A function is found by its name, a method by its name and the type of what it is called on."""

from collections.abc import Sequence

from compiler.diagnostics import Diagnostic
from compiler.typed_ast.arguments import ArgumentSlot, Callee, match_arguments
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import fits, is_silent, strong
from compiler.typed_ast.declarations import CallableDeclaration, changes_receiver, is_method
from compiler.typed_ast.nodes import (
    Argument,
    Binary,
    Call,
    ConstantTypeSyntax,
    Expression,
    Field,
    Index,
    Name,
    Parameter,
    Path,
)
from compiler.typed_ast.requirements import report_optional, require
from compiler.typed_ast.rules import abstract_types
from compiler.typed_ast.rules.assignment import require_mutable
from compiler.typed_ast.rules.bounds import bounds_of, require_bounds
from compiler.typed_ast.rules.cases import case_with_values, infer_arguments, wrapped, wrappers, written_enum
from compiler.typed_ast.rules.literals import is_written, settled
from compiler.typed_ast.rules.narrowing import forget
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.rules.placing import placed as infer_placed
from compiler.typed_ast.scope import CONSTANT_KINDS, Scope, UserFunction
from compiler.typed_ast.signatures import parameter_type, result_type, signature
from compiler.typed_ast.type_arguments import is_open, substituted, unify, unify_argument
from compiler.typed_ast.types import ERROR, UNKNOWN, EnumType, FunctionType, OptionType, StructType, TupleType, Type, TypeVariable
from runtime.records import evolve, frozen


@frozen
class Receiver:
    """What a method is called on: before the point, or the first argument of a method that is called by its name alone."""

    node: Expression
    type: Type


def declaration_of(callee: CallableDeclaration | UserFunction) -> CallableDeclaration:
    return callee.node if isinstance(callee, UserFunction) else callee


@CORE.infers(Call)
def call(checker: Checker, node: Call, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.type_arguments and not checker.meaning.settings.written_type_arguments:
        infer_arguments(checker, node, scope)
        return checker.later("a call with type arguments", node.span, "leave them out: types are found from the arguments")
    match node.function:
        case Name(name=name) | Path(segments=(_, name)):
            return _named(checker, node, name, scope, expected)
        case Field():
            return _method(checker, node, node.function, scope, expected)
        case Path():
            return checker.meaning.rules.calls.outside(checker, node, scope)
    return _value(checker, node, scope)


# ---- what is called --------------------------------------------------------------------------------------------------


def _named(checker: Checker, node: Call, name: str, scope: Scope, expected: Type | None) -> Type:
    rules, plain = checker.meaning.rules.calls, isinstance(node.function, Name)
    key = checker.declarations.key(node.function.segments) if isinstance(node.function, Path) else name
    if isinstance(node.function, Path):
        key = _by_arguments(checker, node, _variants(checker, key), scope) or key
        if node.function.segments[0] in checker.declarations.traits and node.arguments and node.arguments[0].name is None:
            # `Shape::area(s)`
            subject, *others = node.arguments
            target = Field(value=subject.value, name=name, span=node.function.span)
            by_value = Call(function=target, arguments=tuple(others), span=node.span)
            checker.kept.append(node)
            actual = checker.infer(by_value, scope, expected)
            checker.findings.rewrites[id(node)] = by_value
            return actual
    callee = rules.find(checker, key, scope)
    if plain and _is_of_library(checker, node, name, callee, scope):
        function = Path(segments=("extern", name), span=node.function.span)
        outside = evolve(node, function=function)
        checker.kept.append(node)
        actual = checker.infer(outside, scope, expected)
        checker.findings.rewrites[id(node)] = outside
        return actual
    if callee is not None:
        return _function(checker, node, key, callee, scope, expected)
    if plain and scope.variable(name) is not None:
        return _value(checker, node, scope)
    abstract = abstract_types.constructed(checker, node, name, scope) if plain else None
    if abstract is not None:
        return abstract
    if plain and name in wrappers(checker):
        return wrapped(checker, node, name, scope, expected)
    of_enum = expected.value if isinstance(expected, OptionType) else expected
    if isinstance(node.function, Path):
        of_enum = written_enum(checker, node.function, scope) or _wanted_of(node.function.segments[0], of_enum)
        if node.function.segments[0] == "any":
            infer_arguments(checker, node, scope)
            return UNKNOWN
    owners = {enum.name for enum, _ in checker.declarations.cases.get(name, ())}
    if owners and (plain or (isinstance(of_enum, EnumType) and of_enum.name in owners)):
        return case_with_values(checker, node, name, scope, of_enum)
    is_method_alone = node.piped and name not in checker.library.functions and _is_method(checker, name)
    if plain and (is_method_alone or (checker.declarations.methods(name) and node.arguments and scope.variable(name) is None)):
        return _as_method(checker, node, name, scope, expected)
    return rules.outside(checker, node, scope)


def _is_of_library(checker: Checker, node: Call, name: str, callee: CallableDeclaration | UserFunction | None, scope: Scope) -> bool:
    """Whether a call means a function of the library, since the program only has methods of that name, of other types than the argument."""
    if name not in checker.library.functions or not node.arguments or scope.variable(name) is not None:
        return False
    if not (is_method(declaration_of(callee)) if callee is not None else checker.declarations.methods(name)):
        return False
    given = checker.infer(node.arguments[0].value, scope)
    return not is_silent(given) and method_of(checker, name, given, scope) is None


def _is_method(checker: Checker, name: str) -> bool:
    """Whether some type has a method of that name."""
    return bool(checker.declarations.methods(name)) or any(method == name for _, method in checker.library.methods)


def _as_method(checker: Checker, node: Call, name: str, scope: Scope, expected: Type | None) -> Type:
    """`x |> f(a)`, or `f(x, a)`, where `f` is no function but a method: `x.f(a)`."""
    subject, *others = node.arguments
    by_value = Call(function=Field(value=subject.value, name=name, span=node.function.span), arguments=tuple(others), span=node.span)
    checker.kept.append(node)
    checker.findings.rewrites[id(node)] = by_value
    return checker.infer(by_value, scope, expected)


def _variants(checker: Checker, key: str) -> list[str]:
    """The functions of a type that have one name, by what they are declared under."""
    return [function for function in checker.declarations.functions if function == key or function.startswith(f"{key}<")]


def _by_arguments(checker: Checker, node: Call, keys: Sequence[str], scope: Scope, of: Type | None = None) -> str | None:
    """Which of several functions takes the arguments of a call, behind the receiver `of`; None where that needn't be asked."""
    if len(keys) < 2 or any(argument.name is not None for argument in node.arguments):
        return None
    given = [checker.infer(argument.value, scope) for argument in node.arguments]
    fitting: str | None = None
    for key in keys:
        found = checker.declarations.functions[key]
        names, bound = {parameter.name for parameter in found.type_parameters}, dict[str, Type]()
        places = [parameter_type(checker, found, parameter, scope) for parameter in found.parameters]
        whole = given if of is None else [of, *given]
        for place, one in zip(places, whole, strict=False):
            unify(place, strong(one), bound, names)
        places = [substituted(place, bound, names) for place in places]
        if len(places) == len(whole) and all(place == strong(one) for place, one in zip(places, whole, strict=True)):
            return key
        if fitting is None and len(places) == len(whole) and all(fits(one, place) for place, one in zip(places, whole, strict=True)):
            fitting = key
    return fitting


def _wanted_of(name: str, expected: Type | None) -> Type:
    """The enum of that name, as it is wanted where it is."""
    return expected if isinstance(expected, EnumType) and expected.name == name else EnumType(name)


def _function(
    checker: Checker, node: Call, name: str, callee: CallableDeclaration | UserFunction, scope: Scope, expected: Type | None
) -> Type:
    """A call by name. Of several methods of that name the first argument decides which it is."""
    declared = declaration_of(callee)
    if changes_receiver(declared):
        infer_arguments(checker, node, scope)
        hint = f"call it on a variable: `x.{declared.name}(...)`"
        return checker.report("0205", f"`{declared.name}` changes what it is called on, and arguments are copies", node.span, hint=hint)
    first = node.arguments[0] if node.arguments and node.arguments[0].name is None else None
    receiver = None
    methods = checker.declarations.methods(declared.name) if is_method(declared) else {}
    name = next((key for key, method in methods.items() if method is declared), name)
    if first is not None and len(methods) > 1:
        receiver = Receiver(first.value, checker.infer(first.value, scope))
        meant = method_of(checker, declared.name, receiver.type, scope) if name in methods else None
        name, callee = meant or (name, callee)
    checker.findings.callees[id(node)] = name
    return checker.meaning.rules.calls.call(checker, node, callee, receiver, scope, expected)


def _method(checker: Checker, node: Call, target: Field, scope: Scope, expected: Type | None) -> Type:
    rules = checker.meaning.rules.calls
    of_module = rules.module(checker, node, target, scope)
    if of_module is not None:
        return of_module
    subject = checker.infer(target.value, scope)
    if is_silent(subject):
        infer_arguments(checker, node, scope)
        return subject if subject == ERROR else UNKNOWN
    meant = method_of(checker, target.name, subject, scope, exact=True)
    if meant is not None:
        key = _by_arguments(checker, node, _variants(checker, meant[0].partition("<")[0]), scope, subject)
        meant = (key, checker.declarations.functions[key]) if key is not None else meant
    if meant is None:
        of_library = rules.method(checker, node, target, subject, scope, expected)
        if of_library is not None:
            return of_library
        meant = method_of(checker, target.name, subject, scope)
    if meant is None and _is_function_inside(checker, subject, target.name):
        return _value(checker, node, scope)
    if meant is None:
        infer_arguments(checker, node, scope)
        if isinstance(subject, OptionType) and method_of(checker, target.name, subject.value, scope) is not None:
            return report_optional(checker, subject, target.value.span)
        owners = [key.rpartition("::")[0] for key in checker.declarations.methods(target.name)]
        shown = " and ".join(f"`{owner}`" for owner in owners if owner.isidentifier())
        hint = f"`{target.name}` is a method of {shown}" if shown else None
        return rules.no_method(checker, target, subject, scope, hint)
    checker.findings.callees[id(node)] = meant[0]
    return rules.call(checker, node, meant[1], Receiver(target.value, subject), scope, expected)


def _is_function_inside(checker: Checker, subject: Type, name: str) -> bool:
    """Whether a value has a part of that name which may be a function."""
    parts = (cases_of(checker, subject) or {}).get("", ()) if isinstance(subject, StructType | TupleType) else ()
    return any(part == name and (isinstance(found, FunctionType) or is_silent(found)) for part, found in parts)


def method_of(checker: Checker, name: str, subject: Type, scope: Scope, exact: bool = False) -> tuple[str, CallableDeclaration] | None:
    """The method of a value, with the name that has its type: one of the very type, else, where it needn't be `exact`, the first whose
    `self` takes the value."""
    fitting: tuple[str, CallableDeclaration] | None = None
    for key, found in checker.declarations.methods(name).items():
        names = {parameter.name for parameter in found.type_parameters}
        place, bound = parameter_type(checker, found, found.parameters[0], scope), dict[str, Type]()
        unify(place, strong(subject), bound, names)
        wanted = substituted(place, bound, names)
        if wanted == strong(subject):
            return key, found
        if fitting is None and not exact and place != ERROR and fits(subject, wanted):
            fitting = key, found
    return fitting


def _value(checker: Checker, node: Call, scope: Scope) -> Type:
    """A call of a value that is a function."""
    function = checker.infer(node.function, scope)
    if not isinstance(function, FunctionType):
        infer_arguments(checker, node, scope)
        if is_silent(function):
            return function if function == ERROR else UNKNOWN
        shown = checker.show(function)
        return checker.report("0203", f"only a function can be called, and this is {shown}", node.function.span, f"this is {shown}")
    if len(node.arguments) != len(function.parameters):
        infer_arguments(checker, node, scope)
        wants, given = len(function.parameters), len(node.arguments)
        plural = "argument" if wants == 1 else "arguments"
        are = "is" if given == 1 else "are"
        return checker.report(
            "0204", f"the function takes {wants} {plural}, but {given} {are} given", node.span, notes=(f"its type is `{function}`",)
        )
    for argument, wanted in zip(node.arguments, function.parameters, strict=True):
        infer_placed(checker, argument.value, scope, wanted, "the argument")
    return function.result


# ---- functions whose parameters have types ---------------------------------------------------------------------------


def called(
    checker: Checker, node: Call, callee: CallableDeclaration, receiver: Receiver | None, scope: Scope, expected: Type | None
) -> Type:
    """The type of a call. Type parameters stand for what the arguments say, in the order written."""
    rules = checker.meaning.rules.calls
    placed = placed_arguments(checker, node, callee, receiver, scope) if rules.may_call(checker, node, callee) else None
    if placed is None:
        infer_arguments(checker, node, scope)
        return ERROR
    names = {parameter.name for parameter in callee.type_parameters}
    asked, bound, good = bounds_of(callee.type_parameters), dict[str, Type](), True
    if receiver is not None:
        good = receives_changes(checker, node, callee, receiver, scope)
    written: list[tuple[Expression, Type]] = []
    for parameter, argument in placed:
        place, span = parameter_type(checker, callee, parameter, scope), argument.span
        known = substituted(place, bound, names)
        actual = argument_type(checker, argument, receiver, scope, None if is_open(known, names) else known)
        if not rules.may_take(checker, callee, place, actual, argument, scope):
            good = False
            continue
        before = set(bound)
        if is_written(checker, argument.value, actual):
            written.append((argument.value, place))
        else:
            actual = strong(actual)
        unify_argument(place, actual, bound, names, checker.meaning.meet)
        if not require_bounds(checker, callee.name, asked, {name: one for name, one in bound.items() if name not in before}, span):
            good = False
            continue
        wanted = substituted(place, bound, names)
        if not (isinstance(wanted, TypeVariable) and wanted.name in names - set(bound)):
            good &= require(checker, actual, wanted, span, f"the parameter `{parameter.name}`")
        if isinstance(parameter.annotation, ConstantTypeSyntax):
            good &= _require_constant(checker, callee, parameter, argument, scope)
    bound = {name: strong(one) for name, one in bound.items()}
    for value, place in written:
        checker.findings.types[id(value)] = settled(checker, value, checker.type_of(value), substituted(place, bound, names))
    if not good:
        return ERROR
    result = substituted(result_type(checker, callee, scope), bound, names)
    return rules.result(checker, node, callee, result, expected)


def placed_arguments(
    checker: Checker, node: Call, callee: CallableDeclaration, receiver: Receiver | None, scope: Scope
) -> list[tuple[Parameter, Argument]] | None:
    """The parameters with what is given for them, in the order written; None where they don't go together, which is reported."""
    subject = receiver if receiver is not None and isinstance(node.function, Field) else None
    parameters = {p.name: p for p in callee.parameters[subject is not None :]}
    slots = [ArgumentSlot(p.name, p.default is None) for p in parameters.values()]
    declared = callee.name_span if id(callee) not in checker.declarations.foreign else None
    matched = match_arguments(slots, node, Callee(callee.name, lambda: signature(checker, callee, scope), declared))
    if isinstance(matched, Diagnostic):
        checker.add(matched)
        return None
    given = [(parameters[name], argument) for name, (argument, *_) in matched.items()]
    return given if subject is None else [(callee.parameters[0], Argument(value=subject.node, span=subject.node.span)), *given]


def argument_type(checker: Checker, argument: Argument, receiver: Receiver | None, scope: Scope, wanted: Type | None) -> Type:
    """The type of an argument; that of a receiver is known already."""
    return receiver.type if receiver is not None and argument.value is receiver.node else checker.infer(argument.value, scope, wanted)


def receives_changes(checker: Checker, node: Call, callee: CallableDeclaration, receiver: Receiver, scope: Scope) -> bool:
    """Whether what a method is called on may change as it does, which is a variable of the very type that it leaves."""
    if not changes_receiver(callee):
        return True
    names = {parameter.name for parameter in callee.type_parameters}
    left, bound = parameter_type(checker, callee, callee.parameters[0], scope), dict[str, Type]()
    unify(left, receiver.type, bound, names)
    good = require_changeable(checker, callee.name, receiver.node, scope)
    left = substituted(left, bound, names)
    if good and not fits(left, receiver.type):
        message = f"`{callee.name}` leaves a `{checker.show(left)}` in what it is called on, which is a `{checker.show(receiver.type)}`"
        checker.report("0207", message, receiver.node.span, hint="call it on a variable of the type that it changes")
        good = False
    variable = scope.variable(receiver.node.name) if isinstance(receiver.node, Name) else None
    if variable is not None:
        variable.now = None
        forget(checker, variable)
    checker.meaning.rules.changed(checker, receiver.node, node.span, scope)
    return good


def require_changeable(checker: Checker, name: str, target: Expression, scope: Scope) -> bool:
    """Reports what a method would change unless it is a variable, or a part of one, that may be assigned to."""
    root = target
    while isinstance(root, Field | Index):
        root = root.value
    if isinstance(root, Name) and scope.variable(root.name) is not None:
        return require_mutable(checker, target, scope)
    hint = "keep the value in a variable, and call it on that"
    checker.report("0205", f"`{name}` would change a value that nothing keeps", target.span, hint=hint)
    return False


def _require_constant(checker: Checker, callee: CallableDeclaration, parameter: Parameter, argument: Argument, scope: Scope) -> bool:
    variables = [scope.variable(name) for name in _names(argument.value)]
    constant = bool(variables) and all(v is not None and v.kind in CONSTANT_KINDS for v in variables)
    if not constant and whole_constant(argument.value, scope) is None:
        hint = "use a number, a `const`, a `param` or a `const` parameter"
        checker.report("0204", f"the parameter `{parameter.name}` of `{callee.name}` wants a constant", argument.span, hint=hint)
        return False
    return True


def _names(node: Expression) -> list[str]:
    """The names in a sum or product."""
    match node:
        case Name(name=name):
            return [name]
        case Binary(left=left, right=right):
            return _names(left) + _names(right)
    return []
