"""Every plain instruction on every dtype: as scalars, in loops that LLVM vectorises, and as tiles, against the interpreter."""

import numpy as np
import pytest
from cpu_runs import FLOATS, INTS, NUMPY, assert_as_interpreted, pointwise

from compiler.hir.core import BINARY, BIT_COUNTS, COMPARE, UNARY, Bitcast
from compiler.hir.module import OptimizationLevel

FORMS = ("loop", "simd", "tile")
MATH = {"exp", "exp2", "log", "log2", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "pow", "atan2"}
NOT_FOR_INTS = (MATH - {"pow"}) | {"sqrt", "rsqrt"}
BITS = {"and", "or", "xor", "shl", "shr", "not", *BIT_COUNTS}
FLOAT_VALUES = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1e-8, 3.7e-6, 1e30, -1e30, 65504.0, 65519.0, 65520.0, 1e-40, 100.25, 257.0,
    1.0009765625,     2147483648.0, -2147483904.0, 9.3e18, 127.5, -128.5, 254.99, 1e300, 5e-324, np.inf, -np.inf, np.nan,
]  # fmt: skip


def values_of(dtype: str) -> np.ndarray:
    if dtype == "i1":
        return np.array([False, True])
    if dtype in INTS:
        info = np.iinfo(NUMPY[dtype])
        numbers = (0, 1, 2, 3, 7, 63, 64, -1, -2, -7, 100, info.max, info.max - 1, info.min, info.min + 1, 2**53 + 1, 2**62 + 1, 16777217)
        return np.array([v for v in numbers if info.min <= v <= info.max], dtype=NUMPY[dtype])
    with np.errstate(all="ignore"):
        return np.array(FLOAT_VALUES).astype(NUMPY[dtype])


def pairs(dtype: str) -> list[np.ndarray]:
    values = values_of(dtype)
    return [grid.ravel().copy() for grid in np.meshgrid(values, values)]


def check(emit, inputs: list[np.ndarray], dtypes: list[str], result: str, form: str) -> None:
    """Scalar loops without optimisation, the others with all of it."""
    function = pointwise(emit, dtypes, result, form)
    out = np.zeros(len(inputs[0]), NUMPY[result])
    level = OptimizationLevel.O0 if form == "loop" else OptimizationLevel.O3
    assert_as_interpreted(function, [len(out), *inputs, out], level)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [*INTS, "i1"])
def test_binary_of_ints(dtype: str, form: str) -> None:
    for operator in BINARY:
        if operator in NOT_FOR_INTS or (dtype == "i1" and operator not in ("and", "or", "xor", "min", "max")):
            continue
        left, right = pairs(dtype)
        if operator in ("div", "rem"):
            left, right = left[right != 0], right[right != 0]
        check(lambda b, x, y, op=operator: b.op(op, x, y), [left, right], [dtype, dtype], dtype, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_binary_of_floats(dtype: str, form: str) -> None:
    for operator in BINARY:
        if operator in BITS | MATH:
            continue
        left, right = pairs(dtype)
        if operator in ("min", "max"):
            same = (left == 0) & (right == 0)  # either zero will do
            left, right = left[~same], right[~same]
        check(lambda b, x, y, op=operator: b.op(op, x, y), [left, right], [dtype, dtype], dtype, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [*INTS, "i1", *FLOATS])
def test_compare(dtype: str, form: str) -> None:
    for operator in COMPARE:
        check(lambda b, x, y, op=operator: b.op(op, x, y), pairs(dtype), [dtype, dtype], "i1", form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_unary(dtype: str, form: str) -> None:
    for operator in UNARY:
        if operator in (NOT_FOR_INTS if dtype in INTS else BITS | MATH):
            continue
        if operator == "rsqrt" and dtype in ("f32", "f64"):
            continue  # two roundings here; its own test
        values = values_of(dtype)
        if operator == "sign":
            values = values[(values != 0) | ~np.signbit(values.astype(np.float64))]  # either zero will do
        check(lambda b, x, op=operator: b.op(op, x), [values], [dtype], dtype, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("source", [*INTS, "i1", *FLOATS])
def test_cast(source: str, form: str) -> None:
    for target in [*INTS, "i1", *FLOATS]:
        check(lambda b, x, to=target: b.cast(x, to), [values_of(source)], [source], target, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_rounds_once(dtype: str, form: str) -> None:
    left, right = pairs(dtype)
    check(lambda b, x, y: b.fma(x, y, x), [left, right], [dtype, dtype], dtype, form)


@pytest.mark.parametrize("form", FORMS)
def test_select_isnan_bitcast_and_index(form: str) -> None:
    left, right = pairs("f32")
    check(lambda b, x, y: b.select(b.isnan(x), y, x), [left, right], ["f32", "f32"], "f32", form)
    check(lambda b, x: b.emit(Bitcast(value=x, to="u32")).result, [left], ["f32"], "u32", form)
    check(lambda b, x: b.emit(Bitcast(value=x, to="f16")).result, [values_of("u16")], ["u16"], "f16", form)
    check(lambda b, x: b.cast(b.cast(x, "index"), "i32"), [values_of("i32")], ["i32"], "i32", form)


@pytest.mark.parametrize("dtype", ("f16", "bf16"))
def test_every_16_bit_float_survives_a_load_and_a_store(dtype: str) -> None:
    every = np.arange(65536, dtype=np.uint16).view(NUMPY[dtype])
    check(lambda b, x: b.op("neg", b.op("neg", x)), [every], [dtype], dtype, "simd")


@pytest.mark.parametrize("level", list(OptimizationLevel))
def test_levels_agree(level: OptimizationLevel) -> None:
    left, right = pairs("f32")
    function = pointwise(lambda b, x, y: b.add(b.mul(x, y), x), ["f32", "f32"], "f32", "simd")
    assert_as_interpreted(function, [len(left), left, right, np.zeros(len(left), np.float32)], level)
