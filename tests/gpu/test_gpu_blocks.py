"""Nests that keep their loops, on a GPU: rows whose loops a block shares, reductions of a grid, what one block does. Sizes are large enough
for many blocks; expected values come from NumPy in float64."""

from functools import partial

import numpy as np
import pytest

import zynml
from compiler.analysis.dependence import analyse
from compiler.hir.module import HirFunction
from compiler.launch import thread_kernels
from compiler.schedule.gpu import blocks
from compiler.schedule.launches import Launches
from tests.kernels.checks import numbers
from tests.random_nests.families import random_program
from tests.random_nests.running import FAULTS, run_on
from tests.schedule.test_gpu_blocks import GATHERED, HALVED, ROWS, SHARED_ROW, shared_row
from tests.shrinking import require_passing


@pytest.fixture(autouse=True)
def _only_nests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nests keep their loops whether or not they lift."""

    def launches(nest: HirFunction, field: HirFunction | None, *facts: object) -> Launches:
        return blocks.nest_launches(nest, analyse(nest))

    monkeypatch.setattr(thread_kernels, "launches_for", launches)


@pytest.mark.parametrize("shape", [(1000, 33), (33, 1000), (3, 50_000), (2000, 257), (1, 1)])
@pytest.mark.parametrize("workgroup", ["", "@workgroup(32)", "@workgroup(48)", "@workgroup(8, 3, 2)", "@workgroup(1024)"])
def test_shared_rows(shape: tuple[int, int], workgroup: str) -> None:
    x = numbers("f32", shape)
    got = zynml.compile(SHARED_ROW.replace("WORKGROUP", workgroup), device="cuda:0").f(x)
    bound = 4e-6 * np.abs(x).sum(1, keepdims=True, dtype=np.float64) * np.ones(shape)
    assert (np.abs(got - shared_row(x)) <= bound + 1e-5).all()


@pytest.mark.parametrize("shape", [(20_000, 3), (20_000, 100), (5, 100_000)])
def test_rows_with_a_while(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).integers(1, 4, shape).astype(np.float32)
    sums = x.sum(1, dtype=np.float64)
    np.testing.assert_array_equal(zynml.compile(ROWS, device="cuda:0").f(x), np.ceil(np.log2(sums)))


@pytest.mark.parametrize("workgroup", ["", "@workgroup(4, 8)", "@workgroup(4, 2, 2)", "@workgroup(48)", "@workgroup(1, 1, 3)"])
def test_blocks_of_a_shape(workgroup: str) -> None:
    x = 10 * np.abs(numbers("f32", (7, 33, 101)))
    want = x.copy()
    while (want > 1).any():
        want[want > 1] *= np.float32(0.5)
    np.testing.assert_array_equal(zynml.compile(HALVED.replace("WORKGROUP", workgroup), device="cuda:0").f(x), want)


@pytest.mark.parametrize("count", [0, 1, 1025, 300_001, 5_000_000])
def test_reductions_of_gathers(count: int) -> None:
    x, at = np.arange(1000, dtype=np.int64), np.random.default_rng(count).integers(0, 1000, count).astype(np.int32)
    text = GATHERED.replace("DTYPE", "i64")
    assert zynml.compile(text.replace("OP", "+").replace("ELEMENT", "x[at[i]]"), device="cuda:0").f(x, at) == at.sum(dtype=np.int64)
    if count:
        program = zynml.compile(text.replace("OP", "argmax").replace("ELEMENT", "(x[at[i]], i)"), device="cuda:0")
        assert program.f(x, at) == (at.max(), at.argmax())


def test_the_same_sizes_give_the_same_bits() -> None:
    x, at = numbers("f32", 1000), np.random.default_rng(0).integers(0, 1000, 1_000_003).astype(np.int32)
    program = zynml.compile(GATHERED.replace("DTYPE", "f32").replace("OP", "+").replace("ELEMENT", "x[at[i]]"), device="cuda:0")
    found = {np.float32(program.f(x, at)).tobytes() for _ in range(20)}
    assert len(found) == 1


def test_the_first_fault_in_the_order_of_the_loops_is_reported() -> None:
    at = np.zeros(1_000_000, np.int32)
    at[[77_777, 77_778, 999_999]] = [500, 600, 700]
    program = zynml.compile(GATHERED.replace("DTYPE", "f32").replace("OP", "+").replace("ELEMENT", "x[at[i]]"), device="cuda:0")
    for _ in range(2):
        with pytest.raises(zynml.ZynMLError, match="index 500 is out of range: axis 0 of `x` has 100 elements"):
            program.f(numbers("f32", 100), at)


def test_more_shared_memory_than_the_device_has() -> None:
    program = zynml.compile(SHARED_ROW.replace("WORKGROUP", ""), device="cuda:0")
    with pytest.raises(zynml.ZynMLError, match=r"ZYN0503.*a block needs 400032 bytes of shared memory") as caught:
        program.f(np.zeros((1, 100_000), np.float32))
    assert "`row` takes 400000 bytes" in str(caught.value)
    np.testing.assert_array_equal(program.f(np.ones((1, 100), np.float32)), np.full((1, 100), 202.0))


@pytest.mark.parametrize("first", range(5000, 5200, 20))
def test_random_nests(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks wherever loops can be shared, of sizes that aren't whole warps too."""
    monkeypatch.setattr(blocks, "LONG", 2)
    monkeypatch.setattr("compiler.schedule.launches.LONG", 2)
    for seed in range(first, first + 20):
        monkeypatch.setattr(blocks, "BLOCK", (256, 64, 48, 32, 17)[seed % 5])
        require_passing(partial(random_program, seed, None), partial(run_on, "cuda:0"), FAULTS)
