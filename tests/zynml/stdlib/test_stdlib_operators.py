import itertools
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.typed_ast.library import CallTypes, LibraryFault
from compiler.typed_ast.types import DType, DynamicShape, Scalar, ShapeExpr, StaticShape, SymbolicShape, TensorType
from runtime.element_types import DTYPES
from runtime.tensor import Tensor
from zynml.stdlib import library
from zynml.stdlib.operators import BINARY

SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "pow": "^"}
INTS = [name for name in DTYPES if name[0] in "iu"]


def value_of(name: str, tensor: bool) -> Any:
    array = np.array([1, 2, 3]).astype(DTYPES[name])
    if tensor:
        return Tensor(array)
    scalar = array[1]
    return scalar.item() if name in ("bool",) else scalar


JOINS = {
    ("i8", "i32"): "i32",
    ("i8", "u8"): "i16",
    ("i32", "u32"): "i64",
    ("i64", "f16"): "f16",
    ("i64", "bf16"): "bf16",
    ("u64", "f32"): "f32",
    ("f16", "bf16"): "f32",
    ("f16", "f32"): "f32",
    ("bf16", "f64"): "f64",
    ("f32", "f64"): "f64",
    ("u8", "u64"): "u64",
    ("u8", "i64"): "i64",
    ("bool", "f32"): "f32",
    ("bool", "i8"): "i8",
}


@pytest.mark.parametrize(("pair", "expected"), JOINS.items())
def test_two_tensors_meet_in_the_joined_dtype(call: Any, pair: tuple[str, str], expected: str) -> None:
    for left, right in (pair, pair[::-1]):
        assert call("operator add", value_of(left, True), value_of(right, True)).dtype_name == expected


@pytest.mark.parametrize(
    ("tensor", "scalar", "expected"),
    [
        ("f32", 2.0, "f32"),
        ("f16", 2.0, "f16"),
        ("bf16", 3, "bf16"),
        ("i32", 3, "i32"),
        ("i32", 2.5, "f64"),
        ("u8", np.float32(2), "f32"),
        ("f32", np.float64(2), "f32"),
        ("i16", np.int64(2), "i16"),
        ("bool", 2, "i64"),
    ],
)
def test_a_scalar_beside_a_tensor_changes_its_kind_only(call: Any, tensor: str, scalar: Any, expected: str) -> None:
    for operands in ((value_of(tensor, True), scalar), (scalar, value_of(tensor, True))):
        assert call("operator add", *operands).dtype_name == expected


def test_static_rules_and_values_agree_for_all_pairs(call: Any) -> None:
    for left, right in itertools.product(DTYPES, DTYPES):
        for a, b in itertools.product((False, True), (False, True)):
            for name in ("add", "mul", "div", "lt", "eq"):
                try:
                    call(f"operator {name}", value_of(left, a), value_of(right, b))
                except LibraryFault as fault:
                    assert fault.code in ("0207", "0208")
                    assert "bool" in (left, right) or {left[0], right[0]} == {"i", "u"}


def test_numbers_with_no_common_type_are_refused(call: Any) -> None:
    found = call.fault("operator add", value_of("u64", True), value_of("i8", True))
    assert found == ("0207", "u64 and i8 have no common type")
    assert call.fault("operator add", True, False) == ("0208", "`+` is not defined for bool and bool")
    assert call.fault("operator mul", "a", 2) == ("0208", "`*` is not defined for String and i64")


int64 = st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100)


def exact(name: str, a: int, b: int) -> int | None:
    """The exact result, None where there is none."""
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "div" | "rem":
            if b == 0:
                return None
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return quotient if name == "div" else a - b * quotient
        case "pow":
            return None if b < 0 else a**b if b < 300 or abs(a) < 2 else 2**70
    raise AssertionError(name)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(SYMBOLS)), int64, int64)
def test_i64_scalars_are_exact_or_stop(name: str, a: int, b: int) -> None:
    expected = exact(name, a, b)
    if expected is None or not -(2**63) <= expected < 2**63:
        with pytest.raises(LibraryFault) as caught:
            BINARY[name](a, b)
        assert caught.value.code == "0806"
    else:
        assert BINARY[name](a, b) == expected


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(list(SYMBOLS)), st.sampled_from(INTS), st.booleans())
def test_int_tensors_are_exact_or_stop(data: st.DataObject, name: str, dtype: str, broadcast: bool) -> None:
    info = np.iinfo(DTYPES[dtype])
    numbers = st.integers(info.min, info.max) | st.integers(max(info.min, -5), 5)
    left = data.draw(st.lists(numbers, min_size=1, max_size=4))
    right = data.draw(st.lists(numbers, min_size=len(left), max_size=len(left)))
    if broadcast:
        right = right[:1]
    if name == "pow":
        right = [b % 70 if data.draw(st.booleans()) else b for b in right]
    pairs = list(zip(left, right * (len(left) if broadcast else 1), strict=False))
    expected = [exact(name, a, b) for a, b in pairs]
    tensors = [Tensor(np.array(side, dtype=DTYPES[dtype])) for side in (left, right)]
    if any(e is None or not info.min <= e <= info.max for e in expected):
        with pytest.raises(LibraryFault) as caught:
            BINARY[name](*tensors)
        assert caught.value.code == "0806"
    else:
        found = BINARY[name](*tensors)
        assert found.dtype_name == dtype
        assert found.array.tolist() == expected


def test_integer_faults_say_what_happened(call: Any) -> None:
    assert call.fault("operator div", 1, 0) == ("0806", "integer division by zero")
    assert call.fault("operator rem", Tensor(np.array([[4, 2]])), Tensor(np.array([[1, 0]]))) == (
        "0806",
        "integer remainder by zero: the right operand is 0 at [0, 1]",
    )
    assert call.fault("operator add", Tensor(np.array([100], dtype=np.int8)), 100) == (
        "0806",
        "integer overflow in `+`: a result does not fit i8 (-128 to 127)",
    )
    assert call.fault("operator add", Tensor(np.array([100], dtype=np.int8)), 300) == ("0806", "300 does not fit i8 (-128 to 127)")
    assert call.fault("operator neg", -(2**63))[0] == "0806"
    assert call.fault("operator neg", Tensor(np.array([-128], dtype=np.int8)))[0] == "0806"
    assert call.fault("operator pow", 2, -1) == ("0806", "an integer to the negative power -1 is no integer")


def test_floats_follow_ieee(call: Any) -> None:
    assert call("operator div", 1.0, 0.0) == math.inf
    assert call("operator div", -1.0, 0.0) == -math.inf
    assert call("operator div", 1.0, -0.0) == -math.inf
    assert math.isnan(call("operator div", 0.0, 0.0))
    assert math.isnan(call("operator rem", 1.0, 0.0))
    assert call("operator rem", -7.5, 2.0) == -1.5
    assert call("operator pow", 10.0, 400.0) == math.inf
    assert math.isnan(call("operator pow", -8.0, 1 / 3))
    assert call("operator div", np.float32(1), np.float32(0)) == np.inf
    assert call("operator rem", Tensor(np.array([-7.5])), 2.0).array.tolist() == [-1.5]


def test_division_of_ints_goes_toward_zero(call: Any) -> None:
    assert [call("operator div", a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [3, -3, -3, 3]
    assert [call("operator rem", a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2))] == [1, -1, 1, -1]
    found = call("operator div", Tensor(np.array([7, -7, 7, -7])), Tensor(np.array([2, 2, -2, -2])))
    assert found.array.tolist() == [3, -3, -3, 3]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 3), max_size=4), st.lists(st.integers(0, 3), max_size=4))
def test_broadcasting_is_numpys(left: list[int], right: list[int]) -> None:
    a, b = np.ones(left), np.ones(right)
    rule = library().functions["operator add"].result
    types = {"left": TensorType(Scalar(DType.F64), StaticShape(left)), "right": TensorType(Scalar(DType.F64), StaticShape(right))}
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        with pytest.raises(LibraryFault) as caught:
            BINARY["add"](Tensor(a), Tensor(b))
        assert caught.value.code == "0301"
        return
    assert BINARY["add"](Tensor(a), Tensor(b)).shape == shape
    assert rule(CallTypes(types, {})) == TensorType(Scalar(DType.F64), StaticShape(shape))  # type: ignore[operator]


def test_shapes_that_do_not_fit_are_shown_under_each_other(call: Any) -> None:
    assert call.fault("operator mul", Tensor(np.ones((3, 4))), Tensor(np.ones((2, 5, 4)))) == (
        "0301",
        "shapes [3, 4] and [2, 5, 4] don't fit `*`: axis -2 is 3 on the left, 5 on the right\n  left   [   3, 4]\n  right  [2, 5, 4]",
    )


def test_symbolic_and_unknown_dims_broadcast_in_types() -> None:
    rule = library().functions["operator add"].result
    assert not isinstance(rule, Scalar)

    def joined(left: Any, right: Any) -> Any:
        f32 = Scalar(DType.F32)
        return rule(CallTypes({"left": TensorType(f32, left), "right": TensorType(f32, right)}, {})).shape  # type: ignore[operator]

    n = ShapeExpr.of("N")
    assert joined(SymbolicShape((n, ShapeExpr.of(4))), SymbolicShape((n, ShapeExpr.of(1)))) == SymbolicShape((n, ShapeExpr.of(4)))
    assert joined(SymbolicShape((n,)), StaticShape((1,))) == SymbolicShape((n,))
    assert joined(DynamicShape(2), StaticShape((3,))) == SymbolicShape((None, ShapeExpr.of(3)))
    assert joined(DynamicShape(), StaticShape((3,))) == DynamicShape()


def test_too_large_results_are_refused_before_they_are_made(call: Any) -> None:
    row, column = np.broadcast_to(np.float32(1), (1, 10**7)), np.broadcast_to(np.float32(1), (10**7, 1))
    code, message = call.fault("operator add", Tensor(row), Tensor(column))
    assert code == "0804"
    assert message.startswith("a tensor of shape [10000000, 10000000] takes 363.8 TB, and ")


def test_comparisons_are_exact_and_give_bools(call: Any) -> None:
    assert call("operator lt", 2**60, 2**60 + 1) is True
    assert call("operator eq", np.uint8(3), 3) is True
    assert call("operator eq", np.float32(0.1), 0.1) is True
    assert call("operator lt", Tensor(np.array([1, 200], dtype=np.uint8)), 300).array.tolist() == [True, True]
    assert call("operator ge", Tensor(np.array([-1, 0], dtype=np.int8)), -1000).array.tolist() == [True, True]
    assert call("operator eq", "a", "a") is True
    assert call("operator lt", "a", "b") is True
    assert call("operator eq", [1, [2.0]], [1, [2.0]]) is True
    assert call("operator ne", (1, "a"), (1, "b")) is True
    assert call("operator eq", math.nan, math.nan) is False
    assert call.fault("operator lt", "a", 1) == ("0208", "`<` is not defined for String and i64")
    assert call.fault("operator eq", "a", 1) == ("0208", "`==` is not defined for String and i64")


def test_logic_and_bits(call: Any) -> None:
    mask = Tensor(np.array([True, False]))
    assert call("operator and", mask, True).array.tolist() == [True, False]
    assert call("operator or", mask, Tensor(np.array([False, False]))).array.tolist() == [True, False]
    assert call("operator not", mask).array.tolist() == [False, True]
    assert call("operator not", True) is False
    assert call.fault("operator and", mask, 1) == ("0208", "`and` is not defined for tensor[2, bool] and i64")
    assert call("operator shl", 3, 4) == 48
    assert call("operator shr", -5, 1) == -3
    assert call("operator bitand", 12, 10) == 8
    assert call("bit_or", Tensor(np.array([1, 2], dtype=np.uint8)), 4).array.tolist() == [5, 6]
    assert call.fault("operator shl", 1, 64) == ("0806", "a shift by 64 is outside 0 to 63, the range for i64")
    assert call.fault("operator shl", 1, 63)[0] == "0806"
    assert call.fault("operator shl", Tensor(np.array([1], dtype=np.int8)), 7)[0] == "0806"
    assert call.fault("operator bitand", 1.5, 1) == ("0208", "`&` is not defined for f64 and i64")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (3.9, "i64", 3),
        (-3.9, "i32", np.int32(-3)),
        (300, "f16", np.float16(300)),
        (2, "bool", True),
        (1e300, "f32", np.float32(np.inf)),
        (1.00390625, "bf16", ml_dtypes.bfloat16(1.0)),
        (True, "u8", np.uint8(1)),
    ],
)
def test_casts_of_scalars(call: Any, value: Any, dtype: str, expected: Any) -> None:
    found = call("operator as", value, dtype)
    assert type(found) is type(expected) and found == expected


def test_casts_that_do_not_fit_stop(call: Any) -> None:
    assert call.fault("operator as", 300, "u8") == ("0806", "300 does not fit u8 (0 to 255)")
    assert call.fault("operator as", math.nan, "i64") == ("0806", "nan has no i64")
    assert call.fault("operator as", Tensor(np.array([1.0, 2.0**63])), "i64")[0] == "0806"
    assert call.fault("operator as", Tensor(np.array([np.inf])), "i8")[0] == "0806"
    assert call.fault("operator as", Tensor(np.array([1, -1])), "u64")[0] == "0806"
    assert call("operator as", Tensor(np.array([-(2.0**63), 2.0**62])), "i64").array.tolist() == [-(2**63), 2**62]
    assert call("operator as", Tensor(np.array([2**63], dtype=np.uint64)), "f64").array.tolist() == [2.0**63]
    assert call.fault("operator as", 1, "f31") == ("0203", "`f31` is no dtype")
