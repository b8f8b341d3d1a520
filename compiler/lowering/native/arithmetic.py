"""Checked, saturating and wrapping arithmetic on numbers of one type."""

from compiler.hir.host import Checked
from compiler.hir.native_expressions import Expr
from compiler.hir.numbers import limits
from compiler.hir.types import is_float
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import known

OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "<<": "shl", ">>": "shr"}


def arithmetic(c: FunctionContext, operator: str, x: Expr, y: Expr, overflow: str | None = None) -> Expr:
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
    own = c.elaboration.rules.arithmetic
    if own is not None and not is_float(x.dtype):
        return own(c, operation, x, y)
    if overflow is None or is_float(x.dtype):
        return c.b.arithmetic(operation, x, y)
    return checked(c, operation, x, y, overflow)


def checked(c: FunctionContext, operation: str, x: Expr, y: Expr, message: str) -> Expr:
    """Exactly, or it stops with these words."""
    return c.b.emit(Checked(operation=operation, left=x.hir, right=y.hir, site=c.b.site("0806", message)))


def folded(c: FunctionContext, operation: str, x: Expr, y: Expr) -> Expr | None:
    """The exact result of an int operation on constants, where it has one."""
    left, right, dtype = known(x), known(y), x.dtype
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
