from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime.tensor import Tensor
from zynml.stdlib.printing import float_text, to_text

bf16 = ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (-(2**63), "-9223372036854775808"),
        (np.uint8(7), "7"),
        (np.int64(7), "7"),
        (True, "true"),
        (np.bool_(False), "false"),
        (3.0, "3.0"),
        (0.1, "0.1"),
        (1e16, "1e+16"),
        (1e-05, "1e-05"),
        (-0.0, "-0.0"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        (np.float32(0.1), "0.1"),
        (np.float32(3), "3.0"),
        (np.float32(16777216), "16777216.0"),
        (np.float32(1e20), "1e+20"),
        (np.float16(0.1), "0.1"),
        (np.float16(65504), "65500.0"),
        (bf16(1), "1.0"),
        (bf16(0.1), "0.1"),
        (bf16(3.140625), "3.14"),
        (bf16(1e30), "1e+30"),
        (bf16("nan"), "nan"),
        ("bare", "bare"),
        ("", ""),
        (None, "()"),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, "a"), '(1, "a")'),
        ([], "[]"),
        (["a"], '["a"]'),
        (['a"\\\n\t\0\x07'], '["a\\"\\\\\\n\\t\\0\\u{7}"]'),
        ([[1.5], [True]], "[[1.5], [true]]"),
        (range(5), "0..5"),
        (range(5, 0, -2), "5..0 step -2"),
        ({"a": 1}, '{"a": 1}'),
        (Tensor(np.array([[1.0, 2.5]], dtype=np.float32)), "tensor([[1.0, 2.5]], shape=[1, 2], dtype=f32)"),
        (Tensor(np.array(3.0)), "tensor(3.0, shape=[], dtype=f64)"),
        (Tensor(np.zeros((0,), dtype=np.int32)), "tensor([], shape=[0], dtype=i32)"),
        (Tensor(np.zeros((2, 0), dtype=np.int32)), "tensor([[], []], shape=[2, 0], dtype=i32)"),
        (Tensor(np.array([True, False])), "tensor([true, false], shape=[2], dtype=bool)"),
        (
            Tensor(np.array([1 / 3, 1e-9, -0.5, 1e7, np.inf, -np.inf, np.nan])),
            "tensor([0.333333, 0.0, -0.5, 10000000.0, inf, -inf, nan], shape=[7], dtype=f64)",
        ),
        (Tensor(np.array([0.1], dtype=np.float32)), "tensor([0.1], shape=[1], dtype=f32)"),
        (Tensor(np.array([0.15625], dtype=bf16)), "tensor([0.15625], shape=[1], dtype=bf16)"),
        (Tensor(np.arange(6).reshape(2, 3).T), "tensor([[0, 3], [1, 4], [2, 5]], shape=[3, 2], dtype=i64)"),
        (Tensor(np.arange(101)), "tensor([0, 1, 2, ..., 98, 99, 100], shape=[101], dtype=i64)"),
        ([Tensor(np.array([1]))], "[tensor([1], shape=[1], dtype=i64)]"),
    ],
)
def test_values_print_by_the_table(printed: Callable[..., str], value: Any, text: str) -> None:
    assert printed(value) == text + "\n"


def test_a_hundred_elements_print_in_full_and_more_are_cut_on_long_axes() -> None:
    assert to_text(Tensor(np.arange(100))).count(",") == 99 + 2
    cut = to_text(Tensor(np.arange(400).reshape(2, 200)))
    assert cut == "tensor([[0, 1, 2, ..., 197, 198, 199], [200, 201, 202, ..., 397, 398, 399]], shape=[2, 200], dtype=i64)"
    rows = to_text(Tensor(np.zeros((1000, 0))))
    assert rows == "tensor([[], [], [], ..., [], [], []], shape=[1000, 0], dtype=f64)"


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bf16])
def test_floats_print_shortest_and_read_back(dtype: Any) -> None:
    numbers = np.frombuffer(np.random.default_rng(5).bytes(400), dtype=dtype)
    for number in numbers[np.isfinite(numbers.astype(np.float64))]:
        assert dtype(float(float_text(number))) == number


def test_deep_and_circular_lists_end() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert to_text(circle).startswith("[[[[")
    assert "..." in to_text(circle)


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (3.14159, ".2f", "3.14"),
        (3.0, ">8", "     3.0"),
        (np.float32(0.1), ".3f", "0.100"),
        (np.float32(0.1), ">6", "   0.1"),
        (bf16(0.5), ".1e", "5.0e-01"),
        (42, "05d", "00042"),
        (np.uint8(255), "x", "ff"),
        (3, ".1f", "3.0"),
        (0.256, ".1%", "25.6%"),
        ("ab", "^6", "  ab  "),
        (True, ">6", "  true"),
        ([1], ">5", "  [1]"),
        (7, "", "7"),
    ],
)
def test_formats_work_as_in_python(call: Any, value: Any, spec: str, text: str) -> None:
    assert call("format", value, spec) == text


@pytest.mark.parametrize(
    ("value", "spec", "message"),
    [
        ("text", ".2f", "the format `.2f` does not suit String"),
        (2.5, "d", "the format `d` does not suit f64"),
        ([1], "d", "the format `d` does not suit String"),
        (1, ">99999999999999", "the format `>99999999999999` is wider than 1000000 characters"),
    ],
)
def test_a_format_that_does_not_suit_is_a_fault(call: Any, value: Any, spec: str, message: str) -> None:
    assert call.fault("format", value, spec) == ("0105", message)


def test_print_functions_write_where_they_should(call: Any) -> None:
    call("print", "a", 1)
    call("println")
    call("println_str", "b")
    call("eprint", [1])
    call("eprintln", "c")
    assert call.settings.output.getvalue() == "a 1\nb\n"
    assert call.settings.error_output.getvalue() == "[1]c\n"
