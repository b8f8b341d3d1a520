"""What a launch tells its kernel before it is compiled: by which power of two each size divides, about how large it is, which memories
begin at a multiple of 16 bytes. Kernels are made for such facts, not for sizes: there are few of them, and they decide about masks,
the width of accesses and the shape of blocks."""

from collections.abc import Iterable, Mapping
from functools import partial

from compiler.hir.affine import Affine
from compiler.hir.field_copy import FieldCopy, FreshNames, Places
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.machines.access import ALIGNMENT as ALIGNMENT
from compiler.machines.gpu import GpuMachine
from compiler.machines.nvidia import PORTABLE
from compiler.machines.rates import H200, GpuRates
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.gpu.memory_order import in_order, memory_order, permuted, without_gaps
from compiler.schedule.gpu.price.block_digits import BlockDigits
from compiler.schedule.gpu.products.tiling import Tiling
from compiler.schedule.launches import Product, Unit
from runtime.records import evolve, frozen

UNITS = (256, 64, 16, 8, 4)
"""Divisors that are told apart. A size is said to be a multiple of the largest that divides it."""

MAGNITUDES = tuple(1 << n for n in range(32))
"""Sizes are told apart by the least of these that is no smaller."""


@frozen
class Facts:
    """`units`: what divides a size; `magnitudes`: what it is at most; by name, sizes of which nothing is known left out."""

    units: tuple[tuple[str, int], ...] = ()
    magnitudes: tuple[tuple[str, int], ...] = ()
    aligned: frozenset[str] = frozenset()
    machine: GpuMachine = PORTABLE
    """What the kernels are made for; all architectures alike where it isn't known."""
    processors: int = 132
    rates: GpuRates = H200
    exact: frozenset[str] = frozenset()
    """Sizes that are as large as their magnitude says."""
    lengths: tuple[tuple[str, int], ...] = ()
    """Sizes that a kernel is made for: of rows that registers hold."""
    inside: bool = False
    """Whether no index can be outside with these sizes, of a nest that checks some as it runs."""
    divisors: tuple[int, ...] = ()
    """What a nest divides indices by, where that makes its field."""
    tiling: Tiling | None = None
    """How a product for warpgroups is cut, where that was chosen for the sizes themselves."""
    table: ThreadTable | None = None
    """What threads of a derived kernel have, where that was chosen."""
    digits: BlockDigits | None = None
    """What blocks of threads have, where that was chosen."""
    quick: bool = False
    """Whether launches are only to be compared: blocks have their rule's table, and no other is looked for."""
    zeroed: frozenset[str] = frozenset()
    """Memories that are zeros before the first launch."""

    def about(self, form: Affine) -> int:
        """About how large an extent is; one that nothing is known of counts as large."""
        known = dict(self.magnitudes)
        return form.evaluate(lambda name: known.get(name, MAGNITUDES[16]))


NOTHING = Facts()


def facts_of(
    sizes: Mapping[str, int], aligned: Iterable[str], machine: GpuMachine = PORTABLE, processors: int = 132, rates: GpuRates = H200
) -> Facts:
    """The facts of a launch with these values of its `index` parameters, and these memories at multiples of 16 bytes, on a machine with
    so many multiprocessors."""
    units = [(name, next((unit for unit in UNITS if value % unit == 0), 1)) for name, value in sorted(sizes.items())]
    magnitudes = [(name, magnitude(value)) for name, value in sorted(sizes.items())]
    exact = frozenset(name for name, value in magnitudes if value == sizes[name])
    divisors = tuple((name, unit) for name, unit in units if unit > 1)
    return Facts(divisors, tuple(magnitudes), frozenset(aligned), machine, processors, rates, exact)


def magnitude(value: int) -> int:
    return next((most for most in MAGNITUDES if most >= value), MAGNITUDES[-1])


def multiplied(first: Affine, second: Affine, facts: Facts, name: str) -> tuple[Affine, Product | None, Facts]:
    """The product of two extents as a form; where neither is a number, of a further parameter of this name, which the facts know then."""
    if first.value is not None or second.value is not None:
        return second * first.value if first.value is not None else first * (second.value or 0), None, facts
    product = Product(name, (first, second), first.divisor * second.divisor)
    about = {name: magnitude(facts.about(first) * facts.about(second) // product.unit)}
    further = evolve(facts, magnitudes=tuple(sorted({**dict(facts.magnitudes), **about}.items())))
    return Affine.of(name) * product.unit, product, further


def specialised(function: HirFunction, facts: Facts) -> tuple[HirFunction, tuple[Unit, ...], Facts]:
    """A field (form F) whose sizes are written as multiples of what divides them, so that affine arithmetic sees it, or as the numbers
    that they are, and whose memories are known to be aligned and are told in the order in which they lie; the parameters that changed; and
    the facts with the new names."""
    lengths = dict(facts.lengths)
    divisors = {name: unit for name, unit in facts.units if name not in lengths}
    names: dict[str, Affine | str] = {name: Affine((), value) for name, value in lengths.items()}
    steps = names | {name: Affine((), 1) for name, most in facts.magnitudes if most == 1 and name in facts.exact}
    orders: dict[Value, Places] = {}
    units: list[Unit] = []
    magnitudes, exact = dict(facts.magnitudes), set(facts.exact)
    fresh = FreshNames(function)
    for position, parameter in enumerate(function.parameters):
        unit = divisors.get(parameter.name, 1)
        if unit > 1 and parameter.type == INDEX:
            name = fresh.fresh(f"{parameter.name}_{unit}")
            names[parameter.name] = Affine.of(name) * unit
            units.append(Unit(position, name, parameter.name, unit))
            magnitudes[name] = -(-magnitudes.pop(parameter.name, unit) // unit)
            if parameter.name in exact:
                exact.add(name)
    by_place = {unit.place: unit for unit in units}
    out = FieldCopy(function, names)
    form = out.form

    def place(order: tuple[int, ...], index: tuple[Affine, ...]) -> list[Affine]:
        return [*map(form, permuted(order, index))]

    out.axes()
    for position, parameter in enumerate(function.parameters):
        type = parameter.type
        if isinstance(type, Mem):
            strides = None if type.strides is None else tuple(form(stride.substitute(steps)) for stride in type.strides)
            align = max(type.align, ALIGNMENT) if parameter.name in facts.aligned else type.align
            type = evolve(type, dims=tuple(map(form, type.dims)), strides=strides, align=align)
            if strides is not None and (order := memory_order(strides)) is not None:
                orders[parameter] = partial(place, order)
                type = in_order(type, order)
            type = without_gaps(type)
        out.parameter(parameter, type, by_place[position].name if position in by_place else None)
    for counted in units:
        out.put(function.parameters[counted.place], out.body.index(Affine.of(counted.name) * counted.unit, counted.size))
    about = evolve(facts, units=(), magnitudes=tuple(sorted(magnitudes.items())), exact=frozenset(exact))
    return out.viewed(orders), tuple(units), about
