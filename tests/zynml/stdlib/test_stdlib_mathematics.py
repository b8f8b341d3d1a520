"""Reductions, elementwise functions, linear algebra; against NumPy in float64, Python's math and exact integers."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime.element_types import DTYPES
from runtime.tensor import Tensor

bf16 = ml_dtypes.bfloat16
ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53}
"""Half the distance of 1 to the next number: the error of one rounding."""

rng = np.random.default_rng(11)
LAYOUTS = {
    "contiguous": lambda a: np.ascontiguousarray(a),
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
}


def t(values: Any, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.array(values, dtype=dtype))


def close(found: Any, expected: Any, dtype: str, roundings: float = 1) -> bool:
    """Within so many roundings of the dtype, relative to the largest value: float64 stands for the exact value."""
    a = np.asarray(found.array if isinstance(found, Tensor) else found, dtype=np.float64)
    b = np.asarray(expected, dtype=np.float64)
    return a.shape == b.shape and np.allclose(a, b, rtol=roundings * ULP[dtype], atol=roundings * 1e-7 * ULP[dtype], equal_nan=True)


REDUCTIONS = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
    "var": lambda a, **k: np.var(a, ddof=1, **k),
    "std": lambda a, **k: np.std(a, ddof=1, **k),
}


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", list(REDUCTIONS))
def test_float_reductions_are_rounded_once(call: Any, name: str, dtype: str, layout: str) -> None:
    array = LAYOUTS[layout](rng.uniform(0.5, 1.5, (7, 5)).astype(DTYPES[dtype]))
    wide = array.astype(np.float64)
    for options in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": [0, 1]}):
        expected = REDUCTIONS[name](wide, **({**options, "axis": tuple(options["axis"])} if options.get("axis") == [0, 1] else options))
        # 2 roundings: float64 itself sums in some order, and the result is rounded to the dtype.
        assert close(call.method(Tensor(array), name, **options), expected, dtype, 64 if dtype == "f64" else 2)
    assert close(call.method(Tensor(array), f"{name}_axis", 1), REDUCTIONS[name](wide, axis=1), dtype, 64 if dtype == "f64" else 2)


def test_reductions_of_ints_are_exact_and_widen(call: Any) -> None:
    x = Tensor(np.full((1000,), 100, dtype=np.int8))
    assert call.method(x, "sum") == 100_000
    assert call.method(Tensor(np.array([255, 255], dtype=np.uint8)), "sum") == np.uint64(510)
    assert call.method(Tensor(np.array([True, True, False])), "sum") == 2
    assert call.method(Tensor(np.array([3, 4])), "mean") == 3.5
    assert call.method(Tensor(np.array([2] * 62)), "prod") == 2**62
    assert call.method(Tensor(np.array([2**62, 2**62 - 1])), "sum") == 2**63 - 1
    assert call.method_fault(Tensor(np.array([2**62, 2**62])), "sum") == (
        "0806",
        "integer overflow in `sum`: a result does not fit i64 (-9223372036854775808 to 9223372036854775807)",
    )
    assert call.method_fault(Tensor(np.array([2] * 63)), "prod")[0] == "0806"
    assert call.method(Tensor(np.array([1, 2, 3])), "cumsum").array.tolist() == [1, 3, 6]


def test_nan_wins_and_ties_give_the_lowest_index(call: Any) -> None:
    x = t([1, np.nan, 3])
    assert math.isnan(call.method(x, "max")) and math.isnan(call.method(x, "min"))
    assert call.method(x, "argmax") == 1 and call.method(x, "argmin") == 1
    for dtype in ("f32", "bf16", "i64"):
        assert call.method(Tensor(np.array([1, 3, 3, 1]).astype(DTYPES[dtype])), "argmax") == 1
    assert call.method(t([[1, 5], [7, 2]]), "argmax") == 2
    assert call.method(t([[1, 5], [7, 2]]), "argmax", axis=0).array.tolist() == [1, 0]
    assert call.method(t([[1, 5], [7, 2]]), "argmin", 1, keepdims=True).array.tolist() == [[0], [1]]


def test_empty_reductions(call: Any) -> None:
    empty = t(np.zeros((0, 3)))
    assert call.method(empty, "sum") == 0 and call.method(empty, "prod") == 1
    assert call.method(empty, "any") is False and call.method(empty, "all") is True
    assert math.isnan(call.method(empty, "mean"))
    assert call.method(empty, "max", axis=1).shape == (0,)
    assert call.method_fault(empty, "max") == ("0803", "`max` of an empty tensor: its shape is [0, 3]")
    assert call.method_fault(empty, "argmin", axis=0) == ("0803", "`argmin` over an empty axis of a tensor of shape [0, 3]")
    assert call.fault("min", []) == ("0803", "`min` of an empty list")
    assert call.method_fault(t([1]), "sum", axis=1) == ("0307", "axis 1 is outside a tensor of rank 1")
    assert call.method_fault(t([[1]]), "sum", axis=[0, 0]) == ("0307", "an axis stands twice in [0, 0]")


def test_max_and_min_take_what_there_is(call: Any) -> None:
    assert call("max", 1, 2, 3) == 3
    assert call("min", 2.5, 1) == 1.0
    assert call("max", [3, 1, 2]) == 3
    assert call("min", range(4, 7)) == 4
    assert call("max", "a", "b") == "b"
    assert call("max", t([1, 5])) == 5
    assert call("max", t([[1, 5], [7, 2]]), axis=1).array.tolist() == [5, 7]
    assert call("max", t([-1, 5]), 0.0).array.tolist() == [0, 5]
    assert math.isnan(call("max", [1.0, math.nan, 2.0]))
    assert call("sum", [1, 2, 3]) == 6
    assert call("sum", [0.1, 0.2]) == pytest.approx(0.3)
    assert call("sum", range(101)) == 5050
    assert call("any", [False, True]) is True and call("all", t([1, 0])) is False
    assert call.fault("max", 3) == ("0204", "`max` of one value takes a list, a range or a tensor, not i64")


FUNCTIONS = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "erf": math.erf,
    "atan": math.atan,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "exp2": lambda x: 2.0**x,
}


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions_of_one_number(call: Any, name: str, dtype: str) -> None:
    array = rng.uniform(0.1, 3.0, (3, 5)).astype(DTYPES[dtype]).T
    expected = np.vectorize(FUNCTIONS[name])(array.astype(np.float64))
    # NumPy's own functions are within 4 roundings in f32 and f64; the rest are f32 rounded once more.
    assert close(call(name, Tensor(array)), expected, dtype, 8)
    assert close(call(name, array[0, 0]), expected[0, 0], dtype, 8)
    assert call.method(2.0, name) == pytest.approx(FUNCTIONS[name](2.0), rel=1e-15)
    assert call(name, 2) == pytest.approx(FUNCTIONS[name](2.0), rel=1e-15)


def test_functions_at_the_edges(call: Any) -> None:
    x = t([-np.inf, -1000, 0, 1000, np.inf, np.nan])
    assert call("sigmoid", x).array.tolist()[:5] == [0, 0, 0.5, 1, 1] and np.isnan(call("sigmoid", x).array[5])
    assert call("silu", x).array.tolist()[:5] == [0, 0, 0, 1000, np.inf]
    assert call("gelu", x).array.tolist()[:5] == [0, 0, 0, 1000, np.inf]
    assert call("relu", x).array.tolist()[:5] == [0, 0, 0, 1000, np.inf] and np.isnan(call("relu", x).array[5])
    assert math.isnan(call("sqrt", -1.0)) and call("log", 0.0) == -math.inf and call("exp", 1000.0) == math.inf
    assert call("isnan", x).array.tolist() == [False] * 5 + [True]


def test_functions_that_keep_the_type(call: Any) -> None:
    assert call("abs", -3) == 3 and call("abs", -2.5) == 2.5
    assert call("abs", t([-1, 2], np.int8)).array.tolist() == [1, 2]
    assert call.fault("abs", t([-128], np.int8))[0] == "0806"
    assert call.fault("abs", -(2**63))[0] == "0806"
    assert call("round", t([0.5, 1.5, -2.5])).array.tolist() == [0, 2, -2]
    assert call("floor", -1.5) == -2.0 and call("ceil", 3) == 3
    assert call("sign", t([-2, 0, 3])).array.tolist() == [-1, 0, 1]
    assert call("relu", t([-1, 2], np.int64)).array.tolist() == [0, 2]
    assert call("clamp", t([-1, 0.5, 9]), 0, 1).array.tolist() == [0, 0.5, 1]
    assert call("clamp", 5, 0, 3) == 3
    assert call("pow", t([1, 2]), 2).array.tolist() == [1, 4]
    assert call("atan2", 1.0, -1.0) == math.atan2(1, -1)
    assert call("fma", 2, 3, 4) == 10
    assert call.fault("sqrt", "a") == ("0203", "a number or a tensor is expected here, not String")


def test_where_chooses(call: Any) -> None:
    x = t([-1, 2, np.nan])
    mask = call("operator gt", x, 0)
    assert call("where", mask, x, 0.0).array.tolist() == [0, 2, 0]
    assert call("where", mask, 1, 0).array.tolist() == [0, 1, 0]
    assert call("where", True, 1.5, 2) == 1.5
    assert call("where", t([2, 0], np.int64), t([1, 2]), t([[3], [4]])).array.tolist() == [[1, 3], [1, 4]]
    assert call.fault("where", x, 1, 0) == ("0203", "the condition of `where` is made of bools, not tensor[3, f32]")


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "i32", "u8"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 1, 2, 3), (4, 3, 1)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
    ],
)
def test_matmul_is_the_sum_of_products(call: Any, left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> None:
    a, b = (rng.integers(0, 5, shape).astype(DTYPES[dtype]) for shape in (left, right))
    found = call("operator matmul", Tensor(a), Tensor(b))
    # Small whole numbers: every product and sum is exact in every dtype.
    assert np.array_equal(
        np.asarray(found.array if isinstance(found, Tensor) else found, np.float64), a.astype(np.float64) @ b.astype(np.float64)
    )


def test_matmul_faults(call: Any) -> None:
    assert call.fault("operator matmul", t(np.ones((2, 3))), t(np.ones((4, 5)))) == (
        "0301",
        "shapes [2, 3] and [4, 5] don't fit `@`: the last axis on the left is 3, axis -2 on the right is 4"
        "\n  left   [2, 3]\n  right  [4, 5]",
    )
    assert call.fault("operator matmul", t(1.0), t([1])) == ("0301", "shapes [] and [1] don't fit `@`: both sides need an axis")
    assert call.fault("operator matmul", t([1]), 2.0) == ("0208", "`@` is not defined for tensor[1, f32] and f64")
    assert call.fault("operator matmul", t([100, 100], np.int8), t([1, 1], np.int8))[0] == "0806"
    assert call.fault("dot", t([[1]]), t([1])) == ("0301", "`dot` takes two vectors, not shapes [1, 1] and [1]")
    assert call("dot", t([1, 2]), t([3, 4])) == 11
    assert call.method(t([1, 2]), "outer", t([3, 4, 5])).array.tolist() == [[3, 4, 5], [6, 8, 10]]


def test_softmax_layer_norm_cross_entropy(call: Any) -> None:
    x = rng.normal(size=(4, 7)).astype(np.float32)
    wide = x.astype(np.float64)
    raised = np.exp(wide - wide.max(1, keepdims=True))
    expected = raised / raised.sum(1, keepdims=True)
    # exp and a sum of 7 terms in f32.
    assert close(call("softmax", Tensor(x)), expected, "f32", 16)
    assert close(call.method(Tensor(x.T), "softmax", axis=0), expected.T, "f32", 16)
    assert close(call("log_softmax", Tensor(x)), np.log(expected), "f32", 32)
    assert call("softmax", t([1000.0, 0.0])).array.tolist() == [1, 0]
    normed = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert close(call("layer_norm", Tensor(x)), normed, "f32", 2)
    weight, bias = rng.normal(size=7), rng.normal(size=7)
    assert close(call("layer_norm", Tensor(x), Tensor(weight), Tensor(bias)), normed * weight + bias, "f32", 8)
    targets = np.array([0, 6, 3, 3])
    loss = -np.log(expected[np.arange(4), targets]).mean()
    assert close(call("cross_entropy", Tensor(x), Tensor(targets)), loss, "f32", 2)
    assert call.fault("cross_entropy", Tensor(x), t([0, 1, 2, 7], np.int64)) == ("0801", "class 7 is out of range: there are 7 classes")
    assert call.fault("cross_entropy", Tensor(x), t([0], np.int64)) == ("0301", "`cross_entropy` of 4 rows needs as many targets, not 1")
    assert call.method(t([1, 0], np.int64), "one_hot", 3).array.tolist() == [[0, 1, 0], [1, 0, 0]]
    assert call.method(t([1.0]), "allclose", t([1.0 + 1e-7])) is True


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "u64", "bool"])
def test_sorting_is_stable_both_ways(call: Any, dtype: str) -> None:
    array = rng.integers(0, 4, (5, 9)).astype(DTYPES[dtype])
    for axis in (0, 1):
        order = np.argsort(array.astype(np.float64), axis=axis, kind="stable")
        assert np.array_equal(call("argsort", Tensor(array), axis).array, order)
        assert np.array_equal(call("sort", Tensor(array), axis).array, np.take_along_axis(array, order, axis))
        downward = np.argsort(-array.astype(np.float64), axis=axis, kind="stable")
        assert np.array_equal(call("argsort", Tensor(array), axis, descending=True).array, downward)
        assert np.array_equal(call("sort", Tensor(array), axis, descending=True).array, np.take_along_axis(array, downward, axis))


def test_nan_sorts_last_both_ways(call: Any) -> None:
    x = t([2, np.nan, 3, np.nan, 1])
    assert call("argsort", x).array.tolist() == [4, 0, 2, 1, 3]
    assert call("argsort", x, descending=True).array.tolist() == [2, 0, 4, 1, 3]
    assert np.array_equal(call("sort", x).array, [1, 2, 3, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(call("sort", x, descending=True).array, [3, 2, 1, np.nan, np.nan], equal_nan=True)
    zeros = t([0.0, 1, -0.0, 0.0, -1, -0.0])
    assert np.signbit(call("sort", zeros).array).tolist() == [True, False, True, False, True, False]
    assert np.signbit(call("sort", zeros, descending=True).array).tolist() == [False, False, True, False, True, True]
    values, places = call("topk", x, 2)
    assert values.array.tolist() == [3, 2] and places.array.tolist() == [2, 0]
    assert call.fault("topk", x, 6) == ("0801", "`topk` of 6 is out of range: axis 0 of [5] has 5")
    assert call("tril", t(np.ones((2, 2)))).array.tolist() == [[1, 0], [1, 1]]
    assert call("triu", t(np.ones((2, 2))), 1).array.tolist() == [[0, 1], [0, 0]]


def test_tensors_stay_on_the_device_where_they_are(call: Any) -> None:
    assert call("compute_devices") == ["cpu"]
    assert call.method(t([1]), "to_device", "cpu").array.tolist() == [1]
    assert call.method_fault(t([1]), "to_device", "cuda:0")[0] == "0501"
