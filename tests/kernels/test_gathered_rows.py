"""Rows of a table by indices that data hold, which don't begin at multiples of 16 bytes."""

import numpy as np
import pytest

import zynml

TEXT = """
def f(t: tensor[V, {columns}, {dtype}], k: tensor[N, i32]) {{
    compute(t, k) {{
        for i in 0..N, c in 0..{columns}:
            out[i, c] = t[k[i], c]
    }}
}}
"""
RANDOM = np.random.default_rng(5)


@pytest.mark.parametrize("device", ["emulator:sm_90a", "emulator:sm_75"])
@pytest.mark.parametrize(("dtype", "columns"), [("i8", 365), ("i8", 509), ("f32", 127), ("f64", 61), ("f64", 31), ("i8", 3), ("i16", 59), ("i8", 17)])
def test_rows_of_a_table(dtype: str, columns: int, device: str) -> None:
    numbers = {"i8": np.int8, "i16": np.int16, "f32": np.float32, "f64": np.float64}[dtype]
    table, k = RANDOM.integers(-100, 100, (17, columns)).astype(numbers), RANDOM.integers(0, 17, 29).astype(np.int32)
    program = zynml.compile(TEXT.format(dtype=dtype, columns=columns), device=device, sanitize=columns == 365)
    np.testing.assert_array_equal(program.f(table, k), table[k])
    k[[4, 20]] = 17, -1
    with pytest.raises(zynml.ZynMLError, match="index 17 is out of range"):
        program.f(table, k)


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
def test_sums_of_a_table_by_indices_of_the_same_axis(device: str) -> None:
    """Whether an index is inside depends on an element of the axis that is summed along: the loop has no interior."""
    program = zynml.compile(
        """
def f(k: tensor[K, i32], table: tensor[V, i32], N: int) {
    compute(k, table, N) {
        for i in 0..N:
            var s = 0
            for turn in 0..N:
                for j in 0..N: s += table[k[j]]
            out[i] = s
    }
}""",
        device=device,
    )
    k, table = np.array([1, 0, 3, 5, 2, 4, 1], np.int32), np.arange(6, dtype=np.int32) * 3 + 1
    for n in (0, 1, 7):
        np.testing.assert_array_equal(program.f(k, table, n), np.full(n, n * table[k[:n]].sum()))
    with pytest.raises(zynml.ZynMLError, match="ZYN0801"):
        program.f(k, table[:5].copy(), 7)


@pytest.mark.parametrize("dtype", ["i8", "f16", "f32", "f64"])
@pytest.mark.parametrize("columns", [1, 7, 64, 65, 200])
def test_rows_of_a_table_in_vectors(dtype: str, columns: int) -> None:
    numbers = {"i8": np.int8, "f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]
    program = zynml.compile(
        f"""
def moved(t: tensor[V, C, {dtype}], k: tensor[N, i32]) {{ compute(t, k) {{ for i in 0..N, c in 0..C: out[i, c] = t[k[i], c] }} }}
def added(t: tensor[N, C, {dtype}], k: tensor[N, i32], V: int) {{
    compute(t, k, V) -> tensor[V, C, {dtype}] {{ for i in 0..N, c in 0..C: out[k[i], c] += t[i, c] }}
}}
""",
        threads=2,
    )
    wide = RANDOM.integers(-2, 3, (29, columns + 5)).astype(numbers)
    k = RANDOM.integers(0, 17, 29).astype(np.int32)
    sums = np.zeros((17, columns), numbers)
    np.add.at(sums, k, wide[:, :columns])
    for table in wide[:, :columns].copy(), wide[:, :columns]:
        np.testing.assert_array_equal(np.asarray(program.moved(table[:17], k)), table[k])
        np.testing.assert_array_equal(np.asarray(program.added(table, k, 17)), sums)
