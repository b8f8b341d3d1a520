"""Programs and calls that another process kept: here another program object, with the folder of the cache between them."""

from pathlib import Path

import numpy as np
import pytest

import zynml
from bench.gpu import sources
from runtime.cuda.gpu import Gpu
from runtime.cuda.remote import upload
from runtime.tensor import Tensor, numpy_dtype
from zynml import api

EXTENT = 4096


def test_a_kept_program_multiplies_without_being_parsed(gpu: Gpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE", "on")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ZYNTAX_TUNE", "off")
    parsed, original = [], api.parse_source
    monkeypatch.setattr(api, "parse_source", lambda source: parsed.append(source) or original(source))
    for seed in range(3):
        random = np.random.default_rng(seed)
        a, b = (random.integers(-4, 5, (EXTENT, EXTENT)).astype(numpy_dtype("bf16")) for _ in range(2))
        product = zynml.compile(sources.product(), device="cuda:0").f(*(Tensor(None, upload(one, gpu, named=True)) for one in (a, b)))
        rows = [0, 1, EXTENT // 2 + 3, EXTENT - 1]
        wanted = a[rows].astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_array_equal(product.array[rows], wanted.astype(product.array.dtype))
    assert len(parsed) == 1
