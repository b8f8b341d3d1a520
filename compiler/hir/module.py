"""Functions and modules: what holds instructions, and what is said about them."""

from enum import Enum

from compiler.hir.affine import Affine
from compiler.hir.instruction import Region, Value, ValueScope
from compiler.hir.sites import FaultSite
from compiler.hir.types import HirType, Space
from compiler.source import Span
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.levels import OptimizationLevel
from runtime.records import Factory, define, field, frozen
from runtime.tuples import as_tuple

__all__ = [
    "ArchFamily",
    "CallingConvention",
    "FaultSite",
    "Form",
    "GpuArch",
    "GpuModuleMetadata",
    "HirExecutionConstraints",
    "HirExport",
    "HirFunction",
    "HirGlobal",
    "HirImport",
    "HirKernelInfo",
    "HirModule",
    "LaunchBounds",
    "Linkage",
    "LoopWish",
    "OptimizationLevel",
]


class Form(Enum):
    """How far a function has come down: nest, field, tile, roles, thread."""

    NEST = "A"
    FIELD = "F"
    TILE = "B"
    ROLES = "R"
    THREAD = "C"


class ArchFamily(Enum):
    SM = "sm"
    GFX = "gfx"
    PTX = "ptx"


@frozen
class GpuArch:
    """`sm_90a`: family SM, number 90, suffix "a"."""

    family: ArchFamily
    number: int
    suffix: str = ""

    def __str__(self) -> str:
        return f"{self.family.value}_{self.number}{self.suffix}"


@frozen
class LaunchBounds:
    max_threads_per_block: int
    min_blocks_per_sm: int | None = None


@frozen
class LoopWish:
    """What a program says of a loop that became an axis. `loop`: its variable, as written."""

    axis: str
    loop: str
    serial: bool = False
    parallel: bool = False
    unroll: int | None = None
    """Turns that are written out, 0: all of them; None: nothing is said."""
    vectorize: int | None = None
    """Lanes, 0: as many as the machine's vectors have; None: nothing is said."""


@frozen
class HirKernelInfo:
    is_kernel_entry: bool = True
    kernel_type: KernelType = KernelType.CUSTOM
    target_arch: GpuArch | None = None
    launch_bounds: LaunchBounds | None = None
    shared_memory_bytes: int = 0
    max_registers: int | None = None
    address_spaces_used: frozenset[Space] = field(default=frozenset(), converter=frozenset)
    workgroup: tuple[int, int, int] | None = None
    grid: tuple[Affine, Affine, Affine] | None = None
    """Blocks along x, y, z, as forms of the function's sizes; None: the launch decides."""
    cluster: tuple[int, int, int] | None = None
    """Blocks of a cluster; None: each block is one by itself, of a nest: as its schedule has it."""
    stages: int | None = None
    """Of a schedule's ring of copies, where the program says it."""
    warps: int | None = None
    """That compute, of a block of a schedule with such roles, where the program says it."""
    tensor_cores: bool | None = None
    """Whether products of matrices must go to the tensor cores, or must not; None: where they give what the nest gives."""
    products: str | None = None
    """How f32 factors are multiplied: "f32", each product as one FMA; "tf32", rounded to tf32; None: no less exactly than by FMAs."""
    strict: bool = False
    """Whether floats are computed as written, to the bit: no operation has a liberty, and none may get it later."""
    relaxed: bool = False
    """Whether sums of floats into elements that data name may be rounded in any order, in each run in another."""
    tile: tuple[tuple[str, int], ...] = field(default=(), converter=as_tuple)
    """Sizes of tiles, as the program says them: by loop, of a field by axis, or by part of a product (`m`, `n`, `k`)."""
    loops: tuple[LoopWish, ...] = field(default=(), converter=as_tuple)
    """Of a field: what the program says of the loops that its axes were. In a nest the loops have marks."""


@frozen
class HirExecutionConstraints:
    no_alloc: bool = False
    inline_always: bool = False
    no_bounds_check: bool = False
    no_null_check: bool = False
    critical_path: bool = False
    opt_level: OptimizationLevel = OptimizationLevel.O1


class Linkage(Enum):
    INTERNAL = "internal"
    EXPORTED = "exported"
    EXTERNAL = "external"
    """A function of C."""
    IMPORTED = "imported"
    """An exported function of another module that this one is linked with."""


class CallingConvention(Enum):
    C = "c"
    FAST = "fast"
    KERNEL = "kernel"


@define(eq=False)
class HirFunction:
    """A function in one of the forms. `axes` gives every named axis's extent (forms F to C). Parameters of type `index` are its sizes."""

    name: str
    parameters: list[Value] = Factory(list)
    body: Region = Factory(Region)
    form: Form = Form.NEST
    axes: dict[str, Affine] = Factory(dict)
    results: tuple[HirType, ...] = ()
    kernel_info: HirKernelInfo | None = None
    constraints: HirExecutionConstraints | None = None
    linkage: Linkage = Linkage.EXPORTED
    calling_convention: CallingConvention = CallingConvention.C
    attributes: tuple[str, ...] = ()
    link_name: str | None = None
    previous_version: str | None = None
    sites: tuple[FaultSite, ...] = ()
    span: Span | None = None
    """Where it comes from: what has no place of its own lies there."""

    @property
    def is_strict(self) -> bool:
        """Whether its floats are computed as written."""
        return self.kernel_info is not None and self.kernel_info.strict

    @property
    def loops(self) -> tuple[LoopWish, ...]:
        """What the program says of the loops that became axes."""
        return () if self.kernel_info is None else self.kernel_info.loops

    def stands_for(self, other: "HirFunction") -> None:
        """Say of itself what another form of it said: how it is launched, its fault sites, its place in the program."""
        self.kernel_info, self.constraints, self.sites = other.kernel_info, other.constraints, other.sites
        self.linkage, self.span = other.linkage, other.span

    @property
    def is_external(self) -> bool:
        return self.linkage is Linkage.EXTERNAL

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is only declared here."""
        return self.linkage in (Linkage.EXTERNAL, Linkage.IMPORTED)

    def scope(self) -> ValueScope:
        """Axes, and the types of all named values: parameters, loop variables and results."""
        types: dict[str, HirType] = {p.name: p.type for p in self.parameters}

        def enter(region: Region) -> None:
            types.update((p.name, p.type) for p in region.parameters)
            for op in region.body:
                types.update((r.name, r.type) for r in op.results)
                for inner in op.regions:
                    enter(inner)

        enter(self.body)
        return ValueScope(self.axes, types)


@frozen
class HirImport:
    name: str
    module: str


@frozen
class HirExport:
    name: str
    function: str


@frozen
class GpuModuleMetadata:
    target_archs: tuple[GpuArch, ...] = ()
    ptx_version: tuple[int, int] = (7, 8)
    compute_capability: tuple[int, int] = (7, 5)
    required_features: frozenset[str] = field(default=frozenset(), converter=frozenset)
    kernel_entries: tuple[str, ...] = ()
    device_functions: tuple[str, ...] = ()
    constant_memory: tuple[str, ...] = ()


@frozen
class HirGlobal:
    """A constant array of the module: literal tables that kernels only read."""

    name: str
    type: HirType
    values: tuple[int | float, ...] = ()


@define(eq=False)
class HirModule:
    name: str
    functions: dict[str, HirFunction] = Factory(dict)
    globals: dict[str, HirGlobal] = Factory(dict)
    types: dict[str, HirType] = Factory(dict)
    imports: tuple[HirImport, ...] = ()
    exports: tuple[HirExport, ...] = ()
    version: int = 1
    dependencies: frozenset[str] = frozenset()
    gpu_metadata: GpuModuleMetadata | None = None

    def add(self, function: HirFunction) -> HirFunction:
        assert function.name not in self.functions, f"two functions @{function.name}"
        self.functions[function.name] = function
        return function
