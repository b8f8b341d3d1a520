"""Sums of 1 and a tanh as quotients, where results are narrow: values, and where it is left alone."""

import ml_dtypes
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


QUOTIENTS = {
    "v / (1.0 + exp(-v))": lambda v: v / (1 + np.exp(-v)),
    "1.0 / (exp(-v) + 1.0)": lambda v: 1 / (1 + np.exp(-v)),
    "exp2(v) / (0.5 + exp2(v * 3.0))": lambda v: np.exp2(v) / (0.5 + np.exp2(v * 3)),
    "(1.0 + tanh(v)) * (v * 0.25)": lambda v: 0.5 * v / (1 + np.exp(-2 * v)),
    "1.0 + tanh(v)": lambda v: 2 / (1 + np.exp(-2 * v)),
}


@pytest.mark.parametrize("text", QUOTIENTS)
def test_quotients_by_a_constant_and_an_exponential(text: str) -> None:
    """In f16 and bf16, of numbers of all sizes: half a unit in the last place and a little of the exact value."""
    for name, dtype, bits in (("f16", np.float16, 10), ("bf16", ml_dtypes.bfloat16, 7)):
        source = f"def f(x: tensor[N, {name}]) {{ compute(x) -> tensor[N, {name}] {{ for i in 0..N {{\nlet v = x[i] as f32\nout[i] = ({text}) as {name} }} }} }}"
        program = zynml.compile(source, device="emulator")
        x = np.concatenate([np.linspace(-20, 20, 161), [0.0, -0.0, np.nan, 87.0, -87.0, 1e-3]]).astype(dtype)
        with np.errstate(all="ignore"):
            want = QUOTIENTS[text](x.astype(np.float64))
            unit = 2.0 ** (np.maximum(np.floor(np.log2(np.abs(want))), -14.0 if name == "f16" else -126.0) - bits)
        found = np.asarray(program.f(x)).astype(np.float64)
        with np.errstate(all="ignore"):
            want[np.abs(want) > float(ml_dtypes.finfo(dtype).max)] = np.inf
        np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
        fine = np.isfinite(want)
        assert (np.abs(found - want)[fine] <= 0.51 * unit[fine]).all()


def test_a_division_that_could_meet_any_divisor_stays() -> None:
    def emitted(text: str) -> str:
        source = f"def f(x: tensor[N, bf16], y: tensor[N, bf16]) {{ compute(x, y) -> tensor[N, bf16] {{ for i in 0..N: out[i] = ({text}) as bf16 }} }}"
        return str(zynml.compile(source).emit("ptx", "sm_90a"))

    assert "div.full" in emitted("(x[i] as f32) / (y[i] as f32)")
    assert "div.full" in emitted("(x[i] as f32) / (0.0 + exp(y[i] as f32))")
    silu = emitted("(x[i] as f32) / (1.0 + exp(y[i] as f32))")
    assert "div.full" not in silu and "rcp.approx.ftz" in silu
