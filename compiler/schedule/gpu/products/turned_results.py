"""Products whose results are stored along rows, where no box has room for that: they are left in memory of their own along columns, and a
launch behind turns them."""

from compiler.hir.affine import Affine
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.cuts.workspaces import Copied
from compiler.schedule.gpu.products.boxed_product import BOXED, BoxedProduct, stored_rows
from compiler.schedule.gpu.products.product_sums import SumOfLoads, sum_of_loads
from compiler.schedule.gpu.products.results import result_boxes
from compiler.schedule.gpu.rewrites.residue_parts import counts_all
from runtime.records import evolve, frozen


@frozen(eq=False)
class TurnedResult:
    """The field that stores to memory of its own, its sum, and what is copied from there."""

    field: HirFunction
    sum: SumOfLoads
    copy: Copied


def turned_result(field: HirFunction, product: BoxedProduct) -> TurnedResult | None:
    """None where boxes store results as they are, or threads whole lines."""
    stores = [op for op in field.body.body if isinstance(op, Store)]
    along = stored_rows(field, product.a.axes)
    if len(stores) != 1 or stores[0].where is not None or along is None or result_boxes(stores[0], field, product) is not None:
        return None
    (store,) = stores
    mem = mem_of(store.mem)
    column = [dim for dim, form in enumerate(store.index) if product.b.axis in form.names]
    every = all(_counts_every(field, form, extent) for form, extent in zip(store.index, mem.dims, strict=True))
    if mem.dtype not in BOXED or store.mem.source is not None or len(column) != 1 or not every:
        return None
    order = [*(dim for dim in range(mem.rank) if dim not in column), *column]
    names, copy = FreshNames(field), FieldCopy.whole(field)
    turned = evolve(mem, dims=tuple(mem.dims[dim] for dim in order), strides=None, align=256)
    source = copy.function.parameter(names.fresh(f"{store.mem.name}_turned"), turned)
    for op in field.body.body:
        changes = {"mem": source, "index": tuple(copy.form(store.index[dim]) for dim in order)} if op is store else {}
        copy.copy(op, **changes)
    whole = copy.finish()
    sum = sum_of_loads(whole)
    axes = tuple((names.fresh(f"{store.mem.name}{dim}"), extent) for dim, extent in enumerate(mem.dims))
    index = tuple(Affine.of(axes[dim][0]) for dim in order)
    return None if sum is None else TurnedResult(whole, sum, Copied(store.mem.name, source, axes, index))


def _counts_every(field: HirFunction, form: Affine, extent: Affine) -> bool:
    """Whether an index comes to all of a dim, also counted down."""
    back = {axis: field.axes[axis] - 1 - axis for axis, number in form.terms if axis in field.axes and number < 0}
    return counts_all(field, form.substitute(back), extent)
