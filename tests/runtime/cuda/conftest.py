"""The runtime over a driver in host memory: bookkeeping, packing and errors, on any machine."""

import gc
from collections.abc import Iterator

import pytest
from fake_driver import FakeDriver, scale

from runtime.cuda import device as device_module
from runtime.cuda.driver import Driver
from runtime.cuda.gpu import Gpu, open_gpu


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    device_module.CURRENT.__dict__.clear()
    yield FakeDriver({"scale": scale})
    gc.collect()


@pytest.fixture
def gpu(fake: FakeDriver) -> Gpu:
    return open_gpu(Driver(fake))
