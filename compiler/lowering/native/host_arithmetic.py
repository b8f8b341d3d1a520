"""Checked arithmetic of ints as ZynML words its failures: a division by zero, a count of a shift outside, and a result outside each have
their own."""

from compiler.hir.host import Checked
from compiler.hir.native_expressions import SIGNS, Expr
from compiler.hir.types import DTYPES
from compiler.lowering.native.context import FunctionContext


def arithmetic(c: FunctionContext, operation: str, x: Expr, y: Expr) -> Expr:
    """`add sub mul div rem shl shr` of ints of one type."""
    b, computed, bits = c.b, f"{{0}} {SIGNS[operation]} {{1}}", DTYPES[x.dtype]
    match operation:
        case "div" | "rem":
            b.require(y != 0, x, y, code="0806", message=f"{computed}: division by zero")
        case "shl" | "shr":
            b.require((y >= 0) & (y < bits), x, y, code="0806", message=f"{computed}: the count is outside 0..{bits}")
    return b.emit(Checked(operation=operation, left=x.hir, right=y.hir, site=b.outside(computed, x.dtype)))
