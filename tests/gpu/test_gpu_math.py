"""Functions of floats on a device, as programs use them, over wide ranges: as right as on the CPU. `-s` shows how far off each is."""

import math
import re

import ml_dtypes
import numpy as np
import pytest

import zynml
from tests.math_references import LONG, SPECIAL, TABLE, assert_near, needs_long_double, sweep

pytestmark = needs_long_double

COUNT = 200_000
KINDS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def on_device(call: str, dtype: str, *inputs: np.ndarray) -> np.ndarray:
    """`call` for each element of x (and y)."""
    names = ("x", "y")[: len(inputs)]
    parameters = ", ".join(f"{name}: tensor[N, {dtype}]" for name in names)
    elements = re.sub(r"\b([xy])\b", r"\1[i]", call)
    text = f"def f({parameters}): tensor[N, {dtype}] {{\n    compute({', '.join(names)}) {{ for i in 0..N: out[i] = {elements} }}\n}}\n"
    found = np.asarray(zynml.compile(text, device="cuda:0").f(*inputs))
    assert found.dtype == inputs[0].dtype
    return found


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", TABLE)
def test_within_the_stated_ulp(name: str, dtype: str) -> None:
    reference, ranges, single, double = TABLE[name]
    worst = 0.0
    for bounds in ranges:
        x = sweep(bounds, KINDS[dtype], COUNT // 10 if name == "erf" else COUNT)
        with np.errstate(all="ignore"):
            x = np.concatenate([x, np.array(SPECIAL).astype(x.dtype)])
            exact = reference(x.astype(LONG))
        worst = max(worst, assert_near(on_device(f"{name}(x)", dtype, x), exact, single if dtype == "f32" else double, x))
    print(f"{name} {dtype}: {worst:.3f} ulp at most")


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("name", TABLE)
def test_narrow_floats_are_rounded_once_more(name: str, dtype: str) -> None:
    """Every finite number there is."""
    x = np.arange(1 << 16, dtype=np.uint16).view(KINDS[dtype])
    with np.errstate(all="ignore"):
        x = x[np.isfinite(x.astype(np.float32))]
        exact = TABLE[name][0](x.astype(LONG))
    assert_near(on_device(f"{name}(x)", dtype, x), exact, 1.0, x)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_sines_of_huge_numbers(name: str, dtype: str) -> None:
    x = sweep(None, KINDS[dtype], 20_000)
    # x87 reduces by a pi of 66 bits past 2**63: the C library in f64 is the reference
    exact = np.array([getattr(math, name)(float(v)) for v in x], LONG)
    assert_near(on_device(f"{name}(x)", dtype, x), exact, 3.0, x)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("bases", "exponents"), [((0, 10), (-5, 5)), ((0.5, 2), (-1000, 1000)), ((0, 1e5), (-40, 40)), ((-10, 10), None)])
def test_powers(bases: tuple[float, float], exponents: tuple[float, float] | None, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(*bases, COUNT).astype(KINDS[dtype])
    y = (rng.uniform(*exponents, COUNT) if exponents else rng.integers(-30, 30, COUNT)).astype(KINDS[dtype])
    with np.errstate(all="ignore"):
        worst = assert_near(on_device("x ** y", dtype, x, y), np.power(x.astype(LONG), y.astype(LONG)), 2.0, x, y)
    print(f"pow {dtype} {bases}: {worst:.3f} ulp at most")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_angles_of_points(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for scale in (0, 30):
        y, x = ((rng.normal(size=COUNT) * 10.0 ** rng.integers(-scale, scale + 1, COUNT)).astype(KINDS[dtype]) for _ in range(2))
        with np.errstate(all="ignore"):
            assert_near(on_device("atan2(x, y)", dtype, y, x), np.arctan2(y.astype(LONG), x.astype(LONG)), 2.0, y, x)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_roots_and_quotients_are_rounded_right(dtype: str) -> None:
    x, y = (sweep(None, KINDS[dtype], COUNT) for _ in range(2))
    y = y[::-1].copy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(on_device("sqrt(x)", dtype, x), np.sqrt(x))
        np.testing.assert_array_equal(on_device("rsqrt(x)", dtype, x), (KINDS[dtype](1) / np.sqrt(x)).astype(x.dtype))
        np.testing.assert_array_equal(on_device("x / y", dtype, x, y), x / y)
        np.testing.assert_array_equal(on_device("sqrt(abs(x) + 1.0)", dtype, x), np.sqrt(np.abs(x) + KINDS[dtype](1)))
        np.testing.assert_array_equal(on_device("y / sqrt(x)", dtype, x, y), y / np.sqrt(x))
        np.testing.assert_array_equal(on_device("y / sqrt(abs(x) + 1.0)", dtype, x, y), y / np.sqrt(np.abs(x) + KINDS[dtype](1)))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("least", [0.0, 0.01])
def test_terms_by_roots_are_right_to_an_ulp_or_two(least: float, dtype: str) -> None:
    """Numbers of all magnitudes; the least says whether a term's root may be that of a zero. Eight terms a sum round eight times, too."""
    x, y = np.abs(sweep(None, KINDS[dtype], 8 * 4096)).reshape(8, -1), np.linspace(1, 2, 8, dtype=KINDS[dtype])
    program = zynml.compile(
        f"""def f(x: tensor[8, N, {dtype}], y: tensor[8, {dtype}]) {{ compute(x, y) {{ for i in 0..N {{
            var s = 0.0
            for k in 0..8: s += y[k] / sqrt(x[k, i]{f" + {least}" if least else ""})
            out[i] = s
        }} }} }}""",
        device="cuda:0",
    )
    with np.errstate(all="ignore"):
        want = (y.astype(LONG)[:, None] / np.sqrt((x + KINDS[dtype](least)).astype(LONG))).sum(0)
        worst = np.nanmax(np.abs(np.asarray(program.f(x, y)).astype(LONG) - want) / want)
    assert worst < 8 * np.finfo(KINDS[dtype]).eps


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16"])
def test_narrow_ints_as_floats(dtype: str) -> None:
    """All of them; the whole numbers of 16 bits and fewer are floats."""
    kind = np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}")
    x = np.arange(np.iinfo(kind).min, np.iinfo(kind).max + 1).astype(kind)
    text = f"def f(x: tensor[N, {dtype}]) {{ compute(x) -> tensor[N, f32] {{ for i in 0..N: out[i] = x[i] as f32 }} }}"
    np.testing.assert_array_equal(np.asarray(zynml.compile(text, device="cuda:0").f(x)), x.astype(np.float32))


@pytest.mark.parametrize(("call", "ufunc"), [("min", np.minimum), ("max", np.maximum)])
def test_the_less_and_the_greater_of_doubles(call: str, ufunc: np.ufunc) -> None:
    """Of two zeros any."""
    x, y = (sweep(None, np.float64, COUNT) for _ in range(2))
    x, y = np.append(x, np.repeat(SPECIAL, len(SPECIAL))), np.append(y[::-1], np.tile(SPECIAL, len(SPECIAL)))
    np.testing.assert_array_equal(on_device(f"{call}(x, y)", "f64", x, y), ufunc(x, y))
