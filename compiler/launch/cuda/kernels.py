"""Compute blocks on an NVIDIA GPU: the launches of `schedule.threads` (or a `custom` kernel as written), compiled to PTX once for a
signature, assembled where the assembler is installed, and launched on the device's stream. Results stay on the device until the
host reads them."""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from compiler.backends.nvptx.compile import KernelParameter
from compiler.codes.device_faults import DeviceTrouble, diagnostic
from compiler.diagnostics import ZyntaxError
from compiler.launch.block import ComputeBlock
from compiler.launch.cache import ABSENT, CALLS, THREAD_KERNELS, Cache
from compiler.launch.cuda.calls import PlannedCall
from compiler.launch.cuda.code import gpu_code
from compiler.launch.cuda.direct import GPU_CALLS, BlockCall
from compiler.launch.cuda.host_calls import HostCalls
from compiler.launch.cuda.loaded import LoadedKernel, LoadedLaunch
from compiler.launch.cuda.planning import GpuPlan, Settle, Tuner, TuningCase, first
from compiler.launch.plan import planned
from compiler.launch.signature import as_tensor
from compiler.launch.slots import element_name
from compiler.launch.thread_kernels import ThreadKernel, thread_kernel
from compiler.schedule.gpu.facts import Facts
from compiler.source import Sources
from compiler.typed_ast import nodes
from runtime import forks
from runtime.cuda.gpu import Gpu
from runtime.cuda.remote import OnGpu, copy_on, kept_copy
from runtime.cuda.stream import Stream
from runtime.cuda.tensor_map import PARAMETER
from runtime.records import Factory, define
from runtime.tensor import Tensor
from runtime.uncollected import uncollected
from runtime.unread import UNREAD, VOID, require_sound, settle

CallKey = tuple[Any, ...]


@define(eq=False)
class CudaBlock:
    """A compute block on a GPU: called like a `ComputeBlock`, by any thread, and on any stream of the GPU. Where none is named its work
    goes where that of its inputs is. Without a tuner estimates decide."""

    block: ComputeBlock
    gpu: Gpu
    sources: Sources
    tuner: Tuner | None = None
    _again: HostCalls = Factory(HostCalls)
    _loaded: Cache[Any, LoadedKernel] = Factory(partial(Cache, THREAD_KERNELS))
    _calls: Cache[CallKey, PlannedCall | None] = Factory(partial(Cache, CALLS))
    _lock: threading.Lock = Factory(forks.lock)

    def __call__(self, values: Mapping[str, Any], stream: Stream | None = None) -> Any:
        if UNREAD:
            settle()
        if stream is None and GPU_CALLS.calls is None and self.block.constants.isdisjoint(values):
            there = self._brought(values)
            return self._again.value(there, lambda: self._launched(there, None))
        return self._launched(values, stream)

    def _brought(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values, those on the host on the GPU: the call may be one that comes back then. Where something is updated they stay where
        they are, as they may share its memory. Raises ZyntaxError."""
        on_host = [name for name, value in values.items() if value.__class__ is Tensor and value.remote is None]
        if not on_host or self.block.updated:
            return values
        there, gpu = {**values}, self.gpu
        try:
            for name in on_host:
                tensor = values[name]
                if tensor.is_contiguous:
                    there[name] = Tensor(None, copy_on(tensor, gpu) or kept_copy(tensor, gpu, gpu.stream))
        except DeviceTrouble as trouble:
            raise ZyntaxError(diagnostic(trouble, self.block.compute.span)) from None
        return there

    @property
    def answered(self) -> Callable[[Mapping[str, Any]], Any]:
        """Gives the block's value where machine code has it at once, else MISSED."""
        return self._again.answered

    def _launched(self, values: Mapping[str, Any], stream: Stream | None) -> Any:
        """The block's value, with everything looked at that decides the call."""
        try:
            given, key, theirs = self.arranged(values)
            stream = stream or theirs
            call = self._calls.get(key) or self.call_for(given, key, values, stream)
            if call is None:
                if GPU_CALLS.calls is not None:
                    GPU_CALLS.calls.append(None)
                return self.block(values)
            value = call(given, values, stream)
        except DeviceTrouble as trouble:
            raise ZyntaxError(diagnostic(trouble, self.block.compute.span)) from None
        if GPU_CALLS.calls is not None:
            GPU_CALLS.calls.append(BlockCall(call, given, stream, value))
        return value

    def beside(self, values: Mapping[str, Any]) -> Callable[[], Any]:
        """The call for another thread, on a stream of its own, planned; it ends when the device is done. Raises ZyntaxError."""
        given, key, _ = self.arranged(values)
        stream = self.gpu.new_stream()
        self.call_for(given, key, values, stream)

        def run() -> Any:
            value = self(values, stream)
            stream.synchronize()
            return value

        return run

    def arranged(self, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], CallKey, Stream]:
        """The values as a call wants them, what of them decides the call, and the stream for it: that of the first array that another
        library lent, as its work goes on there, else the GPU's own."""
        gpu, lasting = self.gpu, self.gpu.device.lasting_streams
        given, stream = {}, gpu.stream
        for name, value in values.items():
            if value.__class__ is Tensor and (remote := value.remote).__class__ is OnGpu and remote.gpu is gpu:
                if VOID:
                    require_sound(remote.elements.owner)
                theirs = remote.elements.stream
                if theirs is not stream and stream is gpu.stream and theirs.number in lasting:
                    stream = theirs
            else:
                value = self._prepared(name, value)
            given[name] = value
        return given, self.block.call_key(given), stream

    def _prepared(self, name: str, value: Any) -> Any:
        """A tensor where the value stands for one: the GPU's copy where there is one, and one without gaps where it is sent there."""
        tensor = as_tensor(value)
        if not isinstance(tensor, Tensor):
            return tensor
        if (copy := copy_on(tensor, self.gpu)) is not None and name not in self.block.updated:
            return Tensor(None, copy)
        return tensor if tensor.is_contiguous else Tensor(np.ascontiguousarray(tensor.contents))

    def call_for(self, given: Mapping[str, Any], key: CallKey, values: Mapping[str, Any], stream: Stream) -> PlannedCall | None:
        """The call for values of these layouts and sizes; compiles when they make a new signature, and tries candidates out where these
        sizes are new and leave a choice. None for sizes that no schedule counts on (below zero, say): the loops as written do next to
        nothing then, on the CPU."""
        known: PlannedCall | None = self._calls.get(key, ABSENT)
        if known is not ABSENT:
            return known
        with self._lock, uncollected():
            block = self.block
            signature = block.signature(given)
            kernel = block.kernel_for(signature)
            plan = planned(kernel, given)
            if not plan.is_custom and not plan.sizes.ordinary:
                return self._calls.keep(key, None)
            tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
            before = GpuPlan(plan, self.gpu, block.compute, tensors)

            def call(facts: Facts) -> PlannedCall:
                loaded = self._loaded.of((signature, facts), lambda: self._load(thread_kernel(kernel, block.compute, facts)))
                return before.call(loaded)

            tuning = block.options.tuning()
            settle: Settle = first
            if self.tuner is not None and tuning is not None:
                settle = self.tuner.settle(TuningCase(self.gpu, kernel.field or kernel.nest, given, values, stream, tuning))
            return self._calls.keep(key, settle(before.choices(), before.known, call))

    def _load(self, kernel: ThreadKernel) -> LoadedKernel:
        self.block.tell(kernel.unheeded(self.block.compute))
        return load(kernel, self.gpu, self.sources, self.block.compute)


def load(kernel: ThreadKernel, gpu: Gpu, sources: Sources, compute: nodes.Compute) -> LoadedKernel:
    """Compiles and loads all launches of a block as one module; loops that surely never run have none."""
    if not kernel.functions:
        return LoadedKernel(kernel, [], gpu)
    source = sources.get(compute.span.path)
    where = f"{source.path}:{source.line_and_column(compute.span.start)[0]}" if source is not None else ""
    code = gpu_code(kernel.functions, gpu.device, source)
    loaded = gpu.modules.load(code.image, kernel.functions[0].name)
    launches = []
    for entry in code.entries:
        signature = tuple(map(_packed, entry.parameters))
        launches.append(LoadedLaunch(entry, loaded.kernel(entry.symbol), signature, where))
    return LoadedKernel(kernel, launches, gpu)


def _packed(parameter: KernelParameter) -> str:
    """How a launch passes it."""
    match parameter.kind:
        case "memory" | "fault":
            return "pointer"
        case "tensor_map":
            return PARAMETER
        case _:
            return element_name(parameter.dtype)
