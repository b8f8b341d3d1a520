"""Loops over tiles and loops inside of tiles are digits of one axis: where two axes of a field occur only as T*a + b, with b of extent T,
they are one axis. Where the last tile hangs over an edge, and nothing behind the edge counts, the axis ends at the edge, and the
conditions that say so are gone."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from compiler.analysis.accesses import constraints_of
from compiler.analysis.field_values import FieldValues
from compiler.analysis.written_order import in_written_order
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.clone import rebuilt
from compiler.hir.core import Binary, Compare, Const, Contract, InBounds, Reduce, Scan, Select, dtype_of, union_axes
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from runtime.records import define, field, fields_of, frozen


def digits_joined(function: HirFunction) -> HirFunction:
    """The field with such axes as one; itself where it has none."""
    while (pair := next(_pairs(function), None)) is not None:
        function = _Joining(function, pair).run()
    return function


@frozen
class _Digits:
    """The axes `tile` and `within` as one axis with this extent."""

    tile: str
    within: str
    extent: Affine


def _pairs(function: HirFunction) -> Iterator[_Digits]:
    axes = function.axes
    for within, extent in axes.items():
        size = extent.value
        if size is None or size < 2:
            continue
        for tile in axes:
            if tile != within and _together(function, tile, within, size):
                edge = _edge(function, tile, within, axes[tile], size)
                if edge is not None and all(_ends(op, tile, within, edge, size) for op in function.body.body):
                    yield _Digits(tile, within, edge)
                else:
                    yield _Digits(tile, within, axes[tile] * size)


def _together(function: HirFunction, tile: str, within: str, size: int) -> bool:
    """Whether the two occur, and only as one number."""
    both, seen = {tile, within}, False
    ordered = in_written_order(function)
    for op in function.body.body:
        for form in _forms(op):
            named = both.intersection(form.names)
            if not named:
                continue
            step = form.coefficient(within)
            if step == 0 or form.coefficient(tile) != size * step or not both.isdisjoint(form.without(tile, within).names):
                return False
            seen = True
        over = both.intersection(getattr(op, "over", ()))
        if over and (over != both or isinstance(op, Scan)):
            return False
        if over and op in ordered and (tile, within) not in pairwise(op.over):
            return False
        if any(len(both.intersection(name for name, _ in union_axes(value))) == 1 for value in op.results if isinstance(value.type, Tile)):
            return False
    return seen


def _forms(op: Instruction) -> Iterator[Affine]:
    for attribute in fields_of(type(op)):
        value = getattr(op, attribute.name)
        for form in value if isinstance(value, tuple) else (value,):
            if isinstance(form, Affine):
                yield form


def _edge(function: HirFunction, tile: str, within: str, extent: Affine, size: int) -> Affine | None:
    """What so many tiles cover, where that is no whole number of them."""
    if extent.value is not None:
        return next((edge for edge in _guarded(function, tile, within, size) if (edge + size - 1).floordiv(size) == extent), None)
    if len(extent.terms) != 1 or extent.constant:
        return None
    symbol, factor = extent.terms[0]
    return symbol.numerator - (size - 1) if isinstance(symbol, FloorDiv) and factor == 1 and symbol.divisor == size else None


def _guarded(function: HirFunction, tile: str, within: str, size: int) -> Iterator[Affine]:
    """The numbers below which conditions keep size * tile + within. The count of the tiles alone doesn't say where the last one ends."""
    number = Affine.of(tile) * size + within
    for op in function.body.body:
        condition = op.condition if isinstance(op, Select) else op.where if isinstance(op, Store | Load) else None
        for form in () if condition is None else constraints_of(condition) or ():
            edge = form + number + 1
            if edge.value is not None and edge.value % size:
                yield edge


def _ends(op: Instruction, tile: str, within: str, edge: Affine, size: int) -> bool:
    """Whether the operation leaves out what lies behind the edge, or isn't about it."""
    inside = edge - 1 - Affine.of(tile) * size - within
    match op:
        case Store(where=where, index=index):
            return not any(tile in form.names for form in index) or (where is not None and inside in (constraints_of(where) or ()))
        case Reduce(values=values, over=over) if tile in over:
            return len(values) == 1 and _guards(values[0], inside, identity_of(op.monoid, [dtype_of(values[0])])[0])
        case Contract(over=over):
            return tile not in over
        case _:
            return True


def _guards(value: Value, inside: Affine, identity: float | int) -> bool:
    while isinstance(value.source, Select):
        otherwise = value.source.otherwise.source
        if not isinstance(otherwise, Const) or otherwise.value != identity:
            return False
        if inside in (constraints_of(value.source.condition) or ()):
            return True
        value = value.source.then
    return False


@define(eq=False)
class _Joining:
    source: HirFunction
    digits: _Digits
    made: FieldValues = field(init=False)
    values: dict[Value, Value] = field(factory=dict)
    names: dict[str, Affine] = field(factory=dict)

    def run(self) -> HirFunction:
        source, digits = self.source, self.digits
        sizes = frozenset(name for extent in source.axes.values() for name in extent.names)
        self.made = FieldValues.begin(source.name, sizes)
        for parameter in source.parameters:
            self.values[parameter] = self.made.owner.parameter(parameter.name, parameter.type)
        for axis, extent in source.axes.items():
            if axis != digits.tile:
                self.made.owner.axis(axis, digits.extent if axis == digits.within else extent)
        for op in source.body.body:
            self.made.at(op.span)
            self.instruction(op)
        return self.made.owner.finish()

    def form(self, form: Affine) -> Affine:
        return form.substitute({self.digits.tile: Affine(), **self.names})

    def instruction(self, op: Instruction) -> None:
        changes: dict[str, Any] = {}
        if isinstance(op, Store | Load) and op.where is not None and _holds(self.values[op.where]):
            changes["where"] = None
        if isinstance(op, Const) and isinstance(op.type, Tile):
            changes["type"] = Tile(op.type.dtype, self.axes(op.type))
        if isinstance(op, Reduce | Contract | Scan):
            changes["over"] = tuple(axis for axis in op.over if axis != self.digits.tile)
        new = rebuilt(op, self.values.__getitem__, self.form, **changes)
        if isinstance(new, Store):
            self.made.owner.body.emit(new)
            return
        results = self.simple(new) or self.made.emit(new, op.results[0].name)
        for old, value in zip(op.results, results, strict=True):
            self.values[old] = value
            if old.name != value.name:
                self.names[old.name] = Affine.of(value.name)

    def axes(self, type: Tile) -> tuple[tuple[str, Affine], ...]:
        return tuple((axis, self.made.axes[axis]) for axis, _ in type.axes if axis != self.digits.tile)

    def simple(self, op: Instruction) -> list[Value] | None:
        """What stands for it where conditions hold everywhere."""
        match op:
            case Select(condition=condition, then=then) if _holds(condition):
                return [then]
            case Binary(operator="and", left=left, right=right) if _holds(left) or _holds(right):
                return [right if _holds(left) else left]
            case Compare() | InBounds():
                (value,) = self.made.emit(op)
                known = constraints_of(value) if self.digits.within in dict(union_axes(value)) else None
                if known is not None and all(self.made.facts().proves(form) for form in known):
                    return [self.made.const(True, Tile("i1"))]
                return [value]
            case _:
                return None


def _holds(condition: Value) -> bool:
    return isinstance(condition.source, Const) and bool(condition.source.value)
