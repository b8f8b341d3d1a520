"""The NVPTX back end's entry: HIR functions of form C in, PTX out. LLVM carries the target: no GPU, driver or toolkit is needed."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from compiler.backends.llvm.checks import CheckSite
from compiler.backends.llvm.writer import ModuleWriter
from compiler.backends.nvptx import overlap
from compiler.backends.nvptx.access import CONSTANT_SPACE, symbol_of
from compiler.backends.nvptx.constant_limits import in_32_bits
from compiler.backends.nvptx.debug import Debug
from compiler.backends.nvptx.emit import emit_kernel
from compiler.backends.nvptx.frame import NvptxKernel, TensorMap
from compiler.backends.nvptx.target import GpuTarget
from compiler.backends.nvptx.written_out import without_calls
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.module import HirFunction, HirGlobal, HirModule
from compiler.hir.types import Mem, Tile, bytes_of
from compiler.hir.verify import verify
from compiler.machines.gpu import Feature
from compiler.source import Sources
from runtime import forks
from runtime.records import evolve, frozen

_LOCK = forks.quiet_lock()

_COUNTED = re.compile(r"(?m) *// callseq.*$")
"""Remarks of the code generator that number the calls of all modules of a process."""


@frozen
class KernelParameter:
    """A parameter of an entry, in order. `kind`: "memory" (an address), "number" (`dtype`), "tensor_map" (128 bytes that `map` says
    how to encode), "fault" (the address of the fault record)."""

    kind: str
    name: str
    dtype: str
    bytes: int
    map: TensorMap | None = None


@frozen
class KernelEntry:
    """What a launch must know of a kernel. Dynamic shared memory: `dynamic_bytes`, and what the program takes besides where
    `dynamic_shared`. `checks` are numbered as fault records number them."""

    symbol: str
    function: str
    parameters: tuple[KernelParameter, ...]
    block: tuple[int, int, int] | None
    shared_bytes: int
    dynamic_bytes: int
    dynamic_shared: bool
    checks: tuple[CheckSite, ...]
    cooperative: bool = False
    """Whether its threads wait for the whole grid: the launch is cooperative."""
    early: bool = False
    """Whether it waits for the kernel in front of it, so that the launch may begin before that has ended."""


@frozen
class PtxModule:
    """PTX text and its kernels. The same functions, target and options give the same bytes."""

    text: str
    target: GpuTarget
    entries: tuple[KernelEntry, ...]
    llvm: str
    """The LLVM module as emitted."""

    @property
    def hands_registers(self) -> bool:
        """Whether roles of a kernel hand registers to each other. The assembler that links drops that; a GPU's driver, which has the
        whole program, doesn't."""
        return "setmaxnreg" in self.text

    def handed(self, symbol: str) -> tuple[int, ...]:
        """To how many registers a thread the roles of a kernel go, each number once."""
        _, _, behind = self.text.partition(f".entry {symbol}(")
        own = behind.partition(".entry ")[0]
        return tuple(sorted({int(number) for number in re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 (\d+)", own)}))

    def entry(self, name: str) -> KernelEntry:
        """The entry of a function, or of a symbol."""
        return next(e for e in self.entries if name in (e.function, e.symbol))


def compile_kernels(
    program: HirModule | HirFunction | Sequence[HirFunction], target: GpuTarget, sources: Sources | None = None, level: int = 3
) -> PtxModule:
    """All kernels of a module, or these functions, as one PTX text. With `sources`, lines of the PTX point to the program's. Raises
    ZyntaxError (0901) for functions that aren't well formed: what they would do isn't defined."""
    functions, tables = _functions(program)
    for function in functions:
        verify(function)
    module = ModuleWriter("kernels", native_half=True, backend="NVPTX")
    module.native_bfloat = target.machine.has(Feature.NARROW_FLOATS)
    module.native_bytes = target.machine.has(Feature.BYTE_FLOATS)
    module.c_library, module.constant_space = False, CONSTANT_SPACE
    debug = Debug(module, sources)
    taken: set[str] = set()
    kernels = [emit_kernel(module, function, _symbol(function, taken), target, tables, debug) for function in functions]
    text = module.text()
    _require_known_intrinsics(text)
    if _SIGNS_MIXED.search(text):
        target = evolve(target, ptx=max(target.ptx, SIGNS_MIXED))
    ptx = in_32_bits(_generate(text, target, level))
    if "wgmma." in ptx:
        ptx = without_calls(ptx)
    if (name := overlap.moved_ahead(ptx)) is not None:
        raise _fault(f"`{name}` reads memory before it waits")
    return PtxModule(ptx, target, tuple(map(_entry, kernels)), text)


def _functions(program: HirModule | HirFunction | Sequence[HirFunction]) -> tuple[list[HirFunction], dict[str, HirGlobal]]:
    if isinstance(program, HirFunction):
        return [program], {}
    if isinstance(program, HirModule):
        return [function for function in program.functions.values() if not function.is_external], program.globals
    return list(program), {}


def _symbol(function: HirFunction, taken: set[str]) -> str:
    """The entry's name in PTX, no other entry's."""
    base = function.link_name or symbol_of(function.name)
    base = base if not base[0].isdigit() else f"_{base}"
    name, number = base, 1
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name


def _entry(kernel: NvptxKernel) -> KernelEntry:
    parameters = []
    for parameter in kernel.function.parameters:
        if isinstance(parameter.type, Mem):
            parameters.append(KernelParameter("memory", parameter.name, parameter.type.dtype, 8))
        else:
            assert isinstance(parameter.type, Tile)
            dtype = parameter.type.dtype
            parameters.append(KernelParameter("number", parameter.name, dtype, bytes_of(dtype)))
    parameters += [KernelParameter("tensor_map", map.memory, "u8", 128, map) for map in kernel.tensor_maps]
    parameters.append(KernelParameter("fault", "fault", "u64", 8))
    info = kernel.function.kernel_info
    return KernelEntry(
        kernel.symbol,
        kernel.function.name,
        tuple(parameters),
        info.workgroup if info is not None else None,
        0 if kernel.shared_in_dynamic else kernel.shared_bytes,
        kernel.dynamic_start,
        kernel.dynamic_shared,
        tuple(kernel.checks),
        kernel.cooperative,
        kernel.early,
    )


_SIGNS_MIXED = re.compile(r"wgmma[.\w]+\.s32\.(u8\.s8|s8\.u8)\b")
SIGNS_MIXED = (8, 4)
"""The PTX version from which on warpgroups multiply bytes with a sign by bytes without."""

# ---- LLVM ------------------------------------------------------------------------------------------------------------------

_ROUNDINGS = {"floor", "ceil", "trunc", "roundeven"}
_OF_INTS = {"smin", "smax", "umin", "umax", "ctpop", "ctlz", "cttz"}
_GENERIC = {"fma", "fshr", "fmuladd", "minimum", "maximum", "fabs", "sqrt", "copysign", *_OF_INTS, *_ROUNDINGS}
"""Intrinsics of LLVM's own that every target here selects."""


def _fault(problem: str) -> ZyntaxError:
    """Something that this back end should never have made."""
    return ZyntaxError(Diagnostic("0901", f"internal fault in the NVPTX back end: {problem}", hint="please report this with the program"))


def _require_known_intrinsics(text: str) -> None:
    """The code generator aborts the process over what it can't select: let nothing through that isn't known to be selected."""
    for name in sorted(set(re.findall(r"@llvm\.([a-z0-9_.]+)", text))):
        base = name.split(".")[0]
        if base not in ("nvvm", "vector", "dbg", "loop") and base not in _GENERIC:
            raise _fault(f"`llvm.{name}`")
    for name in sorted(set(re.findall(r"^declare .*@([\w.]+)\(", text, re.MULTILINE))):
        raise _fault(f"a call of `{name}`")


@cache
def _initialise() -> None:
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@cache
def _machine(target: GpuTarget) -> Any:
    from llvmlite import binding

    _initialise()
    llvm_target = binding.Target.from_triple("nvptx64-nvidia-cuda")
    return llvm_target.create_target_machine(cpu=target.machine.name, features=target.features, opt=3)


def _generate(text: str, target: GpuTarget, level: int) -> str:
    from llvmlite import binding

    with _LOCK:
        machine = _machine(target)
        try:
            module = binding.parse_assembly(f'target triple = "nvptx64-nvidia-cuda"\n{text}')
            module.data_layout = str(machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise _fault(str(error).strip().splitlines()[0]) from error
        # schedules unroll and vectorise; here that would only cost registers
        tuning = binding.create_pipeline_tuning_options(speed_level=min(level, 2))
        tuning.loop_unrolling = tuning.slp_vectorization = tuning.loop_vectorization = False
        builder = binding.create_pass_builder(machine, tuning)
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        ptx = _COUNTED.sub("", str(machine.emit_assembly(module)))
    left = re.search(r"\bllvm[._]\w[\w.$]*", re.sub(r"(?m)^\s*//.*$", "", ptx))
    if left is not None:
        raise _fault(f"`{left.group()}` is left over in the PTX")
    return ptx
