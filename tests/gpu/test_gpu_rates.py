"""What is measured of a GPU lies where GPUs of these years lie."""

from pathlib import Path

import pytest

from compiler.launch.cuda import rates as gpu_rates
from runtime.cuda.gpu import gpu


def test_rates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gpu_rates, "_known", {})
    rates = gpu_rates.measured(gpu())
    print(rates)
    assert 0.5 < rates.clock < 4
    assert 100 < rates.memory < 20_000
    assert 8 < rates.second_cache < 256
    assert 500 < rates.launch < 50_000
    assert 5 < rates.block < 2000
    assert 100 < rates.latency < 5000
    assert gpu_rates.rates_of(gpu().device) == rates
