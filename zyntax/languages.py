"""Which frontend a file belongs to, by its ending."""

from pathlib import Path
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, ZyntaxError

if TYPE_CHECKING:
    from compiler.driver import CompileOptions, Session
    from compiler.source import Source
    from compiler.typed_ast.nodes import Program
    from zyntax.report import Reporter

ENDINGS = {".zynml": "zynml", ".ml": "zynml", ".qdsl": "quantdsl"}
RUNNABLE = tuple(ENDINGS)
"""Endings of programs that `zyntax test` looks for in folders."""


def open_session(path: str, options: "CompileOptions", reporter: "Reporter") -> "Session":
    """Reads and parses the file with the frontend of its ending. Raises ZyntaxError."""
    if language_of(path) == "quantdsl":
        return _open_host(path, options, reporter)
    from zynml.api import open_program

    options.doing("reading")
    return open_program(path, options, reporter.sources, warn=lambda diagnostic: reporter.show([diagnostic]))


def is_replayed(path: str, reporter: "Reporter") -> bool:
    """Whether it is a QuantDSL program without a `main`: one of strategies, or of functions alone. Raises ZyntaxError."""
    return language_of(path) == "quantdsl" and not _has_main(_parsed(path, reporter)[1])


def _open_host(path: str, options: "CompileOptions", reporter: "Reporter") -> "Session":
    """A QuantDSL program with a `main`. Raises ZyntaxError for one without."""
    from quantdsl.host.session import open_host
    from quantdsl.nodes import Strategy

    options.doing("reading")
    source, program = _parsed(path, reporter)
    if not _has_main(program):
        if any(isinstance(statement, Strategy) for statement in program.statements):
            message, hint = f"`{path}`: a strategy runs on market data", f"zyntax run {path} --data trades.csv"
        else:
            message, hint = f"`{path}` has nothing to run", "write `fn main() { }`, or a strategy, which runs with `--data`"
        raise ZyntaxError(Diagnostic("0505", message, hint=hint))
    return open_host(source, program, options, reporter.sources, lambda diagnostic: reporter.show([diagnostic]))


def _parsed(path: str, reporter: "Reporter") -> "tuple[Source, Program]":
    from compiler.syntax.read import read_source
    from quantdsl.parse import parse_source

    source = reporter.sources.add(read_source(path))
    return source, parse_source(source)


def _has_main(program: "Program") -> bool:
    from compiler.typed_ast.nodes import Function

    return any(isinstance(statement, Function) and statement.name == "main" for statement in program.statements)


def check(path: str, options: "CompileOptions", reporter: "Reporter") -> None:
    """Shows the file's warnings. Raises ZyntaxError with all its errors."""
    if language_of(path) != "quantdsl":
        open_session(path, options, reporter).check()
        return
    from compiler.syntax.comments import comment_warnings
    from compiler.syntax.read import read_source
    from quantdsl.check.program import check_program
    from quantdsl.critical.whole import examine_all
    from quantdsl.host.tree import is_run
    from quantdsl.parse import parse_source

    options.doing("reading")
    source = reporter.sources.add(read_source(path))
    program = parse_source(source)
    if is_run(program):
        from quantdsl.host.session import open_host

        open_host(source, program, options, reporter.sources, lambda diagnostic: reporter.show([diagnostic])).check()
        return
    options.doing("checking")
    checked = check_program(program)
    checked.diagnostics.extend(comment_warnings(source))
    checked.diagnostics.raise_errors(options.strict)
    reporter.show(checked.diagnostics.warnings)
    diagnostics = examine_all(checked, source, reporter.sources)
    diagnostics.raise_errors(options.strict)
    reporter.show(diagnostics.warnings)


def tree_as_json(path: str, reporter: "Reporter") -> str:
    """The file's tree, which needs the parser and nothing else. Raises ZyntaxError with all syntax errors."""
    from compiler.syntax.read import read_source

    language = language_of(path)
    source = reporter.sources.add(read_source(path))
    if language == "quantdsl":
        from quantdsl import parse as quantdsl_parse
        from quantdsl import tree_json

        return tree_json.to_json(quantdsl_parse.parse_source(source), indent=1)
    from compiler.typed_ast.json import to_json
    from zynml.parse import parse_source

    return to_json(parse_source(source), indent=1)


def read_text(path: str) -> str:
    """The file's text. Raises ZyntaxError."""
    language_of(path)
    from compiler.syntax.read import read_source

    return read_source(path).text


def language_of(path: str) -> str:
    """The language of a file. Raises ZyntaxError."""
    ending = Path(path).suffix
    if ending not in ENDINGS:
        known = ", ".join(f"`{e}`" for e in ENDINGS)
        problem = f"no language has the ending `{ending}`" if ending else "the name of a program's file ends in its language"
        raise ZyntaxError(Diagnostic("0108", f"`{path}`: {problem}", hint=f"endings known: {known}"))
    return ENDINGS[ending]
