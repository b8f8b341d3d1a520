"""Constructs that the grammar knows and nothing executes yet: each is ZYN0109 at its place, says what works instead, and silences
whatever depends on it."""

from compiler.typed_ast.constants import constant
from compiler.typed_ast.context import Checker, checks, infers
from compiler.typed_ast.nodes import (
    Declaration,
    DictLiteral,
    EnumDeclaration,
    Expression,
    Function,
    Impl,
    LaterDeclaration,
    LaterExpression,
    LaterStatement,
    Match,
    Name,
    Node,
    RecordLiteral,
    Statement,
    Struct,
    Throw,
    Trait,
    Try,
    UnitNumber,
)
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import ERROR, UNIT, Type

_WORDS: dict[type[Node], tuple[str, str]] = {
    Struct: ("`struct`", "use a tuple, and functions that take its parts"),
    EnumDeclaration: ("`enum`", "use ints or strings for the cases, and `if`"),
    Trait: ("`trait`", "use functions: parameters without a type take any value"),
    Impl: ("`impl`", "use functions that take the value as a parameter"),
    Match: ("`match`", "use `if`, `elif` and `else`"),
    Try: ("`try`", "test values with `if` before they are used"),
    Throw: ("`throw`", '`assert(condition, "text")` stops the program with a message'),
    DictLiteral: ("a map", "use a list of tuples"),
    RecordLiteral: ("a record", "use a tuple"),
}
_HINTS = {
    "stream": "use a loop over a list or a range",
    "pipeline": "write it as a `def`",
    "effect": "pass functions as parameters",
    "handler": "pass functions as parameters",
    "async": "leave `async` out; blocks inside may be `@async`",
    "abstract": "use the type under it",
    "module": "leave it out: a module is named after its file",
    "extern struct": "use a tuple",
    "extern": "call the library's function by its name",
    "import": "`load(path)` reads files",
    "model": "`load(path)` reads arrays from files",
    "with": "call the function without it",
    "opaque": "use the library's types",
}


@infers(Match, Try, DictLiteral, RecordLiteral)
def later_value(checker: Checker, node: Expression, scope: Scope, expected: Type | None) -> Type:
    if isinstance(node, RecordLiteral) and isinstance(node.struct, Name) and node.struct.name in checker.resolver.later:
        return ERROR
    what, hint = _WORDS[type(node)]
    return checker.later(what, node.span, hint)


@infers(LaterExpression)
def later_expression(checker: Checker, node: LaterExpression, scope: Scope, expected: Type | None) -> Type:
    return _feature(checker, node, node.feature)


@infers(UnitNumber)
def unit_number(checker: Checker, node: UnitNumber, scope: Scope, expected: Type | None) -> Type:
    known = constant(node)
    hint = f"write the plain number: `{known}`" if known is not None else "write a plain number"
    return checker.later(f"a number with the unit `{node.unit}`", node.span, hint)


@checks(Struct, EnumDeclaration, Trait, Impl, Throw)
def later_declaration(checker: Checker, node: Statement, scope: Scope) -> Type:
    declare(checker, node)
    what, hint = _WORDS[type(node)]
    checker.later(what, node.span, hint)
    return UNIT


def declare(checker: Checker, node: Statement) -> None:
    """Makes known what such a declaration would bring, so that its uses are no further errors."""
    match node:
        case Struct(name=name):
            checker.resolver.later |= {name}
        case EnumDeclaration(name=name, variants=variants):
            checker.resolver.later |= {name, *(variant.name for variant in variants)}
        case Trait(name=name, members=members):
            checker.resolver.later |= {name}
            checker.later_methods |= _functions(members)
        case Impl(members=members):
            checker.later_methods |= _functions(members)
        case LaterDeclaration(feature=feature) if "module" not in feature:
            checker.open_names = checker.resolver.open_names = True


def _functions(members: tuple[Declaration, ...]) -> set[str]:
    return {member.name for member in members if isinstance(member, Function)}


@checks(LaterStatement, LaterDeclaration)
def later_statement(checker: Checker, node: LaterStatement | LaterDeclaration, scope: Scope) -> Type:
    _feature(checker, node, node.feature)
    return UNIT


def _feature(checker: Checker, node: Node, feature: str) -> Type:
    hint = next((hint for word, hint in _HINTS.items() if word in feature), "leave it out")
    checker.later(feature, node.span, hint)
    return ERROR
