"""Arguments as the driver reads them: each at its address, aligned, in its own format."""

import ctypes

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cuda.arguments import PARAMETERS, Arguments, bfloat16_bits

NUMPY = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "pointer": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
    "f64": np.float64,
}  # fmt: skip


def read(arguments, index):
    """What a kernel finds: the bytes at the index-th address."""
    address = (ctypes.c_void_p * (index + 1)).from_address(arguments.address)[index]
    each = arguments.parameters[index]
    assert address % each.alignment == 0
    return ctypes.string_at(address, each.size)


def value_of(name):
    if name == "bool":
        return st.booleans()
    if name in ("f16", "bf16", "f32", "f64"):
        return st.floats(allow_nan=False, width={"f16": 16, "f64": 64}.get(name, 32))
    kind = np.iinfo(NUMPY[name])
    return st.integers(int(kind.min), int(kind.max))


typed_values = st.sampled_from(sorted(PARAMETERS)).flatmap(lambda name: st.tuples(st.just(name), value_of(name)))


@given(st.lists(typed_values, max_size=20))
def test_every_value_is_where_the_driver_looks_for_it(pairs):
    arguments = Arguments([name for name, _ in pairs])
    arguments.pack(tuple(value for _, value in pairs))
    for index, (name, value) in enumerate(pairs):
        with np.errstate(over="ignore"):
            assert read(arguments, index) == np.array(value).astype(NUMPY[name]).tobytes()


def test_the_address_stays_when_the_values_change():
    arguments = Arguments(("i32", "f64"))
    address = arguments.address
    arguments.pack((1, 2.0))
    arguments.pack((3, 4.0))
    assert arguments.address == address
    assert read(arguments, 0) == (3).to_bytes(4, "little")


def test_numpys_scalars_are_values():
    arguments = Arguments(("i64", "f32", "pointer"))
    arguments.pack((np.int32(-5), np.float64(0.5), np.uint64(1 << 60)))
    assert read(arguments, 0) == (-5).to_bytes(8, "little", signed=True)
    assert read(arguments, 2) == (1 << 60).to_bytes(8, "little")


def test_a_tensor_map_is_aligned_to_64_bytes():
    arguments = Arguments(("i8", "bytes128@64", "i8"))
    data = bytes(range(128))
    arguments.pack((1, data, 2))
    assert read(arguments, 1) == data
    assert read(arguments, 2) == b"\2"


def test_no_arguments_are_arguments():
    Arguments(()).pack(())


@given(st.floats(width=32))
def test_bfloat16_rounds_as_ml_dtypes_does(value):
    with np.errstate(over="ignore"):
        expected = np.float32(value).astype(ml_dtypes.bfloat16)
    if np.isnan(value):
        assert np.isnan(np.uint16(bfloat16_bits(value)).view(ml_dtypes.bfloat16))
    else:
        assert bfloat16_bits(value) == expected.view(np.uint16)


@pytest.mark.parametrize(
    ("signature", "values", "kind", "message"),
    [
        (("i32",), (), TypeError, "the kernel takes 1 arguments, not 0"),
        (("i32", "i32"), (1, 2, 3), TypeError, "the kernel takes 2 arguments, not 3"),
        (("i32", "i8"), (1, 128), OverflowError, "argument 1 of the kernel is i8, and 128 is not"),
        (("pointer",), (-1,), OverflowError, "argument 0 of the kernel is pointer, and -1 is not"),
        (("i32",), (1.5,), TypeError, "argument 0 of the kernel is i32, and 1.5 is not"),
        (("f32",), ("x",), TypeError, "argument 0 of the kernel is f32, and 'x' is not"),
        (("bf16",), ("x",), TypeError, "argument 0 of the kernel is bf16, and 'x' is not"),
    ],
)
def test_a_value_that_does_not_fit_is_named(signature, values, kind, message):
    with pytest.raises(kind) as caught:
        Arguments(signature).pack(values)
    assert str(caught.value) == message


def test_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match=r"^`i33` is no type of a kernel's parameter$"):
        Arguments(("i33",))
