"""What Python gives for parameters: what is accepted, and what is said, in Python's words, of what isn't."""

import array

import ml_dtypes
import numpy as np
import pytest

import zynml

PROGRAM = """
def scale(x: tensor[N], by: f32 = 2.0): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def wide(x: tensor[N, f64]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * 2.0 } }
def halves(x: tensor[N, bf16]): tensor { x }
def ints(x: tensor[N, i32]): tensor { x }
def number(x: f32): f32 { x }
def whole(x: int): int { x }
def small(x: i32): i32 { x }
def listed(x: list[float]): list[float] { x }
def smalls(x: list[i32]): list[i32] { x }
def wholes(x: list[i64]): list[i64] { x }
def placed(x: [i64; 2]): i64 { x[0] }
def pair(x: (int, f32)): (int, f32) { x }
def anything(x) { x }
def every(x): list[int] { [n for n in x] }
"""


@pytest.fixture(scope="module")
def program():
    return zynml.compile(PROGRAM)


def message(function, *values, **named):
    with pytest.raises(zynml.ZynMLError) as caught:
        function(*values, **named)
    assert caught.value.codes == ("ZYN0807",)
    return str(caught.value)


def test_the_first_call_of_everybody_who_uses_numpy(program):
    assert message(program.scale, np.ones(3), 2.0) == (
        "error[ZYN0807]: `x` is an array of float64, and `scale` takes a tensor of f32\n"
        " --> <program>:2:11\n"
        "  |\n"
        "2 | def scale(x: tensor[N], by: f32 = 2.0): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }\n"
        "  |           ^^^^^^^^^^^^ declared here\n"
        "hint: `x.astype(np.float32)` converts it; `x: tensor[N, f64]` takes it as it is"
    )
    assert message(program.scale, x=np.ones(3)) == message(program.scale, np.ones(3))


REFUSED = [
    ("halves", np.ones(3, np.float32), "`x` is an array of float32, and `halves` takes a tensor of bf16",
     "`x.astype(ml_dtypes.bfloat16)` converts it; `x: tensor[N, f32]` takes it as it is"),
    ("ints", np.ones(3, np.int64), "`x` is an array of int64, and `ints` takes a tensor of i32",
     "`x.astype(np.int32)` converts it; `x: tensor[N, i64]` takes it as it is"),
    ("number", np.float64(1.5), "`x` is a float64, and `number` takes f32", "`float(x)` converts it"),
    ("whole", 2.5, "`x` is a float, and `whole` takes i64", "`int(x)` cuts it off"),
    ("whole", True, "`x` is a bool, and `whole` takes i64", "`int(x)` converts it"),
    ("small", np.int64(3), "`x` is an int64, and `small` takes i32", "`int(x)` converts it"),
    ("scale", np.array([1, 2**24 + 1]), "`x` holds 16777217, which f32 can't hold exactly", "`x.astype(np.float32)` rounds it"),
    ("scale", np.array([2**64 - 1], np.uint64), "`x` holds 18446744073709551615, which f32 can't hold exactly",
     "`x.astype(np.float32)` rounds it"),
    ("wide", np.array([-(2**53) - 1]), "`x` holds -9007199254740993, which f64 can't hold exactly", "`x.astype(np.float64)` rounds it"),
    ("scale", [2**24 + 1, 1], "`x` holds 16777217, which f32 can't hold exactly", "`x.astype(np.float32)` rounds it"),
    ("number", 2**24 + 1, "`x` is 16777217, which f32 can't hold exactly", "`float(x)` rounds it"),
    ("number", np.int64(2**24 + 1), "`x` is 16777217, which f32 can't hold exactly", "`float(x)` rounds it"),
    ("pair", (1, 2**24 + 1), "`x` holds 16777217, which f32 can't hold exactly", "`float(...)` rounds it"),
    ("whole", 2**63, "`x` is 9223372036854775808, which i64 can't hold", "i64 holds -9223372036854775808 to 9223372036854775807"),
    ("small", -(2**31) - 1, "`x` is -2147483649, which i32 can't hold", "i32 holds -2147483648 to 2147483647"),
    ("wholes", [1, 2**63], "`x` holds 9223372036854775808, which i64 can't hold", "i64 holds -9223372036854775808 to 9223372036854775807"),
    ("wholes", np.array([2**63], np.uint64), "`x` holds 9223372036854775808, which i64 can't hold",
     "i64 holds -9223372036854775808 to 9223372036854775807"),
    ("smalls", [300, 2**31], "`x` holds 2147483648, which i32 can't hold", "i32 holds -2147483648 to 2147483647"),
    ("placed", [1, 2**63], "`x` holds 9223372036854775808, which i64 can't hold", "i64 holds -9223372036854775808 to 9223372036854775807"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "said", "hint"), REFUSED, ids=[f"{r[0]}-{r[2]}" for r in REFUSED])
def test_what_does_not_fit_is_said_in_pythons_words(program, name, value, said, hint):
    found = message(program.functions[name], value).splitlines()
    assert (found[0], found[-1]) == (f"error[ZYN0807]: {said}", f"hint: {hint}")


@pytest.mark.parametrize("number", [0, 1, -(2**24), 2**24, 2**24 + 2, 2**40, 3 * 2**60, -(2**63)])
def test_ints_that_a_float_holds_are_taken(program, number):
    assert program.scale(np.array([number]), 1.0)[0] == float(number)
    assert program.number(number) == float(number)
    assert program.number(np.int64(number)) == float(number)


def test_int_arrays_without_elements_are_taken(program):
    assert program.scale(np.empty(0, np.int64)).shape == (0,)


@pytest.mark.parametrize("value", [(1.0, 2.0), [1.0, 2.0], range(1, 3), array.array("f", [1, 2]), memoryview(array.array("f", [1, 2])),
                                   memoryview(np.array([1, 2], np.float32)), np.array([1, 2], np.int8)])  # fmt: skip
def test_sequences_and_buffers_are_tensors_where_a_tensor_is_expected(program, value):
    np.testing.assert_array_equal(program.scale(value), [2.0, 4.0])


def test_tuples_of_tuples_are_tensors_too():
    program = zynml.compile("def turned(x: tensor[M, N]): tensor { x.transpose() }")
    np.testing.assert_array_equal(program.turned(((1.0, 2.0), (3.0, 4.0))), [[1.0, 3.0], [2.0, 4.0]])


@pytest.mark.parametrize("value", [(1.0, 2.0), range(1, 3), array.array("d", [1, 2]), np.array([1.0, 2.0]), [1, 2.0]])
def test_sequences_and_arrays_are_lists_where_a_list_is_expected(program, value):
    assert program.listed(value) == [1.0, 2.0]


def test_numbers_in_lists_and_tuples_count_as_literals(program):
    assert program.smalls([1, 2]) == [1, 2] and program.smalls((3,)) == [3]
    assert program.pair((1, 0.5)) == (1, 0.5)
    with pytest.raises(zynml.ZynMLError, match="1099511627776"):
        program.smalls([2**40])


def test_a_list_stays_the_callers_own(program):
    given = [1.0, 2.0]
    zynml.compile("def push(mut x: list[float]) { x.push(3.0) }").push(given)
    assert program.listed(given) == [1.0, 2.0]


def test_ranges_and_tuples_without_a_type_are_what_they_are(program):
    assert program.anything((1, 2)) == (1, 2)
    assert program.anything(range(3)) == range(3)
    assert program.every(range(5, 0, -2)) == [5, 3, 1]


def test_a_buffers_memory_is_shared(program):
    held = array.array("f", [1, 2, 3])
    zynml.compile("def double(mut x: tensor[N]) { compute(mut x) { for i in 0..N: x[i] = x[i] * 2.0 } }").double(held)
    assert held.tolist() == [2, 4, 6]
    with pytest.raises(zynml.ZynMLError, match="read-only"):
        zynml.compile("def double(mut x: tensor[N, u8]) { compute(mut x) { for i in 0..N: x[i] = x[i] * 2 } }").double(memoryview(b"abc"))


def test_masked_arrays_are_refused(program):
    assert message(program.scale, np.ma.masked_array(np.ones(2, np.float32), [False, True])) == (
        "error[ZYN0807]: a masked array of NumPy type float32 has no counterpart\n"
        "hint: `.filled(value)` gives its elements with a value for the masked ones; tensors have no mask"
    )


def test_arrays_in_the_other_byte_order_are_refused(program):
    for value, name in ((np.ones(2, ">f4"), "float32"), (np.array(1, ">i8"), "int64")):
        assert message(program.anything, value) == (
            f"error[ZYN0807]: an array of NumPy type {value.dtype} can't be taken: its bytes are in the other order\n"
            f"hint: `.astype(np.{name})` gives its elements in the order of this machine"
        )
        assert program.anything(value.astype(name)).tolist() == value.tolist()


def test_tensors_of_pytorch_with_the_negative_bit_are_refused(program):
    class Tensor:
        def __init__(self):
            self.held = np.ones(3, np.float32)

        def is_neg(self):
            return True

        def __dlpack_device__(self):
            return self.held.__dlpack_device__()

        def __dlpack__(self, **options):
            return self.held.__dlpack__(**options)

    assert message(program.scale, Tensor()) == (
        "error[ZYN0807]: this Tensor can't be taken: its memory holds its elements with the other sign\n"
        "hint: `.resolve_neg()` gives its elements with their own"
    )


def test_buffers_of_what_programs_do_not_have_are_refused(program):
    assert message(program.scale, array.array("u", "ab")).startswith("error[ZYN0807]: an array of NumPy type")
    assert message(program.anything, range(2**70)) == "error[ZYN0807]: 1180591620717411303424 fits into no int of 64 bits"


def test_other_floats_are_taken_where_they_fit(program):
    np.testing.assert_array_equal(program.scale(np.array([1.5, 2.5], ml_dtypes.bfloat16)), [3.0, 5.0])
    np.testing.assert_array_equal(program.scale(np.array([1.5, 2.5], np.float16)), [3.0, 5.0])


def test_a_field_of_packed_records_is_refused(program):
    records = np.zeros(50, [("kind", "u1"), ("price", "f4")])
    assert message(program.scale, records["price"]) == (
        "error[ZYN0807]: an array of NumPy type float32 can't be taken with strides of 5 bytes, no multiple of its elements\n"
        "hint: `.copy()` lays the elements out without gaps"
    )
    records = np.zeros(50, [("kind", "u4"), ("price", "f4")])
    records["price"] = np.arange(50)
    np.testing.assert_array_equal(program.scale(records["price"]), np.arange(50) * 2.0)
