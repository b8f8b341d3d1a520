"""Names and paths: variables, functions as values, cases, and what is said of a name that nothing declares."""

from compiler.diagnostics import Label
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.elsewhere import MODULES, without_module
from compiler.typed_ast.rules import narrowing
from compiler.typed_ast.rules.cases import bare_case, case_of_enum, wrappers
from compiler.typed_ast.scope import Scope, UserFunction, Variable
from compiler.typed_ast.signatures import parameter_types
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import ANY_TENSOR, NONE, UNKNOWN, FunctionType, OptionType, TensorType, Type

_LONGEST_LISTING = 12


@CORE.infers(nodes.Name)
def name(checker: Checker, node: nodes.Name, scope: Scope, expected: Type | None, used: bool) -> Type:
    entry = scope.find(node.name)
    match entry:
        case Variable():
            return _variable(checker, entry, expected)
        case UserFunction():
            return _function_value(checker, entry)
    if node.name in checker.library.functions:
        return UNKNOWN
    known = checker.library.constants.get(node.name)
    if known is not None:
        return known[0]
    if node.name == checker.meaning.none:
        return expected if isinstance(expected, OptionType) else NONE
    if node.name in checker.declarations.cases:
        return bare_case(checker, node, expected)
    return undefined(checker, node.name, node.span, scope)


def _variable(checker: Checker, entry: Variable, expected: Type | None) -> Type:
    if entry.frame is checker.frame or not entry.mutable or entry.declared or not isinstance(entry.type, TensorType):
        return narrowing.seen(entry, expected)
    # Another function may run after the variable got a value of another shape.
    return ANY_TENSOR


def _function_value(checker: Checker, function: UserFunction) -> Type:
    """A function as a value; its parameters without a type are Unknown."""
    return FunctionType(tuple(parameter_types(checker, function)), UNKNOWN)


def undefined(checker: Checker, word: str, span: Span, scope: Scope) -> Type:
    """0201, with the nearest names; says so when a block that has ended declared the name."""
    if word in wrappers(checker):
        return checker.report("0204", f"`{word}` takes one value", span, hint=f"write `{word}(...)`")
    if word in checker.declarations.structs:
        return checker.report("0203", f"`{word}` is a struct, not a value", span, hint=f"write its fields: `{word} {{ ... }}`")
    if word in checker.declarations.enums:
        cases = checker.declarations.enums[word].variants
        hint = f"write one of its cases: `{word}::{cases[0].name}`" if cases else None
        return checker.report("0203", f"`{word}` is an enum, not a value", span, hint=hint)
    if word in checker.declarations.traits:
        return checker.report("0203", f"`{word}` is a trait, not a value", span, hint="call a method of a value that implements it")
    ended = scope.find_ended(word)
    if ended is not None:
        others = (Label(ended.span, "this one lives in a block that has ended"),)
        return checker.report("0201", f"`{word}` is not defined here", span, "not found", others, hint=f"declare `{word}` before the block")
    if checker.open_names:
        return UNKNOWN
    answer = checker.meaning.rules.undeclared(checker, word, span)
    if answer is not None:
        return answer
    further_down = checker.top_names.get(word)
    if further_down is not None:
        others = (Label(further_down, "declared here, further down"),)
        return checker.report("0201", f"`{word}` is not defined yet", span, "not found", others, hint="declare it first")
    known = {*scope.names(), *checker.declarations.functions, *checker.declarations.cases, *checker.library.constants}
    known |= {function for function in checker.library.functions if function.isidentifier()}
    meant = checker.meaning.elsewhere.get(word) or did_you_mean(word, known)
    return checker.report("0201", f"`{word}` is not defined", span, "not found", hint=meant)


def member_of_unknown_module(checker: Checker, node: nodes.Field, scope: Scope) -> Type | None:
    """The fault of `np.zeros` where `np` is only known elsewhere, else None."""
    module = node.value
    if not isinstance(module, nodes.Name) or module.name not in MODULES or checker.open_names:
        return None
    if scope.find(module.name) is not None or module.name in checker.library.constants or module.name in checker.top_names:
        return None
    hint = without_module(module.name, node.name, checker.library.functions)
    return checker.report("0201", f"`{module.name}` is not defined", module.span, "not found", hint=hint)


@CORE.infers(nodes.Path)
def path(checker: Checker, node: nodes.Path, scope: Scope, expected: Type | None, used: bool) -> Type:
    full = "::".join(node.segments)
    if full in checker.library.functions:
        return UNKNOWN
    known = checker.library.constants.get(full)
    if known is not None:
        return known[0]
    if len(node.segments) == 2 and node.segments[0] in checker.declarations.enums:
        return case_of_enum(checker, node, expected, scope)
    return unknown_path(checker, node, scope)


def unknown_path(checker: Checker, node: nodes.Path, scope: Scope) -> Type:
    """A path that the library does not have: 0109 for what is not there yet, else 0202 or 0201."""
    head, tail = node.segments[0], "::".join(node.segments[1:])
    if isinstance(scope.find(head), Variable) or checker.open_names:
        return UNKNOWN
    if head == "any":
        return UNKNOWN
    members = [n.split("::", 1)[1] for n in checker.library.functions if n.startswith(head + "::")]
    if members:
        hint = did_you_mean(tail, members) or f"it has {_listing(members)}"
        return checker.report("0202", f"`{head}` has no function `{tail}`", node.span, "not found", hint=hint)
    heads = {n.split("::", 1)[0] for n in checker.library.functions if "::" in n} | set(checker.declarations.enums)
    near = checker.meaning.elsewhere.get(head) or did_you_mean(head, heads)
    return checker.report("0201", f"`{head}` is not defined", node.span, "not found", hint=near)


def _listing(names: list[str]) -> str:
    shown = sorted(set(names))
    return ", ".join(f"`{n}`" for n in shown[:_LONGEST_LISTING]) + (", ..." if len(shown) > _LONGEST_LISTING else "")
