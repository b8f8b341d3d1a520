"""`zyntax devices`: this machine, machines without GPUs, and GPUs that a fake driver tells of."""

import json

import pytest
from click.testing import CliRunner
from fake_driver import ATTRIBUTES, FakeDriver

from runtime.cpu import detect
from runtime.cuda import driver as drivers
from runtime.cuda.driver import Driver
from runtime.cuda.errors import CudaUnavailable
from runtime.device import ABSENT
from tests.zyntax.conftest import Zyntax
from zyntax.devices_command import command


def devices(monkeypatch: pytest.MonkeyPatch, api: FakeDriver | None, *arguments: str, refusal: str = "") -> str:
    """What the command prints where the driver is this one, or none for that reason."""
    monkeypatch.setattr(drivers._State, "driver", Driver(api) if api is not None else None)
    monkeypatch.setattr(drivers._State, "refusal", CudaUnavailable(refusal) if api is None else None)
    done = CliRunner().invoke(command, arguments)
    assert (done.exit_code, done.exception) == (0, None)
    return done.output


def test_the_cpu_and_the_emulator_are_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = devices(monkeypatch, None, refusal="this machine has no NVIDIA driver").splitlines()
    assert lines[0] == f"cpu: {detect.host_cpu()}"
    assert lines[1].split() == ["cores", str(detect.cores())]
    assert "emulator: GPU code in an interpreter: slow, and checks every access" in lines
    assert lines[-4] == "cuda: not here: this machine has no NVIDIA driver"
    assert lines[-3:] == [f"{kind}: not here: {ABSENT[kind]}" for kind in ("rocm", "metal", "vulkan")]


def test_each_gpu_with_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    text = devices(monkeypatch, FakeDriver(devices=2, memory=3 << 29))
    for ordinal in range(2):
        assert f"""cuda:{ordinal}: Fake GPU
  architecture      sm_90; programs are compiled for sm_90a
  multiprocessors   4, 1.98 GHz
  memory            1.5 GiB, 1.5 GiB free; L2 cache 60 MiB
  a block           1024 threads, 65536 registers, 48 KiB of shared memory, 227 KiB when asked for
  a multiprocessor  2048 threads, 32 blocks, 228 KiB of shared memory
  driver            CUDA 13.0, PTX 9.0
""" in text
    assert "not here: this" not in text


def test_json_has_every_limit_as_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, emulator, gpu, *others = json.loads(devices(monkeypatch, FakeDriver(memory=1 << 30), "--json"))
    assert cpu["device"] == "cpu" and cpu["cores"] == detect.cores() and cpu["caches"] == detect.caches()
    assert emulator["device"] == "emulator"
    assert (gpu["device"], gpu["present"], gpu["target"]) == ("cuda:0", True, "sm_90a")
    assert (gpu["capability"], gpu["driver_version"], gpu["ptx_version"]) == ([9, 0], [13, 0], [9, 0])
    assert (gpu["memory"], gpu["memory_free"]) == (1 << 30, 1 << 30)
    assert gpu["shared_per_block_opt_in"] == ATTRIBUTES["MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"]
    assert gpu["max_grid"] == [2**31 - 1, 65535, 65535]
    assert [(other["device"], other["present"]) for other in others] == [("rocm", False), ("metal", False), ("vulkan", False)]


def test_a_gpu_that_can_not_be_opened_says_why_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    api = FakeDriver(devices=2)
    api.fail_next["cuDevicePrimaryCtxRetain"] = 2
    text = devices(monkeypatch, api)
    assert "cuda:0: not here: " in text and "out of memory" in text
    assert "cuda:1: Fake GPU\n" in text


def test_a_gpu_older_than_any_target_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTRIBUTES, "COMPUTE_CAPABILITY_MAJOR", 7)
    text = devices(monkeypatch, FakeDriver())
    assert "cuda:0: not here: devices of compute capability 7.0 are not supported\n" in text


def test_this_machine(zyntax: Zyntax) -> None:
    done = zyntax("devices")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("cpu: ")
    assert json.loads(zyntax("devices", "--json").stdout)[0]["present"] is True
