"""Compute blocks on an NVIDIA GPU: the launches of `schedule.threads` (or a `custom` kernel as written), compiled to PTX once for a
signature, assembled where the assembler is installed, and launched on the device's stream. Results stay on the device until the
host reads them."""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from attrs import Factory

from compiler.backends.nvptx.compile import KernelParameter
from compiler.codes.device_faults import DeviceTrouble, diagnostic
from compiler.diagnostics import ZyntaxError
from compiler.launch.cuda.calls import PlannedCall, planned
from compiler.launch.cuda.code import gpu_code
from compiler.launch.cuda.loaded import LoadedKernel, LoadedLaunch
from compiler.launch.cuda.repeats import WATCHING, Made
from compiler.launch.emulator import ThreadKernel, thread_kernel
from compiler.launch.kernels import BuiltKernel, ComputeBlock
from compiler.launch.signature import as_tensor
from compiler.launch.tuning.tuner import Case
from compiler.launch.uncollected import uncollected
from compiler.lowering.kernel import Signature
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.source import Sources
from compiler.typed_ast import nodes
from runtime import forks
from runtime.cuda.gpu import Gpu
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.cuda.tensor_map import PARAMETER
from runtime.records import define
from runtime.tensor import Tensor

Key = tuple[Any, ...]
MISSING: Any = object()

CALLS_REMEMBERED = 64
"""Planned calls that a block keeps: programs repeat few shapes."""


@define(eq=False)
class CudaBlock:
    """A compute block on a GPU: called like a `ComputeBlock`, by any thread, and on any stream of the GPU. Where none is named its work
    goes where that of its inputs is."""

    block: ComputeBlock
    gpu: Gpu
    sources: Sources
    _loaded: dict[Any, LoadedKernel] = Factory(dict)
    _calls: dict[Key, PlannedCall | None] = Factory(dict)
    _lock: threading.Lock = Factory(forks.lock)

    def __call__(self, values: Mapping[str, Any], stream: Stream | None = None) -> Any:
        try:
            given, key, theirs = self.arranged(values)
            stream = stream or theirs
            call = self._calls.get(key) or self.call_for(given, key, values, stream)
            if call is None:
                return self.block(values)
            value = call(given, values, stream)
        except DeviceTrouble as trouble:
            raise ZyntaxError(diagnostic(trouble, self.block.compute.span)) from None
        if WATCHING.made is not None:
            WATCHING.made.append(Made(call, given, stream, value))
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

    def arranged(self, values: Mapping[str, Any]) -> tuple[Mapping[str, Any], Key, Stream]:
        """The values as a call wants them, what of them decides on the call, and the stream for it: that of the first array that another
        library lent, as its work goes on there, else the GPU's own."""
        gpu, lasting = self.gpu, self.gpu.device.lasting_streams
        given, stream, constants = values, gpu.stream, self.block.constants
        key: list[Any] = []
        for name, value in values.items():
            if value.__class__ is Tensor and (remote := value.remote).__class__ is OnGpu and remote.gpu is gpu:
                elements = remote.elements
                key += (elements.layout, elements.pointer % ALIGNMENT == 0)
                if elements.stream is not stream and stream is gpu.stream and elements.stream.number in lasting:
                    stream = elements.stream
            elif value.__class__ is int:
                key += (int, value)
            elif value.__class__ is np.float32 and name not in constants:
                key += (np.float32, None)
            else:
                ready = self.prepared(value)
                if ready is not value:
                    given = {**given, name: ready}
                key += _layout(name, ready, constants)
        return given, tuple(key), stream

    def prepared(self, value: Any) -> Any:
        """A tensor where the value stands for one, and one without gaps where it is sent to the GPU."""
        tensor = as_tensor(value)
        if isinstance(tensor, Tensor) and not tensor.is_contiguous:
            return Tensor(np.ascontiguousarray(tensor.contents))
        return tensor

    def call_for(self, given: Mapping[str, Any], key: Key, values: Mapping[str, Any], stream: Stream) -> PlannedCall | None:
        """The call for values of these layouts and sizes; compiles when they make a new signature, and tries candidates out where these
        sizes are new and leave a choice. None for sizes that no schedule counts on (below zero, say): the loops as written do next to
        nothing then, on the CPU."""
        found: PlannedCall | None = self._calls.get(key, MISSING)
        if found is not MISSING:
            return found
        with self._lock, uncollected():
            block = self.block
            signature = block.signature(given)
            built = block.kernel_for(signature)
            case = Case(built.field or built.nest, given, values, stream)
            settle = partial(case.settle, self.gpu, block.options.tuning())
            call = planned(built, self.gpu, lambda facts: self.loaded(signature, built, facts), given, block.compute, settle)
            if len(self._calls) >= CALLS_REMEMBERED:
                self._calls.clear()
            self._calls[key] = call
            return call

    def loaded(self, signature: Signature, built: BuiltKernel, facts: Facts) -> LoadedKernel:
        """The kernel for a signature and what holds of its launches, compiled when it is new."""
        found = self._loaded.get((signature, facts))
        if found is None:
            kernel = thread_kernel(built, self.block.compute, facts)
            found = self._loaded[signature, facts] = load(kernel, self.gpu, self.sources, self.block.compute)
        return found


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
            return {"index": "i64", "i1": "bool"}.get(parameter.dtype, parameter.dtype)


def _layout(name: str, value: Any, constants: frozenset[str]) -> tuple[Any, Any]:
    """What of a value decides how the block is called: everything but addresses and numbers that only kernels look at."""
    if type(value) is Tensor:
        remote = value.remote
        if remote.__class__ is OnGpu:
            return remote.elements.layout, remote.elements.pointer % ALIGNMENT == 0
        return value.dtype, value.shape
    if isinstance(value, float | np.floating) and name not in constants:
        return type(value), None
    if isinstance(value, bool | int | float | np.generic):
        return type(value), value
    return name, type(value)
