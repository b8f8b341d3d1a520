"""Copies of strided arrays without their gaps, made on the GPU: a nest of our own for each rank and width of elements, compiled like
any other. What takes strides itself (most blocks do) needs none."""

from typing import Any
from weakref import WeakKeyDictionary

from compiler.analysis.lift import lift
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.launch.cache import GATHERING, Cache
from compiler.launch.cuda.code import gpu_code
from compiler.schedule.launches import Launch
from compiler.schedule.place import place
from compiler.schedule.threads import launches_of, thread_table
from runtime.cuda.array import DeviceArray
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.module import CudaKernel
from runtime.cuda.stream import Stream

_KERNELS: "WeakKeyDictionary[Gpu, Cache[tuple[int, int], tuple[Launch, CudaKernel, bool]]]" = WeakKeyDictionary()


def gathered(source: DeviceArray, gpu: Gpu, stream: Stream) -> DeviceArray:
    """The elements in C order without gaps, in new memory."""
    buffer = gpu.allocate(source.bytes, stream)
    copy = DeviceArray(buffer, buffer.pointer, source.shape, source.dtype, stream)
    if source.size == 0:
        return copy
    rank = len(source.shape)
    kernels = _KERNELS.setdefault(gpu, Cache(GATHERING))
    launch, kernel, early = kernels.of((rank, source.itemsize), lambda: _load(rank, source.itemsize, gpu))
    numbers = (*source.shape, *source.strides)
    blocks = launch.blocks(dict(zip(_numbers(rank), numbers, strict=True)))
    plan = CheckedLaunch(kernel, ("pointer", "pointer", *("i64",) * len(numbers), "pointer"), (blocks,), launch.block, early=early)
    plan(stream, source, copy, *numbers, 0)
    return copy


def _load(rank: int, width: int, gpu: Gpu) -> tuple[Launch, CudaKernel, bool]:
    """The launch, its kernel, and whether that may begin early."""
    nest = gathering(rank, width)
    field = lift(nest)
    (launch,) = launches_of(place(field, thread_table(field))).launches
    code = gpu_code([launch.function], gpu.device)
    entry = code.entries[0]
    return launch, gpu.modules.load(code.image, nest.name).kernel(entry.symbol), entry.early


def _numbers(rank: int) -> list[str]:
    return [f"{name}{axis}" for name in ("extent", "stride") for axis in range(rank)]


def gathering(rank: int, width: int) -> HirFunction:
    """`out[i, j, ...] = x[i, j, ...]` for elements of `width` bytes, whatever they mean; `x` has any strides."""
    builder = FunctionBuilder(f"gather_{rank}d_{width}")
    names, dtype = _numbers(rank), f"i{8 * width}"
    extents, strides = names[:rank], names[rank:]
    x = builder.parameter("x", Mem(dtype, tuple(extents), tuple(strides), readonly=True))
    out = builder.parameter("out", Mem(dtype, tuple(extents)))
    for name in names:
        builder.parameter(name, INDEX)
    _loops(builder.body, x, out, extents, [])
    return builder.finish()


def _loops(body: Builder, x: Value, out: Value, extents: list[str], index: list[Any]) -> None:
    if not extents:
        body.store(out, body.load(x, index), index)
        return
    with body.loop(f"i{len(index)}", 0, extents[0]) as (inner, loop):
        _loops(inner, x, out, extents[1:], [*index, loop.variable.name])
