"""Running values (scans) in tiles. Inside a tile a scan is a few shuffles; from tile to tile the total so far is carried."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Reduce, Scan, Take, dtype_of, union_axes
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, is_float
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import SIMD
from compiler.schedule.tile_values import TileValues


def scans_of(field: HirFunction) -> list[Scan]:
    return [op for op in field.body.body if isinstance(op, Scan)]


def refusal(field: HirFunction) -> str:
    """Why the field's scans can't be placed; empty when they can."""
    scans = scans_of(field)
    if not scans:
        return ""
    if any(scan.reverse for scan in scans):
        return "a running value goes backwards"
    if len({scan.over for scan in scans}) > 1:
        return "running values go along two axes"
    if any(isinstance(op, Reduce) or op.name == "contract" for op in field.body.body):
        return "a running value stands beside a reduction"
    axes = [_axes(scan) for scan in scans]
    if any(used != axes[0] for used in axes):
        return "running values vary along different axes"
    stores = [op for op in field.body.body if isinstance(op, Store)]
    if any(not axes[0] <= {name for name, _ in field.scope().axes_of(*store.index)} for store in stores):
        return "a result doesn't vary as the running value does"
    return ""


def _axes(scan: Scan) -> set[str]:
    return {name for name, _ in union_axes(scan.value)}


def start(placing: TileValues, scans: Sequence[Scan], region: TileRegion) -> list[Value]:
    """What the running values are before anything."""
    values = []
    for scan in scans:
        (number,) = identity_of(scan.monoid, [dtype_of(scan.value)])
        values.append(region.builder.const(number, Tile(dtype_of(scan.value), _carried_axes(placing, scan, region))))
    return values


def _carried_axes(placing: TileValues, scan: Scan, region: TileRegion) -> tuple[tuple[str, int], ...]:
    others = sorted(placing.axes([scan.value]) - set(scan.over), key=placing.table.order)
    return placing.tile_axes(others, region)


def step(placing: TileValues, scan: Scan, before: Value, region: TileRegion) -> Value:
    """The scan's tile in the body of its loop, noted there, and the running value behind it."""
    b = region.builder
    (axis,) = scan.over
    flags = scan.flags if is_float(dtype_of(scan.value)) else ()
    (number,) = identity_of(scan.monoid, [dtype_of(scan.value)])
    value = placing.masked(placing.value(scan.value, region), number, [axis], region)
    digits = {name: extent for name, extent, _ in placing.plan(axis, region).digits()}
    if not digits:
        after = b.op(scan.monoid, before, value, flags=flags)
        region.made[scan.result] = before if scan.exclusive else after
        return after
    result, total = value, value
    spread = SIMD in digits and not scan.exclusive
    if SIMD in digits:
        result = _scanned(b, scan, value, SIMD, scan.exclusive)
        total = _last(b, result, SIMD, digits[SIMD]) if spread else b.reduce(scan.monoid, value, over=[SIMD], flags=flags)[0]
    if spread:
        # in all lanes, as what is added to it is
        total = b.select(b.const(True, Tile("i1", ((SIMD, digits[SIMD]),))), total, total)
    for row, count in ((name, count) for name, count in digits.items() if name != SIMD):
        lead = b.op(scan.monoid, before, _scanned(b, scan, total, row, exclusive=True), flags=flags)
        before, total = _last(b, lead, row, count), _last(b, total, row, count)
        result = lead if scan.exclusive and SIMD not in digits else b.op(scan.monoid, lead, result, flags=flags)
    if len(digits) == 1 and SIMD in digits:
        result = b.op(scan.monoid, before, result, flags=flags)
    region.made[scan.result] = result
    after = b.op(scan.monoid, before, total, flags=flags)
    return _last(b, after, SIMD, 1) if spread else after


def _last(b: Builder, value: Value, axis: str, count: int) -> Value:
    return b.emit(Take(value=value, axis=axis, at=Affine.of(count - 1))).result


def _scanned(b: Builder, scan: Scan, value: Value, axis: str, exclusive: bool) -> Value:
    return b.emit(Scan(monoid=scan.monoid, value=value, over=(axis,), exclusive=exclusive, flags=scan.flags)).result


def reads_scan(placing: TileValues, target: Target, scans: Sequence[Scan]) -> bool:
    """Whether the target is computed from one of the scans."""
    waiting: list[Value] = placing.reads(target)
    seen: set[Value] = set()
    while waiting:
        value = waiting.pop()
        op: Instruction | None = value.source
        if value in seen or op is None:
            continue
        seen.add(value)
        if op in scans:
            return True
        waiting += placing.reads(op)
    return False
