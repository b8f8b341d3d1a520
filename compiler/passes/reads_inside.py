"""Loads at indices that stop at a memory's edges, `x[clamp(y + a - 2, 0, H - 1)]`, are apart from the edges loads at affine indices: the
field chooses between the two by a condition, which schedules know to hold in all but the first and last tiles."""

from compiler.analysis.nearest_reads import field_reads
from compiler.hir.core import InBounds
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction


def reads_inside(field: HirFunction) -> HirFunction:
    """The field (form F) with such choices; itself where nothing reads like that."""
    nearest = field_reads(field).nearest
    if not nearest:
        return field
    out = FieldCopy(field)
    out.axes()
    out.parameters()
    for op in field.body.body:
        copy = out.copy(op)
        if isinstance(op, Load) and op.result in nearest and op.where is None:
            assert isinstance(copy, Load)
            index = [out.form(form) for form in nearest[op.result]]
            inside: Value | None = None
            for form, clamped, extent in zip(index, copy.index, mem_of(copy.mem).dims, strict=True):
                if form != clamped:
                    inside = out.body.both(inside, out.body.emit(InBounds(of=form, below=extent)).result)
            assert inside is not None
            out.put(op.result, out.body.select(inside, out.body.load(copy.mem, index, inside), copy.result))
    return out.finish()
