"""Axes of a field that lie one inside the other in every memory become one: rows of few elements that follow each other without gaps are
one long row. A pool over `x[h, 2 * w]` of rows twice as long as those of its result is one over a single row; so is a map over pictures
of three channels. Only where the extent of the joined axis is an affine form: one of the two is a number."""

from collections.abc import Iterator
from itertools import permutations

from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Compare, Const, Contract, Fma, IsNan, Reduce, Scan, Select, Unary
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from runtime.records import evolve

WITHOUT_INDICES = (Binary, Cast, Compare, Const, Fma, IsNan, Unary, Select, Reduce, Contract, Scan)


def joined_axes(field: HirFunction) -> HirFunction:
    """The field (form F) with such axes joined; itself where it has none, or where the program says something of its loops."""
    if field.loops or (field.kernel_info is not None and field.kernel_info.tile):
        return field
    while (pair := next(_pairs(field), None)) is not None:
        field = _joined(field, *pair)
    return field


def _pairs(field: HirFunction) -> Iterator[tuple[str, str, dict[Value, int]]]:
    """An axis, the one inside it, and for each memory that both go through the dimension of the first."""
    for outer, inner in permutations(field.axes, 2):
        if field.axes[outer].value is None and field.axes[inner].value is None:
            continue
        dims = inside(field, outer, inner)
        if dims and all({mem_of(mem).dims[at].value, mem_of(mem).dims[at + 1].value} != {None} for mem, at in dims.items()):
            yield outer, inner, dims


def inside(field: HirFunction, outer: str, inner: str) -> dict[Value, int]:
    """The dimension of the first axis in each memory that both go through, if the second goes on in all where the first takes a step; else
    none."""
    ops = field.body.body
    accesses = [op for op in ops if isinstance(op, Load | Store)]
    over = {axis for op in ops if isinstance(op, Reduce | Contract | Scan) for axis in op.over}
    named = {name for op in ops if not isinstance(op, (*WITHOUT_INDICES, Load, Store)) for name in op.symbols}
    dims: dict[Value, int] = {}
    if not over.union(named).isdisjoint({outer, inner}) or not all(_follow(field, access, outer, inner, dims) for access in accesses):
        return {}
    return dims if all(access.mem not in dims or {outer, inner} & _names(access) for access in accesses) else {}


def _names(access: Load | Store) -> set[str]:
    return {name for form in access.index for name in form.names}


def _follow(field: HirFunction, access: Load | Store, outer: str, inner: str, dims: dict[Value, int]) -> bool:
    """Whether an access goes on along `inner` where a step along `outer` begins, or goes along neither; notes where it does."""
    used = [set(form.names) & {outer, inner} for form in access.index]
    if not any(used):
        return access.mem not in dims
    mem, at = mem_of(access.mem), [number for number, names in enumerate(used) if names]
    if len(at) != 2 or at[1] != at[0] + 1 or access.mem.source is not None or dims.setdefault(access.mem, at[0]) != at[0]:
        return False
    first, second = access.index[at[0]], access.index[at[1]]
    rows, step = first.coefficient(outer), second.coefficient(inner)
    row = mem.dims[at[1]]
    alone = first == Affine.of(outer) * rows and inner not in second.without(inner).names and outer not in second.names
    return mem.strides is None and alone and rows > 0 and step > 0 and row * rows == field.axes[inner] * step


def _joined(field: HirFunction, outer: str, inner: str, dims: dict[Value, int]) -> HirFunction:
    out = FieldCopy(field)
    extents = field.axes[outer], field.axes[inner]
    for name, extent in field.axes.items():
        if name != inner:
            out.function.axis(name, extent if name != outer else _product(*extents))
    out.parameters({value: _one_row(mem_of(value), at) for value, at in dims.items()})
    for op in field.body.body:
        if isinstance(op, Load | Store) and op.mem in dims:
            at = dims[op.mem]
            index = [*op.index[:at], op.index[at + 1].substitute({inner: outer}), *op.index[at + 2 :]]
            out.copy(op, index=index)
        else:
            out.copy(op)
    return out.finish()


def _one_row(mem: Mem, at: int) -> Mem:
    return evolve(mem, dims=(*mem.dims[:at], _product(mem.dims[at], mem.dims[at + 1]), *mem.dims[at + 2 :]))


def _product(a: Affine, b: Affine) -> Affine:
    return a * b.value if b.value is not None else b * (a.value or 0)
