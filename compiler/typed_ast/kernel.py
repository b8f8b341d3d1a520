"""What a program says about how a function or a compute block is to be compiled and where it is to run."""

from enum import Enum

from compiler.source import NOWHERE, Span
from compiler.typed_ast.types import AUTO, DeviceTarget
from runtime.records import field, frozen
from runtime.tuples import as_tuple


class KernelType(Enum):
    """The seed's nine kinds and ours; the value is the name in `@kernel(...)`."""

    ELEMENTWISE = "elementwise"
    REDUCE = "reduce"
    MATMUL = "matmul"
    CONV2D = "conv2d"
    ATTENTION = "attention"
    FLASH_ATTENTION = "flash_attention"
    SCAN = "scan"
    SORT = "sort"
    CUSTOM = "custom"
    BATCHED_MATMUL = "batched_matmul"
    CONV2D_DEPTHWISE = "conv2d_depthwise"
    FUSED = "fused"


KERNEL_ALIASES = {"depthwise": KernelType.CONV2D_DEPTHWISE}


@frozen
class KernelHints:
    """`coalesced_access` and `async_copy` have no syntax: analysis fills them."""

    use_tensor_cores: bool | None = None
    vector_width: int | None = None
    unroll_factor: int | None = None
    coalesced_access: bool = False
    async_copy: bool = False
    tile: tuple[tuple[str, int], ...] = field(default=(), converter=as_tuple)
    pipeline_stages: int | None = None
    warps: int | None = None
    cluster: int | None = None
    deterministic: bool = False
    relaxed: bool = False
    """Whether sums of floats into elements that data name may be rounded in any order, in each run in another."""
    accumulator: str | None = None
    products: str | None = None
    floats: str | None = None


@frozen
class StatedShape:
    """`@shape(A: [M, 2 * K])`: the extents of an input as expressions over sizes, as the program writes them."""

    name: str
    dims: tuple[object, ...] = field(converter=as_tuple)
    span: Span = NOWHERE


@frozen
class DataParallel:
    """`@device([...]) @parallel(data, axis=0)`: each of the devices computes a range of the results along their `axis`."""

    devices: tuple[DeviceTarget, ...] = field(default=(), converter=as_tuple)
    axis: int = 0
    span: Span = NOWHERE


@frozen
class KernelMetadata:
    """Attached to a compute block or a function that is compiled as a kernel.

    `options` are the kind's own arguments as written: ("op", "+"), ("axis", 1), ("keepdims", True), ("stride", 2)...
    `kernel_type` None means: inferred from the nest. `shared_memory_bytes` None: no cap was given. `max_registers` 0: no limit.
    `device` is left alone where the block is `parallel`."""

    kernel_type: KernelType | None = None
    device: DeviceTarget = AUTO
    fallback: DeviceTarget | None = None
    parallel: DataParallel | None = None
    workgroup_size: tuple[int, int, int] | None = None
    grid_size: tuple[int, int, int] | None = None
    shared_memory_bytes: int | None = None
    max_registers: int = 0
    is_device_function: bool = False
    hints: KernelHints = KernelHints()
    options: tuple[tuple[str, object], ...] = field(default=(), converter=as_tuple)
    broadcast: tuple[tuple[str, tuple[int, ...]], ...] = field(default=(), converter=as_tuple)
    shapes: tuple[StatedShape, ...] = field(default=(), converter=as_tuple)
    name: str | None = None
    is_async: bool = False
    trace: bool = False

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it names, or `auto`."""
        return tuple(map(str, (self.device,) if self.parallel is None else self.parallel.devices))

    @property
    def strict(self) -> bool:
        """Whether floats are computed as written, to the bit."""
        return self.hints.floats == "strict"

    def option(self, name: str, default: object = None) -> object:
        return dict(self.options).get(name, default)


@frozen
class ExecutionConstraints:
    """Promises about low-latency code that the compiler proves."""

    no_allocation: bool = False
    no_syscalls: bool = False
    inline_always: bool = False
    unsafe_unchecked: bool = False
    cpu_affinity: int | None = None
    target_latency_ns: int | None = None
    critical_path: bool = False


class CompileTarget(Enum):
    CPU = "cpu"
    GPU = "gpu"
    HETEROGENEOUS = "heterogeneous"


class Visibility(Enum):
    PUBLIC = "public"
    PRIVATE = "private"
