"""Programs on a GPU that is emulated behind the driver (see `emulated_gpu`)."""

import gc
from collections.abc import Iterator

import pytest
from emulated_gpu import emulating
from fake_driver import FakeDriver

from compiler.launch.cuda import code as cuda_code
from runtime.cuda import device as device_module
from runtime.cuda import driver as driver_module
from runtime.cuda import gpu as gpu_module
from runtime.cuda.driver import Driver
from runtime.cuda.gpu import Gpu
from runtime.unread import UNREAD, VOID


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[FakeDriver]:
    """The driver of the emulated GPUs: one, or as many as the test is parametrized with."""
    device_module.CURRENT.__dict__.clear()
    made = FakeDriver(devices=getattr(request, "param", 1))
    monkeypatch.setattr(driver_module._State, "driver", Driver(made, made.library))
    monkeypatch.setattr(gpu_module, "_OPEN", {})
    monkeypatch.setattr(cuda_code, "compile_kernels", emulating(made))
    monkeypatch.setattr(cuda_code, "assembler_version", lambda: "")
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    often, rarely = (700, 10, 10), gc.get_threshold()
    gc.set_threshold(*often)  # memory of devices that circles of garbage hold is counted soon
    yield made
    UNREAD.clear()
    VOID.clear()
    gc.set_threshold(*rarely)
    gc.collect()


@pytest.fixture
def gpu(fake: FakeDriver) -> Gpu:
    return gpu_module.gpu(0)
