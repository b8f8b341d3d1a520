import ml_dtypes
import numpy as np
import pytest

from runtime.device import CPU, Device, NoDevice, is_present, parse_device, present_devices, require_present
from runtime.element_types import DTYPES
from runtime.tensor import Tensor, dtype_name, numpy_dtype


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
    assert parse_device("cuda") == parse_device("cuda:0") == "cuda:0" and parse_device("cpu:0") == CPU
    assert parse_device("cuda:3").kind == "cuda" and Device("cuda:3").ordinal == 3
    for wrong in ("gpu", "cuda:", "cuda:x", "cpu:1", "", "cuda:-1"):
        with pytest.raises(ValueError, match="names no device"):
            parse_device(wrong)


def test_only_the_cpu_is_here_and_others_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.cuda.driver.gpu_count", lambda: 0)
    monkeypatch.setattr("runtime.cuda.driver.unavailable_reason", lambda: "this machine has no NVIDIA driver")
    assert present_devices() == ("cpu",)
    assert is_present("cpu") and is_present("emulator") and not is_present("cuda")
    for name, message, hint in (
        ("cuda:0", "there is no device `cuda:0` here", "this machine has no NVIDIA driver; devices here: cpu"),
        ("metal", "there is no device `metal` here", "Metal is not supported yet; devices here: cpu"),
        ("gpu", "`gpu` names no device", "devices here: cpu"),
    ):
        with pytest.raises(NoDevice) as caught:
            require_present(name)
        assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_device_beyond_the_last_is_told_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.cuda.driver.gpu_count", lambda: 2)
    monkeypatch.setattr("runtime.cuda.driver.unavailable_reason", lambda: None)
    assert present_devices() == ("cpu", "cuda:0", "cuda:1")
    with pytest.raises(NoDevice) as caught:
        require_present("cuda:7")
    assert caught.value.hint == "this machine has 2 CUDA devices, numbered from 0; devices here: cpu, cuda:0, cuda:1"


def test_contents_are_read_only_and_leave_the_device_its_copy() -> None:
    remote = Elsewhere(np.arange(3.0, dtype=np.float32))
    tensor = Tensor(None, remote)
    assert tensor.device == "cuda:1" and tensor.shape == (3,) and tensor.dtype_name == "f32" and remote.fetched == 0
    assert tensor.contents.tolist() == [0.0, 1.0, 2.0] and tensor.contents[1] == 1.0
    assert remote.fetched == 1 and tensor.device == "cuda:1"
    with pytest.raises(ValueError, match="read-only"):
        tensor.contents[0] = 5.0
    tensor.array[0] = 5.0
    assert tensor.device == "cpu" and tensor.remote is None and tensor.contents.tolist() == [5.0, 1.0, 2.0] and remote.fetched == 1


def test_what_the_device_wrote_is_fetched_anew() -> None:
    remote = Elsewhere(np.zeros(2, np.float32))
    tensor = Tensor(None, remote)
    assert tensor.contents.tolist() == [0.0, 0.0]
    remote.elements[:] = 7.0
    tensor.changed_there()
    assert tensor.contents.tolist() == [7.0, 7.0] and remote.fetched == 2


class Elsewhere:
    """A device's copy that counts how often it is fetched."""

    device, named, dtype = Device("cuda:1"), False, "f32"

    def __init__(self, elements: np.ndarray) -> None:
        self.elements, self.fetched = elements, 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape

    def to_host(self) -> np.ndarray:
        self.fetched += 1
        return self.elements.copy()
