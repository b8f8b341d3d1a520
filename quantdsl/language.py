"""QuantDSL as a language among others: the object of its entry point."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.language import ExplainOptions, Language, Replays, Show

if TYPE_CHECKING:
    from compiler.driver import Session, Warn
    from compiler.options import CompileOptions
    from compiler.source import Source, Sources
    from compiler.typed_ast.language import SessionLanguage
    from compiler.typed_ast.nodes import Program
    from grammars.grammar import Grammar


class QuantFront:
    """How its programs are read, checked and opened. Those with a `main` run as ZynML's do; strategies are replayed."""

    def parse(self, source: "Source") -> "Program":
        from quantdsl.parse import parse_source

        return parse_source(source)

    def tree_as_json(self, source: "Source") -> str:
        from quantdsl.tree_json import to_json

        return to_json(self.parse(source), indent=1)

    def open(self, source: "Source", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "Session":
        """Raises ZyntaxError for a program without a `main`, too."""
        from compiler.diagnostics import Diagnostic, ZyntaxError
        from quantdsl.nodes import Strategy

        program = self.parse(source)
        if not _has_main(program):
            if any(isinstance(statement, Strategy) for statement in program.statements):
                message, hint = f"`{source.path}`: a strategy runs on market data", f"zyntax run {source.path} --data trades.csv"
            else:
                message, hint = f"`{source.path}` has nothing to run", "write `fn main() { }`, or a strategy, which runs with `--data`"
            raise ZyntaxError(Diagnostic("0505", message, hint=hint))
        return _opened(source, program, options, sources, warn)

    def check(self, source: "Source", options: "CompileOptions", sources: "Sources", show: Show) -> None:
        from compiler.syntax.comments import comment_warnings
        from quantdsl.check.program import check_program
        from quantdsl.critical.whole import examine_all
        from quantdsl.host.tree import is_run

        program = self.parse(source)
        if is_run(program):
            _opened(source, program, options, sources, lambda diagnostic: show([diagnostic])).check()
            return
        options.doing("checking")
        checked = check_program(program)
        checked.diagnostics.extend(comment_warnings(source))
        checked.diagnostics.raise_errors(options.strict)
        show(checked.diagnostics.warnings)
        diagnostics = examine_all(checked, source, sources)
        diagnostics.raise_errors(options.strict)
        show(diagnostics.warnings)

    def is_replayed(self, source: "Source") -> bool:
        """True of a program without a `main`: one of strategies, or of functions alone."""
        return not _has_main(self.parse(source))

    def explained(self, source: "Source", function: str, options: ExplainOptions, sources: "Sources") -> str:
        from compiler.hir.module import OptimizationLevel
        from quantdsl.critical.explain import explain
        from quantdsl.run.open import LEVEL, CompileRequest, checked_program

        level = options.level or LEVEL
        checked = checked_program(source, CompileRequest(options.settings, options.strategy, level), sources)
        return explain(checked, function, options.strategy, source, sources, OptimizationLevel(level))

    def shared_actions(self) -> type:
        raise _no_base()

    def of_session(self, source: "Source", options: "CompileOptions", families: Sequence[Any]) -> "SessionLanguage":
        raise _no_base()

    def compile_in(self, language: Language, source: str | Path, options: dict[str, Any]) -> Any:
        raise _no_base()

    def compile(self, source: str | Path, options: dict[str, Any]) -> Any:
        from quantdsl import compile

        return compile(source, **options)


def _no_base() -> Exception:
    from compiler.diagnostics import Diagnostic, ZyntaxError

    return ZyntaxError(Diagnostic("0109", "no language can build on QuantDSL yet", hint='write `library=("zynml",)`'))


def _opened(source: "Source", program: "Program", options: "CompileOptions", sources: "Sources", warn: "Warn") -> "Session":
    from quantdsl.host.session import open_host

    return open_host(source, program, options, sources, warn)


def _has_main(program: "Program") -> bool:
    from compiler.typed_ast.nodes import Function

    return any(isinstance(statement, Function) and statement.name == "main" for statement in program.statements)


def _grammar() -> "Grammar":
    from quantdsl.grammar import GRAMMAR

    return GRAMMAR


def _replays() -> Replays:
    from quantdsl import replays

    return replays


_EXAMPLE = """fn doubled(x: int) -> int { x + x }

fn main() {
  print(doubled(21))
}

test "twice" {
  assert(doubled(4) == 8, "two and two")
}
"""

language = Language(
    "quantdsl",
    (".qdsl",),
    title="QuantDSL",
    front=QuantFront(),
    syntax=_grammar,
    replays=_replays,
    tree_modules=("quantdsl.nodes", "quantdsl.types"),
    example=_EXAMPLE,
)
