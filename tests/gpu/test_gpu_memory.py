"""Memory on the device and pinned: copies, the pool's books, being full, and leaks counted."""

import gc
import random

import numpy as np
import pytest
from ptx_kernels import ALL

from runtime.cuda.copies import copy, download, fill, to_device, to_host, upload
from runtime.cuda.driver import driver
from runtime.cuda.errors import CudaError, CudaOutOfMemory
from runtime.cuda.gpu import open_gpu
from runtime.cuda.host import Registered
from runtime.cuda.launch import CheckedLaunch
from runtime.element_types import DTYPES


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_come_back_as_they_went(gpu, name):
    source = np.random.default_rng(1).integers(0, 2, (7, 130)).astype(DTYPES[name])
    assert to_host(to_device(source, gpu.allocate(source.nbytes), gpu.stream)).tobytes() == source.tobytes()


@pytest.mark.parametrize("size", [0, 1, 513, (32 << 20) + 4])
def test_pinned_copies_both_ways(gpu, size):
    source, result = gpu.pinned.empty((size,), np.uint8), gpu.pinned.empty((size,), np.uint8)
    source[:] = np.arange(size, dtype=np.uint8)
    result[:] = 0
    buffer, second = gpu.allocate(size), gpu.allocate(size)
    upload(buffer, source, gpu.stream)
    copy(second, buffer, gpu.stream)
    download(result, second, gpu.stream)
    gpu.stream.synchronize()
    assert (result == source).all()


def test_pinned_memory_dropped_during_a_copy_is_not_reused_before_its_end(gpu):
    size = 64 << 20
    buffer = gpu.allocate(size)
    source = gpu.pinned.empty((size,), np.uint8)
    source[:] = 7
    upload(buffer, source, gpu.stream)
    del source
    gpu.pinned.empty((size,), np.uint8)[:] = 9
    result = np.empty(size, np.uint8)
    download(result, buffer, gpu.stream)
    gpu.stream.synchronize()
    assert (result == 7).all()


def test_registered_memory_is_copied_in_place(gpu):
    array = np.arange(1 << 20, dtype=np.float64)
    buffer = gpu.allocate(array.nbytes)
    with Registered(gpu.device, array) as registered:
        upload(buffer, registered.view, gpu.stream)
        array_back = np.zeros_like(array)
        download(array_back, buffer, gpu.stream)
        gpu.stream.synchronize()
    assert (array_back == array).all()


@pytest.mark.parametrize(("width", "value"), [(1, 0xAB), (2, 0xABCD), (4, 0x89ABCDEF)])
def test_fill(gpu, width, value):
    buffer = gpu.allocate(4096)
    fill(buffer, value, gpu.stream, width)
    result = np.empty(4096 // width, f"u{width}")
    download(result, buffer, gpu.stream)
    gpu.stream.synchronize()
    assert (result == value).all()


def test_more_than_the_device_has_is_said_with_sizes_and_state(own_gpu):
    kept = own_gpu.allocate(1 << 20)
    _, total = own_gpu.device.memory()
    with pytest.raises(CudaOutOfMemory) as caught:
        own_gpu.allocate(4 * total)
    assert "asked for; the pool has 1 MiB in use in 1 block" in str(caught.value)
    assert f"cuda:{own_gpu.device.ordinal} has " in str(caught.value)
    fill(kept, 1, own_gpu.stream)
    own_gpu.stream.synchronize()


def test_the_limit_of_a_pool_holds():
    small = open_gpu(driver(), limit=1 << 20)
    kept = small.allocate(600_000)
    with pytest.raises(CudaOutOfMemory, match="limit of the pool"):
        small.allocate(600_000)
    del kept
    small.allocate(600_000)
    small.trim()


def test_a_block_is_reused_on_its_stream_and_counted(own_gpu):
    first = own_gpu.allocate(10_000)
    address = int(first)
    del first
    assert int(own_gpu.allocate(10_000)) == address
    now = own_gpu.pool.statistics()
    assert (now.from_driver, now.blocks_in_use, now.idle_blocks) == (1, 0, 1)


def test_trim_gives_memory_back_to_the_system(own_gpu):
    own_gpu.trim()
    before = own_gpu.pool.statistics()
    buffer = own_gpu.allocate(256 << 20)
    assert own_gpu.pool.statistics().driver_used == before.driver_used + (256 << 20)
    del buffer
    own_gpu.trim()
    after = own_gpu.pool.statistics()
    assert (after.driver_used, after.idle) == (before.driver_used, 0)
    assert after.driver_reserved <= before.driver_reserved


def test_memory_used_on_a_second_stream_is_not_overwritten_early(gpu, kernel):
    n = 1 << 20
    other = gpu.new_stream()
    wait = CheckedLaunch(kernel("waiting", "spin"), ("i64",), (1,), (1,))
    axpb = CheckedLaunch(kernel("axpb", "axpb"), ("pointer", "pointer", "f32", "f32", "i64"), (n // 256,), (256,))
    x = np.ones(n, np.float32)
    result = to_device(np.zeros(n, np.float32), gpu.allocate(4 * n), gpu.stream)
    source = to_device(x, gpu.allocate(4 * n), gpu.stream)
    other.wait(gpu.stream)
    wait(other, 20_000_000)
    axpb(other, result, source, 1.0, 0.0, n)
    del source
    # the same block again, on the stream that is idle: its next use must come after the other stream's
    again = gpu.allocate(4 * n)
    fill(again, 0xFF, gpu.stream)
    assert (to_host(result, other) == x).all()


class FailingNow:
    """The real driver, with the n-th call from now failing before it is made."""

    def __init__(self, api):
        self._api, self.countdown = api, 0

    def __getattr__(self, name):
        found = getattr(self._api, name)
        if not (name.startswith("cu") and name[2].isupper()) or name.startswith("cuGetError"):
            return found

        def call(*arguments):
            self.countdown -= 1
            if self.countdown == 0:
                return (self._api.CUresult.CUDA_ERROR_INVALID_VALUE, None)
            return found(*arguments)

        return call


def test_a_thousand_rounds_with_failing_calls_leak_nothing():
    real = driver()
    failing = type(real).__new__(type(real))
    failing.__dict__.update(real.__dict__)
    failing.api = FailingNow(real.api)
    gpu = open_gpu(failing)
    gpu.pool.keep = 1 << 20
    plan = CheckedLaunch(gpu.modules.load(ALL["axpb"]).kernel("axpb"), ("pointer", "pointer", "f32", "f32", "i64"), (4,), (256,))
    other = gpu.new_stream()
    gpu.trim()
    before, chance, failures = gpu.pool.statistics(), random.Random(5), 0
    for round_number in range(1000):
        failing.api.countdown = 1 + round_number % 9
        try:
            x = gpu.allocate(4096)
            y = gpu.allocate(chance.choice((4096, 700_000)), other)
            fill(x, 0, gpu.stream)
            other.wait(gpu.stream)
            plan(other, y, x, 1.0, 2.0, 1024)
            other.synchronize(timeout=30)
            if round_number % 50 == 0:
                gpu.trim()
        except CudaError as error:
            assert error.name == "CUDA_ERROR_INVALID_VALUE"
            failures += 1
        x = y = None
    failing.api.countdown = 0
    gc.collect()
    gpu.trim()
    after = gpu.pool.statistics()
    assert failures > 500
    assert (after.in_use, after.idle, after.blocks_in_use) == (0, 0, 0)
    assert after.driver_used <= before.driver_used
    assert gpu.device.streams_made == 2
