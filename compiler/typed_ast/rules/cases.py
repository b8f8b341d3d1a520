"""Values of enums, optionals and results, written out: `Buy`, `Enter(Buy, 2)`, `some(v)`, `Err(e)`."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.type_arguments import is_open, substituted, unify_argument
from compiler.typed_ast.types import ERROR, UNKNOWN, EnumType, OptionType, ResultType, Type, TypeVariable


def wrappers(checker: Checker) -> tuple[str, ...]:
    """The cases of optionals and results that hold a value."""
    return checker.meaning.some, "Ok", "Err"


def wrapped(checker: Checker, node: nodes.Call, name: str, scope: Scope, expected: Type | None) -> Type:
    """`some(v)`, `Ok(v)`, `Err(e)`: what they don't say comes from the type that is expected."""
    if len(node.arguments) != 1 or node.arguments[0].name is not None:
        infer_arguments(checker, node, scope)
        return checker.report("0204", f"`{name}` takes one value", node.span)
    inner = None
    if isinstance(expected, OptionType) and name == checker.meaning.some:
        inner = expected.value
    elif isinstance(expected, ResultType) and name != checker.meaning.some:
        inner = expected.value if name == "Ok" else expected.error
    actual = strong(checker.infer(node.arguments[0].value, scope, inner))
    if name == checker.meaning.some:
        return OptionType(actual)
    other = (expected.error if name == "Ok" else expected.value) if isinstance(expected, ResultType) else ERROR
    return ResultType(actual, other) if name == "Ok" else ResultType(other, actual)


def case_with_values(checker: Checker, node: nodes.Call, name: str, scope: Scope, expected: Type | None) -> Type:
    """A case with values: `Enter(Buy, 2)`. What the enum's type parameters stand for is what is written, wanted, or what the values are."""
    enum, variant = checker.declarations.cases[name][0]
    if isinstance(expected, EnumType):
        enum, variant = next(((e, v) for e, v in checker.declarations.cases[name] if e.name == expected.name), (enum, variant))
    names = {parameter.name for parameter in enum.type_parameters}
    open_ = EnumType(enum.name, tuple(TypeVariable(parameter.name) for parameter in enum.type_parameters))
    parts = (cases_of(checker, open_) or {})[name]
    if len(parts) != len(node.arguments) or variant.fields:
        infer_arguments(checker, node, scope)
        checker.report("0204", f"`{name}` has {len(parts)} parts, and {len(node.arguments)} are given", node.span)
        return of_enum(enum, expected)
    bound = arguments_of(checker, enum, expected)
    fixed = set(bound)
    for (_, place), argument in zip(parts, node.arguments, strict=True):
        known = substituted(place, bound, names)
        found = checker.infer(argument.value, scope, None if is_open(known, names) else known)
        if names - fixed:
            unify_argument(substituted(place, {n: bound[n] for n in fixed}, names), found, bound, names, checker.meaning.meet)
        known = substituted(place, bound, names)
        if not is_open(known, names):
            require(checker, found, known, argument.span, f"the value of `{name}`")
    bound = {one: strong(found) for one, found in bound.items()}
    return EnumType(enum.name, tuple(bound.get(parameter.name, UNKNOWN) for parameter in enum.type_parameters))


def arguments_of(checker: Checker, enum: nodes.EnumDeclaration, expected: Type | None) -> dict[str, Type]:
    """What the type parameters of an enum stand for, so far as the wanted type tells."""
    arguments = expected.arguments if isinstance(expected, EnumType) and expected.name == enum.name else ()
    known = zip(enum.type_parameters, arguments, strict=False)
    return {parameter.name: found for parameter, found in known if found != UNKNOWN}


def of_enum(enum: nodes.EnumDeclaration, expected: Type | None) -> EnumType:
    """The type of a case that says nothing of its enum's type parameters."""
    if isinstance(expected, EnumType) and expected.name == enum.name and expected.arguments:
        return expected
    return EnumType(enum.name, (UNKNOWN,) * len(enum.type_parameters))


def bare_case(checker: Checker, node: nodes.Name, expected: Type | None) -> Type:
    """`Buy`: a case without values; where several enums have it, the expected type decides."""
    wanted = expected.value if isinstance(expected, OptionType) else expected
    found = checker.declarations.cases[node.name]
    enum, variant = next(((e, v) for e, v in found if isinstance(wanted, EnumType) and e.name == wanted.name), found[0])
    if variant.elements or variant.fields:
        return checker.report("0204", f"the case `{node.name}` of `{enum.name}` has values", node.span, hint=f"write `{node.name}(...)`")
    return of_enum(enum, wanted)


def case_of_enum(checker: Checker, node: nodes.Path, expected: Type | None, scope: Scope) -> Type:
    """`Side::Buy`: a case without values, with its enum."""
    name, case = node.segments
    enum = checker.declarations.enums[name]
    variants = {variant.name: variant for variant in enum.variants}
    found = variants.get(case)
    if found is None:
        return checker.report("0201", f"`{name}` has no case `{case}`", node.span, hint=did_you_mean(case, variants))
    if found.elements or found.fields:
        return checker.report("0204", f"the case `{case}` of `{name}` has values", node.span, hint=f"write `{name}::{case}(...)`")
    wanted = expected.value if isinstance(expected, OptionType) else expected
    return of_enum(enum, written_enum(checker, node, scope) or wanted)


def written_enum(checker: Checker, node: nodes.Path, scope: Scope) -> Type | None:
    """The enum before a `::`, with the type arguments that are written there."""
    enum = checker.declarations.enums.get(node.segments[0])
    if enum is None:
        return None
    arguments = tuple(checker.resolve(argument, scope) for argument in node.arguments)
    if arguments and len(arguments) != len(enum.type_parameters):
        message = f"`{enum.name}` has {len(enum.type_parameters)} type parameters, and {len(arguments)} are given"
        checker.report("0204", message, node.span, hint="leave them out: types are found from the values")
        arguments = ()
    return EnumType(enum.name, arguments) if arguments else None


def infer_arguments(checker: Checker, node: nodes.Call, scope: Scope) -> None:
    for argument in node.arguments:
        checker.infer(argument.value, scope)
