"""Calls whose sizes take different paths through a kernel: each is right, before, while and after the code of all paths replaces that of one,
in this process and in one that finds the code of another's first call."""

from pathlib import Path

import numpy as np
import pytest

import zynml

PROGRAM = """
def product(x: tensor[M, K], y: tensor[K, N]): tensor {
    compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s } }
}
def shifted(x: tensor[M, K], y: tensor[K, N]): tensor {
    let p = compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s } }
    return compute(p) { for i in 0..M, j in 0..N: out[i, j] = p[i, j] + 1.0 }
}
"""
SIZES = ((9, 64, 64), (8, 40, 5), (40, 1000, 48), (9, 64, 64), (0, 5, 3), (8, 40, 5), (8, 40, 5), (40, 1000, 48))


@pytest.mark.parametrize("name", ["product", "shifted"])
@pytest.mark.parametrize("cache", ["on", "off"])
def test_calls_on_all_paths(name: str, cache: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE", cache)
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    rng = np.random.default_rng(7)
    for first in range(3):  # programs of their own, as other processes have
        call = getattr(zynml.compile(PROGRAM), name)
        for rows, terms, columns in SIZES[first:] + SIZES[:first]:
            # whole numbers, whose sums are exact in any order
            x, y = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((rows, terms), (terms, columns)))
            np.testing.assert_array_equal(call(x, y), x @ y + (name == "shifted"))
