"""Values of enums, optionals and results, written out: `Buy`, `Enter(Buy, 2)`, `some(v)`, `Err(e)`."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import ERROR, EnumType, OptionType, ResultType, Type


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
    found = strong(checker.infer(node.arguments[0].value, scope, inner))
    if name == checker.meaning.some:
        return OptionType(found)
    other = (expected.error if name == "Ok" else expected.value) if isinstance(expected, ResultType) else ERROR
    return ResultType(found, other) if name == "Ok" else ResultType(other, found)


def case_with_values(checker: Checker, node: nodes.Call, name: str, scope: Scope, expected: Type | None) -> Type:
    """A case with values: `Enter(Buy, 2)`."""
    enum, variant = checker.declarations.cases[name][0]
    if isinstance(expected, EnumType):
        enum, variant = next(((e, v) for e, v in checker.declarations.cases[name] if e.name == expected.name), (enum, variant))
    parts = (cases_of(checker, EnumType(enum.name)) or {})[name]
    if len(parts) != len(node.arguments) or variant.fields:
        infer_arguments(checker, node, scope)
        checker.report("0204", f"`{name}` has {len(parts)} parts, and {len(node.arguments)} are given", node.span)
        return EnumType(enum.name)
    for (_, place), argument in zip(parts, node.arguments, strict=True):
        require(checker, checker.infer(argument.value, scope, place), place, argument.span, f"the value of `{name}`")
    return EnumType(enum.name)


def bare_case(checker: Checker, node: nodes.Name, expected: Type | None) -> Type:
    """`Buy`: a case without values; where several enums have it, the expected type decides."""
    wanted = expected.value if isinstance(expected, OptionType) else expected
    found = checker.declarations.cases[node.name]
    enum, variant = next(((e, v) for e, v in found if isinstance(wanted, EnumType) and e.name == wanted.name), found[0])
    if variant.elements or variant.fields:
        return checker.report("0204", f"the case `{node.name}` of `{enum.name}` has values", node.span, hint=f"write `{node.name}(...)`")
    return EnumType(enum.name)


def case_of_enum(checker: Checker, node: nodes.Node, enum: str, case: str) -> Type:
    """`Side::Buy`: a case without values, with its enum."""
    variants = {variant.name: variant for variant in checker.declarations.enums[enum].variants}
    found = variants.get(case)
    if found is None:
        return checker.report("0201", f"`{enum}` has no case `{case}`", node.span, hint=did_you_mean(case, variants))
    if found.elements or found.fields:
        return checker.report("0204", f"the case `{case}` of `{enum}` has values", node.span, hint=f"write `{enum}::{case}(...)`")
    return EnumType(enum)


def infer_arguments(checker: Checker, node: nodes.Call, scope: Scope) -> None:
    for argument in node.arguments:
        checker.infer(argument.value, scope)
