"""Dims of parameters that are sizes over a number (`tensor[M, N / 32]`): their values, and calls whose extents don't fit."""

import numpy as np
import pytest

import zynml

PROGRAM = """
def scaled(scales: tensor[M, (N + 31) / 32], x: tensor[M, N]) {
    compute(scales, x) { for i in 0..M, j in 0..N: out[i, j] = scales[i, j / 32] * x[i, j] }
}
def halves(x: tensor[N], y: tensor[2 * (N / 2)]) { compute(y) { for i in 0..K: out[i] = 2.0 * y[i] } }
def size(y: tensor[N / 3 - 1], x: tensor[N]): int { N }
"""
DEVICES = "cpu", "emulator:sm_75", "emulator:sm_90a"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("columns", [0, 1, 31, 32, 33, 64, 97])
def test_scales_of_groups_of_columns(device, columns):
    rng = np.random.default_rng(columns)
    x = rng.standard_normal((3, columns)).astype(np.float32)
    scales = rng.standard_normal((3, -(-columns // 32))).astype(np.float32)
    program = zynml.compile(PROGRAM, device=device)
    for _ in range(3):
        assert np.array_equal(np.asarray(program.scaled(scales, x)), np.repeat(scales, 32, 1)[:, :columns] * x)


@pytest.mark.parametrize("device", DEVICES)
def test_a_block_without_the_size(device):
    program = zynml.compile(PROGRAM, device=device)
    assert np.array_equal(np.asarray(program.halves(np.ones(7, np.float32), np.arange(6, dtype=np.float32))), 2.0 * np.arange(6))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.scaled(np.ones((2, 2), np.float32), np.ones((2, 65), np.float32)), "`(N + 31) / 32` is 3, but axis 1 of `scales`"),
        (lambda p: p.halves(np.ones(7, np.float32), np.ones(7, np.float32)), "`2*(N / 2)` is 6, but axis 0 of `y`"),
        (lambda p: p.size(np.ones(2, np.float32), np.ones(8, np.float32)), "`N / 3 - 1` is 1, but axis 0 of `y`"),
    ],
)
@pytest.mark.parametrize("device", DEVICES)
def test_other_extents_are_refused(device, call, words):
    program = zynml.compile(PROGRAM, device=device)
    assert program.size(np.ones(2, np.float32), np.ones(9, np.float32)) == 9
    program.scaled(np.ones((2, 3), np.float32), np.ones((2, 65), np.float32))
    with pytest.raises(zynml.ZynMLError) as fault:
        call(program)
    assert "ZYN0802" in str(fault.value) and words in str(fault.value)


def test_a_size_that_only_a_quotient_names():
    with pytest.raises(zynml.ZynMLError, match="ZYN0303"):
        zynml.compile("def f(x: tensor[N / 2]) { N }", device="cpu").f(np.ones(2, np.float32))
