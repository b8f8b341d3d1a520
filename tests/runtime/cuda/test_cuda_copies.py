"""Streams, copies, host memory, and arrays in and out without a copy."""

import gc
import threading

import ml_dtypes
import numpy as np
import pytest

from runtime import dlpack
from runtime.cuda.array import BorrowedMemory, DeviceArray, contiguous_strides
from runtime.cuda.copies import copy, download, fill, to_device, to_host, upload
from runtime.cuda.errors import CudaOutOfMemory, CudaTimeout
from runtime.cuda.host import Registered, host_memory
from runtime.cuda.interop import import_array, import_cuda_array, import_dlpack
from runtime.element_types import DTYPES


def on_device(gpu, array):
    return to_device(array, gpu.allocate(array.nbytes), gpu.stream)


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_come_back_as_they_went(gpu, name):
    source = np.arange(24).reshape(2, 3, 4).astype(DTYPES[name])
    assert to_host(on_device(gpu, source)).tobytes() == source.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_small_and_empty_arrays_come_back_too(gpu, shape):
    source = np.full(shape, 2.5)
    result = to_host(on_device(gpu, source))
    assert result.shape == shape and (result == source).all()


def test_arrays_with_strides_are_read_element_by_element(gpu):
    source = np.arange(24.0)
    whole = on_device(gpu, source)
    view = DeviceArray(whole.owner, whole.pointer + 8 * 23, (3, 4), "f64", gpu.stream, (-8, -2))
    assert to_host(view).tolist() == source[::-1].reshape(3, 8)[:, ::2].tolist()


def test_strided_sources_are_made_contiguous_on_the_way_in(gpu):
    source = np.arange(12).reshape(3, 4).T
    assert to_host(on_device(gpu, source)).tolist() == source.tolist()


def test_device_to_device_and_fill(gpu):
    a, b = on_device(gpu, np.arange(6, dtype=np.int32)), on_device(gpu, np.zeros(6, np.int32))
    copy(b, a, gpu.stream)
    fill(a, 0x01020304, gpu.stream, 4)
    assert to_host(b).tolist() == [0, 1, 2, 3, 4, 5]
    assert to_host(a).tolist() == [0x01020304] * 6


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda gpu, d: upload(d, np.zeros(7), gpu.stream), "56 bytes are more than the 48 on the device"),
        (lambda gpu, d: upload(d, np.zeros((3, 2))[:, 0], gpu.stream), "the source of a copy is contiguous; this array is not"),
        (lambda gpu, d: download(np.broadcast_to(0.0, (1,)), d, gpu.stream), "the target of a copy is read-only"),
        (lambda gpu, d: fill(d, 256, gpu.stream), "256 is no unsigned value of 1, 2 or 4 bytes, 1 asked for"),
        (lambda gpu, d: copy(gpu.allocate(8), d, gpu.stream), "48 bytes don't fit into 8"),
    ],
)
def test_copies_that_do_not_fit_are_refused(gpu, act, message):
    with pytest.raises(ValueError) as caught:
        act(gpu, on_device(gpu, np.zeros(6)))
    assert str(caught.value) == message


def test_waiting_ends_after_the_time_limit(gpu, fake):
    with fake.holding():
        assert not gpu.stream.done()
        with pytest.raises(CudaTimeout, match=r"^the stream's work did not end within 0 s$"):
            gpu.stream.synchronize(timeout=0)
    gpu.stream.synchronize(timeout=0)


def test_waiting_ends_when_the_work_does(gpu, fake):
    fake.held = True
    timer = threading.Timer(0.01, lambda: setattr(fake, "held", False))
    timer.start()
    gpu.stream.synchronize()
    assert not fake.held


def test_events_order_streams_and_tell_time(gpu, fake):
    other = gpu.new_stream()
    first, second = gpu.stream.record(timing=True), other.record(timing=True)
    assert second.milliseconds_since(first) == 1.5
    gpu.stream.wait(second)
    gpu.stream.wait(other)
    assert fake.waits == [(gpu.stream.number, other.number)] * 2


def test_pinned_memory_is_reused_when_no_copy_uses_it(gpu, fake):
    array = gpu.pinned.empty((3, 5), np.float32)
    assert array.shape == (3, 5) and array.flags.c_contiguous and host_memory(array[1:, ::2]) is not None
    upload(gpu.allocate(100), array, gpu.stream)
    del array
    with fake.holding():
        other = gpu.pinned.empty((3, 5), np.float32)
        assert fake.calls["cuMemHostAlloc"] == 2
    del other
    gpu.pinned.empty((2,), np.float32)
    assert fake.calls["cuMemHostAlloc"] == 2
    gpu.pinned.trim()
    assert fake.pinned == {} and gpu.pinned.blocks_in_use == 0


def test_pinned_memory_that_is_short_is_said_with_sizes(gpu, fake):
    kept = gpu.pinned.empty((10,), np.uint8)
    del [gpu.pinned.empty((10,), np.uint8)][0]
    fake.cuMemHostAlloc = lambda size, flags: (2, 0)
    with pytest.raises(CudaOutOfMemory) as caught:
        gpu.pinned.empty((1 << 20,), np.uint8)
    assert str(caught.value) == (
        "cuMemHostAlloc: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2): 1 MiB asked for; the pinned pool has 1 block in use, "
        "and 4 KiB that it gave back"
    )
    assert kept.size == 10 and len(fake.pinned) == 1


def test_registered_memory_is_the_arrays_own(gpu, fake):
    array = np.arange(12.0).reshape(3, 4)[::-1]
    with Registered(gpu.device, array) as registered:
        assert fake.registered == {registered.pointer}
        view = registered.view
        assert np.shares_memory(view, array) and view.tolist() == array.tolist()
        assert host_memory(view) is registered
        del view
    assert fake.registered == set()
    registered = Registered(gpu.device, np.zeros(4))
    del registered
    gc.collect()
    assert fake.registered == set()


def test_ordinary_memory_is_not_pinned():
    assert host_memory(np.zeros(3)) is None


@pytest.mark.parametrize("name", ["f8e4m3", "f8e5m2"])
def test_the_array_interface_has_no_name_for_floats_of_8_bits(gpu, name):
    with pytest.raises(AttributeError) as raised:
        _ = on_device(gpu, np.zeros((2, 3), DTYPES[name])).__cuda_array_interface__
    assert str(raised.value) == f"{name} has no name in the array interface; DLPack knows it"


@pytest.mark.parametrize("name", [name for name in DTYPES if not name.startswith("f8")])
def test_the_array_interface_describes_the_array(gpu, name):
    array = on_device(gpu, np.zeros((2, 3), DTYPES[name]))
    described = array.__cuda_array_interface__
    assert described["typestr"] == ("<V2" if name == "bf16" else DTYPES[name].str)
    assert (described["shape"], described["strides"], described["data"]) == ((2, 3), None, (array.pointer, False))
    assert described["stream"] == gpu.stream.number
    assert import_cuda_array(array, gpu.stream).dtype == name


class Interface:
    def __init__(self, **changes):
        self.__cuda_array_interface__ = {"version": 3, "shape": (2,), "typestr": "<f4", "data": (64, False), "strides": None} | changes


def test_strides_of_the_array_interface_are_in_bytes(gpu):
    found = import_array(Interface(shape=(2, 3), strides=(4, 8)), gpu.stream)
    assert (found.strides, found.is_contiguous) == ((1, 2), False)
    assert found.__cuda_array_interface__["strides"] == (4, 8)


def test_the_producers_stream_is_waited_for(gpu, fake):
    import_array(Interface(stream=1), gpu.stream)
    assert fake.waits == [(gpu.stream.number, 1)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mask": object()}, "masked arrays are not supported"),
        ({"typestr": ">f4"}, "arrays in the other byte order are not supported"),
        ({"typestr": "<c8"}, "elements of type `<c8` are not supported"),
        ({"strides": (6,)}, "strides that are no multiple of the element's size are not supported"),
    ],
)
def test_arrays_that_programs_can_not_hold_are_refused(gpu, changes, message):
    with pytest.raises(ValueError) as caught:
        import_array(Interface(**changes), gpu.stream)
    assert str(caught.value) == message


def test_what_is_no_array_on_a_device_is_refused(gpu):
    with pytest.raises(TypeError, match="list is no array on a CUDA device"):
        import_array([1, 2], gpu.stream)
    with pytest.raises(ValueError, match="does not lie on a CUDA device"):
        import_array(np.zeros(3), gpu.stream)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_dlpack_there_and_back_is_the_same_memory(gpu, name, versioned):
    before = dlpack.exported()
    array = on_device(gpu, np.zeros((4, 6), DTYPES[name]))
    view = DeviceArray(array.owner, array.pointer, (2, 3), name, gpu.stream, (6, 2))

    class Old:
        __dlpack_device__ = view.__dlpack_device__

        def __dlpack__(self, stream):
            return view.__dlpack__(stream=stream)

    back = import_dlpack(view if versioned else Old(), gpu.stream)
    assert (back.pointer, back.shape, back.strides, back.dtype) == (view.pointer, (2, 3), (6, 2), name)
    assert dlpack.exported() == before + 1
    del back
    gpu.stream.synchronize()
    assert dlpack.exported() == before


def test_a_capsule_that_nobody_takes_gives_its_memory_back(gpu):
    array, before = on_device(gpu, np.zeros(4)), dlpack.exported()
    capsule = array.__dlpack__()
    del array
    assert gpu.pool.statistics().blocks_in_use == 1
    del capsule
    assert dlpack.exported() == before
    assert gpu.pool.statistics().blocks_in_use == 0


def test_a_capsule_is_taken_once(gpu):
    capsule = on_device(gpu, np.zeros(4)).__dlpack__()
    taken = dlpack.TakenTensor(capsule)
    with pytest.raises(ValueError, match="taken before"):
        dlpack.TakenTensor(capsule)
    del taken


def test_a_dlpack_consumer_waits_for_the_work_so_far(gpu, fake):
    array = on_device(gpu, np.zeros(4))
    array.__dlpack__(stream=None)
    array.__dlpack__(stream=-1)
    assert fake.waits == [(1, gpu.stream.number)]
    with pytest.raises(ValueError, match="stream 0 is ambiguous"):
        array.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="exported from there only"):
        array.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="copy it first"):
        array.__dlpack__(copy=True)


def test_borrowed_memory_is_kept_until_our_work_on_it_is_done(gpu, fake):
    class Owner:
        pass

    alive = []
    owner = Owner()
    owner.__class__.__del__ = lambda self: alive.append("gone")
    borrowed = BorrowedMemory(gpu.device, owner, gpu.stream)
    del owner
    with fake.holding():
        del borrowed
        gpu.device.reap()
        assert alive == []
    gpu.stream.synchronize()
    assert alive == ["gone"]


def test_strides_of_c_order():
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)
    assert contiguous_strides(()) == ()


def test_bfloat16_keeps_its_bits(gpu):
    source = np.array([1.5, -2.0, np.inf], ml_dtypes.bfloat16)
    assert to_host(on_device(gpu, source)).tobytes() == source.tobytes()
