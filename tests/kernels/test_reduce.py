"""Reductions: every operator, dtype, axis, layout and size; pairs, indices, empty axes, NaN."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.checks import (
    DTYPES,
    FLOATS,
    INTS,
    LAYOUTS,
    NUMBERS,
    SIZES,
    UNSIGNED,
    Array,
    exactly,
    generator,
    holds,
    laid_out,
    launched,
    numbers,
    spread,
    wide,
)
from zynml import ZynMLError


def reducing(operator: str, rank: int = 1, options: str = "", value: str = "", inputs: str = "x") -> str:
    names = "ijkl"[:rank]
    loops = ", ".join(f"{name} in 0..S{name}" for name in names)
    return f"""def f({inputs}) {{
    compute({inputs}) @kernel(reduce, {operator}{options}) {{
        for {loops}: yield {value or f"x[{', '.join(names)}]"}
    }}
}}
"""


def summed_in(dtype: str) -> str:
    """The type of a sum: NumPy's."""
    return dtype if dtype in FLOATS else "u64" if dtype in UNSIGNED else "i64"


def reference(operator: str, x: Array, axis: Any = None, keepdims: bool = False) -> tuple[Any, Any, float]:
    """Value, sum of the terms' absolute values, and their number."""
    terms = x.size if axis is None else int(np.prod([x.shape[a] for a in np.atleast_1d(axis)]))
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if x.dtype.kind in "iu" and operator in ("+", "*"):
        return (np.sum if operator == "+" else np.prod)(x, **options), None, 1
    w = x.astype(np.float64) if (operator != "min" and operator != "max") or x.dtype.kind not in "iub" else x
    match operator:
        case "+":
            return w.sum(**options), np.abs(w).sum(**options), terms
        case "mean":
            with np.errstate(all="ignore"):
                return w.sum(**options) / terms, np.abs(w).sum(**options) / terms, terms
        case "*":
            return w.prod(**options), None, terms * terms
        case "min":
            return w.min(**options), None, 1
        case "max":
            return w.max(**options), None, 1
    raise ValueError(operator)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("operator", ("+", "*", "min", "max", "mean"))
def test_whole_reductions_of_every_dtype_size_and_layout(operator: str, dtype: str) -> None:
    text = reducing(operator)
    for number, size in enumerate(SIZES):
        if size == 0 and operator in ("min", "max", "mean"):
            continue
        x = numbers(dtype, size, operator, small=operator == "mean" and dtype not in ("i8", "u8"))
        if operator == "*" and dtype in FLOATS:
            x = (1 + x.astype(float) / 100).astype(DTYPES[dtype])
        got = launched(text, laid_out(x, LAYOUTS[number % len(LAYOUTS)]))
        want, magnitude, terms = reference(operator, x)
        holds(got, want, magnitude, terms)
        if operator in ("+", "*"):
            assert np.asarray(got).dtype == DTYPES[summed_in(dtype)]


AXES: tuple[tuple[str, Any], ...] = (("0", 0), ("1", 1), ("2", 2), ("-1", -1), ("(0, 1)", (0, 1)), ("(0, 2)", (0, 2)), ("(1, 2)", (1, 2)), ("(0, 1, 2)", (0, 1, 2)), ("(-1, 0)", (-1, 0)))


@pytest.mark.parametrize("keepdims", (False, True))
@pytest.mark.parametrize(("shown", "axis"), AXES)
@pytest.mark.parametrize("operator", ("+", "max", "mean"))
def test_reductions_along_axes(operator: str, shown: str, axis: Any, keepdims: bool) -> None:
    text = reducing(operator, 3, f", axis={shown}" + (", keepdims=true" if keepdims else ""))
    for shape, layout in spread(((2, 3, 5), (1, 33, 3), (31, 2, 33), (3, 257, 1), (33, 1, 31), (7, 7, 7)), LAYOUTS):
        x = numbers("f32", shape, operator)
        holds(launched(text, laid_out(x, layout)), *reference(operator, x, axis, keepdims))


@pytest.mark.parametrize("dtype", (*INTS, "f16", "bf16", "f64"))
@pytest.mark.parametrize("axis", (0, 1))
@pytest.mark.parametrize("operator", ("+", "min", "mean"))
def test_rows_and_columns_of_every_dtype(operator: str, axis: int, dtype: str) -> None:
    text = reducing(operator, 2, f", axis={axis}")
    for shape, layout in spread(((3, 1000), (257, 33), (33, 31), (1, 1), (1009, 2)), LAYOUTS):
        x = numbers(dtype, shape, operator)
        holds(launched(text, laid_out(x, layout)), *reference(operator, x, axis))


@pytest.mark.parametrize("size", SIZES)
def test_rows_and_columns_of_every_size(size: int) -> None:
    for axis in (0, 1):
        for shape in ((size, 33), (33, size), (size, 3)):
            x = numbers("f32", shape, axis)
            holds(launched(reducing("+", 2, f", axis={axis}"), x), *reference("+", x, axis))


@pytest.mark.parametrize("order", ("i in 0..Si, j in 0..Sj", "j in 0..Sj, i in 0..Si"))
@pytest.mark.parametrize("operator", ("+", "max"))
def test_axes_number_loops_not_indices(operator: str, order: str) -> None:
    text = f"def f(x) {{\n    compute(x) @kernel(reduce, {operator}, axis=0) {{ for {order}: yield x[i, j] }}\n}}\n"
    x = numbers("f64", (31, 57))
    holds(launched(text, x), *reference(operator, x, 0 if order.startswith("i") else 1))


@pytest.mark.parametrize("layout", ("contiguous", "strided"))
@pytest.mark.parametrize(("operator", "function"), (("and", np.all), ("or", np.any), ("any", np.any), ("all", np.all)))
def test_reductions_of_truth(operator: str, function: Any, layout: str) -> None:
    for size in SIZES:
        for share in (0.0, 0.01, 0.99, 1.0):
            x = generator(size, share).random((size, 3)) < share
            assert bool(launched(reducing(operator, 2), laid_out(x, layout))) == function(x)
            exactly(launched(reducing(operator, 2, ", axis=1"), laid_out(x, layout)), function(x, axis=1))
            exactly(launched(reducing(operator, 2, ", axis=0"), laid_out(x, layout)), function(x, axis=0))


@pytest.mark.parametrize("tier", (0, 1))
@pytest.mark.parametrize(("operator", "function"), (("min", np.min), ("max", np.max)))
def test_extremes_of_truth(operator: str, function: Any, tier: int) -> None:
    for size in (1, 3, 33, 1000):
        for share in (0.01, 0.99):
            x = generator(size, share).random((size, 65)) < share
            exactly(launched(reducing(operator, 2, ", axis=1"), x, tier=tier), function(x, axis=1))
            exactly(launched(reducing(operator, 2, ", axis=0"), x, tier=tier), function(x, axis=0))


@pytest.mark.parametrize("dtype", INTS)
def test_and_or_of_ints_are_bitwise(dtype: str) -> None:
    for size in (1, 31, 257):
        x = numbers(dtype, size)
        exactly(launched(reducing("and"), x), np.bitwise_and.reduce(x))
        exactly(launched(reducing("or"), x), np.bitwise_or.reduce(x))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("operator", ("argmin", "argmax"))
def test_arg_reductions_of_every_dtype(operator: str, dtype: str) -> None:
    function = getattr(np, operator)
    text = reducing(operator, value="(x[i], i)")
    for size, layout in spread(SIZES[1:], LAYOUTS):
        x = numbers(dtype, size, operator, small=True)  # small: full of ties
        if dtype in FLOATS:
            x = np.round(x)
        value, index = launched(text, laid_out(x, layout))
        assert (value, index) == (x[function(x)], function(x))


@pytest.mark.parametrize("operator", ("argmin", "argmax"))
@pytest.mark.parametrize("axis", (0, 1, -1))
@pytest.mark.parametrize("keepdims", (False, True))
def test_arg_reductions_along_an_axis(operator: str, axis: int, keepdims: bool) -> None:
    function = getattr(np, operator)
    index = "ij"[axis]
    text = reducing(operator, 2, f", axis={axis}" + (", keepdims=true" if keepdims else ""), f"(x[i, j], {index})")
    for shape, layout in spread(((3, 5), (33, 257), (257, 33), (1, 31), (31, 1)), LAYOUTS):
        x = np.round(numbers("f32", shape, operator) * 2)
        value, place = launched(text, laid_out(x, layout))
        want = function(x, axis=axis, keepdims=keepdims)
        exactly(value, np.take_along_axis(x, function(x, axis=axis, keepdims=True), axis).reshape(want.shape))
        np.testing.assert_array_equal(place, want)


@pytest.mark.parametrize("operator", ("argmin", "argmax"))
def test_an_index_tuple_comes_back_as_one(operator: str) -> None:
    text = reducing(operator, 2, value="(x[i, j], (i, j))")
    for shape in ((1, 1), (3, 5), (33, 31), (5, 257)):
        x = np.round(numbers("f32", shape, operator) * 3)
        flat = int(getattr(np, operator)(x))
        value, place = launched(text, x)
        assert value == x.flat[flat]
        assert place == divmod(flat, shape[1])


def test_an_index_tuple_beside_an_axis() -> None:
    text = reducing("argmax", 3, ", axis=(1, 2)", "(x[i, j, k], (j, k))")
    x = np.round(numbers("f32", (7, 5, 9)) * 2)
    value, (rows, columns) = launched(text, x)
    flat = x.reshape(7, -1).argmax(axis=1)
    exactly(value, x.reshape(7, -1).max(axis=1))
    np.testing.assert_array_equal(rows, flat // 9)
    np.testing.assert_array_equal(columns, flat % 9)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_wins_in_min_max_and_arg(dtype: str) -> None:
    for size, place in ((1, 0), (33, 32), (33, 0), (257, 100), (1000, 999)):
        x = numbers(dtype, size)
        x[place] = np.nan
        for operator in ("min", "max"):
            assert np.isnan(launched(reducing(operator), x))
        for operator in ("argmin", "argmax"):
            value, index = launched(reducing(operator, value="(x[i], i)"), x)
            assert np.isnan(value)
            assert index == place
        rows = np.stack([numbers(dtype, size, 1), x, numbers(dtype, size, 2)])
        for operator, function in (("min", np.min), ("max", np.max)):
            with np.errstate(invalid="ignore"):  # some types of numbers tell of NaN in comparisons
                along, down = function(rows, axis=1), function(rows, axis=0)
            exactly(launched(reducing(operator, 2, ", axis=1"), rows), along)
            exactly(launched(reducing(operator, 2, ", axis=0"), rows), down)


@pytest.mark.parametrize("dtype", ("f32", "f64"))
def test_infinities(dtype: str) -> None:
    x = numbers(dtype, 100)
    x[50] = -np.inf
    assert launched(reducing("min"), x) == -np.inf
    assert launched(reducing("+"), x) == -np.inf
    value, index = launched(reducing("argmax", value="(x[i], i)"), np.full(40, -np.inf, DTYPES[dtype]))
    assert (value, index) == (-np.inf, 0)
    assert launched(reducing("max"), np.full(40, -np.inf, DTYPES[dtype])) == -np.inf


@pytest.mark.parametrize("operator", ("min", "max", "argmin", "argmax"))
def test_an_empty_axis_is_an_error_where_there_is_no_answer(operator: str) -> None:
    arg = operator.startswith("arg")
    for rank, options, shape, value in (
        (1, "", (0,), "(x[i], i)"), (2, ", axis=0", (0, 5), "(x[i, j], i)"), (2, ", axis=1", (5, 0), "(x[i, j], j)"), (2, "", (3, 0), "(x[i, j], (i, j))"),
    ):  # fmt: skip
        with pytest.raises(ZynMLError) as raised:
            launched(reducing(operator, rank, options, value if arg else ""), np.zeros(shape, np.float32))
        assert raised.value.codes == ("ZYN0803",)


def test_an_empty_result_needs_no_answer() -> None:
    exactly(launched(reducing("max", 2, ", axis=1"), np.zeros((0, 3), np.float32)), np.zeros(0, np.float32))
    exactly(launched(reducing("max", 2, ", axis=0"), np.zeros((3, 0), np.float32)), np.zeros(0, np.float32))


def test_an_empty_axis_gives_the_identity_elsewhere() -> None:
    x = np.zeros((3, 0), np.float32)
    exactly(launched(reducing("+", 2, ", axis=1"), x), np.zeros(3, np.float32))
    exactly(launched(reducing("*", 2, ", axis=1"), x), np.ones(3, np.float32))
    assert launched(reducing("+", 2), x) == 0
    assert launched(reducing("*", 2), x) == 1


@pytest.mark.parametrize("dtype", ("f32", "i32"))
def test_tuples_are_reduced_per_component(dtype: str) -> None:
    text = reducing("max", value="(x[i], x[i] * x[i], -x[i])")
    for size in SIZES[1:]:
        x = numbers(dtype, size, small=True)
        got = launched(text, x)
        assert got == (x.max(), (x * x).max(), (-x).max())


def test_tuples_are_reduced_per_component_along_an_axis() -> None:
    text = reducing("+", 2, ", axis=1", "(x[i, j], x[i, j] * x[i, j])")
    for shape in ((3, 5), (33, 257), (5, 0)):
        x = numbers("f64", shape)
        holds(launched(text, x), (x.sum(1), (x * x).sum(1)), np.maximum(np.abs(x), x * x).sum(1), shape[1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_of_expressions_and_guarded_sums(layout: str) -> None:
    text = """def f(x, y) {
    compute(x, y) @kernel(reduce, +, axis=1) {
        for i in 0..M, j in 0..N:
            let d = x[i, j] - y[j]
            if d > 0.0: yield d * d
    }
}
"""
    for shape in ((3, 31), (33, 257), (1000, 3)):
        x, y = numbers("f32", shape, 1), numbers("f32", shape[1], 2)
        d = np.maximum(x.astype(float) - y, 0) ** 2
        holds(launched(text, laid_out(x, layout), laid_out(y, layout)), d.sum(1), (np.abs(x) + np.abs(y)).astype(float).sum(1) ** 1 * 4, shape[1])


def test_a_yield_outside_loops_is_one_element() -> None:
    text = "def f(x) {\n    compute(x) @kernel(reduce, +) { yield x[0] * 2.0 }\n}\n"
    assert launched(text, np.array([1.5, 7.0], np.float32)) == 3.0


def test_reductions_over_triangles_and_steps() -> None:
    text = "def f(x) {\n    compute(x) @kernel(reduce, +) { for i in 0..N, j in 0..i: yield x[i, j] }\n}\n"
    steps = "def f(x) {\n    compute(x) @kernel(reduce, max) { for i in 1..N step 3: yield x[i] }\n}\n"
    for size in (1, 3, 33, 100):
        x = numbers("f32", (size, size))
        below = np.tril(x, -1).astype(float)
        holds(launched(text, x), below.sum(), np.abs(below).sum(), size * size)
    for size in (2, 33, 1000):
        x = numbers("f32", size)
        assert launched(steps, x) == x[1::3].max()


def test_a_long_sum_keeps_the_golden_rule() -> None:
    x = numbers("f32", 1_000_003)
    (w,) = wide(x)
    holds(launched(reducing("+"), x), w.sum(), np.abs(w).sum(), len(x))
    holds(launched(reducing("mean"), x), w.mean(), np.abs(w).mean(), len(x))
    exactly(launched(reducing("max"), x), x.max())
    h = x.astype(np.float16)
    (w,) = wide(h)
    holds(launched(reducing("+"), h), w.sum(), np.abs(w).sum(), len(h))


@pytest.mark.parametrize("size", [1, 31, 33, 1000])
@pytest.mark.parametrize(("operator", "start"), [(">", "-inf"), ("<", "inf")])
def test_a_search_by_comparison_passes_over_nan(operator: str, start: str, size: int) -> None:
    text = f"""def f(x) {{
    compute(x) -> tensor[M, i64] {{
        for i in 0..M {{
            var best = {start}
            var place = -7
            for j in 0..N: if x[i, j] {operator} best {{ best = x[i, j]; place = j }}
            out[i] = place
        }}
    }}
}}
"""
    x = numbers("f32", (5, size))
    x[1] = np.nan
    x[2] = float(start)
    x[3, : size // 2] = np.nan
    beaten = np.where(np.isnan(x), np.float32(start), x)
    places = beaten.argmax(1) if operator == ">" else beaten.argmin(1)
    exactly(launched(text, x), np.where(np.isin(np.arange(5), (1, 2)), -7, places))
