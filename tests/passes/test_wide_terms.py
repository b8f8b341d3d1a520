"""Sums of 16-bit floats in one expression have one rounding, where something else reads them; factors, strict blocks and f32 none fewer."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml

SOURCE = """
def terms(x: tensor[N, T], y: tensor[N, T]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] * y[i] + 0.75 * y[i] - x[i] } }
def factor(x: tensor[N, T], y: tensor[N, T]): tensor { compute(x, y) { for i in 0..N: out[i] = (x[i] + y[i]) * y[i] } }
def chosen(x: tensor[N, T], y: tensor[N, T]): tensor {
    compute(x, y) {
        for i in 0..N:
            var s = x[i] * y[i]
            if i > 2: s += 0.75 * y[i]
            out[i] = s
    }
}
"""


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["terms", "factor", "chosen"])
def test_roundings(name: str, dtype: str) -> None:
    kind: Any = np.float16 if dtype == "f16" else ml_dtypes.bfloat16
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(1003).astype(kind) for _ in "xy")
    a, b = x.astype(np.float64), y.astype(np.float64)

    def rounded(values: Any) -> Any:
        return values.astype(np.float32).astype(kind).astype(np.float64)

    expected = {
        "terms": rounded(a * b + 0.75 * b - a),
        "factor": rounded(rounded(a + b) * b),
        "chosen": rounded(a * b + np.where(np.arange(len(a)) > 2, 0.75 * b, 0.0)),
    }[name]
    result = np.asarray(getattr(zynml.compile(SOURCE.replace(", T]", f", {dtype}]")), name)(x, y)).astype(np.float64)
    # a sum of f32 has two or three roundings of its own, each of which moves one in some thousands to the other side of a middle
    assert np.mean(result != expected) < 2e-3
