"""What is measured of a GPU lies where GPUs of these years lie."""

import os
from pathlib import Path

import pytest

from compiler.launch.cuda import rates as gpu_rates
from compiler.machines.rates import GpuRates
from runtime.cuda.gpu import gpu

ALONE = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) == 1
"""Whether no other test uses the GPU meanwhile: work beside makes times longer."""


def test_rates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gpu_rates, "_known", {})
    rates = measured()
    print(rates)
    assert rates.clock < 4
    assert rates.memory < 20_000
    assert rates.launch > 500
    assert rates.latency > 100
    if ALONE:
        assert rates.clock > 0.5
        assert rates.memory > 100
        assert 8 < rates.second_cache < 256
        assert rates.launch < 50_000
        assert 5 < rates.block < 2000
        assert rates.latency < 5000
    assert gpu_rates.rates_of(gpu().device) == rates


def measured() -> GpuRates:
    """Beside other work, a launch may have taken longer than one that reads, so that no rate of reading follows."""
    try:
        return gpu_rates.measured(gpu())
    except ValueError as error:
        if ALONE:
            raise
        pytest.skip(f"beside other tests, {error}")
