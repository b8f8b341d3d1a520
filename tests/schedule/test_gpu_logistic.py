"""Sums of 1 and a tanh as quotients, where results are narrow: values, and where it is left alone."""

import numpy as np
import pytest

import zynml

GELU = """
def f(x: tensor[N, TYPE]): tensor {
    compute(x) -> tensor[N, TYPE] {
        for i in 0..N:
            let v = x[i] as f32
            let t = tanh(0.7978845608 * (v + 0.044715 * v * v * v))
            out[i] = (0.5 * v * (1.0 + t)) as TYPE
    }
}"""


@pytest.mark.parametrize(("dtype", "quotient"), [("f16", True), ("bf16", True), ("f32", False)])
def test_where_results_are_narrow(dtype: str, quotient: bool) -> None:
    text = str(zynml.compile(GELU.replace("TYPE", dtype)).emit("hir", "sm_90a"))
    assert ("tanh" not in text) == quotient
    assert ("exp2" in text) == quotient


def test_values() -> None:
    program = zynml.compile(GELU.replace("TYPE", "f16"), device="emulator")
    x = np.concatenate([np.linspace(-12, 12, 97), [0.0, -0.0, np.inf, np.nan, 6e4, -30.0]]).astype(np.float16)
    v = x.astype(np.float64)
    with np.errstate(all="ignore"):
        want = 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3)))
    found = program.f(x).astype(np.float64)
    assert np.array_equal(np.isnan(found), np.isnan(want))
    assert np.allclose(found, want, rtol=2e-3, atol=1e-7, equal_nan=True)


def test_a_tanh_that_others_read_stays() -> None:
    source = GELU.replace("TYPE", "bf16").replace("(0.5 * v * (1.0 + t))", "((1.0 + t) * t)")
    assert "tanh" in str(zynml.compile(source).emit("hir", "sm_90a"))
