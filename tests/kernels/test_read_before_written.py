"""What a block reads of its own results and of its `shared var`s before anything has written there is 0."""

import numpy as np
import pytest

import zynml

RESULTS = """
def partly(x: tensor[N]) {
    compute(x) -> (y: tensor[N], z: tensor[N]) @kernel(fused) {
        for i in 0..3: y[i] = x[i]
        for i in 0..N: z[i] = y[i]
        for i in 0..N: y[i] = 2.0 * x[i]
    }
}
def one_further(x: tensor[N]) {
    compute(x) -> (y: tensor[N], z: tensor[N]) @kernel(fused) {
        for k in 0..1:
            for i in 1..N: y[i - 1] = x[i]
            for i in 1..N + 1: z[i - 1] = y[i - 1]
            for i in 0..N: y[i] = 2.0 * x[i]
    }
}
"""

SHARED = """
def running(x: tensor[B, T, H]) {
    compute(x) -> tensor[B, T, H] @kernel(fused) {
        for b in 0..B:
            shared var total[H, f32]
            for t in 0..T:
                for h in 0..H: total[h] = 0.5 * total[H - 1 - h] + x[b, t, h]
                for h in 0..H: out[b, t, h] = total[h]
    }
}
def turned(x: tensor[B, H]) {
    compute(x) -> tensor[B, H] @kernel(fused) {
        for b in 0..B:
            shared var row[H, f32]
            for h in 0..H: row[h] = 2.0 * x[b, h]
            for h in 0..H: out[b, h] = row[H - 1 - h]
    }
}
"""


@pytest.mark.parametrize("device", [None, "emulator:sm_90a"])
def test_a_result_is_zero_where_a_later_write_of_the_same_words_reaches_further(device: str | None) -> None:
    program = zynml.compile(RESULTS, device=device)
    for size in (40, 3):
        used = [np.full(size, 7, np.float32) for _ in range(64)]  # memory that isn't 0 comes again
        del used
        x = np.arange(1, size + 1, dtype=np.float32)
        for function, expected in (program.partly, np.where(x <= 3, x, 0)), (program.one_further, np.append(x[1:], 0)):
            y, z = function(x)
            np.testing.assert_array_equal(y, 2 * x)
            np.testing.assert_array_equal(z, expected)


@pytest.mark.parametrize("device", [None, "emulator:sm_90a"])
def test_a_shared_variable_begins_as_zero_in_each_iteration(device: str | None) -> None:
    program = zynml.compile(SHARED, device=device)
    x = np.arange(3 * 4 * 5, dtype=np.float32).reshape(3, 4, 5)
    expected = np.zeros(x.shape)
    for page, rows in zip(expected, x, strict=True):
        total = np.zeros(5)
        for step, row in enumerate(rows):
            for h in range(5):
                total[h] = 0.5 * total[4 - h] + row[h]
            page[step] = total
    np.testing.assert_allclose(program.running(x), expected, rtol=1e-6)


def test_nothing_is_zeroed_that_is_written_first() -> None:
    program = zynml.compile(SHARED)
    assert program.hir.count("for element in") == 1
    x = np.ones((2, 3), np.float32) * np.arange(3)
    np.testing.assert_array_equal(program.turned(x.astype(np.float32)), 2 * x[:, ::-1])
