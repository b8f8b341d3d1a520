"""Launches. A plan is made once for a kernel, its parameters and its shape, checked against the device then; launching it packs the
values and makes one driver call."""

from collections.abc import Sequence
from typing import Any

from runtime import forks
from runtime.cuda.arguments import Arguments
from runtime.cuda.array import DeviceArray
from runtime.cuda.device import CURRENT
from runtime.cuda.errors import INVALID_CONTEXT, CudaRefused
from runtime.cuda.launcher import launcher
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.module import CudaKernel
from runtime.cuda.stream import Stream

Shape = tuple[int, int, int]

EARLY_IN_GRAPHS = (12, 3)
"""The first drivers that record early launches."""


class CheckedLaunch:
    """How a kernel is launched; any thread may. It keeps no argument alive: memory is freed behind the work that uses it. `where`
    is the place in the program that it was made from, for messages. `cluster` is for kernels that don't fix their own. A
    cooperative launch may use barriers over the whole grid. An `early` one may begin before the kernel in front of it has ended:
    its kernel waits for that, before it touches memory (`griddepcontrol.wait`)."""

    __slots__ = (
        "_count", "_empty", "_handle", "_launch", "_plain", "_pointers", "_shape", "arguments", "block", "cluster", "configurations",
        "cooperative", "device", "early", "grid", "kernel", "launch", "lock", "ordinary", "shared", "site", "where",
    )  # fmt: skip

    def __init__(
        self,
        kernel: CudaKernel,
        signature: Sequence[str],
        grid: Sequence[int],
        block: Sequence[int],
        *,
        shared: int = 0,
        cooperative: bool = False,
        cluster: Sequence[int] | None = None,
        early: bool = False,
        where: str = "",
    ) -> None:
        self.kernel, self.device, self.where = kernel, kernel.device, where
        self.site = f"`{kernel.name}` ({where})" if where else f"`{kernel.name}`"
        self.arguments = Arguments(signature)
        self.block, self.shared, self.cooperative = _shape(block, "block"), shared, cooperative
        self.cluster = None if cluster is None else _shape(cluster, "cluster")
        self._pointers = tuple(index for index, each in enumerate(self.arguments.parameters) if each.name == "pointer")
        self._count = len(self.arguments.parameters)
        self.lock = forks.lock()
        self._plain = not cooperative and cluster is None
        self.early = early and self.device.properties.driver_version >= EARLY_IN_GRAPHS
        self._handle, self._launch = kernel.handle, getattr(self.device.api, self.call)
        self.grid: Shape = (-1, -1, -1)
        self._check_block()
        kernel.allow_shared(shared)
        self.resize(grid)
        self.launch = self._launch_first

    def _check_block(self) -> None:
        limits, threads = self.device.properties, self.block[0] * self.block[1] * self.block[2]
        most = min(limits.max_threads_per_block, self.kernel.max_threads)
        if threads > most:
            cause = limits.name if most == limits.max_threads_per_block else f"its {self.kernel.registers} registers and its bounds"
            raise CudaRefused(f"a block of {self.site} has {threads} threads; {most} is the most by {cause}", "threads")
        _check_dimensions(self.block, limits.max_block, "block", self.site)

    def resize(self, grid: Sequence[int]) -> None:
        """Another grid for the next launches. A grid with no blocks launches nothing."""
        if grid == self.grid:
            return
        self.grid = self.checked_grid(grid)
        self._empty = 0 in self.grid
        self._shape = (*self.grid, *self.block, self.shared)
        self.ordinary = self._shape if self._plain and not self._empty else None
        self.configurations: dict[int, Any] = {}

    def checked_grid(self, grid: Sequence[int]) -> Shape:
        """A grid that this plan can be launched with; CudaRefused for another."""
        shape, limits = _shape(grid, "grid", 0), self.device.properties
        _check_dimensions(shape, limits.max_grid, "grid", self.site)
        if self.cooperative:
            self._check_cooperative(shape)
        if self.cluster is not None:
            if not limits.clusters:
                raise CudaRefused(f"{self.site} is launched in clusters; {limits.name} has none")
            if any(extent % width for extent, width in zip(shape, self.cluster, strict=True)):
                raise CudaRefused(f"the grid {shape} of {self.site} is no multiple of its cluster {self.cluster}")
        return shape

    def _check_cooperative(self, grid: Shape) -> None:
        limits = self.device.properties
        if not limits.cooperative_launch:
            raise CudaRefused(f"{self.site} waits for its whole grid; {limits.name} has no cooperative launch")
        threads = self.block[0] * self.block[1] * self.block[2]
        most = self.kernel.blocks_per_multiprocessor(threads, self.shared) * limits.multiprocessors
        blocks = grid[0] * grid[1] * grid[2]
        if blocks > most:
            raise CudaRefused(f"{self.site} waits for its whole grid of {blocks} blocks; {limits.name} runs {most} of them at once")

    def __call__(self, stream: Stream, *values: Any) -> None:
        """Launch with these arguments; `launch(stream, *values)` is the same."""
        if len(values) != self._count:
            raise self.arguments.complaint(values)
        self.launch(stream, *values)

    def _launch_first(self, stream: Stream, *values: Any) -> None:
        """The long way: a launch is written out when it comes back, which takes longer than all else that a first one needs."""
        self.launch = self._launch_again
        self.launch_any(stream, *values)

    def _launch_again(self, stream: Stream, *values: Any) -> None:
        self.launch = launcher(self)
        self.launch(stream, *values)

    def launch_any(self, stream: Stream, *values: Any) -> None:
        """The long way, for any number of parameters."""
        packed = [*values]
        for index in self._pointers:
            value = packed[index]
            if isinstance(value, DeviceArray | DeviceBuffer):
                if value.stream is not stream:
                    value.used_on(stream)
                packed[index] = value.pointer
        with self.lock:
            self.arguments.pack(packed)
            self.launch_packed(stream, self.arguments.address, values)

    def bind(self, *values: Any) -> "BoundLaunch":
        """A launch with these arguments, packed now, and the plan's shape at each time. It keeps them alive."""
        return BoundLaunch(self, values)

    def launch_packed(self, stream: Stream, address: int, values: tuple[Any, ...]) -> None:
        """Launch with the arguments at `address`."""
        device = self.device
        if self.ordinary is None or stream.device is not device or CURRENT.context != device.only or device.lost is not None:
            self.submit(stream, address, values)
            return
        code = self._driver_launch(stream, address)
        if code:
            self.submit(stream, address, values, code)
            return
        stream.launched.append(self.site)
        if stream.recording is not None:
            stream.recording.launched(self, values)

    def submit(self, stream: Stream, address: int, values: tuple[Any, ...], code: Any = INVALID_CONTEXT) -> None:
        """Launch with the arguments at `address`; `code` is what the driver said to that before, if it was asked."""
        device = self.device
        if device.lost is not None:
            raise device.lost
        if stream.device is not device and stream.device.ordinal != device.ordinal:
            raise CudaRefused(f"{self.site} is loaded on cuda:{device.ordinal}, the stream is one of cuda:{stream.device.ordinal}")
        if self._empty:
            return
        if code == INVALID_CONTEXT:
            code = self._try(stream, address)
        if code:
            raise device.error(self.call, code, self.described())
        stream.launched.append(self.site)
        if stream.recording is not None:
            stream.recording.launched(self, values)

    @property
    def call(self) -> str:
        """The driver's call that launches it."""
        if self.early or self.cluster is not None:
            return "cuLaunchKernelEx"
        return "cuLaunchCooperativeKernel" if self.cooperative else "cuLaunchKernel"

    def _try(self, stream: Stream, address: int) -> Any:
        """The driver's answer, in our context even where another library took it away."""
        device = self.device
        pushed = device.enter()
        try:
            code = self._driver_launch(stream, address)
            if code == INVALID_CONTEXT and device.regain():
                code = self._driver_launch(stream, address)
            return code
        finally:
            if pushed:
                device.leave()

    def _driver_launch(self, stream: Stream, address: int) -> Any:
        if self.early or self.cluster is not None:
            return self._launch(self.configuration(stream), self._handle, address, 0)[0]
        if self.cooperative:
            return self._launch(self._handle, *self._shape, stream.handle, address)[0]
        return self._launch(self._handle, *self._shape, stream.handle, address, 0)[0]

    def configuration(self, stream: Stream) -> Any:
        """The driver's launch configuration for a stream, made at the first launch of a shape there."""
        config = self.configurations.get(stream.number)
        if config is None:
            config = self.device.api.CUlaunchConfig()
            config.hStream = stream.handle
            config.gridDimX, config.gridDimY, config.gridDimZ = self.grid
            config.blockDimX, config.blockDimY, config.blockDimZ = self.block
            config.sharedMemBytes = self.shared
            config.attrs = attributes = self._attributes()
            config.numAttrs = len(attributes)
            self.configurations[stream.number] = config
        return config

    def _attributes(self) -> list[Any]:
        api = self.device.api
        attributes: list[Any] = []

        def value(name: str) -> Any:
            attributes.append(api.CUlaunchAttribute())
            attributes[-1].id = getattr(api.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
            return attributes[-1].value

        if self.cluster is not None:
            dim = value("CLUSTER_DIMENSION").clusterDim
            dim.x, dim.y, dim.z = self.cluster
        if self.cooperative:
            value("COOPERATIVE").cooperative = 1
        if self.early:
            value("PROGRAMMATIC_STREAM_SERIALIZATION").programmaticStreamSerializationAllowed = 1
        return attributes

    def described(self) -> str:
        shared = f", {self.shared} bytes of dynamic shared memory" if self.shared else ""
        return f"kernel {self.site}, grid {self.grid}, block {self.block}{shared}"


class BoundLaunch:
    """A plan and its arguments: the cheapest launch there is."""

    __slots__ = ("_address", "_arguments", "_memory", "plan", "values")

    def __init__(self, plan: CheckedLaunch, values: tuple[Any, ...]) -> None:
        self.plan, self.values = plan, values
        self._arguments = Arguments([each.name for each in plan.arguments.parameters])
        self._arguments.pack(values)
        self._address = self._arguments.address
        self._memory = tuple(value for value in values if isinstance(value, DeviceArray | DeviceBuffer))

    def __call__(self, stream: Stream) -> None:
        for memory in self._memory:
            if memory.stream is not stream:
                memory.used_on(stream)
        self.plan.launch_packed(stream, self._address, self.values)


def _shape(extents: Sequence[int], kind: str, least: int = 1) -> Shape:
    """One to three extents as three."""
    given = tuple(int(extent) for extent in extents)
    if not 1 <= len(given) <= 3 or any(extent < least for extent in given):
        raise CudaRefused(f"{given} is no shape of a {kind}")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def _check_dimensions(shape: Shape, most: Shape, kind: str, site: str) -> None:
    for axis, extent, limit in zip("xyz", shape, most, strict=True):
        if extent > limit:
            short = "threads" if kind == "block" else ""
            raise CudaRefused(f"the {kind} of {site} has {extent} in {axis}; the device allows {limit}", short)
