"""What is known while one LLVM function of a kernel is written: its values, memories and slots by name, the loops around the
current place, and the checks that have been passed on the way here."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from compiler.backends.cpu.liberties import FusedSum
from compiler.backends.cpu.masked_vectors import MaskedVectors
from compiler.backends.llvm.bundle import unsupported
from compiler.backends.llvm.checks import CheckSite
from compiler.backends.llvm.frame import AddressedMemory, FunctionFrame
from compiler.backends.llvm.types import I32, PTR
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.diagnostics import ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Check
from compiler.hir.module import HirFunction
from runtime.records import Factory, define


class Mode(Enum):
    """FAST: checks only raise a flag, and what they guard is masked. REPORT: one thread, exact order, stops at the first fault."""

    FAST = "fast"
    REPORT = "report"


@define
class CpuKernel:
    """The whole compilation of one HIR function into one LLVM module."""

    function: HirFunction
    module: ModuleWriter
    mode: Mode
    parallel: str
    """How thread loops run: "gomp", "team" or "serial"."""
    emit: "Callable[[CpuFrame, Instruction], None]"
    has_checks: bool = False
    stored_behind: "Mapping[Check, frozenset[Affine]]" = Factory(dict)
    """Of each check, the indices of what is stored behind it in its region."""
    checks: list[CheckSite] = Factory(list)
    aliases: dict[str, str] = Factory(dict)
    """Alias metadata of each memory by name."""
    path: Mapping[int, bool] = Factory(dict)
    """The branches of which only one way is in the code, as `paths` has them."""
    fused: Mapping[int, FusedSum] = Factory(dict)
    """Sums that are rounded once with a product, by identity."""
    absorbed: frozenset[int] = frozenset()
    """The identities of these products."""
    held: frozenset[str] = frozenset()
    """Names of values of f32 that a bf16 holds exactly."""
    masked: MaskedVectors = Factory(MaskedVectors)


@define(kw_only=True)
class CpuFrame(FunctionFrame):
    """One LLVM function under construction. Its flag is 1 after a failed check, 2 when memory ran out; its exit frees and returns."""

    kernel: CpuKernel
    threads: LlvmValue
    record: LlvmValue
    """Address of the fault record."""
    groups: list[tuple[str, frozenset[str]]] = Factory(list)
    """Access groups of the parallel loops around, each with the memories that its promise covers."""
    heap: list[LlvmValue] = Factory(list)
    in_threads: bool = False
    fetched: Mapping[int, LlvmValue] = Factory(dict)
    """How many bytes behind each vector memory is fetched, by the identities of accesses."""
    streams: bool = False
    """Whether stores that fill whole lines go past the caches."""
    streamed: bool = False
    """Whether some have."""
    late: set[str] = Factory(set)
    """Values of a loop that is left to LLVM which wait for the turn before."""
    reduced: set[str] = Factory(set)
    """Of these, those that the loop reduces to one, as far as they are emitted."""

    def emit(self, op: Instruction) -> None:
        self.kernel.emit(self, op)

    def refused(self, op: Instruction) -> ZyntaxError:
        return unsupported(f"the instruction `{op.name}`", "GPU and host instructions run on other targets")

    def still_good(self) -> LlvmValue | None:
        if not (self.kernel.has_checks and self.kernel.mode is Mode.FAST):
            return None
        return self.w.compare("eq", self.w.load(I32, self.flag), constant(I32, 0))

    def notes(self, memory: AddressedMemory, name: str) -> str:
        """Metadata of an access: aliases, and the parallel loops that it belongs to."""
        groups = [group for group, members in self.groups if name in members]
        if not groups:
            return memory.notes
        node = groups[0] if len(groups) == 1 else self.kernel.module.node(groups)
        return f"{memory.notes}, !llvm.access.group {node}"


def new_frame(kernel: CpuKernel, w: FunctionWriter, threads: LlvmValue, record: LlvmValue) -> CpuFrame:
    flag = w.alloca(I32)
    w.store(constant(I32, 0), flag)
    return CpuFrame(
        function=kernel.function,
        kernel=kernel,
        w=w,
        flag=flag,
        finish=w.label("finish"),
        threads=threads,
        record=record,
        compares_lanes=True,
    )


def close_frame(frame: CpuFrame) -> None:
    """The exit block: gives back the heap; the caller writes the return."""
    w = frame.w
    w.start(frame.finish)
    if frame.streamed:
        # others see what went past the caches
        w.module.declare("llvm.x86.sse.sfence", "void ()")
        w.call_void("llvm.x86.sse.sfence")
    for cell in frame.heap:
        w.module.declare("free", "void (ptr)")
        w.call_void("free", w.load(PTR, cell))


def alias_notes(names: Sequence[str], module: ModuleWriter) -> dict[str, str]:
    """Metadata of each memory that says: no access through one of them meets one through another."""
    if len(names) < 2:
        return dict.fromkeys(names, "")
    domain = module.metadata("!{!{self}}", distinct=True)
    scopes = {name: module.node(["!{self}", domain], distinct=True) for name in names}
    notes: dict[str, str] = {}
    for name in names:
        mine = module.node([scopes[name]])
        others = module.node(scope for other, scope in scopes.items() if other != name)
        notes[name] = f", !alias.scope {mine}, !noalias {others}"
    return notes
