"""Fields written again: values and names that stand for the old ones."""

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.field_copy import FieldCopy
from compiler.hir.memory import Load
from compiler.hir.module import Form
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify


def test_names_in_affine_forms_follow_the_values_that_stand_for_them() -> None:
    """A value of indices gets another name where its own is taken; what is read by it follows."""
    f = FunctionBuilder("gather", Form.FIELD)
    n = f.parameter("N", INDEX)
    table, rows, out = (f.parameter(name, Mem(dtype, (Affine.of("N"),))) for name, dtype in (("t", "f32"), ("r", "i64"), ("out", "f32")))
    axis = f.axis("i", "N")
    row = f.body.cast(f.body.load(rows, [axis]), "index")
    f.body.store(out, f.body.load(table, [row.name]), [axis])
    field = f.finish()

    copy = FieldCopy(field)
    copy.function.parameter(row.name, INDEX)  # takes the name
    copy.parameters()
    copy.axes()
    for op in field.body.body:
        copy.copy(op)
    new = copy.finish()
    verify(new)
    assert n in copy.values and copy.values[row].name != row.name
    read = next(op for op in new.body.body if isinstance(op, Load) and op.mem is copy.values[table])
    assert read.index == (Affine.of(copy.values[row].name),)
