"""Creation, structure and indexing."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.typed_ast.library import CallTypes, LibraryFault
from compiler.typed_ast.types import I64, STRING, DType, ListType, Scalar, ShapeExpr, StaticShape, SymbolicShape, TensorType
from runtime.tensor import Tensor
from zynml.stdlib import StdlibSettings, library
from zynml.stdlib.indexing import get, put


def t(values: Any, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.array(values, dtype=dtype))


def same(found: Tensor, expected: Any, dtype: str) -> bool:
    return found.dtype_name == dtype and found.shape == np.shape(expected) and bool(np.array_equal(found.array, np.array(expected)))


# ---- creation --------------------------------------------------------------------------------------------------------


def test_shapes_come_as_numbers_or_as_a_list(call: Any) -> None:
    for found in (call("zeros", 2, 3), call("Tensor::zeros", [2, 3]), call("tensor_zeros", (2, 3)), call("zeros_2d", 2, 3)):
        assert same(found, np.zeros((2, 3)), "f32")
    assert same(call("ones", 2, dtype="i8"), [1, 1], "i8")
    assert call("zeros").shape == ()
    assert call("zeros", 0, 5).shape == (0, 5)


def test_full_eye_arange_linspace(call: Any) -> None:
    assert same(call("full", [2], 1.5), [1.5, 1.5], "f32")
    assert same(call("full", 3, 7, dtype="u8"), [7, 7, 7], "u8")
    assert same(call("eye", 2, 3), np.eye(2, 3), "f32")
    assert same(call("arange", 1.0, 4.0), [1, 2, 3], "f32")
    assert same(call("arange", 3), [0, 1, 2], "f32")
    assert same(call("arange", 0.5, 1.6, 0.5), [0.5, 1.0, 1.5], "f32")
    assert same(call("arange", 5, 0, -2, dtype="i64"), [5, 3, 1], "i64")
    assert same(call("arange", 5, 5), [], "f32")
    assert same(call("arange", 2**62, 2**62 + 2, 1, dtype="i64"), [2**62, 2**62 + 1], "i64")
    assert same(call("linspace", 0.0, 1.0, 5), [0, 0.25, 0.5, 0.75, 1], "f32")
    assert same(call("linspace", 0, 1, 1, dtype="f64"), [0], "f64")


def test_lists_make_tensors_of_their_kind(call: Any) -> None:
    assert same(call("tensor", [[1.0, 2.5], [3.0, 4.0]]), [[1, 2.5], [3, 4]], "f32")
    assert same(call("tensor", [1, 2]), [1, 2], "i64")
    assert same(call("tensor", [True, False]), [True, False], "bool")
    assert same(call("tensor", [1, 2.5]), [1, 2.5], "f32")
    assert same(call("tensor", []), [], "f32")
    assert same(call("tensor", [[], []]), np.zeros((2, 0)), "f32")
    assert same(call("tensor", 5), 5, "i64")
    assert same(call("tensor", [np.float64(1.5)], dtype="f64"), [1.5], "f64")
    assert same(call("tensor", range(3)), [0, 1, 2], "i64")
    assert same(call("tensor", [np.uint8(1), np.int16(-2)]), [1, -2], "i16")
    assert same(call("tensor", [t([1, 2]), t([3, 4])]), [[1, 2], [3, 4]], "f32")
    assert call("tensor", [0.1], dtype="f64").array[0] == 0.1
    assert call("tensor", [1.0], dtype="bf16").array.dtype == ml_dtypes.bfloat16
    original = t([1, 2])
    assert not np.shares_memory(call("tensor", original).array, original.array)


def test_wrong_lists_are_refused(call: Any) -> None:
    assert call.fault("tensor", [[1, 2], [3]]) == ("0301", "rows differ in length: `[1]` has 1 element, and `[0]` has 2")
    assert call.fault("tensor", [[1], 2]) == ("0301", "rows differ: i64 stands where a list of 1 does at depth 1")
    assert call.fault("tensor", ["a"]) == ("0203", "a tensor is made of numbers, not of String")
    assert call.fault("tensor", [1, [2]]) == ("0203", "a tensor is made of numbers, not of List<i64>")
    assert call.fault("tensor", [True, 1]) == ("0203", "a list that makes a tensor has bools or numbers, not both")
    assert call.fault("tensor", [300], dtype="u8") == ("0806", "300 does not fit u8 (0 to 255)")


def test_absurd_sizes_are_refused_before_memory_is_touched(call: Any) -> None:
    assert call.fault("zeros", 2**40, 2**40) == (
        "0804",
        f"a tensor of shape [{2**40}, {2**40}] has more elements than any memory can hold",
    )
    assert call.fault("zeros", 0, 2**62)[0] == "0804"
    code, message = call.fault("ones", 10**12)
    assert code == "0804" and message.startswith("a tensor of shape [1000000000000] takes 3.6 TB, and ")
    for name, arguments in (("eye", (10**7,)), ("arange", (0, 10**13)), ("linspace", (0, 1, 10**13)), ("rand", (10**13,))):
        assert call.fault(name, *arguments)[0] == "0804"
    assert call.fault("zeros", 2, -1) == ("0301", "a shape can't have the negative extent -1: [2, -1]")
    assert call.fault("zeros", 2.5) == ("0203", "a shape is made of ints, not f64")
    assert call.fault("zeros", *[1] * 65) == ("0301", "a tensor has at most 64 axes, not 65")
    assert call.fault("arange", 0, 1, 0) == ("0203", "the step of `arange` can't be 0")
    assert call.fault("arange", 0.0, float("inf")) == ("0203", "`arange` takes finite numbers, not inf")


def test_random_numbers_follow_the_seed(call: Any) -> None:
    first = call("rand", 1000)
    second = call("rand", 1000)
    assert not np.array_equal(first.array, second.array)
    call("set_seed", 0)
    assert np.array_equal(call("rand", 1000).array, first.array)
    other = library(StdlibSettings(seed=1)).functions["rand"].implementation((1000,), None, None)
    assert not np.array_equal(other.array, first.array)
    assert first.dtype_name == "f32" and first.array.min() >= 0 and first.array.max() < 1
    for dtype in ("f16", "bf16", "f64"):
        found = call("rand", 10000, dtype=dtype).array.astype(np.float64)
        # The mean of n uniform numbers lies within 5 / sqrt(12 n) of a half but once in a million seeds.
        assert found.max() < 1 and abs(found.mean() - 0.5) < 5 / np.sqrt(12 * 10000)
        normal = call("randn", 10000, dtype=dtype).array.astype(np.float64)
        assert abs(normal.mean()) < 5 / 100 and abs(normal.std() - 1) < 0.05
    assert sorted(call("randperm", 50).array.tolist()) == list(range(50))
    assert call.fault("rand", 3, dtype="i32") == ("0203", "`rand` makes floats, not i32")


def test_devices_are_checked(call: Any) -> None:
    assert call("zeros", 1, device="cpu").device == "cpu"
    assert call("zeros", 1, device="auto").device == "cpu"
    assert call.fault("zeros", 1, device="cuda") == ("0501", "there is no device `cuda` here")
    assert call.fault("zeros", 1, device="gpu") == ("0501", "`gpu` names no device")


def test_creation_has_static_shapes_where_sizes_are_known(call: Any) -> None:
    def kind(name: str, types: dict[str, Any], **constants: Any) -> Any:
        return call.library.functions[name].result(CallTypes(types, constants))

    n = ShapeExpr.of("N")
    assert kind("zeros", {"shape": (I64, I64)}, shape=(2, 3)) == TensorType(Scalar(DType.F32), StaticShape((2, 3)))
    assert kind("zeros", {"shape": (I64, I64)}, shape=(n, 3)) == TensorType(Scalar(DType.F32), SymbolicShape((n, ShapeExpr.of(3))))
    assert kind("zeros", {"shape": (I64, I64), "dtype": STRING}, shape=(2, 3), dtype="i8") == TensorType(
        Scalar(DType.I8), StaticShape((2, 3))
    )
    assert kind("tensor", {"values": ListType(ListType(I64))}, values=[[1], [2]]) == TensorType(Scalar(DType.I64), StaticShape((2, 1)))
    assert call.type_fault("zeros", {"shape": (STRING,)}) == ("0203", "a shape is made of ints, not String")
    assert call.type_fault("zeros", {"shape": (I64,), "dtype": STRING}, dtype="f31") == ("0203", "`f31` is no dtype")


# ---- structure -------------------------------------------------------------------------------------------------------

A = np.arange(24).reshape(2, 3, 4)


def test_questions(call: Any) -> None:
    x = t(A)
    assert call.method(x, "shape") == [2, 3, 4]
    assert call.method(x, "shape", -1) == 4
    assert (call.method(x, "ndim"), call.method(x, "numel"), call.method(x, "dtype"), call.method(x, "device")) == (3, 24, "f32", "cpu")
    assert call("shape", x) == [2, 3, 4]
    assert call.method_fault(x, "shape", 3) == ("0307", "axis 3 is outside a tensor of rank 3")


def test_reshapes(call: Any) -> None:
    x = t(A)
    assert same(call.method(x, "reshape", 6, 4), A.reshape(6, 4), "f32")
    assert same(call.method(x, "reshape", [2, -1]), A.reshape(2, -1), "f32")
    assert same(call("reshape", x, 24), A.reshape(24), "f32")
    assert np.shares_memory(call.method(x, "reshape", [4, 6]).array, x.array)
    assert same(call.method(x, "flatten"), A.reshape(-1), "f32")
    assert same(call.method(t(np.ones((1, 3, 1))), "squeeze"), np.ones(3), "f32")
    assert same(call.method(t(np.ones((1, 3, 1))), "squeeze", -1), np.ones((1, 3)), "f32")
    assert same(call.method(x, "unsqueeze", 1), A[:, None], "f32")
    assert same(call.method(x, "unsqueeze", -1), A[..., None], "f32")
    assert same(call.method(t(np.zeros((0, 3))), "reshape", 3, 0), np.zeros((3, 0)), "f32")


def test_reshape_faults(call: Any) -> None:
    x = t(A)
    assert call.method_fault(x, "reshape", 5, 5) == ("0306", "[2, 3, 4] has 24 elements and can't become [5, 5], which has 25")
    assert call.method_fault(x, "reshape", 7, -1) == ("0306", "[2, 3, 4] has 24 elements, which 7 does not divide: [7, -1] can't be filled")
    assert call.method_fault(x, "reshape", -1, -1) == ("0306", "[-1, -1] leaves two extents open (-1)")
    assert call.method_fault(t(np.zeros(0)), "reshape", 0, -1)[0] == "0306"
    assert call.method_fault(x, "squeeze", 1) == ("0301", "axis 1 of [2, 3, 4] has extent 3; only 1 can be squeezed")
    assert call.method_fault(x, "unsqueeze", 4) == ("0307", "axis 4 is outside a tensor of rank 4")


def test_axes_change_places_without_a_copy(call: Any) -> None:
    x = t(A)
    assert same(call.method(x, "transpose"), A.T, "f32")
    assert same(call.method(x, "transpose", 0, -1), A.swapaxes(0, 2), "f32")
    assert same(call.method(x, "permute", 1, 2, 0), A.transpose(1, 2, 0), "f32")
    assert same(call.method(x, "permute", [1, 2, 0]), A.transpose(1, 2, 0), "f32")
    assert np.shares_memory(call.method(x, "permute", 2, 0, 1).array, x.array)
    assert call.method_fault(x, "permute", 0, 0, 1) == ("0307", "[0, 0, 1] is no order of the 3 axes: each stands in it once")
    assert call.method_fault(x, "transpose", 0, 5) == ("0307", "axis 5 is outside a tensor of rank 3")


def test_expand_and_repeat(call: Any) -> None:
    row = t([[1, 2]])
    assert same(call.method(row, "expand", 3, 2), [[1, 2]] * 3, "f32")
    assert same(call.method(row, "expand", 2, -1, 2), np.broadcast_to([[1, 2]], (2, 1, 2)), "f32")
    assert same(call.method(row, "repeat", 2, 3), np.tile([[1, 2]], (2, 3)), "f32")
    assert same(call.method(row, "repeat", 2, 1, 1), np.tile([[1, 2]], (2, 1, 1)), "f32")
    assert call.method_fault(row, "expand", 3, 3) == ("0301", "[1, 2] can't expand to [3, 3]: axis 1 has extent 2, not 1")
    assert call.method_fault(row, "expand", 2) == ("0301", "[1, 2] can't expand to [2], which has fewer axes")
    assert call.method_fault(row, "repeat", 10**9, 10**9)[0] == "0804"


def test_joining_and_splitting(call: Any) -> None:
    a, b = t([[1, 2]]), t([[3, 4], [5, 6]])
    assert same(call("concat", a, b), [[1, 2], [3, 4], [5, 6]], "f32")
    assert same(call("concat", [a, b]), [[1, 2], [3, 4], [5, 6]], "f32")
    assert same(call("concat", b, b, axis=1), np.hstack([b.array, b.array]), "f32")
    assert same(call("stack", [b, b], axis=-1), np.stack([b.array, b.array], -1), "f32")
    assert same(call("stack", b, b), np.stack([b.array, b.array]), "f32")
    parts = call.method(t(A), "split", 3, 1)
    assert [p.shape for p in parts] == [(2, 1, 4)] * 3
    assert [p.shape for p in call.method(t(A), "split", [1, 2], axis=1)] == [(2, 1, 4), (2, 2, 4)]
    assert call.fault("concat", a, b, axis=1) == ("0301", "[1, 2] and [2, 2] can't be joined along axis 1: axis 0 is 1 and 2")
    assert call.fault("concat", a, t([1])) == ("0301", "[1, 2] and [1] can't be joined: their ranks differ")
    assert call.fault("concat", a, t([[1, 2]], np.int64))[0] == "0207"
    assert call.fault("stack", a, b) == ("0301", "[1, 2] and [2, 2] can't be stacked: shapes differ")
    assert call.method_fault(t(A), "split", 5, 1) == ("0301", "axis 1 of [2, 3, 4] has extent 3, which 5 parts don't divide")
    assert call.method_fault(t(A), "split", [1, 1], 1) == ("0301", "parts of [1, 1] make 2, and axis 1 has extent 3")


def test_elements_by_flat_or_full_index(call: Any) -> None:
    x = Tensor(A.copy())
    assert call.method(x, "get", 13) == 13
    assert call.method(x, "get", -1) == 23
    assert call.method(x, "get", [1, 2, 3]) == 23
    call.method(x, "set", [0, 0, 1], 100)
    call.method(x, "set", 2, 200)
    assert x.array[0, 0, :3].tolist() == [0, 100, 200]
    call.method(x, "fill", 5)
    assert set(x.array.reshape(-1).tolist()) == {5}
    assert call.method_fault(x, "get", 24) == ("0801", "index 24 is out of range: the tensor has 24 elements")
    assert call.method_fault(x, "get", [0, 0]) == ("0304", "2 indices for a tensor of shape [2, 3, 4], which has 3 axes")
    assert call.method(t([[2.5]]), "item") == np.float32(2.5)
    assert call.method(t(3.0), "item") == 3.0
    assert call.method_fault(x, "item") == ("0301", "`item` needs one element, and [2, 3, 4] has 24")
    assert call.method(t([[1, 2]], np.int64), "to_list") == [[1, 2]]
    assert [type(v) for v in call.method(t([1]), "to_list")] == [np.float32]
    assert same(call.method(t(A), "slice", 2, 1, 3), A[:, :, 1:3], "f32")
    assert same(call.method(t(A), "slice", [0, 1], [1, 3]), A[0:1, 1:3], "f32")
    assert call.method_fault(t(A), "slice", 1, 2, 4) == ("0801", "2 to 4 is outside axis 1, which goes from 0 to 3")


def test_tensors_are_shared_until_cloned(call: Any) -> None:
    x = t([1, 2])
    copy = call.method(x, "clone")
    put(x, (0,), 9)
    assert x.array.tolist() == [9, 2] and copy.array.tolist() == [1, 2]


# ---- indexing --------------------------------------------------------------------------------------------------------


def test_indices_give_scalars_and_views(call: Any) -> None:
    x = Tensor(A.copy())
    assert call("index get", x, 1, 2, 3) == 23 and type(get(x, (1, 2, 3))) is int
    assert type(get(t([1.5]), (0,))) is np.float32
    assert type(get(t([True], bool), (0,))) is bool
    assert same(call("index get", x, -1), A[-1], "i64")
    view = call("index get", x, slice(None), slice(0, 2), -1)
    assert same(view, A[:, 0:2, -1], "i64") and np.shares_memory(view.array, x.array)
    assert same(call("index get", x, ..., 0), A[..., 0], "i64")
    assert same(call("index get", x, 0, ..., slice(None, None, -2)), A[0, ..., ::-2], "i64")
    assert same(call("index get", x, slice(1, 100)), A[1:100], "i64")
    assert call("index get", t(3.0)) == 3.0


def test_int_and_bool_tensors_gather(call: Any) -> None:
    x = t(A)
    rows = t([1, 0, -1], np.int32)
    assert same(call("index get", x, rows), A[[1, 0, -1]], "f32")
    assert same(call("index get", x, t([True, False], bool)), A[[True, False]], "f32")
    assert same(call("index get", x, 0, t([2, 0], np.int64)), A[0, [2, 0]], "f32")
    assert call.fault("index get", x, t([2], np.int64))[0:2] == (
        "0801",
        "index 2 is out of range of axis 0: the axis has 2, indices go from 0 to 1",
    )
    assert call.fault("index get", x, t([True], bool)) == ("0301", "a mask of shape [1] does not fit a tensor of shape [2, 3, 4]")


def test_index_faults(call: Any) -> None:
    x = t(A)
    assert call.fault("index get", x, 2) == ("0801", "index 2 is out of range of axis 0: the axis has 2, indices go from 0 to 1")
    assert call.fault("index get", x, 0, -4)[0] == "0801"
    assert call.fault("index get", t([]), 0) == ("0801", "index 0 is out of range of axis 0: the axis is empty")
    assert call.fault("index get", x, 0, 0, 0, 0) == ("0304", "4 indices for a tensor of shape [2, 3, 4], which has 3 axes")
    assert call.fault("index get", x, 1.0) == ("0407", "an index is an int or a slice, not f64")
    assert call.fault("index get", x, slice(None, None, 0)) == ("0801", "the step of a slice can't be 0")
    assert call.fault("index get", [1, 2], 2) == ("0801", "index 2 is out of range: the list has 2, indices go from 0 to 1")
    assert call.fault("index get", "ab", 5)[0] == "0801"
    assert call.fault("index get", [1], 0, 0) == ("0304", "List<i64> takes one index, not 2")
    assert call.fault("index get", 5, 0) == ("0208", "i64 can't be indexed")
    assert call.type_fault(
        "index get", {"value": TensorType(Scalar(DType.F32), StaticShape((2, 3))), "indices": (I64, I64)}, indices=(0, 3)
    ) == ("0305", "index 3 is outside axis 1, whose extent is 3")


def test_lists_texts_tuples_and_ranges_are_indexed(call: Any) -> None:
    assert call("index get", [1, 2, 3], -1) == 3
    assert call("index get", [1, 2, 3], slice(1, None)) == [2, 3]
    assert call("index get", "héllo", 1) == "é"
    assert call("index get", "hello", slice(None, None, -1)) == "olleh"
    assert call("index get", (1, "a"), 1) == "a"
    assert call("index get", range(10, 20), 3) == 13


def test_elements_and_slices_are_assigned(call: Any) -> None:
    x = t(np.zeros((2, 3)))
    put(x, (0, 1), 5)
    put(x, (1,), t([1, 2, 3]))
    put(x, (slice(None), 2), 7.5)
    assert x.array.tolist() == [[0, 5, 7.5], [1, 2, 7.5]]
    put(x, (..., 0), [8.0, 9.0])
    assert x.array[:, 0].tolist() == [8, 9]
    put(x, (t([1], np.int64),), 0)
    assert x.array[1].tolist() == [0, 0, 0]
    overlap = t([1, 2, 3, 4])
    put(overlap, (slice(1, None),), Tensor(overlap.array[:-1]))
    assert overlap.array.tolist() == [1, 1, 2, 3]
    values = [1, 2, 3]
    put(values, (-1,), 9)
    put(values, (slice(0, 2),), [7, 8])
    assert values == [7, 8, 9]


@pytest.mark.parametrize(
    ("target", "index", "value", "expected"),
    [
        (t([1], np.int64), (0,), 1.5, ("0207", "storing f64 as i64 loses something")),
        (t([1]), (0,), t(1.0, np.float64), ("0207", "storing f64 as f32 loses something")),
        (t([1], np.uint8), (0,), 300, ("0806", "300 does not fit u8 (0 to 255)")),
        (t([1]), (1,), 0, ("0801", "index 1 is out of range of axis 0: the axis has 1, indices go from 0 to 0")),
        (t([1, 2]), (slice(None),), t([1, 2, 3]), ("0301", "a value of shape [3] does not fit a part of shape [2]")),
        (t([1]), (0,), "a", ("0203", "an element of tensor[1, f32] can't be String")),
        ([1, 2], (slice(0, 2),), [1], ("0301", "1 values don't fit a slice of 2 elements")),
        ((1, 2), (0,), 1, ("0208", "the elements of (i64, i64) can't be assigned")),
        ("ab", (0,), "c", ("0208", "the elements of String can't be assigned")),
    ],
)
def test_assignment_faults(target: Any, index: Any, value: Any, expected: tuple[str, str]) -> None:
    with pytest.raises(LibraryFault) as caught:
        put(target, index, value)
    assert (caught.value.code, caught.value.message) == expected


slices = st.builds(
    slice,
    st.none() | st.integers(-6, 6),
    st.none() | st.integers(-6, 6),
    st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(slices | st.integers(-4, 4), max_size=3), st.integers(0, 3))
def test_indexing_is_numpys_where_it_is_in_range(parts: list[Any], at: int) -> None:
    x = np.arange(60).reshape(3, 4, 5)
    index = tuple(parts)
    if len(parts) < 3 and at < len(parts):
        index = (*parts[:at], ..., *parts[at:])
    try:
        expected = x[index]
    except IndexError:
        with pytest.raises(LibraryFault) as caught:
            get(Tensor(x), index)
        assert caught.value.code == "0801"
        return
    found = get(Tensor(x), index)
    assert np.array_equal(found.array if isinstance(found, Tensor) else found, expected)


def test_an_expanded_view_refuses_writes(call: Any) -> None:
    with pytest.raises(LibraryFault) as caught:
        put(call.method(t([[1, 2]]), "expand", 3, 2), (0, 0), 5.0)
    assert (caught.value.code, caught.value.message) == ("0205", "this tensor can't be written to")


def test_no_element_of_a_row_is_written_when_an_index_is_out_of_range() -> None:
    x = t(np.zeros((2, 2)))
    with pytest.raises(LibraryFault):
        put(x, (2,), 1.0)
    put(x, (-1,), 1.0)
    assert x.array.tolist() == [[0, 0], [1, 1]]
