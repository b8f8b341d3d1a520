"""A CUDA driver in host memory, with the calls and conventions of `cuda.bindings.driver`. Kernels are Python functions of the
parameters' address; work happens at once, or when `hold` is off again. Calls are counted, and the n-th can be made to fail."""

import ctypes
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

OUT_OF_MEMORY, INVALID_VALUE, INVALID_CONTEXT, NOT_FOUND, NOT_READY = 2, 1, 201, 500, 600

ERRORS = {
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    600: ("CUDA_ERROR_NOT_READY", "device not ready"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}

ATTRIBUTES = {
    "MULTIPROCESSOR_COUNT": 4,
    "WARP_SIZE": 32,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 << 10,
    "MAX_REGISTERS_PER_BLOCK": 65536,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
    "TOTAL_CONSTANT_MEMORY": 65536,
    "L2_CACHE_SIZE": 60 << 20,
    "CLOCK_RATE": 1980000,
    "MEMORY_CLOCK_RATE": 3201000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6144,
    "ASYNC_ENGINE_COUNT": 3,
    "COOPERATIVE_LAUNCH": 1,
    "MEMORY_POOLS_SUPPORTED": 1,
    "CLUSTER_LAUNCH": 1,
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
}

KERNEL_ATTRIBUTES = {"NUM_REGS": 40, "SHARED_SIZE_BYTES": 1024, "LOCAL_SIZE_BYTES": 0, "MAX_THREADS_PER_BLOCK": 512}


class Names:
    """An enumeration of the driver: each name stands for itself."""

    def __getattr__(self, name: str) -> str:
        return name


class Fields:
    """A structure of the driver."""

    def __getattr__(self, name: str) -> "Fields":
        made = Fields()
        setattr(self, name, made)
        return made


class EncodedMap:
    """A tensor map: 128 bytes, here a number under which `known` has what they were made of."""

    known: dict[int, tuple[Any, ...]] = {}

    def __init__(self, made_of: tuple[Any, ...]) -> None:
        self.known[len(self.known)] = made_of
        self.memory = ctypes.create_string_buffer((len(self.known) - 1).to_bytes(8, "little"), 128)

    def getPtr(self) -> int:
        return ctypes.addressof(self.memory)

    @classmethod
    def read(cls, held: bytes) -> tuple[Any, ...]:
        return cls.known[int.from_bytes(held[:8], "little")]


class LaunchConfiguration(ctypes.Structure):
    """The driver's structure of this sort, as C has it."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.POINTER(ctypes.c_uint)),
        ("count", ctypes.c_uint),
    )


class FakeLibrary:
    """The calls of the driver's library, by their C names: those that machine code makes. They come to a `FakeDriver`, and are counted and fail
    as its own do; `launched` counts the launches."""

    def __init__(self, driver: "FakeDriver") -> None:
        self.driver, self.launched = driver, 0
        call = ctypes.CFUNCTYPE
        self.cuLaunchKernelEx = call(ctypes.c_int, ctypes.POINTER(LaunchConfiguration), *[ctypes.c_uint64] * 3)(self._launch)
        self.cuCtxGetCurrent = call(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))(self._context)
        self.cuStreamIsCapturing = call(ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int))(self._capturing)

    def _launch(self, given: Any, function: int, parameters: int, extra: int) -> int:
        read, config = given[0], Fields()
        config.gridDimX, config.gridDimY, config.gridDimZ = read.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = read.block
        config.sharedMemBytes, config.hStream, config.attrs = read.shared, read.stream, []
        for number in range(read.count):
            attribute = Fields()
            assert list(read.attributes[18 * number : 18 * number + 3]) == [6, 0, 1]
            attribute.id = "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"
            config.attrs.append(attribute)
        self.launched += 1
        return int(self.driver.cuLaunchKernelEx(config, function, parameters, extra)[0])

    def _context(self, current: Any) -> int:
        current[0] = self.driver.current
        return 0

    def _capturing(self, stream: int, state: Any) -> int:
        state[0] = int(stream in self.driver.capturing)
        return 0


class FakeDriver:
    """`kernels`: what the modules of any image hold, by name; each takes the address of the parameters and the grid."""

    CUdevice_attribute = CUfunction_attribute = CUmemPool_attribute = CUjit_option = Names()
    CUstreamCaptureMode = CUpointer_attribute = CUlaunchAttributeID = Names()
    CUtensorMapDataType = CUtensorMapInterleave = CUtensorMapSwizzle = CUtensorMapL2promotion = CUtensorMapFloatOOBfill = Names()
    CUDA_KERNEL_NODE_PARAMS = CUlaunchConfig = CUlaunchAttribute = Fields
    CUresult = CUstream = cuuint32_t = cuuint64_t = staticmethod(int)

    def __init__(self, kernels: dict[str, Callable[..., None]] | None = None, devices: int = 1, memory: int = 1 << 30) -> None:
        self.kernels, self.devices, self.capacity = kernels or {}, devices, memory
        self.calls: Counter[str] = Counter()
        self.fail_at: dict[int, int] = {}
        self.fail_next: dict[str, int] = {}
        self.fault = 0
        self.current = 0
        self.pushed: list[int] = []
        self.held = False
        self.memory: dict[int, Any] = {}
        self.pinned: dict[int, Any] = {}
        self.registered: set[int] = set()
        self.streams: set[int] = set()
        self.events: dict[int, int] = {}
        self.graphs: dict[int, list[Any]] = {}
        self.capturing: dict[int, list[Any]] = {}
        self.launches: list[tuple[Any, ...]] = []
        self.waits: list[tuple[int, int]] = []
        self.order: list[tuple[Any, ...]] = []
        self.trims = 0
        self._numbers = itertools.count(0x1000, 0x10)
        self._functions: dict[int, Callable[..., None]] = {}
        self.library = FakeLibrary(self)

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if not (name.startswith("cu") and name[2:3].isupper()) or name in ("cuGetErrorName", "cuGetErrorString"):
            return found

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls[name] += 1
            code = self.fail_at.pop(self.calls.total(), 0) or self.fail_next.pop(name, 0) or self.fault
            return (code, None) if code else found(*arguments)

        return call

    @property
    def used(self) -> int:
        return sum(len(block) for block in self.memory.values())

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Work is under way as long as this lasts: nothing is done when asked."""
        self.held = True
        yield
        self.held = False

    def new(self) -> int:
        return next(self._numbers)

    def cuGetErrorName(self, code: int) -> tuple[int, bytes]:
        return 0, ERRORS[code][0].encode()

    def cuGetErrorString(self, code: int) -> tuple[int, bytes]:
        return 0, ERRORS[code][1].encode()

    # devices and contexts

    def cuInit(self, flags: int) -> tuple[int]:
        return (0,)

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, 13000

    def cuDeviceGetCount(self) -> tuple[int, int]:
        return 0, self.devices

    def cuDeviceGet(self, ordinal: int) -> tuple[int, int]:
        return 0, ordinal

    def cuDeviceGetName(self, length: int, device: int) -> tuple[int, bytes]:
        return 0, b"Fake GPU\0\0"

    def cuDeviceTotalMem(self, device: int) -> tuple[int, int]:
        return 0, self.capacity

    def cuDeviceGetAttribute(self, attribute: str, device: int) -> tuple[int, int]:
        return 0, ATTRIBUTES[attribute.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int, int]:
        return 0, 0xC0 + device

    def cuDevicePrimaryCtxRelease(self, device: int) -> tuple[int]:
        return (0,)

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, self.current

    def cuCtxSetCurrent(self, context: int) -> tuple[int]:
        self.current = context
        return (0,)

    def cuCtxPushCurrent(self, context: int) -> tuple[int]:
        self.pushed.append(self.current)
        self.current = context
        return (0,)

    def cuCtxPopCurrent(self) -> tuple[int, int]:
        popped, self.current = self.current, self.pushed.pop()
        return 0, popped

    def cuCtxSynchronize(self) -> tuple[int]:
        return (0,)

    # memory

    def cuMemGetInfo(self) -> tuple[int, int, int]:
        return 0, self.capacity - self.used, self.capacity

    def cuMemAlloc(self, size: int) -> tuple[int, int]:
        if self.used + size > self.capacity:
            return OUT_OF_MEMORY, 0
        block = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(block)] = block
        return 0, ctypes.addressof(block)

    def cuMemAllocAsync(self, size: int, stream: int) -> tuple[int, int]:
        return self.cuMemAlloc(size)

    def cuMemFree(self, pointer: int) -> tuple[int]:
        del self.memory[pointer]
        return (0,)

    def cuMemFreeAsync(self, pointer: int, stream: int) -> tuple[int]:
        return self.cuMemFree(pointer)

    def cuDeviceGetMemPool(self, device: int) -> tuple[int, int]:
        return 0, 1

    def cuMemPoolGetAttribute(self, pool: int, attribute: str) -> tuple[int, int]:
        return 0, self.used

    def cuMemPoolTrimTo(self, pool: int, keep: int) -> tuple[int]:
        self.trims += 1
        return (0,)

    def cuMemHostAlloc(self, size: int, flags: int) -> tuple[int, int]:
        block = ctypes.create_string_buffer(size)
        self.pinned[ctypes.addressof(block)] = block
        return 0, ctypes.addressof(block)

    def cuMemFreeHost(self, pointer: int) -> tuple[int]:
        del self.pinned[pointer]
        return (0,)

    def cuMemHostRegister(self, pointer: int, size: int, flags: int) -> tuple[int]:
        self.registered.add(pointer)
        return (0,)

    def cuMemHostUnregister(self, pointer: int) -> tuple[int]:
        self.registered.remove(pointer)
        return (0,)

    def cuPointerGetAttribute(self, attribute: str, pointer: int) -> tuple[int, int]:
        return 0, 0

    def _move(self, target: int, source: int, size: int, stream: int) -> tuple[int]:
        return self._do(stream, lambda: ctypes.memmove(target, source, size))

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int) -> tuple[int]:
        return self._move(target, source, size, stream)

    cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = cuMemcpyHtoDAsync

    def cuMemcpyPeerAsync(self, target: int, to: int, source: int, come: int, size: int, stream: int) -> tuple[int]:
        return self._move(target, source, size, stream)

    def _fill(self, pointer: int, value: int, width: int, count: int, stream: int) -> tuple[int]:
        data = value.to_bytes(width, "little") * count
        return self._do(stream, lambda: ctypes.memmove(pointer, data, len(data)))

    def cuMemsetD8Async(self, pointer: int, value: int, count: int, stream: int) -> tuple[int]:
        return self._fill(pointer, value, 1, count, stream)

    def cuMemsetD16Async(self, pointer: int, value: int, count: int, stream: int) -> tuple[int]:
        return self._fill(pointer, value, 2, count, stream)

    def cuMemsetD32Async(self, pointer: int, value: int, count: int, stream: int) -> tuple[int]:
        return self._fill(pointer, value, 4, count, stream)

    # streams and events

    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[int, int]:
        number = self.new()
        self.streams.add(number)
        return 0, number

    def cuStreamDestroy(self, stream: int) -> tuple[int]:
        self.streams.remove(stream)
        return (0,)

    def cuStreamQuery(self, stream: int) -> tuple[int]:
        return (NOT_READY if self.held else 0,)

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> tuple[int]:
        self.waits.append((stream, self.events[event]))
        self.order.append(("wait", stream, self.events[event]))
        return (0,)

    def cuEventCreate(self, flags: int) -> tuple[int, int]:
        number = self.new()
        self.events[number] = 0
        return 0, number

    def cuEventDestroy(self, event: int) -> tuple[int]:
        del self.events[event]
        return (0,)

    def cuEventRecord(self, event: int, stream: int) -> tuple[int]:
        self.events[event] = stream
        return (0,)

    def cuEventQuery(self, event: int) -> tuple[int]:
        return (NOT_READY if self.held else 0,)

    def cuEventElapsedTime(self, start: int, end: int) -> tuple[int, float]:
        return 0, 1.5

    # kernels

    def cuModuleLoadData(self, image: bytes) -> tuple[int, int]:
        return (0, self.new()) if b"bad" not in image else (218, 0)

    def cuModuleLoadDataEx(self, image: bytes, count: int, keys: list[str], values: list[Any]) -> tuple[int, int]:
        values[0][:21] = b"line 3: syntax error\n"
        return 218, 0

    def cuModuleUnload(self, module: int) -> tuple[int]:
        return (0,)

    def cuModuleGetFunction(self, module: int, name: bytes) -> tuple[int, int]:
        if name.decode() not in self.kernels:
            return NOT_FOUND, 0
        number = self.new()
        self._functions[number] = self.kernels[name.decode()]
        return 0, number

    def cuFuncGetAttribute(self, attribute: str, function: int) -> tuple[int, int]:
        return 0, KERNEL_ATTRIBUTES[attribute.removeprefix("CU_FUNC_ATTRIBUTE_")]

    def cuFuncSetAttribute(self, function: int, attribute: str, value: int) -> tuple[int]:
        return (0,)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: int, threads: int, shared: int) -> tuple[int, int]:
        return 0, 2048 // threads

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tuple[int, "EncodedMap"]:
        return 0, EncodedMap(("tiled", *arguments))

    def cuTensorMapEncodeIm2col(self, *arguments: Any) -> tuple[int, "EncodedMap"]:
        return 0, EncodedMap(("im2col", *arguments))

    def cuLaunchKernel(self, function: int, *rest: Any) -> tuple[int]:
        *shape, shared, stream, parameters, _extra = rest
        return self._launch(function, tuple(shape[:3]), tuple(shape[3:]), shared, stream, parameters, "plain")

    def cuLaunchCooperativeKernel(self, function: int, *rest: Any) -> tuple[int]:
        *shape, shared, stream, parameters = rest
        return self._launch(function, tuple(shape[:3]), tuple(shape[3:]), shared, stream, parameters, "cooperative")

    def cuLaunchKernelEx(self, config: Any, function: int, parameters: int, extra: int) -> tuple[int]:
        early = any(one.id.endswith("PROGRAMMATIC_STREAM_SERIALIZATION") for one in config.attrs)
        how = "early" if early else "cluster"
        grid, block = (config.gridDimX, config.gridDimY, config.gridDimZ), (config.blockDimX, config.blockDimY, config.blockDimZ)
        return self._launch(function, grid, block, config.sharedMemBytes, config.hStream, parameters, how)

    def _launch(self, function: int, grid: Any, block: Any, shared: int, stream: int, parameters: int, how: str) -> tuple[int]:
        run = self._functions[function]
        self.launches.append((how, grid, block, shared, stream))
        self.order.append(("launch", stream))
        if stream in self.capturing:
            # a recorded launch keeps its own copy of the values
            return self._do(stream, bound(run, parameters, grid))
        run(parameters, grid)
        return (0,)

    def _do(self, stream: int, work: Callable[[], Any]) -> tuple[int]:
        if stream in self.capturing:
            self.capturing[stream].append(work)
        else:
            work()
        return (0,)

    # graphs

    def cuStreamBeginCapture(self, stream: int, mode: str) -> tuple[int]:
        self.capturing[stream] = []
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> tuple[int, int]:
        number = self.new()
        self.graphs[number] = self.capturing.pop(stream)
        return 0, number

    def cuStreamIsCapturing(self, stream: int) -> tuple[int, int]:
        return 0, int(stream in self.capturing)

    def cuStreamGetCaptureInfo(self, stream: int) -> tuple[Any, ...]:
        return 0, 1, 7, 1, [len(self.capturing[stream]) - 1], None, 1

    def cuGraphInstantiate(self, graph: int, flags: int) -> tuple[int, int]:
        number = self.new()
        self.graphs[number] = list(self.graphs[graph])
        return 0, number

    def cuGraphLaunch(self, executable: int, stream: int) -> tuple[int]:
        for work in self.graphs[executable]:
            work()
        return (0,)

    def cuGraphExecKernelNodeSetParams(self, executable: int, node: int, parameters: Any) -> tuple[int]:
        grid = (parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ)
        self.graphs[executable][node] = bound(self._functions[parameters.func], parameters.kernelParams, grid)
        return (0,)

    def cuGraphExecUpdate(self, executable: int, graph: int) -> tuple[int, None]:
        if len(self.graphs[executable]) != len(self.graphs[graph]):
            return INVALID_VALUE, None
        self.graphs[executable] = list(self.graphs[graph])
        return 0, None

    def cuGraphDestroy(self, graph: int) -> tuple[int]:
        del self.graphs[graph]
        return (0,)

    cuGraphExecDestroy = cuGraphDestroy


PARAMETER_BYTES = 8


def bound(run: Callable[..., None], parameters: int, grid: Any) -> Callable[[], None]:
    """A launch with the values of now: parameters of up to eight bytes are copied."""
    count = getattr(run, "parameter_count", 4)
    addresses = (ctypes.c_void_p * count).from_address(parameters)
    copies = [ctypes.create_string_buffer(ctypes.string_at(address, PARAMETER_BYTES)) for address in addresses]
    again = (ctypes.c_void_p * count)(*(ctypes.addressof(each) for each in copies))

    def work(kept: Any = copies) -> None:
        run(ctypes.addressof(again), grid)

    return work


def value(parameters: int, index: int, kind: Any) -> Any:
    """A kernel's parameter."""
    address = (ctypes.c_void_p * (index + 1)).from_address(parameters)[index]
    return kind.from_address(address).value


def scale(parameters: int, grid: tuple[int, int, int]) -> None:
    """y[i] = a * x[i] for i < n."""
    y, x = value(parameters, 0, ctypes.c_uint64), value(parameters, 1, ctypes.c_uint64)
    a, n = value(parameters, 2, ctypes.c_double), value(parameters, 3, ctypes.c_int64)
    target, source = (ctypes.c_double * n).from_address(y), (ctypes.c_double * n).from_address(x)
    for i in range(n):
        target[i] = a * source[i]
