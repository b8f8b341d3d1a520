"""ZynML as a language among others: the object of its entry points."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from compiler.language import ExplainOptions, Language, Show, explained_by_session
from zynml.name import ENDINGS, NAME

if TYPE_CHECKING:
    from pathlib import Path

    from compiler.driver import Session, Warn
    from compiler.fusion.kept_runs import KeptRun
    from compiler.options import CompileOptions
    from compiler.source import Source, Sources
    from compiler.typed_ast.language import SessionLanguage
    from compiler.typed_ast.nodes import Program
    from grammars.grammar import Grammar


class ZynmlFront:
    """How its programs are read, checked and opened."""

    def parse(self, source: "Source") -> "Program":
        from zynml.parse import parse_source

        return parse_source(source)

    def tree_as_json(self, source: "Source") -> str:
        from compiler.typed_ast.json import to_json

        return to_json(self.parse(source), indent=1)

    def open(self, source: "Source", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "Session":
        from zynml.api import open_source

        return open_source(source, options, sources, warn)

    def kept_run(self, source: "Source", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "KeptRun | None":
        """The run of a program that the user's cache has."""
        from compiler.fusion.kept_runs import found
        from zynml.session_language import language_of_session

        language = language_of_session(source, options)

        def session() -> "Session":
            from compiler.driver import Session
            from zynml.parse import parse_source

            return Session(source, parse_source(source), language, sources, options, warn)

        return found(source, options, language, sources, warn, session)

    def of_session(self, source: "Source", options: "CompileOptions", families: Sequence[Any]) -> "SessionLanguage":
        """The language for a program in another that builds on it, with that one's own functions."""
        from zynml.session_language import language_of_session

        language = language_of_session(source, options, families)
        language.library.warns_of_shadowing = False
        return language

    def shared_actions(self) -> type:
        from zynml.actions import ZynmlActions

        return ZynmlActions

    def check(self, source: "Source", options: "CompileOptions", sources: "Sources", show: Show) -> None:
        self.open(source, options, sources, lambda diagnostic: show([diagnostic])).check()

    def explained(self, source: "Source", function: str, options: ExplainOptions, sources: "Sources") -> str:
        return explained_by_session(self, source, function, options, sources)

    def is_replayed(self, source: "Source") -> bool:
        return False

    def compile(self, source: "str | Path", options: dict[str, Any]) -> Any:
        return self.compile_in(language, source, options)

    def compile_in(self, language: Language, source: "str | Path", options: dict[str, Any]) -> Any:
        from zynml.compiled import compile_in

        return compile_in(language, source, **options)


def _grammar() -> "Grammar":
    from zynml.grammar import GRAMMAR

    return GRAMMAR


_EXAMPLE = """param n: int in 1..1000 = 4

def doubled(x: tensor[N]): tensor {
    compute(x) { for i in 0..N: out[i] = 2.0 * x[i] }
}

println(doubled(arange(0, n)))

test "the first is zero" {
    assert(doubled(arange(0, n)).get(0) == 0.0)
}
"""

language = Language(NAME, ENDINGS, title="ZynML", front=ZynmlFront(), syntax=_grammar, example=_EXAMPLE)
