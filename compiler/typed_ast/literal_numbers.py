"""Numbers that are written out."""

from fractions import Fraction

from compiler.typed_ast import nodes


def is_literal(node: nodes.Expression) -> bool:
    """A number without a unit of its own, perhaps behind a minus."""
    match node:
        case nodes.Unary(operator="-", operand=operand):
            return is_literal(operand)
        case nodes.IntLiteral(suffix=None) | nodes.FloatLiteral(suffix=None):
            return True
    return False


def decimal(node: nodes.Expression) -> Fraction | None:
    """The exact value of a literal number, with or without a minus; None for anything else."""
    match node:
        case nodes.IntLiteral(value=value):
            return Fraction(value)
        case nodes.FloatLiteral(text=text) if text:
            return Fraction(text)
        case nodes.UnitNumber(text=text):
            return Fraction(text)
        case nodes.Unary(operator="-", operand=operand):
            found = decimal(operand)
            return None if found is None else -found
    return None
