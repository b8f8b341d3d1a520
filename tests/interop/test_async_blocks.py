"""`@async` blocks on a GPU: streams of their own, faults at `await`, inputs that must not change meanwhile."""

from typing import Any

import numpy as np
import pytest

import zynml
from runtime.cuda.gpu import Gpu

PROGRAM = """
def scaled(x: tensor[N], by: f32): Future<tensor[N]> {
    compute(x, by) @async { for i in 0..N: out[i] = x[i] * by }
}
def chain(x: tensor[N]): tensor[N] {
    let y = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }
    let fs = [scaled(y, k as f32) for k in 1..4]
    let z = compute(y) { for i in 0..N: out[i] = y[i] * 10.0 }
    let (a, b, c) = await all(fs[0], fs[1], fs[2])
    compute(a, b, c, z) { for i in 0..N: out[i] = a[i] + b[i] + c[i] + z[i] }
}
def changed(x: tensor[N]): tensor[N] {
    mut y = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }
    let f = scaled(y, 2.0)
    compute(mut y) { for i in 0..N: y[i] = inf }
    let g = scaled(y, 2.0)
    y[0] = 0.0
    println(y[0], (await g)[0])
    await f
}
def total(x: tensor[N]): f32 { await compute(x) @async @kernel(reduce, +) { for i in 0..N: yield x[i] } }
def gathered(x: tensor[N], k: tensor[M, i64]) { compute(x, k) @async { for i in 0..M: out[i] = x[k[i]] } }
def fitting(a: tensor, b: tensor) { await compute(a, b) @async { for i in 0..N: out[i] = a[i] + b[i] } }
"""


@pytest.fixture
def program(gpu: Gpu) -> Any:
    return zynml.compile(PROGRAM, device="cuda:0")


@pytest.mark.parametrize("size", [0, 1, 33, 300])
def test_blocks_beside_each_other_and_in_order(program: Any, size: int) -> None:
    x = np.arange(size, dtype=np.float32)
    assert np.array_equal(program.chain(x), (x + 1) * 16)


def test_inputs_are_those_of_the_beginning(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(50, dtype=np.float32)
    assert np.array_equal(program.changed(x), (x + 1) * 2)
    assert capsys.readouterr().out == "0.0 inf\n"


def test_numbers(program: Any) -> None:
    assert program.total(np.arange(1001, dtype=np.float32)) == 500500


def test_a_fault_shows_at_await(program: Any) -> None:
    future = program.gathered(np.ones(3, np.float32), np.array([0, 3]))
    with pytest.raises(zynml.ZynMLError, match="index 3 is out of range"):
        future.result()


def test_what_can_be_known_without_running_shows_at_the_block(program: Any) -> None:
    with pytest.raises(zynml.ZynMLError, match="ZYN0802"):
        program.fitting(np.ones(3, np.float32), np.ones(4, np.float32))


def test_each_block_has_a_stream_of_its_own(program: Any, gpu: Gpu) -> None:
    before = gpu.device.streams_made
    futures = [program.scaled(np.ones(8, np.float32), float(k)) for k in range(3)]
    assert [float(f.result()[0]) for f in futures] == [0.0, 1.0, 2.0]
    assert gpu.device.streams_made > before
