"""Running values (scans) in tiles. Inside a tile a scan is a few shuffles; from tile to tile the total so far is carried. A scan that
is alone with its axis goes in chunks: their totals first, which threads make, then the running total of these, then the chunks
themselves, on threads again. Chunks depend on sizes alone, so any number of threads gives the same bits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Reduce, Scan, dtype_of, union_axes
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, is_float
from compiler.schedule.table import SIMD, AxisPlan

if TYPE_CHECKING:
    from compiler.schedule.place import Placing, Region, Target

CHUNKS = 64
"""What threads share. Twice the threads meet: a long scan is read twice, but no thread waits for another in between."""

LEAST_TILES = 16
"""Tiles of a chunk: fewer aren't worth a chunk of their own."""


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
    if any(found != axes[0] for found in axes):
        return "running values vary along different axes"
    stores = [op for op in field.body.body if isinstance(op, Store)]
    if any(not axes[0] <= {name for name, _ in field.scope().axes_of(*store.index)} for store in stores):
        return "a result doesn't vary as the running value does"
    return ""


def _axes(scan: Scan) -> set[str]:
    return {name for name, _ in union_axes(scan.value)}


def start(placing: "Placing", scans: Sequence[Scan], region: "Region") -> list[Value]:
    """What the running values are before anything."""
    values = []
    for scan in scans:
        (number,) = identity_of(scan.monoid, [dtype_of(scan.value)])
        values.append(region.builder.const(number, Tile(dtype_of(scan.value), _carried_axes(placing, scan, region))))
    return values


def _carried_axes(placing: "Placing", scan: Scan, region: "Region") -> tuple[tuple[str, int], ...]:
    others = sorted(placing.axes([scan.value]) - set(scan.over), key=placing.table.order)
    return placing.tile_axes(others, region)


def step(placing: "Placing", scan: Scan, before: Value, region: "Region") -> Value:
    """The scan's tile in the body of its loop, noted there, and the running value behind it."""
    b = region.builder
    (axis,) = scan.over
    flags = scan.flags if is_float(dtype_of(scan.value)) else ()
    (number,) = identity_of(scan.monoid, [dtype_of(scan.value)])
    value = placing.masked(placing.value(scan.value, region), number, [axis], region)
    digits = [name for name, _, _ in placing.plan(axis, region).digits()]
    vector = SIMD in digits
    rows = [name for name in digits if name != SIMD]
    if not digits:
        after = b.op(scan.monoid, before, value, flags=flags)
        region.made[scan.result] = before if scan.exclusive else after
        return after
    result, total = value, value
    if vector:
        result = _scanned(b, scan, value, SIMD, scan.exclusive)
        total = b.reduce(scan.monoid, value, over=[SIMD], flags=flags)[0]
    if rows:
        (row,) = rows
        lead = b.op(scan.monoid, before, _scanned(b, scan, total, row, exclusive=True), flags=flags)
        if vector or not scan.exclusive:
            result = b.op(scan.monoid, lead, result, flags=flags)
        else:
            result = lead
        total = b.reduce(scan.monoid, total, over=[row], flags=flags)[0]
    else:
        result = b.op(scan.monoid, before, result, flags=flags)
    region.made[scan.result] = result
    return b.op(scan.monoid, before, total, flags=flags)


def _scanned(b: Builder, scan: Scan, value: Value, axis: str, exclusive: bool) -> Value:
    return b.emit(Scan(monoid=scan.monoid, value=value, over=(axis,), exclusive=exclusive, flags=scan.flags)).result


def in_chunks(
    placing: "Placing", plan: AxisPlan, whole: Affine, group: Sequence["Target"], scans: Sequence[Scan], region: "Region"
) -> list[Value]:
    """All whole tiles of the axis, in chunks on threads. Gives the running values behind them."""
    b = region.builder
    tiles = b.index(whole, "tiles")
    share = b.op("max", b.index(whole.ceildiv(CHUNKS)), b.index(LEAST_TILES), name="share")
    buffers = [b.alloc(Mem(dtype_of(scan.value), (CHUNKS,), align=64), "totals") for scan in scans]

    def bounds(body: Builder, chunk: Value) -> tuple[Affine, Affine]:
        first = body.op("min", body.mul(chunk, share), tiles, name="first")
        last = body.op("min", body.add(first, share), tiles, name="last")
        return Affine.of(first.name), Affine.of(last.name)

    with b.loop("chunk", 0, CHUNKS, place="thread") as (body, chunks):
        inner = region.inside(body, ())
        low, high = bounds(body, chunks.variable)
        sums: list[Target] = [Reduce(monoid=scan.monoid, values=(scan.value,), over=scan.over, flags=scan.flags) for scan in scans]
        found: dict[Target, list[Value]] = {one: placing.identity(one, inner) for one in sums if isinstance(one, Reduce)}
        placing.one_loop(plan, low, high, False, sums, sums, inner, found)
        for one, buffer in zip(sums, buffers, strict=True):
            assert isinstance(one, Reduce)
            (total,) = placing.combine_digits(one, found[one], inner)
            body.store(buffer, total, [chunks.variable.name])
    with b.loop("chunk", 0, CHUNKS, carried=start(placing, scans, region)) as (body, chunks):
        after = []
        for scan, buffer, before in zip(scans, buffers, chunks.carried, strict=True):
            total = body.load(buffer, [chunks.variable.name])
            body.store(buffer, before, [chunks.variable.name])
            after.append(body.op(scan.monoid, before, total, flags=scan.flags if is_float(dtype_of(before)) else ()))
        body.yield_(*after)
    running = chunks.results
    with b.loop("chunk", 0, CHUNKS, place="thread") as (body, chunks):
        inner = region.inside(body, ())
        low, high = bounds(body, chunks.variable)
        lead = [body.load(buffer, [chunks.variable.name]) for buffer in buffers]
        placing.one_loop(plan, low, high, False, group, [], inner, {}, scans, lead)
    return running


def reads_scan(placing: "Placing", target: "Target", scans: Sequence[Scan]) -> bool:
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
