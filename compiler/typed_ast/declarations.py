"""What a program and its library declare at their top, by name."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from compiler.diagnostics import Diagnostic, Label
from compiler.source import Span
from compiler.typed_ast.conversions import DTYPE_NAMES
from compiler.typed_ast.nodes import (
    ArrayTypeSyntax,
    Block,
    EnumDeclaration,
    Impl,
    KnownTypeSyntax,
    NamedTypeSyntax,
    Node,
    OptionTypeSyntax,
    Parameter,
    Struct,
    TensorTypeSyntax,
    Test,
    Trait,
    TupleTypeSyntax,
    TypeAlias,
    TypeParameter,
    TypeSyntax,
    Variant,
)
from compiler.typed_ast.scope import name_place
from compiler.typed_ast.type_heads import SPELLINGS, head_of
from runtime.records import Factory, define


class CallableDeclaration(Protocol):
    """A function, or another declaration that is called by its name."""

    @property
    def name(self) -> str: ...
    @property
    def type_parameters(self) -> tuple[TypeParameter, ...]: ...
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def result(self) -> TypeSyntax | None: ...
    @property
    def body(self) -> Block | None: ...
    @property
    def span(self) -> Span: ...
    @property
    def name_span(self) -> Span: ...


F = TypeVar("F", bound=CallableDeclaration)
Case = tuple[EnumDeclaration, Variant]


@define(eq=False)
class Declarations(Generic[F]):
    """`own`: what the program itself declares. `functions`: those of the classes `callables`, by their names; methods and the functions of
    an `impl` also with that of their type, as `Point::norm`. `cases`: by name, each with its enum; `foreign`: the functions that aren't the
    program's own, by identity; `impl_of`: the `impl` of each function that stands in one, by identity."""

    callables: tuple[type[F], ...]
    own: dict[str, Any] = Factory(dict)
    functions: dict[str, F] = Factory(dict)
    structs: dict[str, Struct] = Factory(dict)
    enums: dict[str, EnumDeclaration] = Factory(dict)
    cases: dict[str, list[Case]] = Factory(dict)
    traits: dict[str, Trait] = Factory(dict)
    aliases: dict[str, TypeAlias] = Factory(dict)
    foreign: set[int] = Factory(set)
    impls: list[Impl] = Factory(list)
    impl_of: dict[int, Impl] = Factory(dict)

    def declare_all(self, statements: Iterable[Node], own: bool = True) -> list[Diagnostic]:
        """Enters declarations; those that aren't the program's `own` may be hidden by later ones. Gives what is declared twice."""
        declared = list(statements)
        for alias in declared:
            if isinstance(alias, TypeAlias):
                self.aliases.setdefault(alias.name, alias)
        return [fault for declaration in declared for fault in self.declare(declaration, own)]

    def declare(self, declaration: Node, own: bool = True) -> list[Diagnostic]:
        """Enters one declaration. What is declared twice keeps its first meaning."""
        name = getattr(declaration, "name", "")
        if isinstance(declaration, Test):
            return []
        if not own:
            self.foreign.add(id(declaration))
        if isinstance(declaration, Impl):
            self.impls.append(declaration)
            self.impl_of.update((id(member), declaration) for member in declaration.members)
        if isinstance(declaration, Impl) or is_method(declaration):
            faults = [fault for key, method in self._methods(declaration) for fault in self._enter(key, method, own)]
            if faults or isinstance(declaration, Impl) or (own and is_method(self.own.get(name))):
                return faults
        if own and name:
            first = self.own.setdefault(name, declaration)
            if first is not declaration:
                return [declared_twice(declaration, first)]
        match declaration:
            case Struct():
                self.structs[name] = declaration
            case EnumDeclaration(variants=variants):
                self.enums[name] = declaration
                for variant in variants:
                    self.cases.setdefault(variant.name, []).append((declaration, variant))
            case TypeAlias():
                self.aliases[name] = declaration
            case Trait():
                self.traits[name] = declaration
            case _ if isinstance(declaration, self.callables):
                self.functions[name] = declaration
        return []

    def _enter(self, key: str, method: F, own: bool) -> list[Diagnostic]:
        first: F = self.own.setdefault(key, method) if own else method
        if first is not method:
            head = key.rpartition("::")[0]
            return [defined_twice(f"`{method.name}` of `{head}`", method.name_span, first.name_span)]
        self.functions[key] = method
        return []

    def by_name(self, statements: Iterable[Node]) -> dict[str, F]:
        """The functions among declarations, under all names that they are called by; of two methods the first has the plain name."""
        found: dict[str, F] = {}
        for declaration in statements:
            for key, function in self._methods(declaration):
                found.setdefault(key, function)
            if isinstance(declaration, self.callables):
                found.setdefault(declaration.name, declaration)
        return found

    @contextmanager
    def hidden_by(self, inner: Mapping[str, F]) -> Iterator[None]:
        """While inside, these functions hide those of the same name."""
        before, self.functions = self.functions, {**self.functions, **inner}
        try:
            yield
        finally:
            self.functions = before

    def methods(self, name: str | None = None) -> dict[str, F]:
        """The methods, those of one name where it is given, by the names that have their type."""
        named = ((key, found) for key, found in self.functions.items() if "::" in key and name in (None, found.name))
        return {key: found for key, found in named if is_method(found)}

    def key(self, path: tuple[str, ...]) -> str:
        """The name under which `Point::origin` is declared."""
        *of, name = path
        return f"{self.type_name(NamedTypeSyntax(name='::'.join(of)), ())}::{name}"

    def may_change(self, method: str) -> bool:
        """Whether a method of that name changes what it is called on."""
        return any(map(changes_receiver, self.methods(method).values()))

    def _methods(self, declaration: Node) -> Iterator[tuple[str, F]]:
        """The functions of a type that a declaration brings, by the names that have that type."""
        match declaration:
            case Impl(target=target, members=members):
                for member in members:
                    if isinstance(member, self.callables):
                        yield f"{self.type_name(target, declaration.type_parameters)}::{_called(member)}", member
            case _ if isinstance(declaration, self.callables) and is_method(declaration):
                annotation = declaration.parameters[0].annotation
                assert annotation is not None
                yield f"{self.type_name(annotation, declaration.type_parameters)}::{_called(declaration)}", declaration

    def type_name(self, written: TypeSyntax, open_: Iterable[TypeParameter]) -> str:
        """The name of a type without its arguments; none of a type parameter, which stands for any type."""
        followed: set[str] = set()
        while isinstance(written, NamedTypeSyntax) and written.name in self.aliases and written.name not in followed:
            followed.add(written.name)
            written = self.aliases[written.name].target
        if isinstance(written, KnownTypeSyntax):
            return head_of(written.type)
        if not isinstance(written, NamedTypeSyntax):
            return _WITHOUT_NAME.get(type(written), "")
        if any(parameter.name == written.name for parameter in open_):
            return ""
        dtype = DTYPE_NAMES.get(written.name)
        return dtype.value if dtype is not None else SPELLINGS.get(written.name, written.name)

    def is_type_or_case(self, name: str) -> bool:
        """Whether a name is that of a struct, enum or trait, or of a case."""
        return any(name in declared for declared in (self.structs, self.enums, self.traits, self.cases))


_WITHOUT_NAME: dict[type[TypeSyntax], str] = {
    OptionTypeSyntax: "?",
    ArrayTypeSyntax: "[]",
    TupleTypeSyntax: "()",
    TensorTypeSyntax: "tensor",
}


def _called(function: CallableDeclaration) -> str:
    return f"{function.name}{getattr(function, 'variant', '')}"


def is_method(declaration: object) -> bool:
    """Whether a function's first parameter is a `self` with a type."""
    match getattr(declaration, "parameters", ()):
        case (Parameter(name="self", annotation=TypeSyntax()), *_):
            return True
    return False


def changes_receiver(declaration: CallableDeclaration) -> bool:
    """Whether a method takes `mut self`: what it is called on is given to it, and is what it leaves there when it returns."""
    return is_method(declaration) and declaration.parameters[0].mutable


def declared_twice(again: Node, first: Node) -> Diagnostic:
    name = f"`{getattr(again, 'name', '')}`"
    what = f"type {name}" if isinstance(again, Struct | EnumDeclaration | TypeAlias | Trait) else name
    return defined_twice(what, name_place(again), name_place(first))


def defined_twice(what: str, again: Span, first: Span) -> Diagnostic:
    others = (Label(first, "first defined here"),)
    return Diagnostic("0210", f"{what} is defined twice", again, "", others, hint="rename one of them")
