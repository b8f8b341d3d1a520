"""Programs whose n-th driver call fails, for every n: a coded error, inputs as they were or as they should become, nothing leaked, and
the next call right."""

import gc

import numpy as np
import pytest
from foreign import ByDlpack

import zynml
from runtime import dlpack

PROGRAM = """
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def ordered(x: tensor[N]): tensor { compute(x) @kernel sort { for i in 0..N: yield x[i] } }
def picked(x: tensor[N], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }
def total(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def double(mut x: tensor[N]) { compute(mut x) { for i in 0..N: x[i] = x[i] + x[i] } }
"""

X = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 0.0, 7.0, 6.0], np.float32)
CALLS = {
    "scale": (lambda p, x: p.scale(x, 2.0), X * 2),
    "strided": (lambda p, x: p.scale(x, 2.0), X[::-1] * 2),
    "ordered": (lambda p, x: [p.ordered(X) for _ in range(3)][-1], np.sort(X)),
    "picked": (lambda p, x: p.picked(X, np.array([7, 0])), X[[7, 0]]),
    "total": (lambda p, x: p.total(X), X.sum(dtype=np.float64)),
}
MOST = 80


@pytest.mark.parametrize("code", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_a_failing_call_leaves_nothing_behind(fake, gpu, name, code):
    program, (call, expected) = zynml.compile(PROGRAM, device="cuda"), CALLS[name]
    x = ByDlpack(gpu, X[::-1] if name == "strided" else X)
    assert np.asarray(call(program, x)).tolist() == expected.tolist()
    before, exported, failures = gpu.pool.statistics().blocks_in_use, dlpack.exported(), 0
    for number in range(1, MOST):
        fake.fail_at, result = {fake.calls.total() + number: code}, None
        try:
            result = call(program, x)
        except zynml.ZynMLError as error:
            failures += 1
            assert error.codes in (("ZYN0805",), ("ZYN0804",)[: code - 1]), error
        came_through, fake.fail_at = bool(fake.fail_at), {}
        result = call(program, x) if result is None else result
        assert np.asarray(result).tolist() == expected.tolist()
        if came_through:
            break
    assert came_through and failures >= 1
    del result
    gpu.stream.synchronize()
    gc.collect()
    gpu.device.reap()
    assert dlpack.exported() == exported
    assert gpu.pool.statistics().blocks_in_use <= before
    assert gpu.stream.recording is None and gpu.device.captures == 0


def test_an_update_that_fails_before_its_launch_changes_nothing(fake, gpu):
    program = zynml.compile(PROGRAM, device="cuda")
    program.double(ByDlpack(gpu, X.copy()))
    x = ByDlpack(gpu, X.copy())
    fake.fail_next["cuLaunchKernelEx"] = 1
    with pytest.raises(zynml.ZynMLError) as caught:
        program.double(x)
    assert caught.value.codes == ("ZYN0805",)
    assert "cuLaunchKernelEx: invalid argument (CUDA_ERROR_INVALID_VALUE, 1): kernel `" in str(caught.value)
    assert x.numpy().tolist() == X.tolist()


def test_no_room_on_the_device_is_said_with_sizes_and_the_pools_state(fake, gpu):
    fake.capacity = 1 << 20
    program = zynml.compile(PROGRAM, device="cuda")
    kept = program.scale(ByDlpack(gpu, np.ones(1000, np.float32)), 2.0)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.scale(np.ones(200_000, np.float32), 2.0)
    assert caught.value.codes == ("ZYN0804",)
    text = str(caught.value)
    assert "781.2 KiB asked for; the pool has " in text and "in use in " in text and "cuda:0 has " in text and "of 1 MiB" in text
    assert np.asarray(kept).tolist() == [2.0] * 1000
    assert program.scale(np.ones(10, np.float32), 2.0).tolist() == [2.0] * 10


def test_a_lost_context_is_said_at_every_later_call(fake, gpu):
    program = zynml.compile(PROGRAM, device="cuda")
    x = ByDlpack(gpu, X.copy())
    program.scale(x, 2.0)
    fake.fault = 700
    for _ in range(2):
        with pytest.raises(zynml.ZynMLError) as caught:
            program.picked(x, np.array([0]))
        assert caught.value.codes == ("ZYN0805",)
        assert "the context is lost" in str(caught.value)
    fake.fault = 0
