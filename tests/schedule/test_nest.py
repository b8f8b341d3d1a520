"""Nests that aren't lifted: scratch values made in the loops that threads share, reductions in chunks. Values from NumPy."""

import numpy as np
import pytest

import zynml
from zynml import ZynMLError

SOURCE = """
def picked(x: tensor[N], at: tensor[M, i32]) {
    compute(x, at) @kernel(reduce, +) { for i in 0..M: yield x[at[i]] }
}
def highest(x: tensor[N], at: tensor[M, i32]) {
    compute(x, at) @kernel(reduce, max) { for i in 0..M: yield x[at[i]] }
}
def histogram(x: tensor[N, u8]): tensor {
    compute(x) -> tensor[256, i32] @kernel(custom) @workgroup(64) {
        shared var bins[256, i32]
        let t = thread_idx().x
        for b in t..256 step block_dim().x: bins[b] = 0
        barrier()
        for p in global_idx().x..N step grid_dim().x * block_dim().x:
            atomic_add(bins[x[p] as i32], 1)
        barrier()
        for b in t..256 step block_dim().x:
            atomic_add(out[b], bins[b])
    }
}
def steps(w: i64, h: i64): tensor {
    compute(w, h) -> tensor[h, w, i32] {
        for y in 0..h, x in 0..w:
            var value = x + 3 * y + 1
            var n = 0
            while value != 1:
                if value % 2 == 0: value = value / 2
                else: value = 3 * value + 1
                n += 1
            out[y, x] = n as i32
    }
}
def twice(x: tensor[N]) {
    compute(mut x) { for i in 0..N: x[i] = exp(x[i]) + x[i] }
}
"""


@pytest.fixture(scope="module", params=[1, 2, 3])
def program(request: pytest.FixtureRequest) -> zynml.CompiledProgram:
    return zynml.compile(SOURCE, threads=request.param)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 300_001])
def test_reductions_of_gathers_are_joined_in_chunks(program: zynml.CompiledProgram, count: int) -> None:
    random = np.random.default_rng(count)
    x, at = random.integers(-50, 50, 1000).astype(np.float32), random.integers(0, 1000, count).astype(np.int32)
    assert program.picked(x, at) == x[at].sum(dtype=np.float64)
    assert program.highest(x, at) == x[at].max()


@pytest.mark.parametrize("bad", [1000, -1])
def test_the_first_fault_is_named_whichever_thread_meets_it(program: zynml.CompiledProgram, bad: int) -> None:
    at = np.zeros(400_000, np.int32)
    at[[7, 399_999]] = bad, 5000
    with pytest.raises(ZynMLError) as raised:
        program.picked(np.ones(1000, np.float32), at)
    assert raised.value.codes == ("ZYN0801",)
    assert f"index {bad} is out of range" in str(raised.value)


@pytest.mark.parametrize("count", [0, 1, 1000, 1_000_003])
def test_every_chunk_counts_in_bins_of_its_own(program: zynml.CompiledProgram, count: int) -> None:
    x = np.random.default_rng(count).integers(0, 256, count).astype(np.uint8)
    np.testing.assert_array_equal(program.histogram(x), np.bincount(x, minlength=256))


def test_while_loops_run_in_every_thread(program: zynml.CompiledProgram) -> None:
    def collatz(value: int) -> int:
        count = 0
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            count += 1
        return count

    expected = [[collatz(x + 3 * y + 1) for x in range(61)] for y in range(47)]
    np.testing.assert_array_equal(program.steps(61, 47), expected)


@pytest.mark.parametrize("count", [0, 5, 33, 300_001])
def test_updates_in_place_read_what_they_overwrite(program: zynml.CompiledProgram, count: int) -> None:
    x = np.linspace(-2, 2, count).astype(np.float32)
    expected = np.exp(x.astype(np.float64)) + x
    program.twice(x)
    np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    random = np.random.default_rng(3)
    x, at = random.standard_normal(1000).astype(np.float32), random.integers(0, 1000, 500_001).astype(np.int32)
    found = {float(zynml.compile(SOURCE, threads=threads).picked(x, at)) for threads in (1, 2, 3)}
    assert len(found) == 1
