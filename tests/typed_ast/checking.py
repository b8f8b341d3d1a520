"""What the checker's tests share: parse a text, check it against ZynML's library, show what was found."""

from functools import cache

from compiler.diagnostics import Diagnostic, Severity, render
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.check import CheckedProgram, ComputeRule, check, unknown_compute
from compiler.typed_ast.library import Library
from compiler.typed_ast.types import Type
from zynml.parse import parse_source
from zynml.stdlib import library

PATH = "program.zynml"


@cache
def zynml_library() -> Library:
    return library()


def checked(text: str, rule: ComputeRule = unknown_compute) -> CheckedProgram:
    """The text parsed and checked."""
    return check(parse_source(Source(PATH, text)), zynml_library(), rule)


def messages(text: str) -> str:
    """Everything that is wrong with the text, rendered, one blank line between messages."""
    found = checked(text).diagnostics.sorted
    return "\n\n".join(render(d, Sources(Source(PATH, text))) for d in found)


def errors(text: str, rule: ComputeRule = unknown_compute) -> tuple[Diagnostic, ...]:
    return tuple(d for d in checked(text, rule).diagnostics.sorted if d.severity is Severity.ERROR)


def codes(text: str) -> list[str]:
    return [d.code for d in errors(text)]


def types_of(text: str) -> dict[str, Type]:
    """The types of the values of all top-level `let`s, by name."""
    found = checked(text)
    assert found.diagnostics.errors == (), messages(text)
    return {
        statement.pattern.name: statement.value.type
        for statement in found.program.statements
        if isinstance(statement, nodes.Let) and isinstance(statement.pattern, nodes.BindingPattern) and statement.value is not None
    }


def type_of(expression: str, before: str = "") -> str:
    """The type of an expression, as messages show it."""
    return str(types_of(f"{before}\nlet it = {expression}")["it"])
