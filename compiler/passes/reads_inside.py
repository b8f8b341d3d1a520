"""Loads whose indices are led back at a memory's edges, `x[clamp(y + a - 2, 0, H - 1)]` or `x[(y + H - 1) % H]`, are apart from the edges
loads at affine indices: the field chooses between the two by a condition, which schedules know to hold in all but the first and last
tiles."""

from compiler.analysis.edge_reads import field_reads
from compiler.hir.core import InBounds
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction


def reads_inside(field: HirFunction) -> HirFunction:
    """The field (form F) with such choices; itself where nothing reads like that."""
    edges = field_reads(field).edges
    if not edges:
        return field
    out = FieldCopy.whole(field)
    for op in field.body.body:
        copy = out.copy(op)
        if isinstance(op, Load) and op.result in edges and op.where is None:
            assert isinstance(copy, Load)
            index = [out.form(form) for form in edges[op.result].index]
            inside: Value | None = None
            for form, led_back, extent in zip(index, copy.index, mem_of(copy.mem).dims, strict=True):
                if form != led_back:
                    inside = out.body.both(inside, out.body.emit(InBounds(of=form, below=extent)).result)
            assert inside is not None
            out.put(op.result, out.body.select(inside, out.body.load(copy.mem, index, inside), copy.result))
    return out.finish()
