"""The pace of devices: measured by running, kept in the user's cache, made anew when that is damaged or the machine another."""

import json

import pytest
from attrs import asdict

from compiler.devices import calibration
from compiler.devices.calibration import ARITHMETIC, COMPUTED, STEPS, STREAMED, identity, known_rates, measure
from compiler.devices.costs import Rates
from compiler.devices.places import CpuPlace
from compiler.launch.kernels import KernelOptions
from runtime.device import CPU, Device
from tests.placement.machines import Clock

OPTIONS = KernelOptions(threads=1)
SAID = Rates(call=1.0, copy=6.0, copy_to=2.0, copy_from=3.0, memory=4.0, arithmetic=5.0)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path) -> list[Device]:
    """The devices that were measured; figures go to a folder of the test."""
    asked: list[Device] = []

    def measure(place, options):
        asked.append(place.device)
        return SAID

    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "measure", measure)
    return asked


def test_figures_are_measured_once_and_kept(measured, tmp_path) -> None:
    for _ in range(3):
        assert known_rates(CpuPlace(), OPTIONS) == SAID
    assert measured == ["cpu"]
    assert json.loads((tmp_path / "devices.json").read_text()) == {identity(CPU, 1): asdict(SAID)}


def test_other_threads_are_another_machine(measured) -> None:
    known_rates(CpuPlace(), OPTIONS)
    known_rates(CpuPlace(), KernelOptions(threads=7))
    known_rates(CpuPlace(), OPTIONS)
    assert measured == ["cpu", "cpu"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"x": 7}',
        '{"HERE": {}}',
        '{"HERE": {"call": 1.0}}',
        '{"HERE": {"call": "quick", "copy": 1, "copy_to": 1, "copy_from": 1, "memory": 1, "arithmetic": 1}}',
        '{"HERE": {"call": -1, "copy": 1, "copy_to": 1, "copy_from": 1, "memory": 1, "arithmetic": 1}}',
        '{"HERE": {"call": NaN, "copy": 1, "copy_to": 1, "copy_from": 1, "memory": 1, "arithmetic": 1}}',
        '{"HERE": {"call": 1, "copy": 1, "copy_to": 1, "copy_from": 1, "memory": 1, "arithmetic": 1, "more": 1}}',
        "\x00\xff",
    ],
)
def test_a_damaged_file_is_made_anew(measured, tmp_path, text) -> None:
    (tmp_path / "devices.json").write_text(text.replace("HERE", identity(CPU, 1)), encoding="latin-1")
    assert known_rates(CpuPlace(), OPTIONS) == SAID
    assert measured == ["cpu"]
    assert json.loads((tmp_path / "devices.json").read_text())[identity(CPU, 1)] == asdict(SAID)


def test_a_folder_that_can_not_be_written_to_is_no_fault(measured, tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path / "file"))
    assert known_rates(CpuPlace(), OPTIONS) == SAID == known_rates(CpuPlace(), OPTIONS)
    assert measured == ["cpu", "cpu"]


def test_what_is_measured_on_a_cpu_runs_and_comes_out_positive() -> None:
    rates = measure(CpuPlace(), OPTIONS)
    assert rates.copy_to == rates.copy_from == float("inf")
    assert all(value > 0 for value in asdict(rates).values())


def test_figures_follow_from_the_clock(monkeypatch) -> None:
    """Every run takes a second by this clock, so a stream beyond a call takes none: what counts as no time is a nanosecond."""
    monkeypatch.setattr(calibration, "STREAMED", 64)
    monkeypatch.setattr(calibration, "COMPUTED", 64)
    rates = measure(CpuPlace(), OPTIONS, Clock(step=1.0))
    assert rates.call == 1.0
    assert rates.memory == pytest.approx(8 * 64 / 1e-9) and rates.arithmetic == pytest.approx(2 * STEPS * 64 / 1e-9)


def test_a_gpu_is_measured_through_its_driver(machine, monkeypatch) -> None:
    from compiler.devices.places import GpuPlace
    from compiler.source import Sources
    from runtime.cuda.gpu import gpu

    monkeypatch.setattr(calibration, "STREAMED", 300)
    monkeypatch.setattr(calibration, "COMPUTED", 33)
    rates = measure(GpuPlace(gpu(0), Sources()), OPTIONS, Clock(step=0.5))
    assert rates.call == rates.copy == 0.5 and rates.copy_to == rates.copy_from == 4 * 300 / 0.5
    assert "Fake GPU, sm_90, driver 13.0" in identity(Device("cuda:0"), 1) and str(STEPS) in ARITHMETIC
    assert STREAMED > COMPUTED
