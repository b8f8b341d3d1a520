"""What a language means, as the checker asks for it: the rules of its nodes, and what it refuses."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from compiler.source import Span
from compiler.typed_ast.conversions import meet
from compiler.typed_ast.nodes import (
    Argument,
    Binary,
    Break,
    Call,
    Continue,
    Expression,
    Field,
    Index,
    Node,
    Propagate,
    Return,
    Statement,
    Struct,
    Throw,
    TypeSyntax,
)
from compiler.typed_ast.scope import Scope, Variable
from compiler.typed_ast.types import DType, Scalar, Type, TypeVariable
from runtime.records import Factory, define, evolve, frozen

Rule = Callable[[Any, Any, Scope, Type | None, bool], Type]
"""`(checker, node, scope, wanted, used) -> type`. `wanted` helps literals and lambdas, and promises nothing; `used`: the value is."""
StatementRule = Callable[[Any, Any, Scope], Type]
"""`(checker, node, scope) -> type`: NEVER when control doesn't go on."""
Resolve = Callable[[Any, TypeSyntax, Scope, Mapping[str, Type] | None], Type]
"""`(checker, written, scope, bound) -> type`. `bound`: what type parameters stand for in a part of a struct or enum; None elsewhere."""
Misfit = Callable[[Any, Type, Any, Span, str], bool]
"""`(checker, found, expected, span, what) -> reported`: whether it says, in words of its own, why a value of type `found` doesn't fit."""
Operator = Callable[[Any, Binary, Type, Type], Type | None]
"""`(checker, node, left, right) -> type` of an operator one of whose sides is of the class of types; None: it isn't defined."""
LiteralRule = Callable[[Any, Expression, Fraction, Any], Type]
"""`(checker, node, number, place) -> type` of a number that is written where a type of the class is wanted."""
CastRule = Callable[[Any, Any, Any], Type | None]
"""`(checker, found, target) -> type` of `value as T`, where one of the two is of the class of types; None: `as` doesn't do that."""
Instead = Callable[[Any, Binary, Any, Any], str | None]
"""`(checker, node, left, right)`: what to write instead of an operator that isn't defined."""
IndexRule = Callable[[Any, Index, Any, Scope], Type]
"""`(checker, node, subject, scope) -> type` of an element, from the type of what is indexed."""
Iterate = Callable[[Any, Any, Span], Type]
"""`(checker, found, span) -> type` of what a `for` over a value of type `found` hands out."""


def no_fields(checker: Any, found: Any) -> Mapping[str, Type]:
    return {}


def nothing_more(checker: Any, word: str, span: Span) -> Type | None:
    return None


def no_arguments(checker: Any, struct: Struct) -> tuple[Type, ...]:
    return ()


def no_note(checker: Any, *noted: Any) -> None:
    """Nothing is to be said."""


def never(checker: Any, call: Call) -> bool:
    return False


def lacks(found: Any) -> bool:
    return False


def nothing_instead(checker: Any, node: Binary, left: Type, right: Type) -> str | None:
    return None


@frozen(eq=False)
class TypeRules:
    """What is known of a class of types and of those under it: the fields of their values, what an index gives, what operators and `as`
    make of them, and a number that is written in their place. `unknown_field` and `misfit` report a field that isn't there, and a value
    that doesn't fit. `has_equality`: whether `==` compares values without parts; `cast_hint`: what to write where `as` isn't defined. What
    is left out is refused in the core's words.

    `iterate`: what a `for` over a value hands out. `widens`: values of different types of such classes may come together, in branches or in
    a variable without a written type, which then have the type that `conversions.join` gives. `begins_empty`: a variable of the type needs
    no first value."""

    fields: Callable[[Any, Any], Mapping[str, Type]] = no_fields
    index: IndexRule | None = None
    iterate: Iterate | None = None
    widens: bool = False
    begins_empty: bool = False
    unknown_field: Callable[[Any, Field, Any], Type] | None = None
    misfit: Misfit | None = None
    operator: Operator | None = None
    has_negative: Callable[[Any], bool] = lacks
    has_equality: Callable[[Any], bool] = lacks
    instead: Instead = nothing_instead
    literal: LiteralRule | None = None
    cast: CastRule | None = None
    cast_hint: str | None = None


UNKNOWN_KIND = TypeRules()


def resolve_plainly(checker: Any, written: TypeSyntax, scope: Scope, bound: Mapping[str, Type] | None) -> Type:
    """As the checker's resolver says, with the type parameters in sight."""
    variables = {name: TypeVariable(name) for name in checker.frame.parameters}
    type_: Type = checker.resolver.within(variables | dict(bound or {})).resolve(written, scope.size)
    return type_


def resolve_signature(checker: Any, written: TypeSyntax, scope: Scope, bound: Mapping[str, Type] | None) -> Type:
    """The same in the head of a function, whose sizes are what each call says."""
    variables = {name: TypeVariable(name) for name in checker.frame.parameters}
    type_: Type = checker.resolver.within(variables).resolve(written)
    return type_


def nothing(checker: Any, *asked: Any) -> Any:
    return None


def always(checker: Any, *asked: Any) -> bool:
    return True


def as_declared(checker: Any, call: Call, callee: Any, actual: Type, wanted: Type | None) -> Type:
    return actual


def nothing_associated(checker: Any, function: Any, bound: Mapping[str, Type]) -> Mapping[str, TypeSyntax]:
    return {}


@frozen(eq=False)
class CallRules:
    """What a language says of calls, each asked with the checker first.

    `find`, of a name and a scope: the function in sight, None where there is none. `call`, of a call, what `find` gave, the receiver, the
    scope and the wanted type: its type. `outside`: the type of a call of what no program declares, which may be an error; `module`: the
    same of `m.f()` where `m` is no value, else None; `method`: of a method of the library, else None; `no_method` reports one that isn't
    there, with a hint that is known or None.

    `associated`, of a generic function and what its type parameters stand for: the types inside of these, as `T::Item`.

    Of functions whose parameters have types: `may_call` and `may_take` report calls and arguments that the language forbids, `result`
    gives the type of a call whose callee declares `found`."""

    find: Callable[[Any, str, Scope], Any] = nothing
    call: Callable[[Any, Call, Any, Any, Scope, Type | None], Type] = nothing
    outside: Callable[[Any, Call, Scope], Type] = nothing
    module: Callable[[Any, Call, Field, Scope], Type | None] = nothing
    method: Callable[[Any, Call, Field, Type, Scope, Type | None], Type | None] = nothing
    no_method: Callable[[Any, Field, Type, Scope, str | None], Type] = nothing
    associated: Callable[[Any, Any, Mapping[str, Type]], Mapping[str, TypeSyntax]] = nothing_associated
    may_call: Callable[[Any, Call, Any], bool] = always
    may_take: Callable[[Any, Any, Type, Type, Argument, Scope], bool] = always
    result: Callable[[Any, Call, Any, Type, Type | None], Type] = as_declared


@frozen(eq=False)
class TraitRules:
    """What a language's traits make of operators and loops; None where they say nothing. Each is asked with the checker first, and notes
    what stands for the node. `binary`, of an operator and both types: the type of its value; `unary` and `index` so, too; `loop`: whether a
    `for` goes over values that a trait hands out; `stored`: whether a trait takes what is assigned to an element; `shown`: what stands for
    a value of a type in a text; `missing`: the `impl` to write for an operator that isn't defined."""

    binary: Callable[[Any, Binary, Type, Type, Scope, Type | None], Type | None] = nothing
    unary: Callable[[Any, Any, Type, Scope, Type | None], Type | None] = nothing
    index: Callable[[Any, Index, Type, Scope, Type | None], Type | None] = nothing
    loop: Callable[[Any, Any, Scope], bool | None] = nothing
    stored: Callable[[Any, Any, Scope], bool | None] = nothing
    shown: Callable[[Any, Expression, Type, Scope], Expression | None] = nothing
    missing: Callable[[Any, str, Type, Type | None], str | None] = nothing


@define(eq=False)
class RuleTable:
    """Rules by class of node, and of type; files register theirs when they are imported. `resolve` reads a written type, `signature` one in
    the head of a function; `show` writes one; `implied` gives the type arguments that a struct has where none are written; `undeclared`
    what the language itself says of a name that nothing declares; `compared` sees each `==` and `!=` that is defined.

    `ends_turn`: the statements and expressions that may end a turn of a loop before its last statement. `declared` hears of each variable
    that a statement declares; `changed` of each change of a variable or of a part of one: `(checker, target, span, scope)`.
    `changes_states`: whether a call may change variables that outlive it; `calls` what a language says of calls, `traits` what its traits
    make of operators."""

    values: dict[type[Node], Rule] = Factory(dict)
    statements: dict[type[Node], StatementRule] = Factory(dict)
    kinds: dict[type[Type], TypeRules] = Factory(dict)
    resolve: Resolve = resolve_plainly
    signature: Resolve = resolve_signature
    show: Callable[[Type], str] = str
    implied: Callable[[Any, Struct], tuple[Type, ...]] = no_arguments
    undeclared: Callable[[Any, str, Span], Type | None] = nothing_more
    ends_turn: tuple[type[Node], ...] = (Break, Continue, Return, Propagate, Throw)
    declared: Callable[[Any, Variable], None] = no_note
    changed: Callable[[Any, Expression, Span, Scope], None] = no_note
    changes_states: Callable[[Any, Call], bool] = never
    calls: CallRules = CallRules()
    compared: Callable[[Any, Binary, Type, Type], None] = no_note
    traits: TraitRules = TraitRules()

    def extended(self, other: "RuleTable | None" = None) -> "RuleTable":
        """These rules in a table of its own, to which `other` adds."""
        other = RuleTable() if other is None else other
        return evolve(
            other, values=self.values | other.values, statements=self.statements | other.statements, kinds=self.kinds | other.kinds
        )

    def infers(self, *classes: type[Expression]) -> Callable[[Rule], Rule]:
        """Makes the function the rule for expressions of these classes."""

        def register(rule: Rule) -> Rule:
            self.values.update(dict.fromkeys(classes, rule))
            return rule

        return register

    def checks(self, *classes: type[Statement]) -> Callable[[StatementRule], StatementRule]:
        """Makes the function the rule for statements of these classes."""

        def register(rule: StatementRule) -> StatementRule:
            self.statements.update(dict.fromkeys(classes, rule))
            return rule

        return register


@frozen
class Refusal:
    """Valid syntax that a language doesn't execute: what it is, in words, and what to write instead."""

    what: str
    hint: str | None = None


@frozen
class LanguageSettings:
    """What languages with the same rules differ in. `parameters_change`: parameters are variables of the function, and may be assigned
    to. `untyped_parameters`: a parameter, or a variable without a first value, needs no type. `result_inferred`: a function without a
    written result gives the value of its body; else it gives none. `both_at_once`: `a & b` of anything but two ints runs both sides at
    once. `int_beside_f32`: the type in which an int and an f32 meet, "f32" or "f64". `list_literal`: what `[1, 2]` is where its place
    doesn't say it, "list" or "array". `written_type_arguments`: a call may say what type parameters stand for, as in `f::<int>(x)`."""

    parameters_change: bool = False
    untyped_parameters: bool = False
    result_inferred: bool = False
    both_at_once: bool = False
    int_beside_f32: str = "f32"
    list_literal: str = "list"
    written_type_arguments: bool = False


@frozen(eq=False)
class Meaning:
    """`refuses`: the nodes that it doesn't execute, which need no rule; `not_yet`: how messages say so. `at_top`: the declarations that
    stand in no body. `some` and `none`: how the two cases of an optional are spelled; `elsewhere`: what is written instead of names of
    other languages. `refused_operators`: those of its grammar that it doesn't execute. `function` and `result`: the word before a function
    and the sign before its result, in messages."""

    rules: RuleTable
    settings: LanguageSettings = LanguageSettings()
    refuses: Mapping[type[Node], Refusal] = Factory(dict)
    at_top: frozenset[type[Node]] = frozenset()
    refused_operators: Mapping[str, Refusal] = Factory(dict)
    not_yet: str = "is valid, but not supported yet"
    some: str = "Some"
    none: str = "None"
    elsewhere: Mapping[str, str] = Factory(dict)
    function: str = "def"
    result: str = ": "

    def meet(self, left: Type, right: Type) -> Scalar | None:
        """The type in which two numbers are computed; None: there is none, or one of them is no number."""
        if not isinstance(left, Scalar) or not isinstance(right, Scalar):
            return None
        return meet(left, right, DType(self.settings.int_beside_f32))
