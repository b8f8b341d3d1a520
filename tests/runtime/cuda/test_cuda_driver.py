"""The one check of driver calls, and why CUDA can't be used."""

import os
import subprocess
import sys
from types import ModuleType

import pytest
from fake_driver import FakeDriver

from runtime.cuda import driver as driver_module
from runtime.cuda.device import CudaDevice
from runtime.cuda.driver import Driver, open_driver
from runtime.cuda.errors import CudaContextLost, CudaError, CudaUnavailable, readable


def test_a_failed_call_says_which_call_and_what_the_driver_says(fake):
    driver = Driver(fake)
    fake.fail_next["cuDeviceGet"] = 1
    with pytest.raises(CudaError) as caught:
        driver.call("cuDeviceGet", 7, context="device 7")
    assert str(caught.value) == "cuDeviceGet: invalid argument (CUDA_ERROR_INVALID_VALUE, 1): device 7"
    assert (caught.value.call, caught.value.code, caught.value.name) == ("cuDeviceGet", 1, "CUDA_ERROR_INVALID_VALUE")


def test_a_missing_package_is_unavailable():
    with pytest.raises(CudaUnavailable) as caught:
        open_driver("no_such_bindings.driver")
    assert caught.value.reason == (
        "the package `cuda-bindings` can't be imported (No module named 'no_such_bindings'): pip install 'zyntax-lang[compute]'"
    )


@pytest.fixture
def bindings(monkeypatch):
    module = ModuleType("fake_bindings")
    monkeypatch.setitem(sys.modules, "fake_bindings", module)

    def install(fake):
        for name in dir(fake):
            if name.startswith(("cu", "CU")):
                setattr(module, name, getattr(fake, name))

    return install


def test_a_driver_without_devices_is_unavailable(bindings):
    bindings(FakeDriver(devices=0))
    with pytest.raises(CudaUnavailable, match=r"^the CUDA driver finds no device$"):
        open_driver("fake_bindings")


def test_a_driver_that_does_not_start_is_unavailable(bindings):
    fake = FakeDriver()
    fake.fail_next["cuInit"] = 100
    bindings(fake)
    with pytest.raises(CudaUnavailable) as caught:
        open_driver("fake_bindings")
    assert str(caught.value) == ("the CUDA driver can't be initialised: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE, 100)")


def test_a_machine_without_the_drivers_library_is_unavailable(bindings, monkeypatch):
    fake = FakeDriver()
    bindings(fake)

    def absent(flags):
        raise RuntimeError("libcuda.so.1 is not found\nlong story")

    monkeypatch.setattr(sys.modules["fake_bindings"], "cuInit", absent)
    with pytest.raises(CudaUnavailable, match=r"^this machine has no NVIDIA driver \(libcuda.so.1 is not found\)$"):
        open_driver("fake_bindings")


def test_the_reason_is_the_same_each_time(monkeypatch):
    asked = []

    def refuse():
        asked.append(1)
        raise CudaUnavailable("no GPU today")

    monkeypatch.setattr(driver_module, "open_driver", refuse)
    monkeypatch.setattr(driver_module, "_State", type("_State", (), {"driver": None, "refusal": None}))
    assert not driver_module.gpu_available()
    assert driver_module.unavailable_reason() == "no GPU today"
    assert len(asked) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the library is looked for by its Linux name")
@pytest.mark.parametrize("here", [True, False])
def test_devices_are_counted_without_the_bindings_where_the_drivers_library_is_missing(fake, monkeypatch, here):
    asked = []

    def load(name):
        asked.append(name)
        if not here:
            raise OSError(name)

    monkeypatch.setattr(driver_module.ctypes, "CDLL", load)
    monkeypatch.setattr(driver_module, "open_driver", lambda: asked.append("bindings") or Driver(fake))
    monkeypatch.setattr(driver_module, "_State", type("_State", (), {"driver": None, "refusal": None}))
    assert driver_module.gpu_count() == (Driver(fake).device_count if here else 0)
    assert asked == ["libcuda.so.1", *["bindings"] * here]


def test_a_forked_process_is_told_to_spawn(fake, monkeypatch):
    driver = Driver(fake)
    driver.process = os.getpid() + 1
    monkeypatch.setattr(driver_module, "_State", type("_State", (), {"driver": driver, "refusal": None}))
    assert driver_module.unavailable_reason() == (
        "CUDA was initialised before this process was forked: start processes with `spawn` instead"
    )


def test_importing_the_package_loads_neither_bindings_nor_numpy():
    code = "import sys, runtime.cuda, runtime.cuda.driver, runtime.device; print(sorted({'numpy', 'cuda'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=True)
    assert shown.stdout == "[]\n"


def test_a_device_that_is_not_there_is_named(fake):
    with pytest.raises(CudaUnavailable, match=r"^there is no device cuda:3; this machine has 1 device$"):
        CudaDevice(Driver(fake), 3)


def test_properties_are_read_from_the_driver(gpu):
    limits = gpu.device.properties
    assert (limits.name, limits.architecture, limits.multiprocessors) == ("Fake GPU", "sm_90", 4)
    assert (limits.max_block, limits.max_grid) == ((1024, 1024, 64), (2**31 - 1, 65535, 65535))
    assert limits.driver_version == (13, 0)
    assert limits.cooperative_launch and limits.memory_pools


def test_a_fault_names_the_kernels_not_yet_waited_for_and_stays(gpu, fake):
    gpu.stream.launched.extend(["`first` (a.zynml:1)", "`second` (a.zynml:9)"])
    fake.fault = 700
    with pytest.raises(CudaContextLost) as caught:
        gpu.stream.synchronize()
    assert str(caught.value) == (
        "cuStreamQuery: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS, 700): in one of the kernels launched "
        "and not yet waited for, latest last: `first` (a.zynml:1), `second` (a.zynml:9); the context is lost, and with it all memory on the device"
    )
    fake.fault = 0
    with pytest.raises(CudaContextLost):
        gpu.allocate(100)


def test_a_context_that_another_library_took_away_is_made_current_again(gpu, fake):
    fake.current = 0
    fake.fail_next["cuMemGetInfo"] = 201
    assert gpu.device.memory()[1] == fake.capacity
    assert fake.current == 0xC0


def test_with_several_devices_the_threads_own_context_is_left_as_it_was():
    fake = FakeDriver(devices=2)
    device = CudaDevice(Driver(fake), 1)
    fake.current = 0xC0
    device.memory()
    assert fake.current == 0xC0
    assert fake.calls["cuCtxPushCurrent"] == fake.calls["cuCtxPopCurrent"] == 1


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (1536 << 20, "1.5 GiB"), (3 << 30, "3 GiB")]
)
def test_sizes_are_readable(size, shown):
    assert readable(size) == shown
