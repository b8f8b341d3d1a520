"""Launches on the CPU, for those who ask what a call came to, and whose inputs those of a kernel are that several blocks became."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from compiler.launch.watch import CallWatch
from compiler.source import Span
from runtime.records import frozen


@frozen(eq=False)
class CpuLaunch:
    """A launch that went well: the kernel (a BuiltKernel), the values by its names for them, and what it came to. `block`: where the block
    stands, of several that became one kernel the last."""

    kernel: Any
    values: Mapping[str, Any]
    threads: int
    value: Any
    block: Span | None

    def named(self, name: str) -> tuple[Span | None, str]:
        """The block that an input of the kernel belongs to, and the block's name for it."""
        joined = _JOINED.get(self.kernel)
        return (self.block, name) if joined is None else joined.get(name, (None, name))


CPU_LAUNCHES: CallWatch[CpuLaunch] = CallWatch()

_JOINED: "WeakKeyDictionary[Any, Mapping[str, tuple[Span | None, str]]]" = WeakKeyDictionary()
"""The inputs of kernels that several blocks became."""


def note_joined(kernel: Any, inputs: Mapping[str, tuple[Span | None, str]]) -> None:
    """Tells of a kernel that several blocks became: which block each input belongs to, and that block's name for it."""
    _JOINED[kernel] = inputs
