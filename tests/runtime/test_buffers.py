"""Buffers of results: aligned, apart while they live, used again afterwards."""

import numpy as np

from runtime import buffers

F32 = np.dtype(np.float32)


def test_large_arrays_are_aligned_and_contiguous() -> None:
    array = buffers.empty((300, 1000), F32)
    assert array.__array_interface__["data"][0] % buffers.ALIGNMENT == 0
    assert array.flags.c_contiguous and array.flags.writeable and array.shape == (300, 1000)


def test_a_block_is_used_again_only_when_every_view_is_gone() -> None:
    buffers.trim()
    first = buffers.empty((1 << 20,), F32)
    address = first.__array_interface__["data"][0]
    view = first[10:20]
    del first
    second = buffers.empty((1 << 20,), F32)
    assert second.__array_interface__["data"][0] != address
    del view
    third = buffers.empty((1 << 20,), F32)
    assert third.__array_interface__["data"][0] == address


def test_idle_memory_is_bounded_and_can_be_given_back() -> None:
    buffers.trim()
    held = [buffers.empty((1 << 25,), F32) for _ in range(6)]
    del held
    assert 0 < buffers.idle_bytes() <= buffers.MOST_KEPT
    buffers.trim()
    assert buffers.idle_bytes() == 0


def test_empty_shapes_have_no_elements() -> None:
    assert buffers.empty((0, 5), F32).shape == (0, 5)


def test_zeros_are_zero_on_memory_that_held_something_else() -> None:
    first = buffers.empty((1 << 16,), np.dtype(np.float32))
    first.fill(7)
    del first
    assert not buffers.zeros((1 << 16,), np.dtype(np.float32)).any()


def test_the_address_of_any_array_is_that_of_its_first_element() -> None:
    whole = np.arange(12.0).reshape(3, 4)
    frozen = whole.copy()
    frozen.flags.writeable = False
    for array in (whole, whole[1:], whole[:, 1:], whole[::-1], whole[:0], frozen):
        assert buffers.address(array) == array.__array_interface__["data"][0]


def test_a_block_comes_back_while_its_pool_is_locked() -> None:
    """The garbage collector may end an array inside of the pool's own work."""
    buffers.trim()
    array = buffers.empty((1 << 20,), F32)
    size = array.nbytes
    with buffers._POOL._lock:
        del array
    assert buffers.idle_bytes() == 0
    buffers.empty((1 << 19,), F32)
    assert buffers.idle_bytes() == size + (size // 2)
