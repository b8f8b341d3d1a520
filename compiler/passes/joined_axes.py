"""Axes of a field that lie one inside the other in every memory become one: rows of few elements that follow each other without gaps are
one long row. A pool over `x[h, 2 * w]` of rows twice as long as those of its result is one over a single row; so is a map over pictures
of three channels. In a map, extents that only a launch knows are joined, too: their product is a parameter of the field, which what is made
of it computes first (`computed`). Other fields are joined where one of the extents is a number."""

from collections.abc import Iterator, Mapping
from itertools import permutations

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, declared
from compiler.hir.core import Binary, Cast, Compare, Const, Contract, Fma, IsNan, Reduce, Scan, Select, Unary
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.instruction import Region, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem
from runtime.records import evolve

Products = Mapping[str, tuple[Affine, Affine]]
"""The factors of each product of sizes, by the parameter that stands for it."""

WITHOUT_INDICES = (Binary, Cast, Compare, Const, Fma, IsNan, Unary, Select, Reduce, Contract, Scan)


def joined_axes(field: HirFunction) -> tuple[HirFunction, Products]:
    """The field (form F) with such axes joined, and the products that are parameters of it; itself where it has no such axes, or where the
    program says something of its loops."""
    products: dict[str, tuple[Affine, Affine]] = {}
    if field.loops or (field.kernel_info is not None and field.kernel_info.tile):
        return field, products
    while (pair := next(_pairs(field), None)) is not None:
        field = _Joining(field, *pair, products).joined()
    return field, products


def computed(function: HirFunction, products: Products) -> HirFunction:
    """What was made of a field with these parameters, without them: their products are computed first."""
    if not products:
        return function
    parameters = {parameter.name: parameter for parameter in function.parameters}
    region = Region()
    b = Builder(declared(function), region)
    for name, factors in products.items():
        product = Binary(operator="mul", left=b.index(factors[0]), right=b.index(factors[1]), results=[parameters[name]])
        parameters[name].source = product
        region.body.append(product)
    left = [parameter for parameter in function.parameters if parameter.name not in products]
    return evolve(function, parameters=left, body=Region(function.body.parameters, [*region.body, *function.body.body]))


def _pairs(field: HirFunction) -> Iterator[tuple[str, str, dict[Value, int]]]:
    """An axis, the one inside it, and for each memory that both go through the dimension of the first."""
    is_map = not any(isinstance(op, Reduce | Contract | Scan) for op in field.body.body)
    for outer, inner in permutations(field.axes, 2):
        if not is_map and field.axes[outer].value is None and field.axes[inner].value is None:
            continue
        dims = inside(field, outer, inner)
        if dims and (is_map or all({mem_of(mem).dims[at].value, mem_of(mem).dims[at + 1].value} != {None} for mem, at in dims.items())):
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
    alone = inner not in (*first.names, *second.without(inner).names) and outer not in second.names
    moved = first - Affine.of(outer) * rows
    alone = alone and outer not in moved.names and (row.value is not None or moved.value is not None)
    return mem.strides is None and alone and rows > 0 and step > 0 and row * rows == field.axes[inner] * step


class _Joining(FieldCopy):
    """`products`: those that are parameters already."""

    def __init__(
        self, field: HirFunction, outer: str, inner: str, dims: dict[Value, int], products: dict[str, tuple[Affine, Affine]]
    ) -> None:
        super().__init__(field)
        self.outer, self.inner, self.dims, self.products = outer, inner, dims, products
        self.fresh = FreshNames(field)
        self.before = len(products)

    def joined(self) -> HirFunction:
        field, outer, inner, dims = self.field, self.outer, self.inner, self.dims
        for name, extent in field.axes.items():
            if name != inner:
                self.function.axis(name, extent if name != outer else self.product(extent, field.axes[inner]))
        self.parameters({value: self.one_row(mem_of(value), at) for value, at in dims.items()})
        for name in list(self.products)[self.before :]:
            self.function.parameter(name, INDEX)
        for op in field.body.body:
            if isinstance(op, Load | Store) and op.mem in dims:
                at = dims[op.mem]
                (first, second), row = op.index[at : at + 2], mem_of(op.mem).dims[at + 1]
                moved = first.without(outer)
                before = moved * row.value if row.value is not None else row * (moved.value or 0)
                self.copy(op, index=[*op.index[:at], second.substitute({inner: outer}) + before, *op.index[at + 2 :]])
            else:
                self.copy(op)
        return self.finish()

    def one_row(self, mem: Mem, at: int) -> Mem:
        return evolve(mem, dims=(*mem.dims[:at], self.product(mem.dims[at], mem.dims[at + 1]), *mem.dims[at + 2 :]))

    def product(self, first: Affine, second: Affine) -> Affine:
        for factor, other in (first, second), (second, first):
            if other.value is not None:
                return factor * other.value
        known = next((name for name, factors in self.products.items() if factors == (first, second)), None)
        if known is None:
            known = self.fresh.fresh("elements")
            self.products[known] = first, second
        return Affine.of(known)
