"""Launches on the CPU, for those who ask what a call came to."""

from collections.abc import Mapping
from typing import Any

from compiler.launch.watch import CallWatch
from runtime.records import frozen


@frozen(eq=False)
class CpuLaunch:
    """A launch that went well: the kernel (a BuiltKernel), the values of the block's names, and what it came to."""

    kernel: Any
    values: Mapping[str, Any]
    threads: int
    value: Any


CPU_LAUNCHES: CallWatch[CpuLaunch] = CallWatch()
