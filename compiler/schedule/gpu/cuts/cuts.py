"""Where a field may be cut: at its reductions. What a group of them comes to, those along the same axes, is kept in a workspace that the
parts behind read, as an operand, for each element of a row, or to reduce it again. Each part is a field of its own, scheduled as any
other; a sum of products is a part by itself, so that matrix units take it.

There are few cuts of a field, and they compete by price (`choose.py`):

* all groups but the one with the most results, which is computed where results are stored: `silu(A W) * (A V)`, `(A P) Q`, attention with
  values that are wide, means of what rows come to;
* of these groups those before the first product, whose sums may be taken together then: a norm before several products;
* all groups, in the order in which they wait for each other, and then each set of results along the same axes: rows or columns that are
  few and long, which many blocks share then; what running values are compared with or divided by is put before them so."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from compiler.analysis.recognise import ProductSum, product_sum
from compiler.hir.core import Contract, Reduce, Scan, dtype_of, union_axes
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Alloc, Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.cuts.cutting import Cutting
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.products.halves import in_halves
from compiler.schedule.gpu.products.product_sums import with_products_apart
from compiler.schedule.gpu.tiles.one_pass import in_one_pass

MOST_KEPT = 1 << 35
"""Bytes of workspaces between parts; larger ones would leave too little memory for the program's own."""

Reduction = Reduce | Contract


def cuts(field: HirFunction, facts: Facts) -> Iterator[tuple[HirFunction, ...]]:
    """The parts of a field, in the order of their launches, with the workspaces of all behind their parameters: for each cut of it."""
    if any(isinstance(op, Alloc) for op in field.body.body):
        return
    if any(isinstance(op, Scan) for op in field.body.body):
        yield from _Cutter(field, facts).by_levels()
        return
    products = with_products_apart(field)
    if (halves := in_halves(products, facts)) is not None:
        yield from _Cutter(halves.field, facts, halves.kept).apart()
    seen: set[tuple[frozenset[Instruction], ...]] = set()
    yield from _Cutter(products, facts, seen=seen).apart()
    yield from _Cutter(field, facts, seen=seen).before_products()
    joined = in_one_pass(field) or field
    yield from _Cutter(joined, facts, seen=seen).by_levels()
    if not any(isinstance(op, Reduce) and op.monoid == "moments" for op in joined.body.body):
        yield from _Cutter(field, facts, seen=seen).by_levels()


def products_of(field: HirFunction) -> dict[Reduction | Scan, ProductSum]:
    """The sums of products that have rows and columns."""
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    return {op: product for op in sums if (product := product_sum(op)) is not None and product.m and product.n}


class _Cutter:
    """Cuts of a field at groups of its reductions. `kept`: what workspaces have instead of a sum; `seen`: what parts of others compute."""

    def __init__(
        self,
        field: HirFunction,
        facts: Facts,
        kept: Mapping[Value, Sequence[Value]] | None = None,
        seen: set[tuple[frozenset[Instruction], ...]] | None = None,
    ) -> None:
        self.field, self.facts, self.kept = field, facts, kept or {}
        self.seen = set[tuple[frozenset[Instruction], ...]]() if seen is None else seen
        self.products = products_of(field)
        self.scope = field.scope()
        loaded, stored = ({op.mem for op in field.body.body if isinstance(op, kind)} for kind in (Load, Store))
        self.changed = loaded & stored
        """Memories whose elements are read before they are stored: no part reads them behind one that stores."""
        self.named = {result.name: result for op in field.body.body for result in op.results}
        self.reductions = [op for op in field.body.body if isinstance(op, Reduction)]
        self.waits = {op: {*needed(field, op.operand_values)}.intersection(self.reductions) for op in self.reductions}

    def apart(self) -> Iterator[tuple[HirFunction, ...]]:
        groups = self.groups()
        ends = [group for group in groups[::-1] if not self.is_read(group)]
        last = max(ends, key=lambda group: _elements(group[0].results[0], self.facts), default=[])
        yield from self.cut([group for group in groups if group is not last])

    def before_products(self) -> Iterator[tuple[HirFunction, ...]]:
        products = self.products.keys()
        first = [group for group in self.groups() if all(products.isdisjoint({op, *self.waits[op]}) for op in group)]
        yield from self.cut(first if products else [])

    def by_levels(self) -> Iterator[tuple[HirFunction, ...]]:
        yield from self.cut(self.groups(by_level=True), by_axes=True)

    def groups(self, by_level: bool = False) -> list[list[Reduction]]:
        """Reductions in the order in which parts compute them: those whose results have the same axes are one part, unless one waits for a
        part between, or, `by_level`, for one of these."""
        groups: list[list[Reduction]] = []
        for op in self.reductions:
            first = max((number + by_level for number, group in enumerate(groups) if self.waits[op].intersection(group)), default=0)
            alike = [] if op in self.products else groups[first:]
            known = next((group for group in alike if group[0] not in self.products and _axes(group[0]) == _axes(op)), None)
            if known is None:
                groups.append(known := [])
            known.append(op)
        return groups

    def is_read(self, group: Sequence[Reduction]) -> bool:
        """Whether reductions of other groups wait for it."""
        return any(not self.waits[op].isdisjoint(group) for op in self.reductions if op not in group)

    def cut(self, groups: Sequence[Sequence[Reduction]], by_axes: bool = False) -> Iterator[tuple[HirFunction, ...]]:
        """The field cut behind these groups; none where nothing is left, or memory has no room. `by_axes`: what is stored then is a part
        for each set of axes."""
        own = [self.made_of(group) for group in groups]
        known = {value: number for number, values in enumerate(own) for value in values}
        targets: list[list[Instruction]] = [[] for _ in groups]
        stored: dict[frozenset[str], list[Instruction]] = {}
        for op in self.field.body.body:
            if isinstance(op, Store):
                number = self.group_of(op, groups, known)
                axes = self.stored_along(op) if by_axes and not self.changed else frozenset()
                (stored.setdefault(axes, []) if number is None else targets[number]).append(op)
        read = {value for ops in stored.values() for value in self.read_by(ops, known)}
        for number in reversed(range(len(groups))):
            made = [value for value in own[number] if value in read]
            targets[number] += dict.fromkeys(value.source for value in made if value.source is not None)
            read |= {*self.read_by(targets[number], {value: other for value, other in known.items() if other != number})}
        cutting = Cutting(self.field, [result for ops in targets for op in ops for result in op.results])
        parts = [(f"sum{number}", ops) for number, ops in enumerate(targets) if ops]
        parts += [(f"stored{number or ''}", ops) for number, ops in enumerate(stored.values())]
        kept = sum(_elements(value, self.facts) * bytes_of(dtype_of(value)) for value in cutting.kept)
        key = tuple(frozenset(ops) for _, ops in parts)
        if len(parts) > 1 and key not in self.seen and not (self.facts.magnitudes and kept > MOST_KEPT):
            self.seen.add(key)
            yield tuple(cutting.part(name, ops) for name, ops in parts)

    def read_by(self, targets: Sequence[Instruction], known: Mapping[Value, int]) -> list[Value]:
        """Which of the values that are known instructions need."""
        reads = [value for op in targets for value in self.reads(op)]
        every = [value for op in needed(self.field, reads, known) for value in self.reads(op)]
        return [value for value in (*reads, *every) if value in known]

    def group_of(self, op: Store, groups: Sequence[Sequence[Reduction]], known: Mapping[Value, int]) -> int | None:
        """The last of the groups that a store waits for, where it varies along its axes alone."""
        numbers = [known[value] for value in self.read_by([op], known)]
        if not numbers or op.mem in self.changed:
            return None
        axes = _axes(groups[max(numbers)][0])
        ops = needed(self.field, self.reads(op), known)
        along = self.stored_along(op) == axes and all(axes.issuperset(_axes(other)) for other in ops)
        return max(numbers) if along and not any(isinstance(other, Reduction) for other in ops) else None

    def made_of(self, group: Sequence[Reduction]) -> list[Value]:
        """What reductions come to, as others may read it: what is computed of them alone, a number a row, goes with them."""
        own = {value: None for op in group for result in op.results for value in self.kept.get(result, [result])}
        if group[0] in self.products:
            return [*own]
        axes = {*union_axes(*own)}
        for op in self.field.body.body:
            if op.effects is not Effect.PURE or isinstance(op, Reduction) or op.symbols or own.keys().isdisjoint(op.operand_values):
                continue
            if not union_axes(*(value for value in op.operand_values if value not in own)):
                own |= {value: None for value in op.results if {*union_axes(value)} == axes}
        return [*own]

    def reads(self, op: Instruction) -> list[Value]:
        """Operands, and the values behind names in affine attributes."""
        return [*op.operand_values, *(self.named[name] for name in op.symbols if name in self.named)]

    def stored_along(self, op: Store) -> frozenset[str]:
        return frozenset(axis for axis, _ in self.scope.axes_of(*op.index))


def _axes(op: Instruction) -> frozenset[str]:
    """The axes that what it computes varies along."""
    return frozenset(axis for axis, _ in union_axes(*op.results))


def _elements(value: Value, facts: Facts) -> int:
    return prod(facts.about(extent) for _, extent in union_axes(value))
