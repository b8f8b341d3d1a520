"""Convolutions in groups of few channels. Each group alone would leave tiles and boxes mostly empty, so neighbouring groups are one
product: their channels lie one behind the other, and so do their filters, whose weights for the channels of other groups are zeros. Tensor
cores multiply these zeros faster than memory would bring small tiles."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.field_copy import FreshNames
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.cuts.workspaces import Copied
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.products.boxed_operands import divides, wide_of
from compiler.schedule.gpu.products.product_sums import SumOfLoads
from compiler.schedule.gpu.products.reading_copies import CopiedRead, Reading, dim_of

MOST_CHANNELS, LEAST_CHANNELS = 32, 4
"""Of a group. More fill a box well enough, fewer would be multiplied with too many zeros."""
MOST_COLUMNS = 256


def grouped(function: HirFunction, facts: Facts, product: SumOfLoads) -> Reading | None:
    """The field with neighbouring groups as one; None where it has no windows in groups of few channels."""
    described = product.described
    if not described.windows or len(described.batch) != 1 or (len(described.n) != 1 and len(described.m) != 1):
        return None
    (group,) = described.batch
    pictures = next((load for load in (product.a, product.b) if any(_added(form, product) for form in load.index)), None)
    if pictures is None:
        return None
    weights = product.b if pictures is product.a else product.a
    filters = [axis for axis in (*described.m, *described.n) if any(axis in form.names for form in weights.index)]
    channels = [axis for axis in described.k if dim_of(pictures, axis) is not None and dim_of(weights, axis) is not None]
    if len(filters) != 1 or len(channels) != 1 or any(dim_of(load, group) is None for load in (pictures, weights)):
        return None
    (filter,), (channel,) = filters, channels
    if dim_of(weights, filter) is None or any({group, filter, channel}.intersection(form.names) for form in product.guard):
        return None
    deep, wide = (power_of_two(facts.about(function.axes[axis])) for axis in (channel, filter))
    deep = max(deep, LEAST_CHANNELS)
    each = wide_of(mem_of(pictures.mem)) // deep
    if deep > MOST_CHANNELS or each < 2 or each * wide > MOST_COLUMNS or facts.about(function.axes[group]) < 2:
        return None
    return _reading(function, facts, product, pictures, weights, (group, filter, channel), (each, wide, deep))


def _reading(
    function: HirFunction,
    facts: Facts,
    product: SumOfLoads,
    pictures: Load,
    weights: Load,
    axes: tuple[str, str, str],
    sizes: tuple[int, int, int],
) -> Reading:
    (group, filter, channel), (each, wide, deep), names = axes, sizes, FreshNames(function)
    together, column, along = names.fresh(f"{group}s"), names.fresh(f"{filter}s"), names.fresh(f"{channel}s")
    extents = {together: function.axes[group].ceildiv(each), column: Affine.of(each * wide), along: Affine.of(each * deep)}
    several = [together] if extents[together].value != 1 else []
    first = Affine.of(together) if several else Affine()
    of_column, of_term = Affine.of(column).floordiv(wide), Affine.of(along).floordiv(deep)
    forms = {
        group: first * each + of_column,
        filter: Affine.of(column) - of_column * wide,
        channel: Affine.of(along) - of_term * deep,
    }

    def copied(load: Load, own: dict[str, Affine], order: Sequence[str], inside: tuple[Affine, ...]) -> CopiedRead:
        """A copy whose dims are the load's own but those of `own`, which stand for the axes in `order`."""
        gone = {dim_of(load, axis): form for axis, form in own.items()}
        remaining = [(names.fresh(f"{load.mem.name}{dim}"), size) for dim, size in enumerate(mem_of(load.mem).dims) if dim not in gone]
        places = iter(remaining)
        index = tuple(gone[dim] if dim in gone else Affine.of(next(places)[0]) for dim in range(mem_of(load.mem).rank))
        read = tuple(form for dim, form in enumerate(load.index) if dim not in gone)
        fresh = {axis: names.fresh(axis) for axis in order}

        def renamed(form: Affine) -> Affine:
            return form.substitute(fresh)

        *first, last = [(fresh[axis], extents[axis]) for axis in order]
        at = (*map(Affine.of, order[:-1]), *read, Affine.of(order[-1]))
        dims = (*first, *remaining, last)
        copy = Copied(names.fresh(f"{load.mem.name}_copy"), load.mem, dims, tuple(map(renamed, index)), tuple(map(renamed, inside)))
        return CopiedRead(copy, at)

    last_group, last_filter, last_channel = (function.axes[axis] - 1 for axis in axes)
    of_pictures = {group: first * each + of_term, channel: forms[channel]}
    there = (last_group - of_pictures[group], last_channel - forms[channel])
    alike = (of_column - of_term, of_term - of_column)
    exist: tuple[Affine, ...] = (last_group - forms[group], last_filter - forms[filter])
    whole = divides(each, function.axes[group])
    stores = [op for op in function.body.body if isinstance(op, Store)]
    last: list[tuple[Load | Store, str, int]] = [(pictures, channel, deep), *((store, filter, wide) for store in stores)]
    views = {op.mem: length for op, axis, length in last if whole and _is_one_dim(function, facts, op, (group, axis), length)}
    if all(store.mem in views for store in stores):
        exist = ()
    places = (*pictures.index[:-2], first * (each * deep) + along)
    reads = {
        pictures: CopiedRead(None, places) if pictures.mem in views else copied(pictures, of_pictures, (*several, along), there),
        weights: copied(weights, forms, (*several, column, along), (*alike, *exist, last_channel - forms[channel])),
    }
    if not several:
        del extents[together]
    return Reading(function, product, along, extents, forms, reads, exist, alike, views)


def _is_one_dim(function: HirFunction, facts: Facts, op: Load | Store, axes: tuple[str, str], length: int) -> bool:
    """Whether a memory's last two dims, which run along these axes, can be seen as one, and nothing else accesses it. The last is known to
    be so long."""
    mem = mem_of(op.mem)
    others = [other for other in function.body.body if isinstance(other, Load | Store) and other.mem is op.mem]
    long = all(facts.exact.issuperset(extent.names) and facts.about(extent) == length for extent in (mem.dims[-1], function.axes[axes[1]]))
    along = op.index[-2:] == tuple(map(Affine.of, axes)) and mem.dims[-2] == function.axes[axes[0]]
    return long and along and mem.strides is None and len(others) == 1 and not (isinstance(op, Load) and op.pad is not None)


def _added(form: Affine, product: SumOfLoads) -> bool:
    """Whether a place and a tap are added in it."""
    names, over = set(form.names), set(product.described.k)
    return bool(names & over) and bool(names & {*product.described.m, *product.described.n})
