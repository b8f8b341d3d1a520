"""ZynML as a language among others: the object of its entry points."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.language import Language, Show

if TYPE_CHECKING:
    from compiler.driver import Session, Warn
    from compiler.options import CompileOptions
    from compiler.source import Source, Sources
    from compiler.typed_ast.nodes import Program
    from grammars.grammar import Grammar

ENDINGS = (".zynml", ".ml")


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

    def check(self, source: "Source", options: "CompileOptions", sources: "Sources", show: Show) -> None:
        self.open(source, options, sources, lambda diagnostic: show([diagnostic])).check()

    def is_replayed(self, source: "Source") -> bool:
        return False

    def compile(self, source: str | Path, options: dict[str, Any]) -> Any:
        from zynml import compile

        return compile(source, **options)


def _grammar() -> "Grammar":
    from zynml.grammar import GRAMMAR

    return GRAMMAR


language = Language("zynml", ENDINGS, title="ZynML", front=ZynmlFront(), syntax=_grammar)
