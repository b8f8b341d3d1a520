"""Terms of sums that may be added up in any order. Such a sum rounds once for each term and is right to no more, so what makes a term may
be right to an ulp or two where that is faster: a quotient by a root is a product with the root's reciprocal, an instruction of GPUs."""

from compiler.analysis.float_bounds import is_normal
from compiler.hir.core import Binary, Reduce, Unary, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.passes.dce import dce


def with_roots_of_terms(field: HirFunction) -> HirFunction:
    """The field (form F) with n * rsqrt(x) for n / sqrt(x) in factors of such terms, where reciprocals of roots are approximated; itself if
    it has none."""
    exact: set[Value] = set()
    """What is read by something else than such factors."""
    for op in reversed(field.body.body):
        term = isinstance(op, Reduce) and op.monoid == "add" and "reassoc" in op.flags
        if not term and not (isinstance(op, Binary) and op.operator == "mul" and op.result not in exact):
            exact.update(op.operand_values)
    copy, found = FieldCopy.whole(field), False
    for op in field.body.body:
        match op:
            case Binary(operator="div", right=Value(source=Unary(operator="sqrt", value=x))) | Unary(operator="rsqrt", value=x) if (
                op.result not in exact and dtype_of(x) in ("f32", "f64")
            ):
                found, flags = True, ("afn", "ftz") if is_normal(x) else ("afn",)
                with copy.body.at(op.span):
                    root = copy.body.emit(Unary(operator="rsqrt", value=copy.values[x], flags=flags)).result
                    by = copy.body.mul(copy.values[op.left], root, flags=op.flags) if isinstance(op, Binary) else root
                copy.put(op.result, by)
            case _:
                copy.copy(op)
    return dce(copy.finish()) if found else field
