"""What is true of this machine, for the figures of a run."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runtime.cpu import detect


def machine() -> dict[str, Any]:
    return {
        "cpu": detect.host_cpu(),
        "cores": detect.cores(),
        "simd": detect.simd_name(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


@contextmanager
def pinned(core: int | None) -> Iterator[str | None]:
    """This thread on one core while inside. Gives what is to be said where the system refuses, None where all is well."""
    if core is None:
        yield None
        return
    try:
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
    except (AttributeError, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "this system can't"
        yield f"the loop isn't pinned to core {core}: {reason.lower()}"
        return
    try:
        yield None
    finally:
        os.sched_setaffinity(0, before)
