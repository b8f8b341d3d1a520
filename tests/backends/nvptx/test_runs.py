"""Vectors of narrow elements that begin at any address: which bytes a thread gets, evaluated for every offset, and that it touches no aligned
run without a byte of its own, which may lie in a page that isn't there."""

import pytest
from evaluated import Thread
from kernels import compiled

from compiler.backends.nvptx.compile import PtxModule
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form
from compiler.hir.types import INDEX, Mem

SIZES = {"u8": 1, "i8": 1, "i16": 2, "f16": 2, "bf16": 2}
BASE, RESULT = 1 << 12, 1 << 16


def copied(dtype: str, lanes: int, masked: bool) -> PtxModule:
    """`out[l] = x[first + l]`, where the index is below `end`."""
    f = FunctionBuilder("f", Form.THREAD)
    x = f.parameter("x", Mem(dtype, ("N",), readonly=True))
    out = f.parameter("out", Mem(dtype, (lanes,), align=16))
    for name in ("N", "first", "end"):
        f.parameter(name, INDEX)
    lane = Affine.of(f.axis("simd", lanes))
    at = Affine.of("first") + lane
    f.body.store(out, f.body.load(x, [at], f.body.inbounds(at, Affine.of("end")) if masked else None), [lane])
    return compiled(f.finish())


def bytes_of_copy(module: PtxModule, size: int, lanes: int, offset: int, first: int, extent: int) -> list[int]:
    """The memory has `extent` elements from `offset` on; nothing but the aligned runs of them can be read."""
    begin = BASE + offset
    memory = {begin + byte: byte % 251 + 1 for byte in range(extent * size)}
    run = size * lanes
    known = range(begin // run * run, -(-(begin + extent * size) // run) * run)
    thread = Thread(
        module, {0: begin, 1: RESULT, 2: extent, 3: first & (1 << 64) - 1, 4: extent}, memory, [known, range(RESULT, RESULT + 16)]
    )
    return [thread.run().memory[RESULT + byte] for byte in range(run)]


@pytest.mark.parametrize(("dtype", "lanes"), [("u8", 16), ("i8", 8), ("u8", 4), ("i16", 8), ("f16", 8), ("bf16", 4)])
def test_a_run_may_begin_anywhere(dtype: str, lanes: int) -> None:
    size, module = SIZES[dtype], copied(dtype, lanes, masked=False)
    for offset in range(0, 16, size):
        for first in (0, 5):
            found = bytes_of_copy(module, size, lanes, offset, first, first + lanes)
            assert found == [byte % 251 + 1 for byte in range(first * size, (first + lanes) * size)], (offset, first)


@pytest.mark.parametrize(("dtype", "lanes"), [("u8", 16), ("i8", 4), ("i16", 8)])
def test_lanes_outside_are_zero_and_read_nothing(dtype: str, lanes: int) -> None:
    size, module = SIZES[dtype], copied(dtype, lanes, masked=True)
    for offset in range(0, 16, size * (3 - size)):
        for extent in (1, lanes + 3):
            for first in (-lanes, 1 - lanes, -1, 0, 4, extent - 1, extent, -(1 << 62), 1 << 62):
                inside = [number in range(extent) for number in range(first, first + lanes)]
                wanted = [(first * size + byte) % 251 + 1 if inside[byte // size] else 0 for byte in range(lanes * size)]
                assert bytes_of_copy(module, size, lanes, offset, first, extent) == wanted, (offset, extent, first)


def test_aligned_lanes_outside_are_zero_and_read_nothing() -> None:
    f = FunctionBuilder("f", Form.THREAD)
    x, out = f.parameter("x", Mem("i32", ("N",), readonly=True, align=16)), f.parameter("out", Mem("i32", (4,), align=16))
    for name in ("N", "first", "end"):
        f.parameter(name, INDEX)
    at = Affine.of("first") * 4 + Affine.of(f.axis("simd", 4))
    f.body.store(out, f.body.load(x, [at], f.body.inbounds(at, Affine.of("end"))), [Affine.of("simd")])
    module = compiled(f.finish())
    assert "ld.global.nc.v4.b32" in module.text and "ld.global.nc.b32" not in module.text
    for extent in (1, 3, 4, 6, 8):
        known = {BASE + byte: byte + 1 for byte in range(4 * extent)}
        for first in (-1, 0, 1, 2):
            pages = [range(BASE, BASE + -(-extent // 4) * 16), range(RESULT, RESULT + 16)]
            thread = Thread(module, {0: BASE, 1: RESULT, 2: extent, 3: first & (1 << 64) - 1, 4: extent}, dict(known), pages)
            found = [thread.run().memory[RESULT + byte] for byte in range(16)]
            assert found == [known.get(BASE + 16 * first + byte, 0) for byte in range(16)], (extent, first)
