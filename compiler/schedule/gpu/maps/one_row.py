"""Maps whose results have rows of a length that wide accesses don't divide: as one long row, since all elements lie side by side. What is
read by the index in a row, or of a row, takes these from the element's number, once for a thread: its elements are neighbours, so that
they lie in that row or in the next."""

from collections.abc import Collection, Mapping, Sequence

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.alignment import steps_by_one
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Binary, Cast, Const, Contract, InBounds, Index, Reduce, Scan, dtype_of
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.gpu import WARP
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem, Tile, bytes_of, is_float
from compiler.machines.access import WORD
from compiler.schedule.gpu.facts import ALIGNMENT, Facts, multiplied
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.launches import Product
from compiler.schedule.materialise import common_axes
from compiler.schedule.region import TileRegion
from compiler.schedule.table import SIMD, Table
from runtime.records import evolve, frozen

MOST_COLUMNS = 32
"""Bytes of what a thread reads by the index in a row, one element each time: those of its neighbours lie as far from them."""

FEW = 1 << 31
"""Elements whose numbers are taken apart in 32 bits."""


def in_one_row(field: HirFunction, facts: Facts) -> tuple[HirFunction, tuple[Product, ...], Facts] | None:
    """The map over one axis, the products that its further parameters are, and the facts with their names; None for other fields, and
    where rows are as long as wide accesses want them."""
    order = _order(field)
    if order is None or len(order) < 2:
        return None
    lanes = ALIGNMENT // min(bytes_of(mem_of(op.mem).dtype) for op in field.body.body if isinstance(op, Store))
    whole = {op.mem for op in field.body.body if isinstance(op, Load | Store) and _is_whole(op, order, field)}
    others = [op for op in field.body.body if not (isinstance(op, Load | Store) and op.mem in whole)]
    if any(isinstance(op, Load | Store) and not _is_whole(op, order, field) for op in field.body.body if op not in others):
        return None
    loads = [op for op in others if isinstance(op, Load)]
    if not all(_is_near(op, order[-1]) for op in loads):
        return None
    columns = {op.mem for op in loads if bytes_of(mem_of(op.mem).dtype) >= WORD and steps_by_one(mem_of(op.mem), op.index, order[-1])}
    if lanes * sum(bytes_of(mem_of(mem).dtype) for mem in columns) > MOST_COLUMNS:
        return None
    read = {axis for op in others for axis in op.symbols if axis in field.axes}
    extents = [field.axes[axis] for axis in order]
    if extents[-1].divisor % lanes == 0 or (read and _least(extents[-1], facts) < lanes):
        return None
    products, extent, facts = _multiplied(field, order, facts)
    out = FieldCopy(field)
    row = out.function.axis(order[-1], extent)
    out.parameters({memory: evolve(mem_of(memory), dims=(extent,)) for memory in whole})
    for product in products:
        out.function.parameter(product.name, INDEX)
    out.names.update(_digits(out.body, Affine.of(row), order, extents, read))
    return out.viewed({memory: lambda index: [Affine.of(row)] for memory in whole}), tuple(products), facts


def _order(field: HirFunction) -> tuple[str, ...] | None:
    """The axes of a map in the order in which its results lie, all of which lie side by side."""
    ops = field.body.body
    if any(isinstance(op, Reduce | Contract | Scan | Alloc) or op.regions or not _is_plain(op) for op in ops):
        return None
    stores = [op for op in ops if isinstance(op, Store)]
    if not stores:
        return None
    order = tuple(form.names[0] for form in stores[0].index if form.names)
    if set(common_axes(field)) != set(field.axes) or len(order) != len(field.axes) or set(order) != set(field.axes):
        return None
    return order if all(_is_whole(op, order, field) for op in stores) else None


def _is_plain(op: Instruction) -> bool:
    return isinstance(op, Load | Store) or (op.effects is Effect.PURE and not (isinstance(op, Const) and op.type.axes))  # type: ignore[attr-defined]


def _is_whole(op: Load | Store, order: Sequence[str], field: HirFunction) -> bool:
    """Whether an access is of the elements of a memory one after the other."""
    mem = mem_of(op.mem)
    if (
        op.mem not in field.parameters
        or mem.strides is not None
        or mem.swizzle is not None
        or (isinstance(op, Load) and op.pad is not None)
    ):
        return False
    return op.index == tuple(map(Affine.of, order)) and mem.dims == tuple(field.axes[axis] for axis in order)


def _is_near(op: Load, axis: str) -> bool:
    """Whether neighbours along the axis read the same element, or the next."""
    return steps_by_one(mem_of(op.mem), op.index, axis) or not any(form.coefficient(axis) for form in op.index)


def _least(extent: Affine, facts: Facts) -> int:
    """What an extent is at least, as far as that is known."""
    if extent.value is not None:
        return extent.value
    named = dict(facts.magnitudes)
    if len(extent.terms) != 1 or extent.constant or extent.names[0] not in named:
        return 1
    ((_, coefficient),), most = extent.terms, named[extent.names[0]]
    return coefficient * (most if extent.names[0] in facts.exact else most // 2 + 1)


def _multiplied(field: HirFunction, order: Sequence[str], facts: Facts) -> tuple[list[Product], Affine, Facts]:
    """The product of all extents, by further parameters where they aren't numbers."""
    products: list[Product] = []
    whole = field.axes[order[-1]]
    for first in reversed(range(len(order) - 1)):
        name = FreshNames(field).fresh("_times_".join(order[first:]))
        whole, product, facts = multiplied(field.axes[order[first]], whole, facts, name)
        products += [] if product is None else [product]
    return products, whole, facts


def _digits(b: Builder, number: Affine, order: Sequence[str], extents: Sequence[Affine], read: set[str]) -> dict[str, Affine | str]:
    """The axes that something reads, from an element's number."""
    digits: dict[str, Affine | str] = {}
    rest = b.index(number)
    for axis, extent in reversed([*zip(order, extents, strict=True)]):
        outer = [other for other in order[: order.index(axis)] if other in read]
        if axis == order[0]:
            digits[axis] = Affine.of(rest.name)
            break
        if axis in read:
            digits[axis] = Affine.of(b.op("rem", rest, b.index(extent)).name)
        if not outer:
            break
        rest = b.op("div", rest, b.index(extent))
    return {axis: form for axis, form in digits.items() if axis in read}


@frozen(eq=False)
class _Pair:
    """A value in the row of a thread's first element, and in the next; `more`: for which elements it is that of the next; None: for
    none."""

    first: Value
    second: Value
    more: Value | None

    def of(self, side: int) -> Value:
        return self.second if side else self.first


@frozen(eq=False)
class _FirstDigit:
    """The row of a thread's first element, where in the row it stands, the row's length, and which elements are of the next row."""

    row: Value
    place: Value
    length: Value
    more: Value | None


class OneRow(Distributing):
    """A map along one axis. Quotients and remainders of an element's number are taken of the thread's first one."""

    def __init__(self, field: HirFunction, table: Table, facts: Facts) -> None:
        super().__init__(field, table)
        (plan,) = table.plans
        names = set(field.axes[plan.axis].names)
        self.facts = facts
        few = names <= dict(facts.magnitudes).keys() and facts.about(field.axes[plan.axis]) + plan.tile <= FEW
        self.dtype = "u32" if few else "index"
        self.lanes = plan.lanes
        self.first: dict[tuple[Value, Affine | Value, TileRegion], _FirstDigit] = {}
        self.digits: dict[tuple[Value, TileRegion], _Pair | None] = {}
        self.pairs: dict[tuple[Value, TileRegion], _Pair | None] = {}

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        b = region.builder
        if _is_digit(value):
            if (digit := self.digit(value, region)) is not None:
                return b.cast(digit.first if digit.more is None else b.select(digit.more, digit.second, digit.first), "index")
            if (column := self.column(value, region)) is not None:
                place = b.add(column.place, b.cast(b.index(Affine.of(SIMD)), self.dtype))
                assert column.more is not None
                return b.cast(b.select(column.more, b.sub(place, column.length), place), "index")
            return super().make(op, value, region)
        if (pair := self.pair(value, region)) is not None:
            assert pair.more is not None
            return b.select(pair.more, pair.second, pair.first)
        read = self.read_of_rows(op, region) if isinstance(op, Load) else None
        return super().make(op, value, region) if read is None else read

    def digit(self, value: Value, region: TileRegion) -> _Pair | None:
        """A number of rows, or a digit of one, for the row of the thread's first element, and for the next."""
        if (value, region) not in self.digits:
            self.digits[value, region] = self._digit(value, region) if _is_digit(value) else None
        return self.digits[value, region]

    def _digit(self, value: Value, region: TileRegion) -> _Pair | None:
        op, b = value.source, region.builder
        assert isinstance(op, Binary)
        one, divides = b.const(1, self.dtype), op.operator == "div"
        if isinstance(op.left.source, Index):
            known = self.first_digit(op, region)
            if self.lanes == 1:
                return _Pair(known.row, known.row, None) if divides else _Pair(known.place, known.place, None)
            return _Pair(known.row, b.add(known.row, one), known.more) if divides else None
        before = self.digit(op.left, region)
        if before is None:
            return None
        by = b.cast(self.value(op.right, region), self.dtype)
        quotient, rest = b.op("div", before.first, by), b.op("rem", before.first, by)
        if before.more is None:
            return _Pair(quotient, quotient, None) if divides else _Pair(rest, rest, None)
        following = b.add(rest, b.sub(before.second, before.first))
        last = b.op("eq", following, by)
        if divides:
            return _Pair(quotient, b.select(last, b.add(quotient, one), quotient), before.more)
        return _Pair(rest, b.select(last, b.const(0, self.dtype), following), before.more)

    def first_digit(self, op: Binary, region: TileRegion) -> _FirstDigit:
        """Of the quotient or the remainder of an element's number."""
        b, whole, by = region.builder, op.left.source, op.right.source
        assert isinstance(whole, Index)
        key = op.left, by.of if isinstance(by, Index) else op.right, region
        if key not in self.first:
            length = b.cast(self.value(op.right, region), self.dtype)
            number = b.cast(b.index(self.form(whole.of, region).without(SIMD)), self.dtype)
            row, place = b.op("div", number, length), b.op("rem", number, length)
            lane = None if self.lanes == 1 else b.add(place, b.cast(b.index(Affine.of(SIMD)), self.dtype))
            self.first[key] = _FirstDigit(row, place, length, None if lane is None else b.op("ge", lane, length))
        return self.first[key]

    def column(self, value: Value, region: TileRegion) -> _FirstDigit | None:
        """Of a value that is an element's place in its row."""
        op = value.source
        if self.lanes == 1 or not _is_digit(value) or not isinstance(op, Binary) or op.operator != "rem":
            return None
        return self.first_digit(op, region) if isinstance(op.left.source, Index) else None

    def read_of_rows(self, op: Load, region: TileRegion) -> Value | None:
        """What a thread reads of a row of elements shorter than a word, and of the next one, both as runs from any address. Longer elements
        are as well read each by itself."""
        mem, b = region.find(op.mem), region.builder
        known_columns = ((name, self.column(self.named[name], region)) for name in op.symbols if name in self.named)
        columns = [(name, column) for name, column in known_columns if column is not None]
        if len(columns) != 1 or op.pad is not None or mem is None or bytes_of(dtype_of(op.result)) >= WORD:
            return None
        ((name, column),) = columns
        others = {other for form in op.index for other in form.names} - {name}
        varying = [*(self.named[other] for other in others if other in self.named), *([] if op.where is None else [op.where])]
        pairs = {value: self.pair(value, region) for value in varying}
        if not steps_by_one(mem_of(op.mem), op.index, name) or any(other in region.forms for other in others):
            return None
        if any(pair is None or pair.more is not column.more for pair in pairs.values()):
            return None
        assert column.more is not None
        place, length = (Affine.of(b.cast(number, "index").name) for number in (column.place, column.length))

        def run(side: int, b: Builder, whole: bool) -> Value:
            known = {v: pair.of(side) for v, pair in pairs.items() if pair is not None}
            along = place + Affine.of(SIMD) - side * length
            where = None if op.where is None else known[op.where]
            inside = where if whole else b.both(where, b.inbounds(along, length))
            return b.load(mem, self._index_of_row(op, mem, known, region, {name: along}), inside)

        if self.is_in_warp(name):
            return self.of_both(op, run(0, b, False), run(1, b, False), column.more, b)
        in_one = b.op("le", b.index(place + self.lanes), b.index(length))
        with b.branch(in_one, [Tile(dtype_of(op.result), ((SIMD, Affine((), self.lanes)),))], likely=True) as (one, two, read):
            one.yield_(run(0, one, True))
            two.yield_(self.of_both(op, run(0, two, False), run(1, two, False), column.more, two))
        return read.results[0]

    def is_in_warp(self, column: str) -> bool:
        """Whether rows are known to be shorter than what a warp has: some of its threads always have two."""
        length = self.named[column].source.right.source  # type: ignore[union-attr]
        return isinstance(length, Index) and self.facts.about(length.of) < WARP * self.lanes

    def of_both(self, op: Load, first: Value, second: Value, more: Value, b: Builder) -> Value:
        """What was read of two rows. Of ints each is 0 where the other reads."""
        return b.select(more, second, first) if is_float(dtype_of(op.result)) else b.op("or", first, second)

    def pair(self, value: Value, region: TileRegion) -> _Pair | None:
        """The value for the row of the thread's first element, and for the next, where it follows from the number of the row alone."""
        key = (value, region)
        if key not in self.pairs:
            self.pairs[key] = self._paired(value, region) if self.lanes > 1 else None
        return self.pairs[key]

    def _paired(self, value: Value, region: TileRegion) -> _Pair | None:
        op, b = value.source, region.builder
        if isinstance(op, Binary):
            digit = self.digit(value, region)
            return None if digit is None else _Pair(b.cast(digit.first, "index"), b.cast(digit.second, "index"), digit.more)
        if not (isinstance(op, Cast | Index | InBounds) or (isinstance(op, Load) and op.where is None and mem_of(op.mem).readonly)):
            return None
        values = [
            *(v for v in op.operand_values if not isinstance(v.type, Mem)),
            *(self.named[name] for name in op.symbols if name in self.named),
        ]
        pairs = {v: self.pair(v, region) for v in values}
        others = [name for name in op.symbols if name not in self.named]
        if not pairs or None in pairs.values() or any(name in region.forms for name in others):
            return None
        (more, *different) = {pair.more for pair in pairs.values() if pair is not None}
        if different:
            return None
        first, second = (self._of_row(op, {v: pair.of(side) for v, pair in pairs.items() if pair is not None}, region) for side in (0, 1))
        return _Pair(first, second, more)

    def _of_row(self, op: Instruction, known: Mapping[Value, Value], region: TileRegion) -> Value:
        """What an instruction makes for one row. The row behind the last one reads an element at an end of its axis."""
        b = region.builder
        if not isinstance(op, Load):
            return b.emit(rebuilt(op, known.__getitem__, lambda form: self._in_row(form, known, region))).results[0]
        mem = region.known(op.mem)
        return b.load(mem, self._index_of_row(op, mem, known, region), None, op.pad)

    def _in_row(self, form: Affine, known: Mapping[Value, Value], region: TileRegion) -> Affine:
        # New names mustn't be taken for names of the field, which may be the same.
        names = {old.name: new.name for old, new in known.items()}
        others = {name: self.symbol(name, region) for name in form.names if name not in names}
        return form.substitute({**others, **names})

    def _index_of_row(
        self, op: Load, mem: Value, known: Mapping[Value, Value], region: TileRegion, along: Mapping[str, Affine] | None = None
    ) -> list[Affine]:
        """Where an access of one row is; of the row behind the last one at an end of its axis. `along`: the place in the row."""
        b, names, index = region.builder, {value.name for value in known}, []
        for form, dim in zip(op.index, mem_of(mem).dims, strict=True):
            if along is not None and (name := next((name for name in along if name in form.names), None)) is not None:
                index.append(self._in_row(form.without(name), known, region) + along[name])
                continue
            place = b.op("min", b.index(self._in_row(form, known, region)), b.index(dim - 1))
            index.append(Affine.of((b.op("max", place, b.const(0, "index")) if _may_fall(form, names) else place).name))
        return index


def _is_digit(value: Value) -> bool:
    """Whether a value is a quotient or a remainder of an index."""
    op = value.source
    return isinstance(op, Binary) and op.operator in ("div", "rem") and dtype_of(value) == "index"


def _may_fall(form: Affine, names: Collection[str]) -> bool:
    """Whether a form may be less where one of these names is more."""
    for symbol, factor in form.terms:
        inner = symbol.numerator if isinstance(symbol, FloorDiv) else Affine.of(symbol)
        if factor < 0 and any(name in names for name in inner.names):
            return True
        if factor > 0 and isinstance(symbol, FloorDiv) and _may_fall(inner, names):
            return True
    return False
