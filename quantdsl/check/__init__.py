"""What a QuantDSL program means: names, types, exact numbers, and the rules of risk and handlers."""

from compiler.diagnostics import Diagnostics
from compiler.typed_ast import nodes
from quantdsl.check import calls, expressions, literals, operators, statements  # noqa: F401  They register their rules.
from quantdsl.check.checker import Checker
from quantdsl.check.declarations import check_declarations
from quantdsl.check.world import world_of


def check_program(program: nodes.Program) -> Diagnostics:
    """All that is wrong with a program."""
    diagnostics = Diagnostics()
    checker = Checker(world_of(program, diagnostics), diagnostics)
    check_declarations(checker, program)
    return diagnostics
