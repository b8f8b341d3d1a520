"""Machines for programs: with emulated GPUs behind the driver, and without any."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from emulated_gpu import emulating
from fake_driver import FakeDriver

from compiler.launch.cuda import code as cuda_code
from runtime.cuda import device as device_module
from runtime.cuda import driver as driver_module
from runtime.cuda import gpu as gpu_module
from runtime.cuda.driver import Driver
from runtime.cuda.errors import CudaUnavailable
from tests.placement.machines import Machine


@pytest.fixture
def gpus() -> int:
    return 1


@pytest.fixture
def machine(gpus: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    """A machine with emulated GPUs behind the driver."""
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    device_module.CURRENT.__dict__.clear()
    fake = FakeDriver(devices=gpus)
    monkeypatch.setattr(driver_module._State, "driver", Driver(fake))
    monkeypatch.setattr(gpu_module, "_OPEN", {})
    monkeypatch.setattr(cuda_code, "compile_kernels", emulating(fake))
    monkeypatch.setattr(cuda_code, "assembler_version", lambda: "")
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    often, rarely = (700, 10, 10), gc.get_threshold()
    gc.set_threshold(*often)  # memory of devices that circles of garbage hold is counted soon
    yield Machine(fake)
    gc.set_threshold(*rarely)
    gc.collect()


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine without, where nobody may measure."""
    monkeypatch.setattr(driver_module._State, "driver", None)
    monkeypatch.setattr(driver_module._State, "refusal", CudaUnavailable("this machine has no NVIDIA driver"))
    return Machine(FakeDriver(), rates={})
