"""Sums of products whose operands don't lie as boxes can have them: the operands are copied first, into memory where the axis that boxes
are contiguous along comes last and fills whole multiples of 16 bytes. That is what channels first, odd channels and weights in any order
need.

Where channels are few, a box of them would be mostly empty: then the copy has, for each place along the window's last dim, the taps of that
dim with their channels one behind the other, and the sum runs along both at once (the rows of the matrix that is known as im2col, for one
of the window's dims)."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from compiler.analysis.recognise import ProductSum
from compiler.hir.affine import Affine
from compiler.hir.field_copy import FreshNames
from compiler.hir.hopper import MOST_STEP
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.cuts.workspaces import Copied, Workspace
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.products import three_products
from compiler.schedule.gpu.products.boxed_operands import side_of
from compiler.schedule.gpu.products.boxed_product import BoxedProduct, boxed_product
from compiler.schedule.gpu.products.grouped_products import grouped
from compiler.schedule.gpu.products.product_sums import SumOfLoads, bounded_sum, sum_of_loads, sums_of_loads
from compiler.schedule.gpu.products.reading_copies import CopiedRead, Reading, dim_of
from compiler.schedule.gpu.products.sums_together import sums_together
from compiler.schedule.gpu.products.turned_results import turned_result
from runtime.records import evolve, frozen

WORTH = 1 << 24
"""Products below which launches that copy take longer than they save."""

REUSED = 16
"""Products of an element of an operand below which it is read, or computed, where it is multiplied."""

LIES_ACROSS = (2, 4)
"""Bytes of elements that needn't lie along the sum's axis: tensor cores turn those of two, blocks those of three products of f32."""

FEW = 32
"""Bytes of channels that are put together with the taps of a window: a quarter of a box."""


@frozen(eq=False)
class CopiedProduct:
    """The copies, the field that reads them, and its product; and what is turned behind it."""

    copies: tuple[Workspace, ...]
    field: HirFunction
    product: BoxedProduct
    behind: Copied | None = None


def copied_product(function: HirFunction, facts: Facts, sum_: SumOfLoads | None = None) -> CopiedProduct | None:
    """The field as a product for warpgroups of operands that are copied first, of the sum that was found in it; None where that is none
    either."""
    sum_ = sum_ or sum_of_loads(function) or bounded_sum(function)
    if sum_ is None:
        return None
    thrice = three_products.wanted(function, sum_)
    if not (three_products.worthwhile(function, facts, sum_) if thrice else _worthwhile(function, facts, sum_)):
        return None
    if thrice:
        found = three_products.by_three(_plans(function, facts, sum_), facts, three_products.has_few_rows(function, facts, sum_))
        return CopiedProduct(*found) if found is not None and three_products.ends_first(function, facts, sum_, found[2]) else None
    for plan in _plans(function, facts, sum_):
        field, sum = plan.field()
        product = boxed_product(field, facts, sum)
        if product is not None:
            turned = turned_result(field, product)
            further = None if turned is None else boxed_product(turned.field, facts, turned.sum)
            if turned is not None and further is not None:
                return CopiedProduct(plan.copies, turned.field, further, turned.copy)
            return CopiedProduct(plan.copies, field, product)
    return None


def copied_sums(function: HirFunction, facts: Facts) -> CopiedProduct | None:
    """A field of several products that are added up together, with those operands copied first that don't lie well."""
    first = sums_of_loads(function)
    if first is None or not _worthwhile(function, facts, first) or bytes_of(mem_of(first.a.mem).dtype) > 2:
        return None
    described = {load: one.described for one in (first, *first.others) for load in (one.a, one.b)}
    axes = [axis for axis in first.described.k if all(_dim_along(function, load, axis) is not None for load in described)]
    for axis in sorted(axes, key=lambda axis: -facts.about(function.axes[axis])):
        plan = _of_channels(function, first, (), axis, LIES_ACROSS, described)
        field, _, _ = plan.rewritten()
        product = sums_together(field, facts)
        if product is not None:
            return CopiedProduct(plan.copies, field, product)
    return None


def _worthwhile(function: HirFunction, facts: Facts, product: SumOfLoads) -> bool:
    """Whether a product takes long enough for further launches, or is a window's, which other schedules take term by term."""
    axes = (*product.described.m, *product.described.n, *product.described.k, *product.described.batch)
    return bool(product.described.windows) or prod(facts.about(function.axes[axis]) for axis in axes) >= WORTH


def _plans(function: HirFunction, facts: Facts, product: SumOfLoads) -> Iterator[Reading]:
    """Ways to copy: by the axis of the sum that is to be contiguous, the longest first."""
    over = product.described.k
    plain = [axis for axis in over if all(_dim_along(function, load, axis) is not None for load in (product.a, product.b))]
    plain.sort(key=lambda axis: -facts.about(function.axes[axis]))
    windows = [window for load in (product.a, product.b) for window in _windows(product, load)]
    if (together := grouped(function, facts, product)) is not None:
        yield together
    if windows:
        channels = next(iter(plain), None)
        few = 1 if channels is None else facts.about(function.axes[channels])
        if few * bytes_of(mem_of(product.a.mem).dtype) <= FEW:
            yield _of_taps(function, product, windows, channels, power_of_two(few))
    for axis in plain:
        copying = _of_channels(function, product, windows, axis)
        turning = _of_channels(function, product, windows, axis, LIES_ACROSS)
        plans = [copying, turning] if len(turning.copies) < len(copying.copies) else [copying]
        yield from (plan for plan in plans if windows or all(_is_reused(function, facts, product, load) for load in plan.reads))


def _is_reused(function: HirFunction, facts: Facts, product: SumOfLoads, load: Load) -> bool:
    """Whether an operand has products enough to be copied for: one that few results read is read where it lies, as that takes all the
    time."""
    own = {name for form in load.index for name in form.names}
    others = [axis for axis in (*product.described.m, *product.described.n) if axis not in own]
    return prod(facts.about(function.axes[axis]) for axis in others) >= REUSED


@frozen
class _Window:
    """A dim of an operand along which places and taps are added; `place` and `tap` are the axes, `stride` from place to place."""

    load: Load
    dim: int
    place: str
    tap: str
    stride: int


def _windows(product: SumOfLoads, load: Load) -> Iterator[_Window]:
    """The windows of an operand, the last dim first. Neither axis occurs elsewhere in it."""
    outer, over = {*product.described.m, *product.described.n}, set(product.described.k)
    other = product.b if load is product.a else product.a
    for dim in reversed(range(mem_of(load.mem).rank)):
        names, elsewhere = set(load.index[dim].names), {name for n, form in enumerate(load.index) if n != dim for name in form.names}
        places, taps = names & outer, names & over
        if len(places) == len(taps) == 1 and not elsewhere & (places | taps):
            (axis,), (tap,) = places, taps
            if dim_of(other, tap) is not None:
                yield _Window(load, dim, axis, tap, load.index[dim].coefficient(axis))


def _dim_along(function: HirFunction, load: Load, axis: str) -> int | None:
    """The dim that varies along the axis and no other, step by step, from wherever on."""
    dims = [dim for dim, form in enumerate(load.index) if axis in form.names]
    sizes = {parameter.name for parameter in function.parameters}
    return (
        dims[0]
        if len(dims) == 1 and load.index[dims[0]].coefficient(axis) and sizes.issuperset({*load.index[dims[0]].names} - {axis})
        else None
    )


def _of_channels(
    function: HirFunction,
    product: SumOfLoads,
    windows: Sequence[_Window],
    axis: str,
    across: Sequence[int] = (2,),
    described: Mapping[Load, ProductSum] | None = None,
) -> Reading:
    """Copies with the channels last, padded to whole multiples of 16 bytes; an operand that lies well stays as it is, also one of elements
    of so many bytes that lies across. `described`: the operands, also those of other products that are added up with it."""
    extent, names = _padded(function.axes[axis], product.a), FreshNames(function)
    far = [window for window in windows if window.stride > MOST_STEP]
    reads = {}
    for load, one in (described or dict.fromkeys((product.a, product.b), product.described)).items():
        well = extent == function.axes[axis] and not any(window.load is load for window in far)
        side = side_of(load, one, axis) if well else None
        if side is None or (side.across and bytes_of(side.mem.dtype) not in across):
            last = names.fresh(axis)
            copy = _copied(function, load, names, far, (last, extent), {axis: Affine.of(last)})
            index = (*copy[1], Affine.of(axis))
            reads[load] = CopiedRead(evolve(copy[0], bounds=_bounds(function, product, copy[0], index)), index)
    return Reading(function, product, axis, {axis: extent}, {}, reads)


def _bounds(function: HirFunction, product: SumOfLoads, copy: Copied, index: Sequence[Affine]) -> tuple[Affine, ...]:
    """What is at least 0 of a copy's elements that are read: of 16 bytes, if it is of any of them."""
    axes = {form.names[0]: Affine.of(axis) for form, (axis, _) in zip(index, copy.axes, strict=True) if form == Affine.of(*form.names[:1])}
    bounds = [form.substitute(axes) for form in product.bounds if axes.keys() >= {*form.names} & {*function.axes}]
    last, each = copy.axes[-1][0], 16 // bytes_of(copy.mem.dtype)
    first = Affine.of(last).floordiv(each) * each
    return tuple(form.substitute({last: first + (each - 1 if form.coefficient(last) > 0 else 0)}) for form in bounds)


def _of_taps(function: HirFunction, product: SumOfLoads, windows: Sequence[_Window], channels: str | None, few: int) -> Reading:
    """Copies with the last window's taps and their channels as one axis, last; of the window's operand along places instead of
    pixels."""
    names, window = FreshNames(function), windows[0]
    along = names.fresh("t")
    tap = Affine.of(along).floordiv(few)
    forms = {window.tap: tap, **({} if channels is None else {channels: Affine.of(along) - tap * few})}
    extent = _padded(function.axes[window.tap] * few, window.load)
    near = [window, *(other for other in windows[1:] if other.stride > MOST_STEP)]
    reads = {}
    for load in (product.a, product.b):
        copy, read = _copied(function, load, names, near, (along, extent), forms)
        reads[load] = CopiedRead(copy, (*read, Affine.of(along)))
    return Reading(function, product, along, {along: extent}, forms, reads)


def _copied(
    function: HirFunction,
    load: Load,
    names: FreshNames,
    windows: Sequence[_Window],
    last: tuple[str, Affine],
    forms: Mapping[str, Affine],
) -> tuple[Copied, list[Affine]]:
    """The copy of what a load reads, and its index in it but for the `last` axis, which dims become that run along an axis of `forms`
    alone. Dims of windows become places, and taps where those aren't part of the last axis; of dims read at one place that is copied."""
    inner = {window.dim: window for window in windows if window.load is load}
    dims: list[tuple[str, Affine]] = []
    index: list[Affine] = []
    read: list[Affine] = []
    inside: list[Affine] = []
    alone = {dim: axis for axis in forms if (dim := _dim_along(function, load, axis)) is not None}
    others = {dim: axis for axis in function.axes if load.where is None and (dim := _dim_along(function, load, axis)) is not None}
    for dim, size in enumerate(mem_of(load.mem).dims):
        position = load.index[dim].substitute(forms)
        if dim in inner:
            taps = () if inner[dim].tap in forms else (inner[dim].tap,)
            for axis in (inner[dim].place, *taps):
                name = names.fresh(axis)
                dims.append((name, function.axes[axis]))
                read.append(Affine.of(axis))
                position = position.substitute({axis: name})
            inside += [position, size - 1 - position]
        elif dim in alone:
            if function.axes[alone[dim]] != last[1]:
                inside.append(function.axes[alone[dim]] - 1 - forms[alone[dim]])
            if load.where is not None and size != last[1]:
                inside.append(size - 1 - position)
        elif dim in others:
            axis = others[dim]
            name = names.fresh(axis)
            position = position.substitute({axis: name})
            dims.append((name, function.axes[axis]))
            read.append(Affine.of(axis))
        elif function.axes.keys().isdisjoint(position.names) and position == load.index[dim]:
            if load.where is not None:
                inside += [position, size - 1 - position]
        else:
            name = names.fresh(f"{load.mem.name}{dim}")
            position = Affine.of(name)
            dims.append((name, size))
            read.append(load.index[dim])
        index.append(position)
    inside += [function.axes[axis] - 1 - form for axis, form in forms.items() if axis not in alone.values()]
    copy = Copied(names.fresh(f"{load.mem.name}_copy"), load.mem, (*dims, last), tuple(index), tuple(inside))
    return copy, read


def _padded(extent: Affine, load: Load) -> Affine:
    """The least multiple of 16 bytes that holds the extent."""
    unit = 16 // bytes_of(mem_of(load.mem).dtype)
    return extent.ceildiv(unit) * unit
