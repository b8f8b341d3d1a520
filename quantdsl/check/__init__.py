"""What a QuantDSL program means: names, types, exact numbers, and the rules of risk and handlers."""

from compiler.diagnostics import Diagnostics
from compiler.typed_ast import nodes


def check_program(program: nodes.Program) -> Diagnostics:
    """All that is wrong with a program."""
    return Diagnostics()
