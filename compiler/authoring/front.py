"""How programs of an author's language are read, checked and opened: by its own grammar and actions, and as what they build in the language
that it builds on."""

import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.authoring.conflicts import tables_of
from compiler.diagnostics import ZyntaxError
from compiler.language import ExplainOptions, Language, Show, explained_by_session
from compiler.source import Source, Sources, Span
from grammars.grammar import Grammar
from runtime.records import evolve, frozen

if TYPE_CHECKING:
    from compiler.authoring.actions import AuthorActions
    from compiler.authoring.kernels import KernelFile
    from compiler.driver import Session, Warn
    from compiler.options import CompileOptions
    from compiler.typed_ast.language import SessionLanguage
    from compiler.typed_ast.nodes import Program
    from grammars.machine import Tables


@frozen(eq=False)
class LanguageDescription:
    """What an author says of a language, as `zyntax.language.Language` takes it."""

    grammar: str | Path
    actions: "type[AuthorActions]"
    start: str
    layout: str | None
    kernels: str | Path | None
    library: tuple[Any, ...]
    inline: bool
    words: dict[str, str]


class AuthoredFront:
    def __init__(self, language: Language, declared: LanguageDescription) -> None:
        self.language, self.declared = language, declared

    @cached_property
    def folder(self) -> Path:
        """Where the package of the language lies: beside the class of its actions."""
        file = getattr(sys.modules[self.declared.actions.__module__], "__file__", None)
        return Path(file).resolve().parent if file else Path.cwd()

    @cached_property
    def grammar(self) -> Grammar:
        file = self.folder / self.declared.grammar
        name = self.language.name
        if self.declared.layout is None:
            return Grammar(name, (file,), starts=(self.declared.start,), layout=False)
        from compiler.authoring.blocks import grammar_of

        return grammar_of(name, file, self.declared.start)

    def syntax(self) -> Grammar:
        return self.grammar

    @cached_property
    def base(self) -> Language:
        """The language whose rules and library its programs have. Raises ZyntaxError."""
        from compiler.languages import language_named

        named = [one for one in self.declared.library if isinstance(one, str)]
        return language_named(named[0] if named else "zynml")

    @cached_property
    def kernels(self) -> "KernelFile | None":
        """Raises ZyntaxError."""
        if self.declared.kernels is None:
            return None
        from compiler.authoring.kernels import read_kernels

        return read_kernels(self.folder / self.declared.kernels, self.language.name, self.base.parse, self.declared.inline)

    # ---- reading ----------------------------------------------------------------------------------------------------------

    def parse(self, source: Source) -> "Program":
        from compiler.syntax.parse import of_faults
        from compiler.syntax.read import require_size
        from compiler.typed_ast.nodes import Program

        require_size(source)
        kernels = self.kernels
        actions = self.declared.actions(source, {} if kernels is None else kernels.names)
        value, faults = self._machine(source, actions)
        found = [*of_faults(faults, source.path), *actions.found]
        if found:
            raise ZyntaxError(*sorted(found, key=lambda one: one.span.start if one.span is not None else -1))
        if isinstance(value, Program):
            return value
        statements = self._calls(actions).statements(value)
        return Program(path=source.path, statements=statements, span=Span(source.path, 0, len(source.text)))

    def actions_for(self, tables: "Tables") -> None:
        """Raises ZyntaxError where a rule has no action."""
        calls = self._calls(self.declared.actions(Source("<nothing>", ""), {}))
        if self.declared.layout is None:
            calls.methods(tables, self.declared.start)
        else:
            from compiler.authoring.blocks import require_actions

            require_actions(tables, calls, self.base.front.shared_actions())

    def _machine(self, source: Source, actions: "AuthorActions") -> tuple[Any, list[Any]]:
        from grammars.plain import PlainMachine

        tables = tables_of(self.grammar, self.language)
        start = self.declared.start
        if self.declared.layout is not None:
            from compiler.authoring.blocks import parsed_in_blocks

            value, faults = parsed_in_blocks(self.grammar, tables, self._calls(actions), self.base.front.shared_actions(), source, start)
            return value, faults
        methods = self._calls(actions).methods(tables, start)
        machine = PlainMachine(tables, methods, actions, source.text, start, self.declared.words)
        return machine.run(), machine.faults

    def _calls(self, actions: "AuthorActions") -> Any:
        from compiler.authoring.actions import ActionCalls

        return ActionCalls(actions, self.language.title, self.folder)

    def tree_as_json(self, source: Source) -> str:
        from compiler.typed_ast.json import to_json

        return to_json(self.parse(source), indent=1)

    # ---- opening ----------------------------------------------------------------------------------------------------------

    def open(self, source: Source, options: "CompileOptions", sources: Sources, warn: "Warn") -> "Session":
        from compiler.authoring.session import AuthoredSession, with_calls

        program = self.parse(source)
        language: Any = self.of_session(source, options, ())
        kernels = self.kernels
        if kernels is not None:
            sources.add(kernels.source)
        declarations = () if kernels is None else kernels.declarations
        own, renamed = _apart_from_library(program, source, language.library, self.language.name)
        tree = evolve(program, statements=(*declarations, *own.statements))
        others = () if kernels is None else (kernels.source,)
        session = AuthoredSession(source, tree, language, sources, options, warn, others)
        session.shown_names = renamed | ({} if kernels is None else {hidden: name for name, hidden in kernels.names.items()})
        session.warn = with_calls(warn, session)
        return session

    def check(self, source: Source, options: "CompileOptions", sources: Sources, show: Show) -> None:
        self.open(source, options, sources, lambda diagnostic: show([diagnostic])).check()

    def shared_actions(self) -> type:
        return self.base.front.shared_actions()

    def explained(self, source: "Source", function: str, options: ExplainOptions, sources: "Sources") -> str:
        return explained_by_session(self, source, function, options, sources)

    def is_replayed(self, source: Source) -> bool:
        return False

    def of_session(self, source: Source, options: "CompileOptions", families: Sequence[Any]) -> "SessionLanguage":
        own = [one for one in self.declared.library if not isinstance(one, str)]
        return self.base.front.of_session(source, options, [*families, *own])

    def compile(self, source: str | Path, options: dict[str, Any]) -> Any:
        return self.compile_in(self.language, source, options)

    def compile_in(self, language: Language, source: str | Path, options: dict[str, Any]) -> Any:
        return self.base.front.compile_in(language, source, options)


def _apart_from_library(program: "Program", source: Source, library: Any, language: str) -> "tuple[Program, dict[str, str]]":
    """The program with another name for each of its variables that has the name of a function of the library: actions may call that."""
    from compiler.authoring.kernels import renamed_where
    from compiler.typed_ast import nodes
    from compiler.typed_ast.walk import walk

    taken = {
        node.name
        for node in walk(program)
        if isinstance(node, nodes.BindingPattern) and (node.name in library.functions or node.name in library.constants)
    }
    if not taken:
        return program, {}
    names = {name: f"{language}.own.{name}" for name in taken}

    def is_written(node: nodes.Node, name: str) -> bool:
        return source.text[node.span.start : node.span.end] == name

    return renamed_where(program, names, is_written), {hidden: name for name, hidden in names.items()}

