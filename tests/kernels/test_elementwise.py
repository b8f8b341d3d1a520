"""Maps: every dtype, layout, size and rank; arithmetic, mathematics, choices, casts, bits."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zynml
from tests.kernels.checks import (
    DTYPES,
    FLOATS,
    INTS,
    LAYOUTS,
    NUMBERS,
    SIGNED,
    SIZES,
    Array,
    compiled,
    exactly,
    holds,
    laid_out,
    launched,
    numbers,
    spread,
    wide,
)


def mapping(expression: str, inputs: str = "x", rank: int = 1, kind: bool = True, result: str = "") -> str:
    """A program that maps the expression over every element."""
    names = "ijkl"[:rank]
    loops = ", ".join(f"{name} in 0..S{name}" for name in names)
    promise = "@kernel(elementwise)" if kind else ""
    return f"""def f({inputs}) {{
    compute({inputs}) {promise} {result} {{
        for {loops}:
            out[{", ".join(names)}] = {expression}
    }}
}}
"""


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("rank", (1, 2, 3))
def test_arithmetic_of_every_dtype_layout_and_size(dtype: str, rank: int) -> None:
    index = ", ".join("ijk"[:rank])
    text = mapping(f"x[{index}] * y[{index}] + x[{index}] - 3", "x, y", rank)
    shapes = {1: [(s,) for s in SIZES], 2: [(s, 5) for s in SIZES] + [(3, s) for s in SIZES], 3: [(2, s, 3) for s in SIZES[:6]] + [(3, 2, s) for s in SIZES]}
    for number, shape in enumerate(shapes[rank]):
        x, y = numbers(dtype, shape, "x"), numbers(dtype, shape, "y")
        a, b = LAYOUTS[number % len(LAYOUTS)], LAYOUTS[(number // 2) % len(LAYOUTS)]
        got = launched(text, laid_out(x, a), laid_out(y, b))
        assert got.dtype == DTYPES[dtype]
        if dtype in FLOATS:
            wx, wy = wide(x, y)
            # Each operation rounds to its type: for f16 and bf16 an ulp of the largest term each.
            unit = {"f16": 2.0**-10, "bf16": 2.0**-7}.get(dtype, 0.0)
            terms = np.abs(wx * wy) + np.abs(wx) + 3
            holds(got, wx * wy + wx - 3, terms * max(1.0, 1.5e6 * unit), 3)
        else:
            with np.errstate(over="ignore"):
                exactly(got, x * y + x - DTYPES[dtype].type(3))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rank", (2, 3, 4))
def test_one_index_over_tensors_of_one_shape_runs_flat(layout: str, rank: int) -> None:
    text = mapping("x[i] + 2.0 * y[i]", "x, y")
    for shape in ([3, 5, 2, 7][:rank], [1, 33, 3, 2][:rank], [0, 4, 2, 2][:rank], [31, 3, 11, 1][:rank]):
        x, y = numbers("f32", shape, 1), numbers("f32", shape, 2)
        got = launched(text, laid_out(x, layout), y)
        wx, wy = wide(x, y)
        holds(got, wx + 2 * wy, np.abs(wx) + 2 * np.abs(wy), 2)


def test_one_index_over_a_view_runs_flat_in_the_interpreter_of_threads() -> None:
    x, y = numbers("f32", (7, 6)), numbers("f32", (7, 1))
    for view in (x[::-1, ::-1], y[::-1], np.broadcast_to(x[:1, :1], (7, 6)), x[:, ::2]):
        exactly(compiled(mapping("x[i]"), device="emulator").f(view), view)


def _erf(x: float) -> float:
    return math.erf(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


MATHEMATICS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "exp": (np.exp, -10, 10), "exp2": (np.exp2, -10, 10), "log": (np.log, 0.01, 100), "log2": (np.log2, 0.01, 100),
    "sqrt": (np.sqrt, 0, 100), "rsqrt": (lambda x: 1 / np.sqrt(x), 0.01, 100), "abs": (np.abs, -5, 5), "sign": (np.sign, -2, 2),
    "floor": (np.floor, -5, 5), "ceil": (np.ceil, -5, 5), "round": (np.round, -5, 5), "sin": (np.sin, -20, 20), "cos": (np.cos, -20, 20),
    "tan": (np.tan, -1.5, 1.5), "sinh": (np.sinh, -5, 5), "cosh": (np.cosh, -5, 5), "tanh": (np.tanh, -5, 5), "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1), "atan": (np.arctan, -50, 50), "erf": (np.vectorize(_erf, otypes=[float]), -4, 4), "sigmoid": (_sigmoid, -8, 8),
    "relu": (lambda x: np.maximum(x, 0), -2, 2), "silu": (lambda x: x * _sigmoid(x), -8, 8),
    "gelu": (lambda x: 0.5 * x * (1 + np.vectorize(_erf, otypes=[float])(x / np.sqrt(2))), -4, 4),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", MATHEMATICS)
def test_mathematics_of_bodies(name: str, dtype: str) -> None:
    function, low, high = MATHEMATICS[name]
    text = mapping(f"{name}(x[i])")
    for size, layout in spread((1000, 33, 1, 0), ("contiguous", "strided")):
        x = np.linspace(low, high, size).astype(DTYPES[dtype])
        got = launched(text, laid_out(x, layout))
        assert got.dtype == DTYPES[dtype]
        (wx,) = wide(x)
        # Near a zero crossing of what is a difference inside (gelu's 1 + erf), the argument's size counts.
        magnitude = np.abs(wx) if name in ("gelu", "silu") else np.maximum(np.abs(function(wx)), 1e-3 if name in ("sin", "cos", "tan", "log", "log2") else 0)
        holds(got, function(wx), magnitude, 2)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ("atan2", "pow", "min", "max"))
def test_mathematics_of_two_arguments(name: str, dtype: str) -> None:
    x, y = numbers(dtype, 257, 1), numbers(dtype, 257, 2)
    if name == "pow":
        x = np.abs(x)
    want = {"atan2": np.arctan2, "pow": np.power, "min": np.minimum, "max": np.maximum}[name](*wide(x, y))
    holds(launched(mapping(f"{name}(x[i], y[i])", "x, y"), x, y), want, terms=4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_clamp_fma_where_isnan(dtype: str) -> None:
    x, y = numbers(dtype, 333, 1), numbers(dtype, 333, 2)
    x[5] = np.nan
    wx, wy = wide(x, y)
    holds(launched(mapping("clamp(x[i], -0.5, 0.75)"), x), np.where(np.isnan(wx), wx, np.clip(wx, -0.5, 0.75)))
    holds(launched(mapping("fma(x[i], y[i], x[i])", "x, y"), x, y), wx * wy + wx, np.abs(wx * wy) + np.abs(wx))
    exactly(launched(mapping("where(x[i] > y[i], x[i], y[i])", "x, y"), x, y), np.where(wx > wy, x, y))
    got = launched(mapping("isnan(x[i])"), x)
    exactly(got, np.isnan(wx))


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_numbers_keep_their_meaning(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0] * 5).astype(DTYPES[dtype])
    y = np.roll(x, 3)
    (wx, wy) = wide(x, y)
    with np.errstate(all="ignore"):
        holds(launched(mapping("max(x[i], y[i])", "x, y"), x, y), np.maximum(wx, wy))
        holds(launched(mapping("min(x[i], y[i])", "x, y"), x, y), np.minimum(wx, wy))
        holds(launched(mapping("x[i] / y[i]", "x, y"), x, y), wx / wy)
        holds(launched(mapping("exp(x[i])"), x), np.exp(wx))
        holds(launched(mapping("log(x[i])"), x), np.log(wx))
        holds(launched(mapping("tanh(x[i])"), x), np.tanh(wx))
        holds(launched(mapping("sqrt(x[i])"), x), np.sqrt(wx))
        holds(launched(mapping("sin(x[i])"), x), np.sin(wx))
        holds(launched(mapping("sigmoid(x[i])"), x), 1 / (1 + np.exp(-wx)))
        for operator, function in COMPARISONS.items():
            exactly(launched(mapping(f"x[i] {operator} y[i]", "x, y"), x, y), function(wx, wy))


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("layout", ("contiguous", "reversed"))
@pytest.mark.parametrize("operator", COMPARISONS)
@pytest.mark.parametrize("dtype", (*NUMBERS, "bool"))
def test_comparisons_give_bools(dtype: str, operator: str, layout: str) -> None:
    if dtype == "bool" and operator not in ("==", "!="):
        operator = "!="
    x, y = numbers(dtype, 257, 1, small=True), numbers(dtype, 257, 2, small=True)
    exactly(launched(mapping(f"x[i] {operator} y[i]", "x, y"), laid_out(x, layout), y), COMPARISONS[operator](x, y))


@pytest.mark.parametrize("layout", ("contiguous", "strided"))
def test_logic_of_bools(layout: str) -> None:
    for size in SIZES:
        x, y = numbers("bool", size, 1), numbers("bool", size, 2)
        exactly(launched(mapping("x[i] and not y[i]", "x, y"), laid_out(x, layout), y), x & ~y)
        exactly(launched(mapping("x[i] or y[i]", "x, y"), laid_out(x, layout), y), x | y)


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_rounds_to_zero_and_wraps(dtype: str) -> None:
    info = np.iinfo(DTYPES[dtype])
    for size in (1, 33, 1000):
        x, y = numbers(dtype, size, 1), numbers(dtype, size, 2)
        y[y == 0] = 1
        x[0] = info.min
        if dtype in SIGNED:
            y[0] = -1  # the one quotient that doesn't fit
        pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
        quotient = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
        remainder = [a - b * q for (a, b), q in zip(pairs, quotient, strict=True)]
        modulus = 1 << info.bits
        wrapped = [(q - info.min) % modulus + info.min for q in quotient]
        exactly(launched(mapping("x[i] / y[i]", "x, y"), x, y), np.array(wrapped, DTYPES[dtype]))
        exactly(launched(mapping("x[i] % y[i]", "x, y"), x, y), np.array(remainder, DTYPES[dtype]))


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
@pytest.mark.parametrize("dtype", INTS)
def test_bits_are_counted(dtype: str, device: str) -> None:
    x = np.concatenate([np.array([0, 1, np.iinfo(DTYPES[dtype]).max, np.iinfo(DTYPES[dtype]).min], DTYPES[dtype]), numbers(dtype, 61, 1)])
    width = 8 * x.itemsize
    bits = [int(number) & (1 << width) - 1 for number in x]
    counts = {
        "popcount": [number.bit_count() for number in bits],
        "clz": [width - number.bit_length() for number in bits],
        "ctz": [f"{number:0{width}b}"[::-1].find("1") % (width + 1) for number in bits],
    }
    for name, expected in counts.items():
        program = zynml.compile(
            f"def f(x: tensor[N, {dtype}]) {{ compute(x) {{ for i in 0..N: out[i] = {name}(x[i]) }} }}\n"
            f"def g(x: tensor[N, {dtype}]) {{ {name}(x) }}\n"
            f"def h(x: {dtype}) -> i32 {{ {name}(x) }}\n",
            device=device,
        )
        assert program.f(x).dtype == np.int32 and program.f(x).tolist() == expected
        assert program.g(x).tolist() == expected
        assert [program.h(number) for number in x] == expected


@pytest.mark.parametrize("dtype", INTS)
def test_bits_and_integer_choices(dtype: str) -> None:
    x, y = numbers(dtype, 259, 1), numbers(dtype, 259, 2)
    exactly(launched(mapping("bit_and(x[i], y[i])", "x, y"), x, y), x & y)
    exactly(launched(mapping("bit_or(x[i], y[i])", "x, y"), x, y), x | y)
    exactly(launched(mapping("bit_xor(x[i], y[i])", "x, y"), x, y), x ^ y)
    exactly(launched(mapping("x[i] << 3"), x), x << DTYPES[dtype].type(3))
    exactly(launched(mapping("x[i] >> 2"), x), x >> DTYPES[dtype].type(2))
    exactly(launched(mapping("max(x[i], y[i])", "x, y"), x, y), np.maximum(x, y))
    exactly(launched(mapping("min(x[i], y[i])", "x, y"), x, y), np.minimum(x, y))
    if dtype in SIGNED:
        exactly(launched(mapping("-x[i]"), x), -x)
        exactly(launched(mapping("abs(x[i])"), x), np.abs(x))


def test_division_by_zero_names_its_place() -> None:
    from zynml import ZynMLError

    text = mapping("x[i] / y[i]", "x, y")
    with pytest.raises(ZynMLError) as raised:
        launched(text, np.arange(5), np.array([1, 2, 0, 3, 4]))
    assert raised.value.codes == ("ZYN0806",)


@pytest.mark.parametrize("target", NUMBERS)
@pytest.mark.parametrize("source", (*NUMBERS, "bool"))
def test_casts_to_every_dtype(source: str, target: str) -> None:
    x = numbers(source, 100, 1, small=True)
    if target in (*INTS,) and source in FLOATS:
        x = np.abs(x * DTYPES[source].type(10)) if target.startswith("u") else x * DTYPES[source].type(10)
    got = launched(mapping(f"x[i] as {target}"), x)
    assert got.dtype == DTYPES[target]
    if source in FLOATS and target in FLOATS:
        holds(got, x.astype(float))
    else:
        exactly(got, x.astype(float).astype(DTYPES[target]) if source in FLOATS else x.astype(DTYPES[target]))


@pytest.mark.parametrize("source", INTS)
def test_integer_casts_wrap(source: str) -> None:
    for target in INTS:
        x = numbers(source, 100, 1)
        exactly(launched(mapping(f"x[i] as {target}"), x), x.astype(DTYPES[target]))


@pytest.mark.parametrize(("left", "right", "joined"), (
    ("i8", "i32", "i32"), ("u8", "i16", "i16"), ("i32", "f32", "f32"), ("f16", "bf16", "f32"), ("f32", "f64", "f64"), ("u8", "f16", "f16"),
    ("i64", "i8", "i64"), ("bf16", "f32", "f32"), ("f16", "f32", "f32"),
))  # fmt: skip
def test_mixed_operands_promote(left: str, right: str, joined: str) -> None:
    x, y = numbers(left, 200, 1, small=True), numbers(right, 200, 2, small=True)
    got = launched(mapping("x[i] + y[i]", "x, y"), x, y)
    assert got.dtype == DTYPES[joined]
    wx, wy = wide(x, y)
    holds(got, wx + wy, np.abs(wx) + np.abs(wy))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_transposed_copies_and_broadcasts(layout: str) -> None:
    text = "def f(x, v) {\n    compute(x, v) { for i in 0..A, j in 0..B: out[j, i] = x[i, j] * v[j] }\n}\n"
    for rows, columns in spread(SIZES, (3, 33, 0, 1, 257, 31, 7, 5)):
        x, v = numbers("f32", (rows, columns), 1), numbers("f32", columns, 2)
        wx, wv = wide(x, v)
        holds(launched(text, laid_out(x, layout), laid_out(v, layout)), (wx * wv).T)


@pytest.mark.parametrize(("dtype", "dims", "order"), (
    ("i16", (10, 3, 4, 80), (2, 1, 3, 0)), ("u8", (40, 3, 70), (2, 0, 1)), ("i8", (11, 5, 90), (2, 0, 1)), ("i8", (8, 300), (1, 0)),
    ("f32", (12, 3, 20, 33), (3, 0, 2, 1)), ("bf16", (6, 11, 64), (2, 1, 0)), ("u8", (40, 200, 16), (2, 1, 0)), ("f64", (9, 37, 5), (2, 1, 0)),
))  # fmt: skip
def test_short_axes_change_places(dtype: str, dims: tuple[int, ...], order: tuple[int, ...]) -> None:
    """Squares of long axes would be mostly empty."""
    axes = "ijkl"[: len(dims)]
    turned = [axes[axis] for axis in order]
    loops = ", ".join(f"{axis} in 0..{dims[axes.index(axis)]}" for axis in turned)
    x = numbers(dtype, dims, 1, small=True)
    exactly(launched(f"def f(x) {{\n    compute(x) {{ for {loops}: out[{', '.join(turned)}] = x[{', '.join(axes)}] }}\n}}\n", x), x.transpose(order))


@pytest.mark.parametrize("dtype", ("f32", "i16"))
def test_scalars_are_passed_by_value(dtype: str) -> None:
    text = "def f(x, a: int, b: float) {\n    compute(x, a, b) { for i in 0..N: out[i] = a > 2 ? x[i] : (b > 0.5 ? x[i] + x[i] : x[i]) }\n}\n"
    x = numbers(dtype, 33, 1, small=True)
    exactly(launched(text, x, 3, 0.0), x)
    exactly(launched(text, x, 1, 1.0), x + x)


@pytest.mark.parametrize(("form", "function"), (
    ("x[2 * i]", lambda x, n: x[: 2 * n : 2]), ("x[2 * i + 1]", lambda x, n: x[1 : 2 * n + 1 : 2]), ("x[i] + x[i + 2]", lambda x, n: x[:n] + x[2 : n + 2]),
    ("x[N - 1 - i]", lambda x, n: x[:n][::-1]),
))  # fmt: skip
@pytest.mark.parametrize("layout", ("contiguous", "strided", "reversed"))
def test_affine_indices(form: str, function: Any, layout: str) -> None:
    text = f"def f(x, N: int) {{\n    compute(x, N) {{ for i in 0..N: out[i] = {form} }}\n}}\n"
    for size in (0, 1, 3, 31, 257):
        x = numbers("f64", 2 * size + 3, 1)
        exactly(launched(text, laid_out(x, layout), size), function(x, size))
