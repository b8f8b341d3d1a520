"""`zyntax devices --measure`: over a fake driver whose events are always 1.5 ms apart, and what it says where a figure can't be."""

import ctypes
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_driver import FakeDriver

from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.target import gpu_target
from compiler.diagnostics import ZyntaxError
from compiler.launch.cuda import rates as gpu_rates
from compiler.machines.rates import H200
from runtime.cuda import driver as drivers
from runtime.cuda import gpu as gpus
from runtime.cuda.driver import Driver
from runtime.cuda.errors import CudaUnavailable
from zyntax.devices_command import command

APART = 1.5e6
"""Nanoseconds."""


def words_to(cycles: int, nanoseconds: int) -> Callable[[int, tuple[int, ...]], None]:
    def write(parameters: int, grid: tuple[int, ...]) -> None:
        to = ctypes.c_uint64.from_address(ctypes.c_void_p.from_address(parameters).value or 0).value
        (ctypes.c_uint64 * 2).from_address(to)[:] = [cycles, nanoseconds]

    return write


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    kernels = dict.fromkeys(("little", "begin", "cached", "chase"), lambda parameters, grid: None)
    made = FakeDriver(kernels | {"spin": words_to(3_000_000, 1_500_000)}, memory=1 << 25)
    monkeypatch.setattr(drivers._State, "driver", Driver(made))
    monkeypatch.setattr(drivers._State, "refusal", None)
    monkeypatch.setattr(gpus, "_OPEN", {})
    monkeypatch.setattr(gpu_rates, "_known", {})
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    yield made


def test_what_is_measured_is_kept_and_shown(api: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    before = json.loads(CliRunner().invoke(command, ["--json"]).output)
    assert before[2]["rates"] is None
    done = CliRunner().invoke(command, ["--measure", "--json"])
    assert (done.exit_code, done.exception) == (0, None)
    found = json.loads(done.output)[2]["rates"]
    launch, clock, processors = APART / 20, 2.0, 4
    assert found == pytest.approx(
        {
            "clock": clock,
            "memory": 2 * (1 << 22) / APART,
            "second_cache": 16 * 64 * 4 * 256 / (APART - launch) / clock,
            "launch": launch,
            "block": (APART - launch) * clock * processors / (1 << 20),
            "latency": H200.latency,
            "cache": H200.cache,
        },
        rel=1e-4,
    )
    monkeypatch.setattr(gpu_rates, "_known", {})  # as in another process
    monkeypatch.setattr(gpus, "_OPEN", {})
    text = CliRunner().invoke(command, []).output
    assert (
        "  measured          memory 6 GB/s, L2 cache 0 bytes a cycle and multiprocessor; a load 700 cycles, a block 11, a launch 75.0 us; 2.00 GHz\n"
        in text
    )


def test_a_figure_that_can_not_be(api: FakeDriver) -> None:
    api.kernels["spin"] = words_to(0, 1)
    done = CliRunner().invoke(command, ["--measure"])
    assert isinstance(done.exception, ZyntaxError)
    (said,) = done.exception.diagnostics
    assert (said.code, said.message) == ("0805", "cuda:0 gave a figure that can't be: clock is 0")


def test_a_device_that_fails(api: FakeDriver) -> None:
    api.fail_next["cuLaunchKernel"] = 999
    done = CliRunner().invoke(command, ["--measure"])
    assert isinstance(done.exception, ZyntaxError)
    assert done.exception.diagnostics[0].message.startswith("cuda:0 failed: ")


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers._State, "driver", None)
    monkeypatch.setattr(drivers._State, "refusal", CudaUnavailable("this machine has no NVIDIA driver"))
    done = CliRunner().invoke(command, ["--measure"])
    assert isinstance(done.exception, ZyntaxError)
    (said,) = done.exception.diagnostics
    assert said.message == "`zyntax devices --measure` measures GPUs, and there is none: this machine has no NVIDIA driver"
    assert (said.code, said.hint) == ("0501", "without `--measure` it lists what is here")


@pytest.mark.skipif(not can_assemble(), reason="the assembler of the extra isn't installed: pip install 'zyntax-lang[compute]'")
@pytest.mark.parametrize("target", ["sm_75", "sm_90", "sm_120"])
def test_the_kernels_assemble(target: str) -> None:
    assert set(assemble(gpu_rates.KERNELS, gpu_target(target)).kernels) == {"little", "begin", "spin", "chase", "cached"}
