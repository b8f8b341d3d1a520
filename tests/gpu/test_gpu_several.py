"""Several devices at once; skipped where there is one."""

import numpy as np
import pytest
from ptx_kernels import ALL

from runtime.cuda.copies import copy, to_device, to_host
from runtime.cuda.driver import driver, gpu_count
from runtime.cuda.errors import CudaRefused, CudaUnavailable
from runtime.cuda.gpu import gpu as find_gpu
from runtime.cuda.launch import CheckedLaunch

AXPB = ("pointer", "pointer", "f32", "f32", "i64")


@pytest.fixture
def second(gpu):
    if gpu_count() < 2:
        pytest.skip("there is one GPU here")
    return find_gpu(1)


def test_a_device_that_is_not_there_is_named(gpu):
    count = gpu_count()
    here = "1 device" if count == 1 else f"{count} devices"
    with pytest.raises(CudaUnavailable, match=rf"^there is no device cuda:{count}; this machine has {here}$"):
        find_gpu(count)


def test_arrays_are_copied_between_devices_and_worked_on_where_they_are(gpu, second):
    x = np.arange(1000, dtype=np.float32)
    here = to_device(x, gpu.allocate(x.nbytes), gpu.stream)
    there = to_device(np.zeros_like(x), second.allocate(x.nbytes), second.stream)
    second.stream.wait(gpu.stream)
    copy(there, here, second.stream)
    plan = CheckedLaunch(second.modules.load(ALL["axpb"]).kernel("axpb"), AXPB, (4,), (256,))
    plan(second.stream, there, there, 2.0, 1.0, 1000)
    assert (to_host(there) == 2 * x + 1).all()
    assert (to_host(here) == x).all()


def test_the_threads_context_stays_the_first_devices(gpu, second):
    gpu.allocate(100)
    second.allocate(100)
    assert int(driver().call("cuCtxGetCurrent")) == int(gpu.device.context)


def test_a_stream_of_another_device_is_refused(gpu, second):
    plan = CheckedLaunch(gpu.modules.load(ALL["waiting"]).kernel("spin"), ("i64",), (1,), (1,))
    with pytest.raises(CudaRefused, match="the stream is one of cuda:1"):
        plan(second.stream, 1)
