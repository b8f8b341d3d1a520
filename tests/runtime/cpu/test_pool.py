"""The pool of Python threads that stands in for libgomp."""

import ctypes
import threading

from runtime.cpu import pool


def test_every_chunk_runs_once_and_the_call_waits() -> None:
    seen: list[tuple[int, int, int]] = []
    lock = threading.Lock()

    def body(context: int, number: int, count: int) -> None:
        with lock:
            seen.append((context, number, count))

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(body)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(pool.run_address())
    for count in (1, 2, 5):
        seen.clear()
        run(ctypes.cast(callback, ctypes.c_void_p), 1234, count)
        assert sorted(seen) == [(1234, number, count) for number in range(count)]


def test_the_kind_is_known() -> None:
    assert pool.kind() in ("gomp", "pool")
    assert (pool.kind() == "gomp") == (pool.gomp_path() is not None)
