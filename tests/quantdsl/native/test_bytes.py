"""Ints read at any alignment and byte order, bytes compared many at a time: native and interpreted, against Python's own bytes."""

import numpy as np
import pytest

from compiler.hir.host import BYTE_ORDERS, MATCHED, MatchBytes, ReadBytes
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import I64, U8, U64
from compiler.hir.parse import parse_function
from compiler.hir.types import DTYPES, Array, Pointer, Tile
from compiler.hir.verify import faults
from tests.quantdsl.native.both import Both

INTS = [dtype for dtype in DTYPES if dtype[0] in "iu" and dtype[1:].isdigit() and dtype != "i1" and DTYPES[dtype] <= 64]
BYTES = Pointer(Array(U8, None))
MEMORY = np.random.default_rng(5).integers(0, 256, 200, np.uint8)


def module() -> HirModule:
    program = ModuleBuilder("bytes")
    span = {"memory": BYTES, "at": I64, "count": I64}
    for dtype in INTS:
        for order in BYTE_ORDERS:
            with program.function(f"{dtype}_{order}", span, [Tile(dtype)]) as b:
                site = b.site("0801", "bytes from {0} on, of {1}")
                memory, at, count = b.parameters
                b.ret(b.emit(ReadBytes(pointer=memory.hir, at=at.hir, count=count.hir, to=dtype, order=order, site=site)))
        with program.function(f"zeros_{dtype}", {"x": Tile(dtype)}, [Tile(dtype)]) as b:
            b.ret(b.op("trailing_zeros", b.parameters[0]))
    with program.function("match", {**span, "a": U8, "b": U8}, [U64]) as b:
        memory, at, count, *values = (parameter.hir for parameter in b.parameters)
        site = b.site("0801", "bytes from {0} on, of {1}")
        b.ret(b.emit(MatchBytes(pointer=memory, at=at, count=count, values=tuple(values), site=site)))
    return program.module


@pytest.fixture(scope="module")
def both() -> Both:
    return Both(module(), (OptimizationLevel.O0, OptimizationLevel.OLATENCY))


@pytest.mark.parametrize("order", BYTE_ORDERS)
@pytest.mark.parametrize("dtype", INTS)
def test_ints_of_bytes_are_those_of_python(both: Both, dtype: str, order: str) -> None:
    size = DTYPES[dtype] // 8
    for at in (*range(17), MEMORY.size - size):
        wanted = int.from_bytes(MEMORY[at : at + size].tobytes(), order, signed=dtype[0] == "i")
        assert both(f"{dtype}_{order}", MEMORY, at, MEMORY.size) == (wanted,)


@pytest.mark.parametrize("dtype", INTS)
def test_bytes_that_are_not_all_inside_stop(both: Both, dtype: str) -> None:
    name, size = f"{dtype}_little", DTYPES[dtype] // 8
    for at, count in ((-1, 8), (9 - size, 8), (8, 8), (2**63 - 1, 8), (-(2**63), 8), (0, size - 1), (0, 0), (0, -1), (0, -(2**63))):
        assert both(name, MEMORY, at, count) == ("0801", name, 0, (at, count))
    assert both(name, MEMORY, 8 - size, 8) == (int.from_bytes(MEMORY[8 - size : 8].tobytes(), "little", signed=dtype[0] == "i"),)


def test_matches_are_the_equal_bytes_of_64(both: Both) -> None:
    for at in (0, 1, 63, MEMORY.size - MATCHED):
        for a, b in ((MEMORY[at], MEMORY[at + 63]), (MEMORY[5], MEMORY[5]), (10, 255)):
            part = MEMORY[at : at + MATCHED]
            wanted = int.from_bytes(np.packbits((part == a) | (part == b), bitorder="little").tobytes(), "little")
            assert both("match", MEMORY, at, MEMORY.size, int(a), int(b)) == (wanted,)
    for at, count in ((-1, 200), (137, 200), (0, 63), (0, -1)):
        assert both("match", MEMORY, at, count, 0, 1) == ("0801", "match", 0, (at, count))


@pytest.mark.parametrize("dtype", INTS)
def test_trailing_zeros_count_up_to_the_lowest_bit(both: Both, dtype: str) -> None:
    width = DTYPES[dtype]
    for bit in range(width):
        lowest, all_above = 1 << bit, (1 << width) - (1 << bit)
        for number in (lowest, all_above):
            signed = number - (1 << width) if dtype[0] == "i" and number >> (width - 1) else number
            assert both(f"zeros_{dtype}", signed) == (bit,)
    assert both(f"zeros_{dtype}", 0) == (width,)


HEAD = "func @f(%p: ptr<array<open x u8>>, %o: ptr<array<open x i64>>, %n: i64, %x: i32, %c: u8, %d: f64) form=A"


@pytest.mark.parametrize(
    "line,words",
    [
        ("%r = read_bytes %o, %n, %n to=u32 site=0 : u32", "`read_bytes`: bytes of array<open x i64>"),
        ("%r = read_bytes %p, %x, %n to=u32 site=0 : u32", "`read_bytes`: an index of type i32"),
        ("%r = read_bytes %p, %n, %x to=u32 site=0 : u32", "`read_bytes`: a count of type i32"),
        ("%r = read_bytes %p, %n, %n to=f32 site=0 : f32", "`read_bytes`: f32 is no int type"),
        ("%r = read_bytes %p, %n, %n to=u32 order=middle site=0 : u32", "`read_bytes`: no order middle"),
        ("%r = match_bytes %p, %n, %n site=0 : u64", "`match_bytes`: no values to compare with"),
        ("%r = match_bytes %p, %n, %n, %c, %x site=0 : u64", "`match_bytes`: a i32 compared with bytes"),
        ("%r = trailing_zeros %d : f64", "`trailing_zeros`: bits of a float"),
    ],
)
def test_mistakes_are_named(line: str, words: str) -> None:
    assert words in faults(parse_function(f'{HEAD} {{ site 0801 "s" {line} }}'))
