"""What a program and its library declare at their top, by name."""

from typing import Generic, TypeVar

from attrs import Factory

from compiler.diagnostics import Diagnostic, Label
from compiler.source import Span
from compiler.typed_ast.nodes import (
    Declaration,
    EnumDeclaration,
    Function,
    Impl,
    NamedTypeSyntax,
    Node,
    OptionTypeSyntax,
    Parameter,
    Struct,
    Test,
    Trait,
    TypeAlias,
    TypeSyntax,
    Variant,
)
from compiler.typed_ast.scope import name_place
from runtime.records import define

F = TypeVar("F", bound=Declaration)
Case = tuple[EnumDeclaration, Variant]


@define(eq=False)
class Declarations(Generic[F]):
    """`own`: what the program itself declares. `functions` are of the classes `callables`; `methods`, those with a `self`, are found by the
    name of its type, as it is written, and their own; `cases`: by name, each with its enum."""

    callables: tuple[type[F], ...]
    own: dict[str, Node] = Factory(dict)
    functions: dict[str, F] = Factory(dict)
    methods: dict[tuple[str, str], Node] = Factory(dict)
    structs: dict[str, Struct] = Factory(dict)
    enums: dict[str, EnumDeclaration] = Factory(dict)
    cases: dict[str, list[Case]] = Factory(dict)
    traits: dict[str, Trait] = Factory(dict)
    aliases: dict[str, TypeAlias] = Factory(dict)

    def declare(self, declaration: Node, own: bool = True) -> Node | None:
        """Enters a declaration; one that isn't the program's `own` may be hidden by a later one. Gives the program's own declaration of the
        same name, if there is one: then that is kept."""
        name = getattr(declaration, "name", "")
        if isinstance(declaration, Test):
            return None
        if own and name:
            first = self.own.setdefault(name, declaration)
            if first is not declaration:
                return first
        match declaration:
            case Struct():
                self.structs[name] = declaration
            case EnumDeclaration(variants=variants):
                self.enums[name] = declaration
                for variant in variants:
                    self.cases.setdefault(variant.name, []).append((declaration, variant))
            case TypeAlias():
                self.aliases[name] = declaration
            case Trait(members=members):
                self.traits[name] = declaration
                self.methods |= {(name, member.name): member for member in members if isinstance(member, Function)}
            case Impl(target=target, members=members):
                self.methods |= {(written_name(target), member.name): member for member in members if isinstance(member, Function)}
            case _ if isinstance(declaration, self.callables):
                self.functions[name] = declaration
                match getattr(declaration, "parameters", ()):
                    case (Parameter(name="self", annotation=TypeSyntax() as written), *_):
                        self.methods[written_name(written), name] = declaration
        return None

    @property
    def method_names(self) -> set[str]:
        return {name for _, name in self.methods}

    def is_type_or_case(self, name: str) -> bool:
        """Whether a name is that of a struct, enum or trait, or of a case."""
        return any(name in declared for declared in (self.structs, self.enums, self.traits, self.cases))


def written_name(syntax: TypeSyntax) -> str:
    """The name of a type without its arguments; `?` of an optional, none of a type without a name."""
    match syntax:
        case NamedTypeSyntax(name=name):
            return name
        case OptionTypeSyntax():
            return "?"
    return ""


def declared_twice(again: Node, first: Node) -> Diagnostic:
    name = f"`{getattr(again, 'name', '')}`"
    what = f"type {name}" if isinstance(again, Struct | EnumDeclaration | TypeAlias | Trait) else name
    return defined_twice(what, name_place(again), name_place(first))


def defined_twice(what: str, again: Span, first: Span) -> Diagnostic:
    others = (Label(first, "first defined here"),)
    return Diagnostic("0210", f"{what} is defined twice", again, "", others, hint="rename one of them")
