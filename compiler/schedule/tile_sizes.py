"""`@tile`: the sizes that the program gives tiles, by axis. It names loops, or the rows, columns and terms (`m`, `n`, `k`) of a product."""

from collections.abc import Iterable, Iterator

from compiler.analysis.recognise import ProductSum, product_sum
from compiler.hir.module import HirFunction
from compiler.schedule.table import Table, Unheeded
from runtime.records import evolve

MOST_REGISTERS = 64
"""Elements or vectors that a tile has in registers along an axis, at most."""


MOST_OF_A_THREAD = 16
"""The same of a GPU's thread."""


def tile_of(field: HirFunction) -> dict[str, int]:
    """The size of a tile along each axis for which the program gives one."""
    sizes: dict[str, int] = {}
    for name, size in () if field.kernel_info is None else field.kernel_info.tile:
        axis = _axis(field, name)
        if axis is not None:
            sizes[axis] = size
    return sizes


def _axis(field: HirFunction, name: str) -> str | None:
    product = next((product for op in field.body.body if (product := product_sum(op)) is not None and product.m and product.n), None)
    return name if name in field.axes else None if product is None else _part(product, name)


def _part(product: ProductSum, name: str) -> str | None:
    axes = {"m": product.m, "n": product.n, "k": product.k}.get(name)
    return axes[-1] if axes else None


def named(field: HirFunction, axis: str) -> str:
    """What the program calls an axis for which it gives a size."""
    assert field.kernel_info is not None
    return next(name for name, _ in field.kernel_info.tile if _axis(field, name) == axis)


def untiled(field: HirFunction, tiled: Iterable[str], why: str) -> Iterator[Unheeded]:
    """Sizes along axes that a schedule doesn't tile; `why` it doesn't."""
    for name, _ in () if field.kernel_info is None else field.kernel_info.tile:
        axis = _axis(field, name)
        if axis is None:
            yield Unheeded("tile", name, "it is no part of a product of matrices here")
        elif axis not in tiled:
            yield Unheeded("tile", name, why)


def in_sizes(field: HirFunction, table: Table) -> tuple[Table, dict[str, str]]:
    """The table of a GPU with tiles as the program gives them, and for axes of which that can't be what can."""
    plans, left = list(table.plans), dict[str, str]()
    for number, plan in enumerate(plans):
        size = None if plan.place == "once" else tile_of(field).get(plan.axis)
        side = plan.tile // plan.registers
        most = MOST_REGISTERS if side == 1 and plan.place == "time" else MOST_OF_A_THREAD
        if size is not None and size % side == 0 and size // side <= most:
            plans[number] = evolve(plan, registers=size // side, beside=plan.beside and size // side % 4 == 0)
        elif size is not None:
            left[plan.axis] = f"multiples of {side}, {most * side} at most" if side > 1 else f"1 to {most}"
    return evolve(table, plans=plans), left
