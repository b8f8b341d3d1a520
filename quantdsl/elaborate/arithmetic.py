"""Checked, saturating and wrapping arithmetic on numbers of one type."""

from compiler.hir import instruction as hir
from compiler.hir.core import dtype_of
from compiler.hir.host import Checked
from compiler.hir.numbers import limits
from compiler.hir.types import is_float
from quantdsl.elaborate.context import FunctionContext
from quantdsl.elaborate.values import known

OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "<<": "shl", ">>": "shr"}


def arithmetic(c: FunctionContext, operator: str, x: hir.Value, y: hir.Value, overflow: str | None = None) -> hir.Value:
    """`+` checked, `+|` saturating, `+%` wrapping and so on; floats as IEEE says. `overflow`: the words of the failure, `{0}` and `{1}` in
    them are the operands."""
    unchecked = operator[1:] if len(operator) == 2 and operator[1] in "|%" else ""
    operation = OPERATIONS[operator.removesuffix(unchecked) if unchecked else operator]
    if unchecked == "|":
        return c.b.saturating(operation, x, y)
    if unchecked == "%":
        return c.b.wrapping(operation, x, y)
    found = folded(c, operation, x, y)
    if found is not None:
        return found
    if overflow is None or is_float(dtype_of(x)):
        return c.b.arithmetic(operation, x, y)
    return checked(c, operation, x, y, overflow)


def checked(c: FunctionContext, operation: str, x: hir.Value, y: hir.Value, message: str) -> hir.Value:
    """Exactly, or it stops with these words."""
    return c.b.here.emit(Checked(operation=operation, left=x, right=y, site=c.b.site("0806", message))).result


def folded(c: FunctionContext, operation: str, x: hir.Value, y: hir.Value) -> hir.Value | None:
    """The exact result of an int operation on constants, where it has one."""
    left, right, dtype = known(x), known(y), dtype_of(x)
    if not isinstance(left, int) or not isinstance(right, int) or is_float(dtype) or dtype == "i1":
        return None
    match operation:
        case "add":
            found = left + right
        case "sub":
            found = left - right
        case "mul":
            found = left * right
        case "div" | "rem" if right != 0:
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            found = quotient if operation == "div" else left - right * quotient
        case _:
            return None
    low, high = limits(dtype)
    return c.b.const(found, dtype) if low <= found <= high else None
