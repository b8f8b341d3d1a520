"""What the roles of a product (form R) say to whoever makes threads of them: which tiles blocks take, which ring joins the roles, what is
copied, which sums are multiplied of that, and what is computed for an element of the results when its sums are there."""

from collections.abc import Mapping

from compiler.analysis.accesses import conjuncts, constraints_of
from compiler.analysis.recognise import instructions_below, products_of_parts, products_of_sum
from compiler.hir.affine import Affine
from compiler.hir.core import Cast, Contract, Reduce, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand
from compiler.schedule.gpu.products.boxed_product import BoxedProduct, MultipliedSum
from compiler.schedule.gpu.products.cut_product import read_roles
from compiler.schedule.gpu.products.packed_rows import packed_rows
from compiler.schedule.gpu.products.product_sums import unguarded
from compiler.schedule.gpu.products.tiling import MARKED, Tiling
from compiler.schedule.gpu.rewrites.scaled_sums import narrow_sum
from compiler.schedule.gpu.tiles.taking_part import restricting, uneven_bounds
from runtime.records import evolve

UNKNOWN = Affine((), -1)
"""A guard of which no form is known: it may leave out any term."""


def product_of_roles(roles: HirFunction, processors: int) -> tuple[HirFunction, BoxedProduct]:
    """The field of what each element of the results is, and the product of its blocks on so many processors."""
    field, cut = read_roles(roles)
    *outer, along = cut.walked
    *_, (column,) = cut.tiles
    own = {name: cut.marks[name] for name in MARKED if name in cut.marks}
    sizes = {along: cut.depth, **{axis: size for (axis,), size in cut.tiles.items()}}
    sides = {load.result: _operand(load, along, sizes, (column,) if own.get("turned") else ()) for load in cut.loads}
    factors, scale = [(target, *term) for target in cut.sums for term in _factors(target)], None
    if not all(value in sides for _, a, b, _ in factors for value in (a, b)):
        known = narrow_sum(field)
        assert known is not None
        a, b = known.described.a, known.described.b
        factors, scale = [(cut.sums[0], a, b, False)], known.scale
        for value in {a, b} - sides.keys():
            sides[value] = _of_bytes(value, sides, along, known.dtype)
    pairs = [sorted((sides[a], sides[b]), key=lambda side: side.axes == (column,)) for _, a, b, _ in factors]
    summed = tuple(MultipliedSum(target, a, b, sign) for (target, *_, sign), (a, b) in zip(factors, pairs, strict=True))
    rows, columns = summed[0].a, summed[0].b
    others = [side for side in sides.values() if not any(side.load in (one.a.load, one.b.load) for one in summed)]
    tiling = Tiling(rows.axes, rows.tile, cut.tiles[column,], stages=cut.stages, sums=len(cut.sums), products=len(summed), **own)
    guard, bounds = _guard(summed[0].target), tuple[Affine, ...]()
    if not any(side.load.where for side in sides.values()):
        guard = tuple(restricting(guard, field.axes))
        bounds = () if outer else uneven_bounds(field, guard, along)
    low = evolve(columns) if own.get("makes_low") else next(iter(others), None)
    stretch, zeros = cut.marks_of_sum.get("stretch", 0), cut.marks_of_sum.get("zeros", False)
    split = any(map(products_of_parts, cut.sums))
    return field, BoxedProduct(summed, along, tuple(outer), tiling, processors, low, stretch, (), zeros, guard, bounds, scale, split)


def _operand(load: Load, along: str, tiles: Mapping[str, int], turned: tuple[str, ...]) -> BoxedOperand:
    """What is copied, as boxes have it: the dims along which it has axes of its own, and the sum's."""
    dims = {axis: dim for dim, form in enumerate(load.index) for axis in form.names if axis in tiles}
    own = tuple(axis for axis in dims if axis != along)
    return BoxedOperand(load, own, tuple(dims[axis] for axis in own), dims[along], tuple(tiles[axis] for axis in own), own == turned)


def _of_bytes(value: Value, sides: Mapping[Value, BoxedOperand], along: str, dtype: str) -> BoxedOperand:
    """What is made of bytes that were copied."""
    (side,) = (sides[op.results[0]] for op in instructions_below(value) if isinstance(op, Load) and op.result in sides)
    return evolve(side, packed=packed_rows(value, along, side.axis, dtype))


def _factors(target: Contract | Reduce) -> list[tuple[Value, Value, bool]]:
    """Of each product of a sum, and whether it is subtracted."""
    return [(_read(product.a), _read(product.b), negative) for product, negative in products_of_parts(target) or products_of_sum(target)]


def _read(value: Value) -> Value:
    """What an operand was read as, before it was converted, or put to 0 where it doesn't exist."""
    value, _ = unguarded(value)
    return _read(value.source.value) if isinstance(value.source, Cast) else value


def _guard(target: Contract | Reduce) -> tuple[Affine, ...]:
    """What is at least 0 where products count. Whole numbers times 0 are 0."""
    if isinstance(target, Contract) or not is_float(dtype_of(target.values[0])):
        return ()
    _, guards = unguarded(target.values[0])
    return tuple(sorted({form for guard in guards for one in conjuncts(guard) for form in constraints_of(one) or [UNKNOWN]}, key=str))
