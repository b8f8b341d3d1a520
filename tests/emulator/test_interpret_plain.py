"""Plain instructions on every dtype and edge value: the scalar path and the tile path against exact ints, NumPy, and fractions."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from compiler.emulator.interpret import KernelFault, interpret
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.core import BINARY, BIT_COUNTS, COMPARE, UNARY, Bitcast
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem

NUMPY = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
INTS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
FLOATS = ["f16", "bf16", "f32", "f64"]
FLOAT_VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1e-8, 1e30, -1e30, 65504.0, 1e-40, 100.25, math.inf, -math.inf, math.nan]


def int_values(dtype: str) -> list[int]:
    info = np.iinfo(NUMPY[dtype])
    return [v for v in (0, 1, 2, 3, 7, -1, -2, -7, 100, info.max, info.max - 1, info.min, info.min + 1) if info.min <= v <= info.max]


def values_of(dtype: str) -> np.ndarray:
    if dtype == "i1":
        return np.array([False, True])
    with np.errstate(all="ignore"):
        return np.array(FLOAT_VALUES if dtype in FLOATS else int_values(dtype)).astype(NUMPY[dtype])


def function_of(emit, dtypes: list[str], result: str, tile: bool) -> HirFunction:
    """out[i] = emit(x0[i], x1[i], ...), as a nest or over an axis."""
    f = FunctionBuilder("f", Form.FIELD if tile else Form.NEST)
    f.parameter("N", INDEX)
    inputs = [f.parameter(f"x{k}", Mem(d, ["N"])) for k, d in enumerate(dtypes)]
    out = f.parameter("out", Mem(result, ["N"]))

    def body(b: Builder) -> None:
        b.store(out, emit(b, *(b.load(x, ["i"]) for x in inputs)), ["i"])

    if tile:
        f.axis("i", "N")
        body(f.body)
    else:
        with f.body.loop("i", 0, "N") as (inner, _):
            body(inner)
    return f.finish()


def run(emit, arrays: list[np.ndarray], dtypes: list[str], result: str, tolerance: float = 0) -> np.ndarray:
    """The scalar result, after a look that tiles give the same bits (up to `tolerance`, where libm and NumPy differ)."""
    found = []
    for tile in (False, True):
        out = np.zeros(len(arrays[0]), NUMPY[result])
        interpret(function_of(emit, dtypes, result, tile), [len(arrays[0]), *arrays, out])
        found.append(out)
    if tolerance:
        np.testing.assert_allclose(found[0], found[1], rtol=tolerance)
        return found[0]
    nan = np.isnan(found[0].astype(np.float64)) if result in FLOATS else np.zeros(len(found[0]), bool)
    assert np.array_equal(nan, np.isnan(found[1].astype(np.float64)) if result in FLOATS else nan)
    a, b = (np.ascontiguousarray(f[~nan]).view(np.uint8) for f in found)
    assert np.array_equal(a, b), (found[0][found[0] != found[1]], found[1][found[0] != found[1]])
    return found[0]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    values = values_of(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def wrapped(value: int, dtype: str) -> int:
    bits = 8 * np.dtype(NUMPY[dtype]).itemsize
    value %= 1 << bits
    return value - (1 << bits) if dtype[0] == "i" and value >= 1 << bits - 1 else value


def toward_zero(a: int, b: int) -> int:
    return math.trunc(Fraction(a, b))


EXACT = {
    "add": lambda a, b, w: a + b,
    "sub": lambda a, b, w: a - b,
    "mul": lambda a, b, w: a * b,
    "div": lambda a, b, w: toward_zero(a, b),
    "rem": lambda a, b, w: a - b * toward_zero(a, b),
    "min": lambda a, b, w: min(a, b),
    "max": lambda a, b, w: max(a, b),
    "and": lambda a, b, w: a & b,
    "or": lambda a, b, w: a | b,
    "xor": lambda a, b, w: a ^ b,
    "shl": lambda a, b, w: a << b % w,
    "shr": lambda a, b, w: a >> b % w,
    "pow": lambda a, b, w: pow(a, b % 64, 1 << 64) if b >= 0 else 0,
}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("operator", list(EXACT))
def test_int_operators_are_exact_and_wrap(operator: str, dtype: str) -> None:
    a, b = pairs(dtype)
    keep = b != 0 if operator in ("div", "rem") else np.ones(len(a), bool)
    if operator == "pow":
        keep = (b >= 0) & (b < 64)
    a, b = a[keep], b[keep]
    found = run(lambda f, x, y: f.op(operator, x, y), [a, b], [dtype, dtype], dtype)
    width = 8 * a.dtype.itemsize
    assert found.tolist() == [wrapped(EXACT[operator](int(x), int(y), width), dtype) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("operator", ["div", "rem"])
def test_division_by_zero_without_a_check_is_a_fault(operator: str) -> None:
    function = function_of(lambda f, x, y: f.op(operator, x, y), ["i32", "i32"], "i32", False)
    with pytest.raises(KernelFault) as fault:
        interpret(function, [1, np.array([3], np.int32), np.array([0], np.int32), np.zeros(1, np.int32)])
    assert fault.value.code == "0806"


def rounded(exact: np.ndarray, dtype: str) -> np.ndarray:
    """A float64 that is exact, or exact to more than twice the bits, brought to the dtype."""
    return exact if dtype == "f64" else exact.astype(np.float32).astype(NUMPY[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operator", ["add", "sub", "mul", "div", "rem", "min", "max", "pow", "atan2"])
def test_float_operators_round_once(operator: str, dtype: str) -> None:
    a, b = pairs(dtype)
    tolerance = 5e-16 if dtype == "f64" and operator in ("pow", "atan2") else 0
    found = run(lambda f, x, y: f.op(operator, x, y), [a, b], [dtype, dtype], dtype, tolerance)
    functions = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "rem": np.fmod,
        "min": np.minimum,
        "max": np.maximum,
        "pow": np.power,
        "atan2": np.arctan2,
    }
    with np.errstate(all="ignore"):
        exact = functions[operator](a.astype(np.float64), b.astype(np.float64))
        if dtype == "f32":
            expected = exact.astype(np.float32)
        elif dtype == "f16":
            expected = exact.astype(np.float16)
        else:
            expected = rounded(exact, dtype)
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=tolerance)


def test_min_and_max_tell_the_zeros_apart() -> None:
    a, b = np.array([0.0, -0.0]), np.array([-0.0, 0.0])
    assert np.signbit(run(lambda f, x, y: f.op("min", x, y), [a, b], ["f64", "f64"], "f64")).all()
    assert not np.signbit(run(lambda f, x, y: f.op("max", x, y), [a, b], ["f64", "f64"], "f64")).any()


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, "i1"])
@pytest.mark.parametrize("operator", list(COMPARE))
def test_compares_know_nan_and_signs(operator: str, dtype: str) -> None:
    a, b = pairs(dtype)
    found = run(lambda f, x, y: f.op(operator, x, y), [a, b], [dtype, dtype], "i1")
    functions = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
    with np.errstate(invalid="ignore"):  # some types of numbers tell of NaN in comparisons
        expected = functions[operator](a, b)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("operator", ["and", "or", "xor"])
def test_truth_values_combine(operator: str) -> None:
    a, b = pairs("i1")
    found = run(lambda f, x, y: f.op(operator, x, y), [a, b], ["i1", "i1"], "i1")
    functions = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    assert np.array_equal(found, functions[operator](a, b))


FLOAT_UNARY = {
    "neg": lambda x: -x,
    "abs": abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: np.array([math.erf(v) for v in x]),
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, "arc" + name[1:]) for name in ("asin", "acos", "atan")},
}


def test_every_unary_operator_is_tried() -> None:
    assert set(FLOAT_UNARY) | {"not", *BIT_COUNTS} == set(UNARY)
    assert set(EXACT) | {"atan2"} == set(BINARY)


def unary(operator: str, x: np.ndarray, dtype: str) -> np.ndarray:
    """Scalar path only: math and NumPy differ in the last bit of some functions."""
    out = np.zeros(len(x), NUMPY[dtype])
    interpret(function_of(lambda f, v: f.op(operator, v), [dtype], dtype, False), [len(x), x, out])
    tiles = np.zeros(len(x), NUMPY[dtype])
    interpret(function_of(lambda f, v: f.op(operator, v), [dtype], dtype, True), [len(x), x, tiles])
    np.testing.assert_allclose(out.astype(np.float64), tiles.astype(np.float64), rtol=4e-16 if dtype == "f64" else 0)
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operator", list(FLOAT_UNARY))
def test_float_functions(operator: str, dtype: str) -> None:
    x = values_of(dtype)
    if operator in ("sin", "cos", "tan"):
        x = x[~(abs(x.astype(np.float64)) > 1e6)]
    with np.errstate(all="ignore"):
        expected = FLOAT_UNARY[operator](x.astype(np.float64))
    found = unary(operator, x, dtype)
    with np.errstate(all="ignore"):
        expected = rounded(np.asarray(expected, np.float64), dtype)
    # libm and NumPy agree to an ulp of f64; rounded to a narrower type that is nothing.
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=5e-16 if dtype == "f64" else 0)
    if operator in ("floor", "ceil", "round", "trunc", "sqrt", "neg", "abs"):
        assert np.array_equal(np.signbit(found.astype(np.float64))[x == 0], np.signbit(expected.astype(np.float64))[x == 0])


@pytest.mark.parametrize("dtype", INTS)
def test_int_functions(dtype: str) -> None:
    x = values_of(dtype)
    ones = (1 << 8 * x.itemsize) - 1
    for operator, exact in {
        "neg": lambda v: -v,
        "abs": abs,
        "sign": lambda v: (v > 0) - (v < 0),
        "not": lambda v: ~v,
        "floor": int,
        "popcount": lambda v: (v & ones).bit_count(),
        "leading_zeros": lambda v: ones.bit_length() - (v & ones).bit_length(),
        "trailing_zeros": lambda v: next((n for n in range(ones.bit_length()) if v >> n & 1), ones.bit_length()),
    }.items():
        found = run(lambda f, v, operator=operator: f.op(operator, v), [x], [dtype], dtype)
        assert found.tolist() == [wrapped(exact(int(v)), dtype) for v in x]


def test_not_of_a_truth_value() -> None:
    x = np.array([True, False])
    assert run(lambda f, v: f.op("not", v), [x], ["i1"], "i1").tolist() == [False, True]


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("to", INTS)
def test_float_to_int_saturates_and_takes_nan_to_zero(source: str, to: str) -> None:
    x = values_of(source)
    info = np.iinfo(NUMPY[to])
    expected = [
        0 if math.isnan(v) else max(info.min, min(info.max, int(v))) if math.isfinite(v) else info.max if v > 0 else info.min
        for v in x.astype(np.float64)
    ]
    assert run(lambda f, v: f.cast(v, to), [x], [source], to).tolist() == expected


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("to", INTS)
def test_int_to_int_wraps(source: str, to: str) -> None:
    x = values_of(source)
    assert run(lambda f, v: f.cast(v, to), [x], [source], to).tolist() == [wrapped(int(v), to) for v in x]


def nearest(value: int, precision: int) -> float:
    """Nearest even with so many bits, by integers alone."""
    drop = max(0, abs(value).bit_length() - precision)
    quotient, rest = divmod(abs(value), 1 << drop)
    half = 1 << drop >> 1
    quotient += rest > half or (rest == half and drop > 0 and quotient & 1)
    return math.copysign(float(quotient << drop), value)


@pytest.mark.parametrize("to,precision", [("f32", 24), ("f64", 53), ("bf16", 8)])
def test_large_ints_round_once_to_floats(to: str, precision: int) -> None:
    x = np.array([2**63 - 1, 2**53 + 1, 2**60 + 2**36 + 1, 2**60 + 2**36, -(2**62) - 2**38 - 1, 2**55 + 2**47 + 1, 16777217], np.int64)
    found = run(lambda f, v: f.cast(v, to), [x], ["i64"], to)
    assert [float(v) for v in found] == [nearest(int(v), precision) for v in x]


def test_double_to_bf16_rounds_once() -> None:
    # 1 + 2^-8 + 2^-40 lies just above the middle of two bf16; through f32 it would become the middle, and go down.
    x = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, 1 + 3 * 2**-8, 3.4e38, -1e-41])
    assert [float(v) for v in run(lambda f, v: f.cast(v, "bf16"), [x], ["f64"], "bf16")][:4] == [1 + 2**-7, 1.0, 1 + 2**-6, math.inf]


@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_float_to_float_rounds_to_nearest_even(source: str, to: str) -> None:
    x = np.concatenate([values_of(source), np.linspace(-3, 3, 97).astype(NUMPY[source])])
    with np.errstate(all="ignore"):
        expected = x.astype(np.float64).astype(NUMPY[to]) if to != "bf16" else x.astype(np.float32).astype(NUMPY[to])
    found = run(lambda f, v: f.cast(v, to), [x], [source], to)
    if source != "f64" or to != "bf16":
        np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


def test_casts_to_truth_ask_for_nonzero() -> None:
    for dtype in (*INTS, *FLOATS):
        x = values_of(dtype)
        assert np.array_equal(run(lambda f, v: f.cast(v, "i1"), [x], [dtype], "i1"), x != 0)
    x = np.array([True, False])
    assert run(lambda f, v: f.cast(v, "f32"), [x], ["i1"], "f32").tolist() == [1.0, 0.0]
    assert run(lambda f, v: f.cast(v, "i8"), [x], ["i1"], "i8").tolist() == [1, 0]


@pytest.mark.parametrize(
    "source,to", [("f32", "u32"), ("f32", "i32"), ("f64", "i64"), ("f16", "u16"), ("bf16", "u16"), ("i8", "u8"), ("u64", "f64")]
)
def test_bitcast_keeps_the_bits(source: str, to: str) -> None:
    def emit(f: Builder, v: Value) -> Value:
        return f.emit(Bitcast(value=v, to=to)).result

    x = values_of(source)
    x = x[~np.isnan(x.astype(np.float64))]
    found = run(emit, [x], [source], to)
    assert np.array_equal(found.view(np.uint8), x.view(np.uint8))


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_rounds_once(dtype: str) -> None:
    generator = np.random.default_rng(7)
    a, b, c = (generator.standard_normal(200).astype(NUMPY[dtype]) for _ in range(3))
    c = np.where(np.arange(200) % 3 == 0, -(a.astype(np.float64) * b.astype(np.float64)), c.astype(np.float64)).astype(NUMPY[dtype])
    found = run(lambda f, x, y, z: f.fma(x, y, z), [a, b, c], [dtype] * 3, dtype)
    for x, y, z, r in zip(a, b, c, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        neighbours = [float(r), float(np.nextafter(r, NUMPY[dtype](math.inf))), float(np.nextafter(r, NUMPY[dtype](-math.inf)))]
        assert abs(Fraction(neighbours[0]) - exact) == min(abs(Fraction(n) - exact) for n in neighbours)


def test_select_and_isnan() -> None:
    x = np.array([1.0, math.nan, -2.0])
    y = np.array([5.0, 6.0, 7.0])
    found = run(lambda f, a, b: f.select(f.isnan(a), b, a), [x, y], ["f64", "f64"], "f64")
    assert found.tolist() == [1.0, 6.0, -2.0]


def test_index_and_inbounds_are_affine_forms() -> None:
    def emit(f: Builder, v: Value) -> Value:
        place = f.index((Affine.of("i") * 3 - 4).floordiv(2))
        return f.select(f.inbounds(Affine.of("i") * 2 - 1, "N"), f.cast(place, "i32"), v)

    x = np.full(6, -99, np.int32)
    found = run(emit, [x], ["i32"], "i32")
    assert found.tolist() == [(3 * i - 4) // 2 if 0 <= 2 * i - 1 < 6 else -99 for i in range(6)]


def test_constants_take_their_type() -> None:
    for dtype, value, expected in [("f32", 0.1, float(np.float32(0.1))), ("u8", 255, 255), ("f64", math.inf, math.inf), ("i1", True, 1.0)]:
        out = run(lambda f, v, dtype=dtype, value=value: f.cast(f.const(value, dtype), "f64"), [np.zeros(1)], ["f64"], "f64")
        assert out[0] == expected
    out = run(lambda f, v: f.const(-0.0, "f64"), [np.zeros(1)], ["f64"], "f64")
    assert out[0] == 0 and math.copysign(1, out[0]) == -1
