"""`zyntax bench`: over a fake driver, and what it says without one."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from fake_driver import FakeDriver

from compiler.diagnostics import ZyntaxError
from runtime.cuda import driver as drivers
from runtime.cuda import gpu as gpus
from runtime.cuda import measure
from runtime.cuda.driver import Driver
from runtime.cuda.errors import CudaUnavailable
from zyntax.bench_command import SUBJECTS, command


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    made = FakeDriver({"nothing": lambda parameters, grid: None})
    monkeypatch.setattr(drivers._State, "driver", Driver(made))
    monkeypatch.setattr(drivers._State, "refusal", None)
    monkeypatch.setattr(gpus, "_OPEN", {})
    monkeypatch.setattr(measure, "RUNS", 1)
    yield made


def test_launches_are_measured_and_nothing_is_left(api: FakeDriver) -> None:
    before = api.used
    figures = measure.launches(gpus.gpu(), calls=3)
    assert all(value >= 0 for value in figures.values())
    assert {"launch with 4 arguments", "launch and synchronize", "cached module load"} < set(figures)
    assert api.calls["cuLaunchKernel"] >= 3 * 4
    assert api.calls["cuGraphLaunch"] >= 2
    gpus.gpu().trim()
    assert api.used == before


def test_the_table_names_the_device_and_has_a_line_a_figure(api: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUBJECTS, "launch", lambda found: {"one": 1.5, "another": 20.25})
    done = CliRunner().invoke(command, ["launch"])
    assert done.output == "cuda:0: Fake GPU, microseconds of the host\n  one          1.500\n  another     20.250\n"


def test_json(api: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUBJECTS, "launch", lambda found: {"one": 1.5})
    done = CliRunner().invoke(command, ["launch", "--json"])
    assert json.loads(done.output) == {"device": "Fake GPU", "driver": "13.0", "microseconds": {"one": 1.5}}


def test_a_device_that_fails_is_a_message(api: FakeDriver) -> None:
    api.fail_next["cuModuleLoadData"] = 2
    done = CliRunner().invoke(command, ["launch"])
    assert isinstance(done.exception, ZyntaxError)
    (diagnostic,) = done.exception.diagnostics
    assert diagnostic.code in ("0804", "0805") and "out of memory" in diagnostic.message


def test_without_a_gpu_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers._State, "driver", None)
    monkeypatch.setattr(drivers._State, "refusal", CudaUnavailable("this machine has no NVIDIA driver"))
    done = CliRunner().invoke(command, ["launch"])
    assert isinstance(done.exception, ZyntaxError)
    (diagnostic,) = done.exception.diagnostics
    assert (diagnostic.code, diagnostic.message) == (
        "0501",
        "`zyntax bench launch` measures a GPU, and there is none: this machine has no NVIDIA driver",
    )


def test_another_subject_is_refused_with_what_there_is() -> None:
    done = CliRunner().invoke(command, ["matmul"])
    assert isinstance(done.exception, ZyntaxError)
    (diagnostic,) = done.exception.diagnostics
    assert (diagnostic.code, diagnostic.message, diagnostic.hint) == (
        "0505",
        "`zyntax bench` doesn't measure `matmul`",
        "it measures launch, and strategies (`.qdsl`)",
    )
