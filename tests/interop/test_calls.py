"""Calls of a block on a GPU, again and again: what is remembered is used, and is never wrong for other sizes, numbers or addresses."""

import threading
from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from foreign import ByDlpack

import zynml
from compiler.launch.cache import GRAPHS
from compiler.launch.cuda import direct as cuda_direct
from compiler.schedule.gpu.library import sort_launches

PROGRAM = """
def scale(x: tensor[N], by: f64): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def first(x: tensor[N], n: int): tensor { compute(x, n) { for i in 0..n: out[i] = x[i] } }
def ordered(x: tensor[N]): tensor { compute(x) @kernel sort { for i in 0..N: yield x[i] } }
def scaled(x: tensor[N], by: f32): tensor { compute(x, by) @kernel sort { for i in 0..N: yield x[i] * by } }
def total(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def picked(x: tensor[N], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }
"""


@pytest.fixture
def program(fake):
    return zynml.compile(PROGRAM, device="cuda")


class Counting:
    """The driver's calls of what happens inside."""

    def __init__(self, fake):
        self.fake = fake

    def __enter__(self):
        self.before = Counter(self.fake.calls)
        return self

    def __exit__(self, *_):
        self.calls = self.fake.calls - self.before


def numbers(seed, count):
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def test_a_call_that_comes_again_is_one_driver_call(program, gpu, fake):
    x = program.scale(ByDlpack(gpu, numbers(1, 9)), 1.0)
    for _ in range(2):
        program.scale(x, 2.0)
    with Counting(fake) as counting:
        result = program.scale(x, 3.0)
    assert counting.calls == {"cuLaunchKernelEx": 1}
    assert np.asarray(result).tolist() == (numbers(1, 9) * np.float32(3.0)).tolist()


def test_a_call_with_checks_clears_no_record_again(program, gpu, fake):
    x, k = (program.scale(ByDlpack(gpu, numbers(1, 9)), 1.0), np.arange(4))
    program.picked(x, k)
    with Counting(fake) as counting:
        program.picked(x, k)
    copies = {"cuMemcpyHtoDAsync": 1, "cuMemcpyDtoHAsync": 1}
    assert counting.calls == {**copies, "cuLaunchKernelEx": 1, "cuEventRecord": 2, "cuEventQuery": 1}


@pytest.mark.parametrize("place", [0, 2])
def test_after_a_fault_the_next_call_is_judged_by_itself(program, place):
    k = np.zeros(3, np.int64)
    k[place] = 9
    for _ in range(2):
        with pytest.raises(zynml.ZynMLError) as caught:
            program.picked(numbers(1, 4), k)
        assert caught.value.codes == ("ZYN0801",) and "9" in str(caught.value)
        assert program.picked(numbers(1, 4), np.array([3, 1])).tolist() == numbers(1, 4)[[3, 1]].tolist()


def test_sizes_numbers_and_dtypes_are_told_apart(program):
    for count in (5, 0, 1, 7, 5):
        for by in (2.0, np.float32(0.5), float("nan"), -1.0):
            x = numbers(count, count)
            np.testing.assert_array_equal(program.scale(x, by), x * np.float32(by))
        for n in range(count + 1):
            assert program.first(numbers(2, count), n).tolist() == numbers(2, count)[:n].tolist()


@pytest.mark.parametrize("count", [2, 33, 1000])
def test_a_sequence_that_comes_again_is_replayed(program, gpu, fake, count, monkeypatch):
    monkeypatch.setattr(sort_launches, "SHORTEST", 1024)  # merged, not sorted by a block
    graphs = []
    for seed in range(12):
        x = numbers(seed, count)
        with Counting(fake) as counting:
            result = program.ordered(x)
        assert result.tolist() == np.sort(x).tolist()
        graphs.append((counting.calls["cuGraphLaunch"], counting.calls["cuGraphInstantiate"]))
    launches = 2 * int(np.ceil(np.log2(count)))
    if launches >= cuda_direct.GRAPHS_FROM:
        assert graphs[0] == (0, 0), "once is no repetition"
        assert graphs[-1] == (1, 0), "the addresses are some of those before: the pool gives them again"
        assert counting.calls["cuLaunchKernelEx"] == 0


def test_a_replay_is_for_its_own_addresses_and_sizes(program, gpu, fake):
    kept = []
    for turn in range(4):
        for count in (40, 41):
            x = numbers(turn, count)
            # results that live on make the next call's addresses other ones
            kept.append((program.ordered(ByDlpack(gpu, x)), np.sort(x)))
    for result, expected in kept:
        assert np.asarray(result).tolist() == expected.tolist()


def test_a_replay_is_for_its_own_numbers(program):
    for _ in range(8):
        for by in (0.0, -0.0, 1.5):
            result = program.scaled(np.ones(33, np.float32), by)
            assert result.tobytes() == np.full(33, by, np.float32).tobytes()


def test_no_more_graphs_are_kept_than_allowed(program, gpu, fake):
    kept, x = [], ByDlpack(gpu, numbers(1, 40))
    for _ in range(GRAPHS.bound + 2):
        again = program.ordered(x)
        for _ in range(2):
            kept.append(again)
            again = program.ordered(x)
    del kept, again
    # a recorded graph and the executable one
    assert len(fake.graphs) <= 2 * GRAPHS.bound


def test_graphs_keep_no_memory(program, gpu):
    for seed in range(4):
        program.ordered(numbers(seed, 100))
    gpu.stream.synchronize()
    assert gpu.pool.statistics().blocks_in_use == 0


def test_calls_of_several_threads_do_not_mix(program):
    failures = []

    def work(count):
        for seed in range(12):
            x = numbers(seed, count)
            if program.scale(x, float(count)).tolist() != (x * np.float32(count)).tolist() or program.ordered(x).tolist() != sorted(x):
                failures.append((count, seed))

    # one after the other first: compilation is not what is tested
    work(3)
    threads = [threading.Thread(target=work, args=(count,)) for count in (3, 17, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_fault_is_that_of_its_own_call(program):
    wrong, right, outcomes = np.array([99]), np.array([0]), []

    def work(k, code):
        for _ in range(30):
            try:
                program.picked(numbers(1, 4), k)
                outcomes.append(code is None)
            except zynml.ZynMLError as error:
                outcomes.append(error.codes == (code,))

    program.picked(numbers(1, 4), right)
    threads = [threading.Thread(target=work, args=each) for each in ((wrong, "ZYN0801"), (right, None), (right, None))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * 90


def test_numbers_and_lists_go_in(program):
    assert zynml.compile(
        "let k = [2, 0, 1]\ndef f(x: tensor[N]): tensor { compute(x, k) { for i in 0..N: out[i] = x[k[i]] } }", device="cuda"
    ).f(numbers(1, 3)).tolist() == numbers(1, 3)[[2, 0, 1]].tolist()


def test_sizes_below_zero_run_no_loop(program):
    assert program.first(numbers(1, 3), -2).tolist() == []


CONVOLUTION = """
def convolved(x: tensor[N, H, W, C, bf16], f: tensor[K, R, S, C, bf16]): tensor {
    compute(x, f) -> tensor[N, Y, Z, K, f32] @kernel(conv2d, padding=1) {
        for n in 0..N, y in 0..Y, z in 0..Z, k in 0..K {
            var s = 0.0
            for r in 0..R, q in 0..S, c in 0..C {
                if y + r >= 1 and y + r < H + 1 and z + q >= 1 and z + q < W + 1 { s += x[n, y + r - 1, z + q - 1, c] * f[k, r, q, c] }
            }
            out[n, y, z, k] = s
        }
    }
}"""


@pytest.mark.parametrize("pictures", [(2, 5, 7, 32), (0, 5, 7, 32), (2, 1, 7, 32), (2, 5, 7, 0)], ids=str)
def test_a_convolution_by_bulk_copies_and_pictures_without_elements(gpu, pictures):
    x = np.random.default_rng(1).integers(-2, 3, pictures).astype(ml_dtypes.bfloat16)
    f = np.random.default_rng(2).integers(-2, 3, (16, 3, 3, pictures[-1])).astype(ml_dtypes.bfloat16)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    wanted = np.einsum("nyzcrq,krqc->nyzk", seen, f.astype(np.float64))
    result = zynml.compile(CONVOLUTION, device="cuda").convolved(x, f)
    np.testing.assert_array_equal(np.asarray(result), wanted)
