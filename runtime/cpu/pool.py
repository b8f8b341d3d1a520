"""Teams of threads for parallel loops: libgomp where it loads, else a pool of Python threads that call native code (which
runs without the interpreter's lock)."""

import ctypes
from functools import cache
from typing import Any

from runtime.cpu import detect


@cache
def kind() -> str:
    """"gomp" or "pool"."""
    return "gomp" if gomp_path() else "pool"


@cache
def gomp_path() -> str | None:
    """The name under which libgomp loads, None when it doesn't."""
    import ctypes.util
    import sys

    if not sys.platform.startswith("linux"):
        return None
    for name in ("libgomp.so.1", ctypes.util.find_library("gomp")):
        if name:
            try:
                ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
            return name
    return None


_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@cache
def _executor() -> Any:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(1, detect.cores() * 2), thread_name_prefix="zyntax")


def _run(body: int, context: int, count: int) -> None:
    call = _BODY(body)
    others = [_executor().submit(call, context, number, count) for number in range(1, count)]
    call(context, 0, count)
    interrupted = False
    while others:
        try:
            others[-1].result()
            others.pop()
        except KeyboardInterrupt:
            # nothing may leave a callback while the others still write; the signal is raised again behind the kernel
            interrupted = True
    if interrupted:
        import _thread

        _thread.interrupt_main()


@cache
def run_address() -> int:
    """Address of `void run(void (*body)(void *, i64 number, i64 count), void *context, i64 count)`."""
    callback = _RUN(_run)
    _kept.append(callback)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    return address


_kept: list[Any] = []
