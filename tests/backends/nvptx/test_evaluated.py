"""What the emitted arithmetic comes to, for every offset and every lane: swizzles as hardware has them, shuffles of groups, sums in
memory, vectors where they are aligned."""

import pytest
from evaluated import LANES, SHARED, Warp
from kernels import compiled

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.gpu import Atomic, GridIndex, SharedAlloc, Shuffle, SyncThreads
from compiler.hir.module import Form
from compiler.hir.types import INDEX, Mem, Space

T = Affine.of("t")
BITS = {"128B": 3, "64B": 2, "32B": 1}
"""Bits of a row's number that its swizzle puts over the number of a 16-byte chunk, as bulk copies and warpgroup products do."""


@pytest.mark.parametrize("swizzle", BITS)
@pytest.mark.parametrize(("dtype", "size"), [("u8", 1), ("f16", 2), ("f32", 4)])
def test_an_element_of_a_swizzled_tile_lies_where_the_hardware_looks(swizzle: str, dtype: str, size: int) -> None:
    columns = {"128B": 128, "64B": 64, "32B": 32}[swizzle] // size
    f = FunctionBuilder("f", Form.THREAD)
    x = f.parameter("x", Mem(dtype, (1,)))
    row, column = (f.parameter(name, INDEX) for name in ("r", "c"))
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    tile = f.body.emit(SharedAlloc(type=Mem(dtype, (64, columns), space=Space.SHARED, align=1024, swizzle=swizzle)), "s").result
    f.body.store(tile, f.body.load(x, [0]), [row.name, T + column.name])
    f.body.emit(SyncThreads())
    f.body.store(x, f.body.load(tile, [0, 0]), [0])
    module = compiled(f.finish())
    seen = set()
    for first in range(0, 64 * columns, 32):
        row_number, column_number = divmod(first, columns)
        warp = Warp(module, {0: 0, 1: row_number, 2: column_number, 3: 0}).run()
        for lane in LANES:
            offset = (first + lane) * size
            expected = offset ^ (offset >> 7 & (1 << BITS[swizzle]) - 1) << 4
            assert warp.stored[0][lane] - SHARED == expected, offset
            seen.add(expected)
    assert seen == {number * size for number in range(64 * columns)}


@pytest.mark.parametrize("width", [32, 16, 8, 4, 2, 1])
@pytest.mark.parametrize("mode", ["idx", "up", "down", "xor"])
def test_a_lane_reads_another_of_its_group_or_itself(mode: str, width: int) -> None:
    f = FunctionBuilder("f", Form.THREAD)
    x, out = f.parameter("x", Mem("i32", (64,))), f.parameter("out", Mem("i32", (32,)))
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    value, by = f.body.load(x, ["t"]), f.body.load(x, [T + 32])
    f.body.store(out, f.body.emit(Shuffle(mode=mode, value=value, lane=by, width=width)).result, ["t"])
    module = compiled(f.finish())
    for distance in range(32):
        memory = {4 * lane: 1000 + lane for lane in LANES} | {128 + 4 * lane: distance for lane in LANES}
        warp = Warp(module, {0: 0, 1: 4096, 2: 0}, memory).run()
        for lane in LANES:
            first = lane // width * width
            source = {"idx": first + distance % width, "up": lane - distance, "down": lane + distance, "xor": lane ^ distance}[mode]
            expected = source if first <= source < first + width else lane
            assert warp.memory[4096 + 4 * lane] == 1000 + expected, (distance, lane)


@pytest.mark.parametrize("operation", ["add", "sub"])
@pytest.mark.parametrize("wanted", [False, True])
def test_a_sum_in_memory_adds_or_takes_away(operation: str, wanted: bool) -> None:
    f = FunctionBuilder("f", Form.THREAD)
    x, out = f.parameter("x", Mem("i32", (32,))), f.parameter("out", Mem("i32", (32,)))
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    old = f.body.emit(Atomic(operation=operation, mem=x, index=(0,), value=f.body.load(out, ["t"]))).result
    if wanted:
        f.body.store(out, old, ["t"])
    memory = {0: 5000} | {4096 + 4 * lane: lane + 1 for lane in LANES}
    warp = Warp(compiled(f.finish()), {0: 0, 1: 4096, 2: 0}, memory).run()
    assert warp.memory[0] == 5000 + (528 if operation == "add" else -528)
    if wanted:
        befores = [sum(range(lane + 1)) for lane in LANES]
        assert [warp.memory[4096 + 4 * lane] for lane in LANES] == [5000 + (b if operation == "add" else -b) for b in befores]


def test_a_number_that_memory_gives_back_only_to_be_an_index_is_asked_for() -> None:
    f = FunctionBuilder("f", Form.THREAD)
    counter, out = f.parameter("counter", Mem("index", (1,))), f.parameter("out", Mem("i32", (64,)))
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    at = f.body.emit(Atomic(operation="add", mem=counter, index=(0,), value=f.body.const(1, "index")), "at").result
    f.body.store(out, f.body.const(7, "i32"), [at.name])
    warp = Warp(compiled(f.finish()), {0: 0, 1: 4096, 2: 0}, {0: 3}).run()
    assert warp.memory[0] == 35
    assert warp.stored == [[4096 + 4 * (3 + lane) for lane in LANES]]


@pytest.mark.parametrize("align", [4, 8, 16])
@pytest.mark.parametrize("offset", [0, 1, 2, 4])
def test_vectors_are_as_wide_as_their_addresses_are_aligned(align: int, offset: int) -> None:
    f = FunctionBuilder("f", Form.THREAD, {"simd": 4})
    x = f.parameter("x", Mem("f32", (256,), readonly=True, align=align))
    out = f.parameter("out", Mem("f32", (256,), align=align))
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    place = T * 4 + offset + "simd"
    f.body.store(out, f.body.load(x, [place]), [place])
    module = compiled(f.finish())
    memory = {align + 4 * number: number for number in range(256)}
    warp = Warp(module, {0: align, 1: 4096 + align, 2: 0}, memory).run()
    for number in range(offset, offset + 128):
        assert warp.memory[4096 + align + 4 * number] == number
    assert (".v4." in module.text) == (align == 16 and offset % 4 == 0)


@pytest.mark.parametrize(("at", "inside"), [(0, True), (7, True), (8, False), (-1, False)])
def test_a_padded_load_reads_inside_its_tensor_only(at: int, inside: bool) -> None:
    f = FunctionBuilder("f", Form.THREAD)
    x, out = f.parameter("x", Mem("i32", (8,))), f.parameter("out", Mem("i32", (1,)))
    f.body.store(out, f.body.load(x, [at], pad=5), [0])
    memory = {64 + 4 * number: 100 + number for number in range(-1, 9)}
    warp = Warp(compiled(f.finish()), {0: 64, 1: 4096, 2: 0}, memory).run()
    assert warp.memory[4096] == (100 + at if inside else 5)
