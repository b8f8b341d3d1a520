"""Declarations that hide a name of the library (0608).

A state, constant, parameter or function of a program or strategy means something else everywhere from then on: it is told of whatever it
hides. A variable of one body is told of only where it hides a value (`position`): a function that it hides can't be called there by
mistake, since a variable isn't called."""

from compiler.diagnostics import Label, Severity
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk
from quantdsl.check import library
from quantdsl.check.checker import QuantChecker
from quantdsl.check.prelude import prelude

VALUES = ("position", "rejects")
"""What every strategy has, beside functions."""


def _prelude_functions() -> frozenset[str]:
    """Those that are called by their name alone; methods stand behind a value, where nothing is hidden."""
    functions = [one for one in prelude().statements if isinstance(one, nodes.Function)]
    return frozenset(one.name for one in functions if not (one.parameters and one.parameters[0].name == "self"))


def library_name(name: str) -> str | None:
    """Where a name of the library stands, in words; None for others."""
    if name in VALUES or name in _prelude_functions():
        return "in the language itself: docs/quantdsl.md"
    module = library.module_of(name)
    return f"in `{module}`" if module is not None else None


def warn_of_declaration(checker: QuantChecker, what: str, name: str, span: Span, within: nodes.Node) -> None:
    """Warns where a declaration of the program or a strategy hides something; `within` is what it is known in."""
    where = library_name(name)
    if where is None or library.holds(span):
        return
    uses = [node.span for node in walk(within) if isinstance(node, nodes.Name) and node.name == name and node.span != span]
    _warn(checker, what, name, span, where, (Label(uses[0], f"means the {what}"),) if uses else ())


def warn_of_variable(checker: QuantChecker, name: str, span: Span) -> None:
    """Warns where a variable of a body hides a value."""
    if name in VALUES and checker.frame.in_strategy and checker.frame.what in ("handler", "function"):
        _warn(checker, "variable", name, span, str(library_name(name)), ())


def _warn(checker: QuantChecker, what: str, name: str, span: Span, where: str, others: tuple[Label, ...]) -> None:
    hint = "give it another name"
    message = f"the {what} `{name}` hides the library's `{name}`"
    notes = (f"the library's stands {where}",)
    checker.report("0608", message, span, "", others, notes=notes, hint=hint, severity=Severity.WARNING)
