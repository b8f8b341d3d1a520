"""Whatever driver call fails, the error is a clean one and nothing is left behind: a thousand rounds of all that the runtime does."""

import gc
import random

import numpy as np
import pytest
from fake_driver import FakeDriver, scale

from runtime.cuda.copies import copy, download, fill, to_device, to_host, upload
from runtime.cuda.driver import Driver
from runtime.cuda.errors import CudaError, CudaOutOfMemory
from runtime.cuda.gpu import open_gpu
from runtime.cuda.graph import Recording
from runtime.cuda.host import Registered
from runtime.cuda.interop import import_array
from runtime.cuda.launch import CheckedLaunch

SIGNATURE = ("pointer", "pointer", "f64", "i64")
ROUNDS, CALLS = 1000, 23


def a_round(gpu, other, chance):
    """Allocate, copy, launch, record, export, free: what programs do, on two streams."""
    x = np.arange(32.0)
    kernel = gpu.modules.load(b"image", "blas").kernel("scale")
    plan = CheckedLaunch(kernel, SIGNATURE, (1,), (32,))
    source = to_device(x, gpu.allocate(x.nbytes), gpu.stream)
    target = to_device(np.zeros_like(x), gpu.allocate(chance.choice((256, 5000))), gpu.stream)
    plan(gpu.stream, target, source, 2.0, 32)
    other.wait(gpu.stream)
    plan.bind(target, source, 3.0, 32)(other)
    with Recording(gpu.stream) as recording:
        plan(gpu.stream, target, source, 4.0, 32)
    recording.graph()(gpu.stream)
    borrowed = import_array(target, other)
    copy(source, borrowed, other)
    pinned = gpu.pinned.empty((32,), np.float64)
    download(pinned, source, other)
    with Registered(gpu.device, x) as registered:
        upload(source, registered.view, other)
    fill(target, 0, gpu.stream)
    other.synchronize()
    assert to_host(target, gpu.stream).tolist() == [0.0] * 32
    if chance.random() < 0.1:
        gpu.trim()


@pytest.mark.parametrize("code", [1, 2])
def test_a_thousand_rounds_with_a_failing_call_each_leak_nothing(code):
    fake = FakeDriver({"scale": scale})
    gpu = open_gpu(Driver(fake))
    gpu.pool.keep = 16_384
    other, chance, failures = gpu.new_stream(), random.Random(code), 0
    a_round(gpu, other, chance)
    streams, modules = set(fake.streams), len(gpu.modules)
    for number in range(ROUNDS):
        fake.fail_at = {fake.calls.total() + 1 + number % CALLS: code}
        try:
            a_round(gpu, other, chance)
        except CudaError as error:
            failures += 1
            assert error.code == code
            assert str(error).startswith(f"{error.call}: ")
            assert not isinstance(error, CudaOutOfMemory) or "asked for; the p" in str(error)
    fake.fail_at = {}
    gpu.stream.synchronize()
    other.synchronize()
    gc.collect()
    gpu.device.reap()
    gpu.trim()
    assert failures > ROUNDS // 2
    assert fake.memory == fake.pinned == fake.graphs == fake.capturing == {} and fake.registered == set()
    assert fake.streams == streams and len(gpu.modules) == modules
    assert len(fake.events) == gpu.device.events_made
    assert gpu.stream.recording is None and gpu.device.captures == 0
    a_round(gpu, other, chance)
