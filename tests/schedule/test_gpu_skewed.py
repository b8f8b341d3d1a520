"""Rows that begin at several offsets from 16 bytes: sums down their columns, and squares of them that are turned, in accesses of 16 bytes
all the same. Expected values from NumPy, exact ints or in float64."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.diagnostics import ZyntaxError
from compiler.emulator.interpret import interpret
from compiler.hir.parse import parse_function
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_convolutions import built, launches

KINDS = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "f16": np.float16}
TEXT = """
def sums(x: tensor[N, M, TYPE]) {
    compute(x) {
        for i in 0..M:
            var s = ZERO
            for j in 0..N: s += x[j, i]
            out[i] = s
    }
}
def highest(x: tensor[N, M, TYPE]) {
    compute(x) {
        for i in 0..M:
            var s = x[0, i]
            for j in 0..N: s = max(s, x[j, i])
            out[i] = s
    }
}
def weighted(x: tensor[A, N, M, TYPE], y: tensor[N, i32]) {
    compute(x, y) -> tensor[A, M, i64] {
        for a in 0..A, i in 0..M:
            var s = 0i64
            for j in 0..N: s += x[a, j, i] as i64 * y[j]
            out[a, i] = s
    }
}
def spread(x: tensor[N, M, TYPE]) {
    compute(x) -> tensor[M, f32] {
        for i in 0..M:
            var s = 0.0f32
            for j in 0..N: s += x[j, i] as f32
            var v = 0.0f32
            for j in 0..N:
                let d = x[j, i] as f32 - s / N
                v += d * d
            out[i] = v
    }
}
def turned(x: tensor[N, M, TYPE]) { compute(x) { for i in 0..N, j in 0..M: out[j, i] = x[i, j] } }
"""


def program(dtype: str, device: str = "emulator:sm_90a") -> Any:
    return zynml.compile(TEXT.replace("TYPE", dtype).replace("ZERO", "0.0" if dtype == "f16" else "0"), device=device)


def numbers(dtype: str, *shape: int, gap: int = 0) -> np.ndarray:
    """Small whole numbers, with a gap behind each row."""
    least = 0 if dtype == "u8" else -9
    return np.random.default_rng(1).integers(least, 9, (*shape[:-1], shape[-1] + gap)).astype(KINDS[dtype])[..., : shape[-1]]


@pytest.mark.parametrize("device", ["emulator:sm_90a", "emulator:sm_75"])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("n", "m", "gap"), [(1, 1003, 0), (131, 249, 0), (40, 497, 9), (9, 131, 2)])
def test_sums_down_columns(dtype: str, n: int, m: int, gap: int, device: str) -> None:
    p, x = program(dtype, device), numbers(dtype, n, m, gap=gap)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(p.sums(x), wide.sum(0))
    np.testing.assert_array_equal(p.highest(x), x.max(0))
    np.testing.assert_allclose(p.spread(x), ((wide - wide.mean(0)) ** 2).sum(0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("columns", [331, 1001])
def test_rows_whose_length_the_program_says(columns: int) -> None:
    x = numbers("i8", 97, columns)
    source = TEXT[: TEXT.index("def highest")].replace("N, M, TYPE", f"97, {columns}, i8").replace("ZERO", "0")
    p = zynml.compile(source.replace("0..M", f"0..{columns}").replace("0..N", "0..97"), device="emulator:sm_90a")
    np.testing.assert_array_equal(p.sums(x), x.sum(0, dtype=np.int64))


def test_columns_of_several_matrices() -> None:
    x, y = numbers("i8", 3, 37, 331), np.arange(37, dtype=np.int32)
    np.testing.assert_array_equal(program("i8").weighted(x, y), (x.astype(np.int64) * y[:, None]).sum(1))


def test_views_begin_anywhere() -> None:
    x = numbers("u8", 40, 999)
    np.testing.assert_array_equal(program("u8").sums(x[3:, 5:700]), x[3:, 5:700].sum(0, dtype=np.uint32))


@pytest.mark.parametrize("dtype", ["i8", "f16"])
@pytest.mark.parametrize(("n", "m"), [(1025, 33), (777, 131), (513, 64)])
def test_squares_whose_results_have_odd_rows(dtype: str, n: int, m: int) -> None:
    x = numbers(dtype, n, m)
    np.testing.assert_array_equal(program(dtype).turned(x), x.T)


def text_of(found: Launches) -> str:
    module = compile_kernels([launch.function for launch in found.launches], gpu_target("sm_90a"))
    assert all(use.spills == 0 for use in assemble(module).kernels.values())
    return module.text


@pytest.mark.parametrize(("dtype", "columns", "read"), [("i16", 40001, "v4"), ("i8", 40001, "v2"), ("i16", 40004, "v4")])
def test_each_load_is_of_one_aligned_vector(dtype: str, columns: int, read: str) -> None:
    """Of the only row of a warp that reads elsewhere nothing is shifted together."""
    sums = TEXT[: TEXT.index("def highest")].replace("TYPE", dtype).replace("ZERO", "0")
    text = text_of(launches(built(sums), {"N": 4001, "M": columns}, 132))
    loads = {line.split()[0] for line in text.splitlines() if "ld.global.nc" in line}
    assert loads == {f"ld.global.nc.{read}.b32"} and "shf." not in text


def test_norms_of_channels_with_odd_rows_are_stored_as_one_row() -> None:
    source = """
    def f(x: tensor[N, C, P, f16]) {
        compute(x) -> tensor[N, C, P, f16] {
            for c in 0..C:
                var s = 0.0f32
                for n in 0..N, p in 0..P: s += x[n, c, p] as f32
                for n in 0..N, p in 0..P: out[n, c, p] = x[n, c, p] as f32 - s / (N * P)
        }
    }"""
    made = launches(built(source), {"N": 4096, "C": 29, "P": 397}, 132)
    assert len(made.launches) == 2 and len(made.products) == 2
    text = text_of(made)
    assert "st.global.v4.b32" in text and "st.global.b16" not in text.replace("st.global.v4", "")


def test_a_vector_that_begins_elsewhere_is_a_fault() -> None:
    function = parse_function(
        """func @f(%x: mem<32xf16>, %out: mem<32xf16>) form=B axes=[simd:8] {
            %a = load %x[simd+4] align=16 : tile<simd:8, f16> store %out[simd], %a
        }"""
    )
    with pytest.raises(ZyntaxError, match="begins at no multiple of 16 bytes"):
        interpret(function, [np.zeros(32, np.float16), np.zeros(32, np.float16)])
