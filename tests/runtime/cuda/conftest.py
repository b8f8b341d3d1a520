"""The runtime over a driver in host memory: bookkeeping, packing and errors, on any machine."""

import ctypes
import gc
from collections.abc import Iterator

import pytest
from fake_driver import FakeDriver, value

from runtime.cuda import device as device_module
from runtime.cuda.driver import Driver
from runtime.cuda.gpu import Gpu, open_gpu


def scale(parameters: int, grid: tuple[int, int, int]) -> None:
    """y[i] = a * x[i] for i < n."""
    y, x = value(parameters, 0, ctypes.c_uint64), value(parameters, 1, ctypes.c_uint64)
    a, n = value(parameters, 2, ctypes.c_double), value(parameters, 3, ctypes.c_int64)
    target, source = (ctypes.c_double * n).from_address(y), (ctypes.c_double * n).from_address(x)
    for i in range(n):
        target[i] = a * source[i]


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    device_module.CURRENT.__dict__.clear()
    yield FakeDriver({"scale": scale})
    gc.collect()


@pytest.fixture
def gpu(fake: FakeDriver) -> Gpu:
    return open_gpu(Driver(fake))
