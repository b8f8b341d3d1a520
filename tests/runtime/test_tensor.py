import ml_dtypes
import numpy as np
import pytest

from runtime.device import CPU, Device, absence, is_present, parse_device, present_devices
from runtime.tensor import DTYPES, Tensor, dtype_name, numpy_dtype


def test_a_tensor_wraps_an_array_without_a_copy() -> None:
    array = np.arange(6.0).reshape(2, 3)[:, ::-1]
    tensor = Tensor(array)
    assert tensor.array is array
    array[0, 0] = 50.0
    assert np.asarray(tensor)[0, 0] == 50.0
    assert tensor.shape == (2, 3) and tensor.dtype == np.float64 and tensor.dtype_name == "f64"


def test_numpy_and_dlpack_see_the_same_memory() -> None:
    tensor = Tensor(np.arange(4, dtype=np.float32))
    assert np.shares_memory(np.asarray(tensor), tensor.array)
    assert np.shares_memory(np.from_dlpack(tensor), tensor.array)
    assert tensor.__dlpack_device__() == (1, 0)
    assert tensor.__array_interface__["shape"] == (4,)


def test_a_clone_shares_nothing_and_is_contiguous() -> None:
    tensor = Tensor(np.arange(12).reshape(3, 4).T)
    copy = tensor.clone()
    assert copy.array.flags.c_contiguous
    assert not np.shares_memory(copy.array, tensor.array)
    assert np.array_equal(copy.array, tensor.array)


def test_tensors_are_equal_by_identity() -> None:
    tensor = Tensor(np.zeros(2))
    assert tensor == tensor
    assert tensor != tensor.clone()


@pytest.mark.parametrize("name", list(DTYPES))
def test_dtype_names_go_both_ways(name: str) -> None:
    assert dtype_name(numpy_dtype(name)) == name
    assert dtype_name(numpy_dtype(name).newbyteorder("S")) == name


def test_bfloat16_is_known_and_other_dtypes_are_not() -> None:
    assert dtype_name(ml_dtypes.bfloat16) == "bf16"
    with pytest.raises(KeyError):
        dtype_name(np.complex64)


def test_devices_by_name() -> None:
    assert parse_device("cuda:0") == "cuda" and parse_device("cpu:0") == CPU
    assert parse_device("cuda:3").kind == "cuda" and Device("cuda:3").ordinal == 3
    for wrong in ("gpu", "cuda:", "cuda:x", "cpu:1", "", "cuda:-1"):
        with pytest.raises(ValueError, match="names no device"):
            parse_device(wrong)


def test_only_the_cpu_is_here_and_others_say_why() -> None:
    assert present_devices() == ("cpu",)
    assert is_present("cpu") and not is_present("cuda")
    assert absence(Device("cuda")) == "no CUDA driver, binding or device was found"
