"""Streams keep no more values than their largest window."""

import tracemalloc

import pytest

from compiler.backends.host.streaming import batches, filtered, mapped, windows

COUNT = 200_000


@pytest.mark.parametrize("size", [1, 64])
def test_memory_of_a_stream_does_not_grow_with_its_length(size: int) -> None:
    tracemalloc.start()
    try:
        total = 0
        values = mapped(range(COUNT), lambda value: [value])
        for window in windows(filtered(values, lambda value: value[0] % 2 == 0), size, size):
            total += len(window)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == COUNT // 2 // size * size
    # Each value takes over 64 bytes: all of them would take over 10 MB.
    assert peak < 100_000


def test_windows_and_batches() -> None:
    assert list(windows(range(5), 2)) == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert list(windows(range(5), 2, 4)) == [[0, 1]]
    assert list(windows(range(6), 2, 4)) == [[0, 1], [4, 5]]
    assert list(windows(range(1), 2)) == []
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
