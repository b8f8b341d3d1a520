"""Memories of short rows, as a picture of three channels is: of `x[y, z, c]` with rows of 3 the two last dims are one, of which `3 * z + c`
is the index. So neighbours that a thread has along both are one vector, which a row alone is too short for."""

from collections.abc import Sequence
from functools import partial

from compiler.hir.affine import Affine
from compiler.hir.core import Contract, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from runtime.records import evolve

SHORT_ROW = 32
"""Elements of a row below which threads rather take several rows than neighbours take one."""


def with_short_rows_joined(field: HirFunction) -> HirFunction:
    """The field (form F) with such dims of its parameters as one; itself where it has none, or multiplies matrices."""
    if any(isinstance(op, Contract) and _multiplies_matrices(op) for op in field.body.body):
        return field
    short = {parameter for parameter in field.parameters if _is_short(field, parameter)}
    if not short:
        return field
    copy = FieldCopy.whole(field, {parameter: evolve(mem := mem_of(parameter), dims=tuple(_joined(mem, mem.dims))) for parameter in short})
    return copy.viewed({parameter: partial(_joined, mem_of(parameter)) for parameter in short})


def _multiplies_matrices(op: Contract) -> bool:
    """Whether each operand of a sum of products has an axis of results that the others lack."""
    axes = [{axis for axis, _ in union_axes(value)} - set(op.over) for value in op.operand_values]
    return len(axes) > 1 and all(each - set().union(*(other for other in axes if other is not each)) for each in axes)


def _is_short(field: HirFunction, parameter: Value) -> bool:
    """Whether the parameter is a memory of short rows without gaps, and all its indices are of axes alone."""
    mem = parameter.type
    if not isinstance(mem, Mem) or mem.rank < 2 or mem.strides is not None or mem.swizzle:
        return False
    row, rows = mem.dims[-1].value, mem.dims[-2].value
    forms = [form for op in field.body.body if isinstance(op, Load | Store) and op.mem is parameter for form in op.index[-2:]]
    of_axes = all(isinstance(symbol, str) and symbol in field.axes for form in forms for symbol, _ in form.terms)
    return row is not None and rows is not None and 1 < row < SHORT_ROW and of_axes


def _joined(mem: Mem, dims: Sequence[Affine]) -> list[Affine]:
    """Extents, or indices, of the memory's dims with the last two as one."""
    *outer, rows, row = dims
    if dims is mem.dims:
        return [*outer, rows * (row.value or 0)]
    return [*outer, rows * (mem.dims[-1].value or 0) + row]
