"""What is known while a kernel's LLVM function is written, beyond what every back end knows: the target, the module, the debug
locations, the kernel's shared memories and tensor maps."""

from collections.abc import Callable

from compiler.backends.llvm.bundle import Bundle, unsupported
from compiler.backends.llvm.checks import CheckSite
from compiler.backends.llvm.frame import FunctionFrame
from compiler.backends.llvm.types import I32, I64, LlvmType
from compiler.backends.llvm.writer import LlvmValue, ModuleWriter, constant, poison
from compiler.backends.nvptx.debug import Debug
from compiler.backends.nvptx.fragment_shapes import PRODUCTS, registers_of
from compiler.backends.nvptx.target import GpuTarget
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction, HirGlobal
from compiler.hir.types import Fragment, FragmentRole, HirType, Mem
from compiler.machines.gpu import Feature, GpuMachine
from compiler.machines.nvidia import first_with
from compiler.machines.units.unit import Issue
from runtime.records import Factory, define, frozen

ALL_LANES = constant(I32, -1)


@frozen
class TensorMap:
    """A descriptor of a memory that bulk copies need: a parameter of 128 bytes, which the launch encodes. `window` (im2col): the lower
    and the upper corner of where pixels are taken from. `step`: from one element of a box to the next along each dim, if not 1.
    `rounded`: f32 becomes tf32 on the way."""

    memory: str
    box: tuple[int, ...]
    swizzle: str | None
    window: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    step: tuple[int, ...] = ()
    rounded: bool = False


@define
class NvptxKernel:
    """The compilation of one function."""

    function: HirFunction
    symbol: str
    module: ModuleWriter
    target: GpuTarget
    globals: dict[str, HirGlobal]
    debug: Debug
    emit: "Callable[[NvptxFrame, Instruction], None]"
    tensor_maps: dict[TensorMap, LlvmValue] = Factory(dict)
    checks: list[CheckSite] = Factory(list)
    shared_bytes: int = 0
    """What shared allocations take so far."""
    shared_in_dynamic: bool = False
    """Whether they lie in dynamic shared memory, in front of what the program takes from there: more than 48 KiB can't be static."""
    dynamic_start: int = 0
    """Where the program's own dynamic shared memory begins."""
    dynamic_shared: bool = False
    """Whether the program takes any."""
    has_checks: bool = False
    multiplies_matrices: bool = False
    """Whether its threads hold fragments of matrices, which leave no registers for addresses of what isn't loaded."""
    cooperative: bool = False
    """Whether its threads wait for the whole grid."""
    early: bool = False
    """Whether it may begin before the kernel in front of it has ended: it waits for that itself."""


@define(kw_only=True)
class NvptxFrame(FunctionFrame):
    """The kernel's function under construction. Its flag is 1 after a failed check of this thread."""

    kernel: NvptxKernel
    record: LlvmValue
    """Address of the fault record."""
    op: Instruction | None = None
    """The instruction at hand, for messages."""
    reciprocals: dict[str, list[LlvmValue]] = Factory(dict)
    """About what those of roots are, element by element, by the roots' names."""

    @property
    def target(self) -> GpuTarget:
        return self.kernel.target

    def emit(self, op: Instruction) -> None:
        before, outer = self.w.location, self.op
        self.w.location, self.op = self.kernel.debug.location(op.span, before), op
        self.kernel.emit(self, op)
        self.w.location, self.op = before, outer

    def refused(self, op: Instruction) -> ZyntaxError:
        return unsupported(f"the instruction `{op.name}`", "kernels are written with the instructions of form C", "NVPTX")

    def undefined(self, type: HirType) -> Bundle:
        if isinstance(type, Fragment):
            register, count = self.registers_of(type)
            return fragment_bundle(type, [poison(register)] * count)
        return FunctionFrame.undefined(self, type)

    def still_good(self) -> LlvmValue | None:
        if not self.kernel.has_checks:
            return None
        return self.w.compare("eq", self.w.load(I64, self.flag), constant(I64, 0))

    def registers_of(self, fragment: Fragment) -> tuple[LlvmType, int]:
        """The registers of a thread that hold its part of a fragment: their type, and how many."""
        registers = registers_of(fragment)
        if registers is None:
            shapes = dict.fromkeys(f"{dtype} {'x'.join(map(str, shape))}" for dtype, shape in PRODUCTS)
            raise self.lacks(f"tensor core fragment {fragment}", f"there are {', '.join(shapes)}")
        if fragment.role is not FragmentRole.ACCUMULATOR:
            self.require(lambda machine: machine.multiplies(Issue.FRAGMENTS, fragment.dtype), f"tensor cores for {fragment.dtype}")
        return registers

    # ---- demands on the target ----

    def lacks(self, feature: str, hint: str) -> ZyntaxError:
        """0504: this target has no such operation."""
        span = self.op.span if self.op is not None else None
        return ZyntaxError(Diagnostic("0504", f"`{self.target}` has no {feature}", span, hint=hint))

    def has(self, feature: Feature) -> bool:
        return self.target.machine.has(feature)

    def require(self, holds: Callable[[GpuMachine], bool], feature: str) -> None:
        """Refuse where this doesn't hold of the architecture."""
        if not holds(self.target.machine):
            raise self.lacks(feature, f"it takes {first_with(holds)} or later")

    def require_feature(self, feature: Feature, words: str) -> None:
        self.require(lambda machine: machine.has(feature), words)


def fragment_bundle(type: Fragment, registers: list[LlvmValue]) -> Bundle:
    """A fragment as a value: its registers, in the hardware's order."""
    return Bundle(type.dtype, (("register", len(registers)),), None, 0, tuple(registers))


def memory_kind(mem: Mem) -> str:
    """How assembly names the address space: `global` or `shared`."""
    return "shared" if mem.space.name == "SHARED" else "global"
