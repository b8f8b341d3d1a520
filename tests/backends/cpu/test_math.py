"""The math library: dense sweeps against NumPy in long double (x87, 64 bits of mantissa), and the corner cases."""

import math

import numpy as np
import pytest
from cpu_runs import NUMPY, pointwise, run
from ml_dtypes import bfloat16

import zynml
from compiler.hir.module import HirFunction
from tests.math_references import LONG, SPECIAL, TABLE, assert_near, needs_long_double, sweep


def evaluate(function: HirFunction, *inputs: np.ndarray) -> np.ndarray:
    out = np.empty_like(inputs[0])
    assert run(function, [len(out), *inputs, out]) is None
    return out


@needs_long_double
@pytest.mark.parametrize("dtype", ("f32", "f64"))
@pytest.mark.parametrize("name", TABLE)
def test_within_the_stated_ulp(name: str, dtype: str) -> None:
    reference, ranges, single, double = TABLE[name]
    function = pointwise(lambda b, x: b.op(name, x), [dtype], dtype, "simd")
    for bounds in ranges:
        x = sweep(bounds, NUMPY[dtype], 20_000 if name == "erf" else 100_000)
        with np.errstate(all="ignore"):
            assert_near(evaluate(function, x), reference(x.astype(LONG)), single if dtype == "f32" else double, x)


@needs_long_double
@pytest.mark.parametrize("form", ("loop", "tile"))
@pytest.mark.parametrize("dtype", ("f16", "bf16", "f32", "f64"))
@pytest.mark.parametrize("name", TABLE)
def test_corner_cases(name: str, dtype: str, form: str) -> None:
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL).astype(NUMPY[dtype])
        exact = TABLE[name][0](x.astype(np.float64).astype(LONG))
        found = evaluate(pointwise(lambda b, v: b.op(name, v), [dtype], dtype, form), x)
        assert_near(found, exact, 2.5, x)
        zero = exact == 0
        np.testing.assert_array_equal(np.signbit(found[zero].astype(np.float64)), np.signbit(exact[zero]))


@needs_long_double
@pytest.mark.parametrize("form", ("simd", "tile"))
@pytest.mark.parametrize("dtype", ("f32", "f64"))
def test_sines_of_huge_numbers(dtype: str, form: str) -> None:
    x = sweep(None, NUMPY[dtype], 20_000)
    for name in ("sin", "cos", "tan"):
        function = pointwise(lambda b, v, n=name: b.op(n, v), [dtype], dtype, form)
        # x87 reduces by a pi of 66 bits past 2**63: the C library in f64 is the reference there
        exact = np.array([getattr(math, name)(float(v)) for v in x], LONG)
        assert_near(evaluate(function, x), exact, 3.0, x)


@needs_long_double
@pytest.mark.parametrize("dtype", ("f32", "f64"))
def test_pow_and_atan2(dtype: str) -> None:
    rng = np.random.default_rng(1)
    count = 50_000
    power = pointwise(lambda b, x, y: b.op("pow", x, y), [dtype, dtype], dtype, "simd")
    angle = pointwise(lambda b, x, y: b.op("atan2", x, y), [dtype, dtype], dtype, "simd")
    for bases, exponents in (((0, 10), (-5, 5)), ((0.5, 2), (-1000, 1000)), ((0, 1e5), (-40, 40)), ((0, 1e-39), (-3.3, 3.8)), ((-10, 10), None)):
        x = rng.uniform(*bases, count).astype(NUMPY[dtype])
        y = (rng.uniform(*exponents, count) if exponents else rng.integers(-30, 30, count)).astype(NUMPY[dtype])
        with np.errstate(all="ignore"):
            assert_near(evaluate(power, x, y), np.power(x.astype(LONG), y.astype(LONG)), 0.6 if dtype == "f32" else 2.0, x, y)
    for scale in (0, 30):
        y, x = ((rng.normal(size=count) * 10.0 ** rng.integers(-scale, scale + 1, count)).astype(NUMPY[dtype]) for _ in range(2))
        assert_near(evaluate(angle, y, x), np.arctan2(y.astype(LONG), x.astype(LONG)), 2.0, y, x)
    special = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, np.inf, -np.inf, np.nan, 3, -3, 2.5, -2.5, 1e18, -1e18, 1e-40, -1e-40, 2**24 + 2], NUMPY[dtype])
    x, y = (grid.ravel().copy() for grid in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        for function, reference in ((power, np.power), (angle, np.arctan2)):
            exact = reference(x.astype(LONG), y.astype(LONG))
            found = evaluate(function, x, y)
            assert_near(found, exact, 2.0, x, y)
            zero = (exact == 0) & (found == 0)
            np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(exact[zero]))


def test_integer_powers_wrap() -> None:
    from cpu_runs import assert_as_interpreted

    for dtype in ("i8", "u16", "i32", "i64", "u64"):
        kind = NUMPY[dtype]
        values = np.array([0, 1, 2, 3, 7, 10, 100, np.iinfo(kind).max, np.iinfo(kind).min], kind)
        exponents = np.array([0, 1, 2, 3, 5, 60], kind)
        x, y = (grid.ravel().copy() for grid in np.meshgrid(values, exponents))
        for form in ("loop", "tile"):
            function = pointwise(lambda b, u, v: b.op("pow", u, v), [dtype, dtype], dtype, form)
            assert_as_interpreted(function, [len(x), x, y, np.zeros(len(x), kind)])


@pytest.mark.parametrize("dtype", ("f32", "f64"))
def test_rsqrt_is_two_roundings(dtype: str) -> None:
    x = np.random.default_rng(2).uniform(0, 100, 1000).astype(NUMPY[dtype])
    found = evaluate(pointwise(lambda b, v: b.op("rsqrt", v), [dtype], dtype, "simd"), x)
    np.testing.assert_array_equal(found, (1 / np.sqrt(x)).astype(NUMPY[dtype]))


def test_math_in_a_loop_is_vectorised_without_calls() -> None:
    from compiler.backends.cpu.compile import compile_function

    for name in set(TABLE) - {"sin", "cos", "tan"}:
        kernel = compile_function(pointwise(lambda b, v, n=name: b.op(n, v), ["f32"], "f32", "simd"))
        assert "x float>" in kernel.llvm
        assert f"@{name}" not in kernel.llvm and "@zyn." not in kernel.llvm


def test_sines_in_tiles_are_vectors_with_a_rare_call() -> None:
    from compiler.backends.cpu.compile import compile_function

    for name in ("sin", "cos", "tan"):
        kernel = compile_function(pointwise(lambda b, v, n=name: b.op(n, v), ["f32"], "f32", "tile"))
        assert "fma.v8f64" in kernel.llvm
        assert f"@zyn.{name}.huge.v8f32" in kernel.llvm


@pytest.mark.parametrize("dtype", ("f16", "bf16", "f32", "f64"))
@pytest.mark.parametrize("name", ("exp", "log", "erf", "tanh"))
def test_each_element_of_a_tile_has_the_same_bits(name: str, dtype: str) -> None:
    """Vectors in pairs, one alone, and elements behind them."""
    program = zynml.compile(f"def f(x: tensor[N, {dtype}]) {{ compute(x) {{ for i in 0..N: out[i] = {name}(x[i]) }} }}", threads=1)
    kind = np.dtype(bfloat16) if dtype == "bf16" else np.dtype(f"float{dtype[1:]}")
    for value in (0.3, 1.7, 5.0, np.inf, np.nan):
        for count in (1, 9, 47):
            results = np.asarray(program.f(np.full(count, value, kind)))
            assert len({result.tobytes() for result in results}) == 1


@pytest.mark.parametrize("dtype", ("f32", "f64"))
@pytest.mark.parametrize("name", ("exp", "exp2", "log", "log2", "cosh"))
def test_whole_vectors_have_the_bits_of_elements(name: str, dtype: str) -> None:
    kind, limits = NUMPY[dtype], np.finfo(NUMPY[dtype])
    near = np.array([0.0, limits.smallest_subnormal, limits.smallest_normal, limits.max, np.sqrt(0.5), np.sqrt(2.0), 1.0, np.inf], kind)
    with np.errstate(all="ignore"):
        near = np.concatenate([near, -near, np.nextafter(near, kind(9)), np.nextafter(near, kind(0)), np.array(SPECIAL).astype(kind)])
        border = np.log(np.array([limits.smallest_subnormal, limits.smallest_normal, limits.max], kind).astype(np.float64))
    steps = (border[:, None] * np.linspace(0.9, 1.1, 400)).ravel() * (1 if name != "exp2" else 1 / math.log(2))
    powers = np.exp2(np.linspace(limits.minexp, limits.maxexp - 1, 4000)).astype(kind)
    x = np.concatenate([near, steps.astype(kind), -near, powers / kind(3)])
    x = np.concatenate([x, np.zeros(-len(x) % 64, kind)])
    whole, single = (evaluate(pointwise(lambda b, v: b.op(name, v), [dtype], dtype, form), x) for form in ("tile", "loop"))
    np.testing.assert_array_equal(whole, single)
