"""One block on two GPUs: `@device(["cuda:0", "cuda:1"]) @parallel(data)`; skipped where there is one."""

import numpy as np
import pytest

import zynml
from runtime.cuda.driver import gpu_count
from runtime.device import Device
from runtime.tensor import Tensor
from runtime.transfers import to_device

BOTH = '@device(["cuda:0", "cuda:1"]) @parallel(data)'
PRODUCT = f"""def f(A: tensor[M, K], B: tensor[K, N]): tensor {{
    compute(A, B) {BOTH} {{
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }}
}}"""
SCALED = f"def f(x: tensor[M, N], by: f32): tensor {{ compute(x, by) {BOTH} {{ for i in 0..M, j in 0..N: out[i, j] = by * x[i, j] }} }}"
TABLE = f"""def f(table: tensor[T, C], rows: tensor[R, i64]): tensor {{
    compute(table, rows) {BOTH} {{ for i in 0..R, j in 0..C: out[i, j] = table[rows[i], j] }}
}}"""


@pytest.fixture(autouse=True)
def _two_gpus(gpu) -> None:
    if gpu_count() < 2:
        pytest.skip("there is one GPU here")


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [0, 1, 2, 129, 1000])
def test_a_product(rows: int) -> None:
    a, b = numbers(rows, 257), numbers(257, 130)
    wide = a.astype(np.float64) @ b.astype(np.float64)
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    result = np.asarray(zynml.compile(PRODUCT).f(a, b))
    # between devices: 1e-6 * sqrt(K) of the sum of the terms' absolute values
    assert result.shape == (rows, 130) and (np.abs(result - wide) <= 1e-6 * np.sqrt(257) * magnitude).all()


@pytest.mark.parametrize("device", ["cpu", "cuda:0", "cuda:1"])
def test_inputs_wherever_they_lie(device: str) -> None:
    program, x = zynml.compile(SCALED), numbers(1001, 333)
    given = to_device(Tensor(x), Device(device))
    for by in (2.0, 0.5, -1.0, 4.0):  # calls that come again
        result = program.f(given, by)
        assert result.device == ("cpu" if device == "cpu" else "cuda:0")  # a caller with arrays on the host gets such arrays
        np.testing.assert_array_equal(np.asarray(result), np.float32(by) * x)


@pytest.mark.parametrize("device", ["cpu", "cuda:0", "cuda:1"])
def test_a_sum_of_both(device: str) -> None:
    text = f"def f(x: tensor[N]) {{ compute(x) {BOTH} @kernel(reduce, +) {{ for i in 0..N: yield x[i] }} }}"
    total, given = zynml.compile(text).f, to_device(Tensor(np.arange(1001, dtype=np.float32)), Device(device))
    for _ in range(4):  # a call that comes again
        assert total(given) == 500500.0  # exact in f32, in any order


def test_a_fault_on_the_second_is_told() -> None:
    rows = np.arange(100) % 7
    rows[99] = 7
    with pytest.raises(zynml.ZynMLError, match="index 7 is out of range: axis 0 of `table` has 7 elements"):
        zynml.compile(TABLE).f(numbers(7, 5), rows)
    np.testing.assert_array_equal(np.asarray(zynml.compile(TABLE).f(numbers(7, 5), rows[:99])), numbers(7, 5)[rows[:99]])


def test_a_processor_and_a_gpu() -> None:
    x = numbers(77, 5)
    result = zynml.compile(SCALED.replace('"cuda:0", "cuda:1"', '"cpu", "cuda:1"')).f(x, 3.0)
    np.testing.assert_array_equal(np.asarray(result), np.float32(3.0) * x)
