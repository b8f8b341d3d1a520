"""Code for other processors: a plain x86-64 (run here when this is one), and other architectures (only looked at)."""

import platform

import numpy as np
import pytest
from cpu_runs import NUMPY, pointwise, run_kernel

from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.emulator.interpret import interpret

on_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="runs code for x86-64")
PLAIN = CpuOptions(cpu="x86-64", features="")


@on_x86
@pytest.mark.parametrize("form", ("simd", "tile"))
@pytest.mark.parametrize("dtype", ("f16", "bf16", "f8e4m3", "f8e5m2"))
def test_narrow_floats_without_instructions_for_them(dtype: str, form: str) -> None:
    """Every value through a load, an addition that rounds, and a store."""
    bits = np.arange(1 << (8 * np.dtype(NUMPY[dtype]).itemsize), dtype=f"u{np.dtype(NUMPY[dtype]).itemsize}")
    x = bits.view(NUMPY[dtype])
    y = np.roll(x, 4099 % len(x)).copy()
    function = pointwise(lambda b, u, v: b.add(u, v), [dtype, dtype], dtype, form)
    found, expected = np.zeros_like(x), np.zeros_like(x)
    assert run_kernel(compile_function(function, PLAIN), [len(x), x, y, found]) is None
    interpret(function, [len(x), x, y, expected])
    with np.errstate(all="ignore"):
        numbers = [a.astype(np.float32) for a in (found, expected)]
    np.testing.assert_array_equal(*numbers)


@on_x86
@pytest.mark.parametrize("dtype", ("f16", "f8e4m3", "f8e5m2", "bf16"))
def test_casts_to_narrow_floats_without_instructions_for_them(dtype: str) -> None:
    rng = np.random.default_rng(0)
    corners = [np.inf, -np.inf, np.nan, 448, 464, 465, 65519.99, 65520]
    x = np.concatenate([rng.normal(size=2000) * 10.0 ** rng.integers(-12, 12, 2000), corners])
    function = pointwise(lambda b, v: b.cast(v, dtype), ["f64"], dtype, "simd")
    found, expected = np.zeros(len(x), NUMPY[dtype]), np.zeros(len(x), NUMPY[dtype])
    assert run_kernel(compile_function(function, PLAIN), [len(x), x, found]) is None
    interpret(function, [len(x), x, expected])
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@on_x86
def test_the_math_library_without_fused_multiply_add() -> None:
    function = pointwise(lambda b, v: b.op("exp", v), ["f32"], "f32", "simd")
    x = np.linspace(-80, 80, 1001, dtype=np.float32)
    found = np.zeros_like(x)
    assert run_kernel(compile_function(function, PLAIN), [len(x), x, found]) is None
    np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=1.3e-7)


@pytest.mark.parametrize(
    ("triple", "features", "word"),
    (("aarch64-unknown-linux-gnu", "+neon", "fmadd"), ("aarch64-apple-darwin", "", "_f:"), ("x86_64-pc-windows-msvc", "+avx2,+fma", "ymm")),
)
def test_assembly_for_another_machine(triple: str, features: str, word: str) -> None:
    function = pointwise(lambda b, u, v: b.fma(u, v, u), ["f32", "f32"], "f32", "simd")
    kernel = compile_function(function, CpuOptions(triple=triple, features=features, threads="serial"))
    assert word in kernel.asm or "fmla" in kernel.asm
    assert len(kernel.object) > 100
