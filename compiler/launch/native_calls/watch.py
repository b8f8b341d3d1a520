"""Launches on the CPU, for those who ask what a call came to."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from runtime.records import frozen


@frozen(eq=False)
class CpuLaunch:
    """A launch that went well: the kernel (a BuiltKernel), the values of the block's names, and what it came to."""

    kernel: Any
    values: Mapping[str, Any]
    threads: int
    value: Any


class _Watch(threading.local):
    launches: list[CpuLaunch] | None = None


_WATCH = _Watch()


def note(kernel: Any, values: Mapping[str, Any], threads: int, value: Any) -> None:
    """Tells who watches this thread of a launch."""
    if _WATCH.launches is not None:
        _WATCH.launches.append(CpuLaunch(kernel, values, threads, value))


@contextmanager
def watched() -> Iterator[list[CpuLaunch]]:
    """The launches of this thread, inside."""
    before, _WATCH.launches = _WATCH.launches, []
    try:
        yield _WATCH.launches
    finally:
        _WATCH.launches = before
