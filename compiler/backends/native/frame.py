"""What is known while a host function is written as LLVM: pointers by name, where results go, and how a failure leaves.

A function writes its results to cells of its caller, which vanish where it is taken in, and returns whether it failed, if it may; what went
wrong is in the record then (`faults.py`)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from compiler.backends.llvm.bundle import unsupported
from compiler.backends.llvm.frame import FunctionFrame
from compiler.backends.llvm.writer import LlvmValue, ModuleWriter
from compiler.diagnostics import ZyntaxError
from compiler.hir.instruction import Instruction, Region
from compiler.hir.module import HirFunction, HirModule
from compiler.source import Span
from runtime.records import Factory, define

if TYPE_CHECKING:
    from compiler.backends.native.record import FaultPoint


STACK = 1 << 20
"""Bytes of the stack that functions which call themselves may take; threads have 8 MiB as a rule."""


@define
class NativeModule:
    """The compilation of a module of host functions."""

    hir: HirModule
    writer: ModuleWriter
    emit: "Callable[[NativeFrame, Instruction], None]"
    look: "Callable[[NativeFrame], None]"
    """Writes the look whether the run is to stop."""
    may_fail: frozenset[str]
    """Names of the functions that may fail, or catch failures: they know the record."""
    recursive: frozenset[str]
    """Names of the functions that come back to themselves: their calls look how much of the stack is left."""
    taken_in: frozenset[str]
    """Names of the functions to inline at every call."""
    mark: int
    """What tells the module's points of failure from those of others, in records."""
    polled: Mapping[str, frozenset[int]] = Factory(dict)
    """By the names of functions the loops, by identity, that look whether the run is to stop."""
    points: "list[FaultPoint]" = Factory(list)
    """Where it may fail, by the numbers that records use."""
    callers: "list[Span | None] | None" = None
    """Where its calls stand, by the numbers that records use; None where records don't tell."""
    stack: int = STACK
    """Bytes of the stack that functions which call themselves may take."""
    unlikely: str = ""
    """Branch weights for a way to a failure, ready to stand behind a branch."""


@define(kw_only=True)
class NativeFrame(FunctionFrame):
    """One function. `record` is the address of the fault record where the function may fail."""

    module: NativeModule
    record: LlvmValue | None
    results: list[LlvmValue]
    """Where the results go."""
    failed: str
    """Label of the way out after a failure."""
    pointers: dict[str, LlvmValue] = Factory(dict)

    turned: frozenset[int] = frozenset()
    """The regions, by identity, that begin by looking whether the run is to stop."""

    def emit(self, op: Instruction) -> None:
        self.module.emit(self, op)

    def region(self, region: Region) -> None:
        if id(region) in self.turned:
            self.module.look(self)
        super().region(region)

    def refused(self, op: Instruction) -> ZyntaxError:
        return unsupported(f"the instruction `{op.name}`", "host functions are nests of scalars, structs and arrays", "native")

    def scalar(self, name: str) -> LlvmValue:
        return self.values[name].scalar


def body_name(function: HirFunction) -> str:
    """The symbol of the function itself; its entry has the plain name."""
    return f"zyn.{plain(function.name)}"


def plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_." else "_" for c in name)
