"""Compute blocks on an NVIDIA GPU: the launches of `schedule.threads` (or a `custom` kernel as written), compiled to PTX once for a
signature, assembled where the assembler is installed, and launched on the device's stream. Results stay on the device until the
host reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import Factory, define

from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.compile import KernelEntry, compile_kernels
from compiler.backends.nvptx.target import target_of_device
from compiler.device_kernels import ThreadKernel, index_values, thread_kernel
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.module import FaultSite
from compiler.hir.types import Mem
from compiler.kernels import ComputeBlock
from compiler.launching import grid_of, grouped, number_of
from compiler.lowering.kernel import ResultArgument, ScalarArgument, SizeArgument, StrideArgument, TensorArgument, WorkspaceArgument
from compiler.lowering.launch import LaunchSizes
from compiler.signatures import signature_of
from compiler.source import Sources
from compiler.typed_ast import nodes
from runtime.cuda.array import DeviceArray, contiguous_strides
from runtime.cuda.copies import copy, download, fill, to_device, to_host
from runtime.cuda.errors import CudaError, CudaOutOfMemory, CudaRefused
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import LaunchPlan
from runtime.cuda.remote import OnGpu, elements_on
from runtime.tensor import DTYPES, Tensor

RECORD_BYTES = 64


@define(eq=False)
class LoadedKernel:
    """A block for one signature, loaded on a GPU: a launch plan for each of its launches."""

    kernel: ThreadKernel
    entries: Sequence[KernelEntry]
    plans: Sequence[LaunchPlan]

    @property
    def checked(self) -> bool:
        return any(entry.checks for entry in self.entries)


@define(eq=False)
class CudaBlock:
    """A compute block on a GPU: called like a `ComputeBlock`."""

    block: ComputeBlock
    gpu: Gpu
    sources: Sources
    _loaded: dict[Any, LoadedKernel] = Factory(dict)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        block = self.block
        given = {name: _contiguous(value) for name, value in values.items()}
        signature = signature_of(block.compute, given, block.declared, block.functions, block.constants)
        try:
            loaded = self._loaded.get(signature)
            if loaded is None:
                kernel = thread_kernel(block.kernel_for(signature), block.compute)
                loaded = self._loaded[signature] = load(kernel, self.gpu, self.sources, block.compute)
            return _Launching(loaded, self.gpu, block.compute, given, values).run()
        except CudaOutOfMemory as error:
            raise ZyntaxError(Diagnostic("0804", f"out of memory on the device: {error}", block.compute.span)) from None
        except (CudaError, CudaRefused) as error:
            raise ZyntaxError(Diagnostic("0805", f"the device failed: {error}", block.compute.span)) from None


def load(kernel: ThreadKernel, gpu: Gpu, sources: Sources, compute: nodes.Compute) -> LoadedKernel:
    """Compiles and loads all launches of a block as one module."""
    source = sources.get(compute.span.path)
    where = f"{source.path}:{source.line_and_column(compute.span.start)[0]}" if source is not None else ""
    target = target_of_device(gpu.device.properties.capability)
    functions = [kernel.built.lowered.function] if kernel.launches is None else [one.function for one in kernel.launches.launches]
    module = compile_kernels(functions, target, sources)
    image: bytes | str = assemble(module).bytes if can_assemble() else module.text
    loaded = gpu.modules.load(image, functions[0].name)
    plans = []
    for entry in module.entries:
        signature = ["pointer" if p.kind in ("memory", "fault") else _packed(p.dtype) for p in entry.parameters]
        if any(p.kind == "tensor_map" for p in entry.parameters):
            raise ZyntaxError(Diagnostic("0109", "bulk copies are valid, but no launch makes their tensor maps yet"))
        block = entry.block or (1, 1, 1)
        plans.append(LaunchPlan(loaded.kernel(entry.symbol), signature, (1, 1, 1), block, shared=entry.dynamic_bytes, where=where))
    return LoadedKernel(kernel, module.entries, plans)


def _packed(dtype: str) -> str:
    return {"index": "i64", "i1": "bool"}.get(dtype, dtype)


def _contiguous(value: Any) -> Any:
    """The tensor itself, or, where the host has it with gaps, a tensor without."""
    if isinstance(value, Tensor) and value.host is not None and not value.host.flags.c_contiguous:
        return Tensor(np.ascontiguousarray(value.host))
    return value


class _Launching:
    """One call of a block: arguments on the device, launches, results, faults."""

    def __init__(self, loaded: LoadedKernel, gpu: Gpu, compute: nodes.Compute, given: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self.loaded, self.gpu, self.compute, self.given, self.values = loaded, gpu, compute, given, values
        self.plan = loaded.kernel.built.lowered.plan
        self.tensors = {name: tensor for name, value in given.items() if (tensor := _tensor(value)) is not None}
        self.scalars = {name: value for name, value in given.items() if name not in self.tensors}
        self.shapes = {name: tensor.shape for name, tensor in self.tensors.items()}
        self.sizes: LaunchSizes = loaded.kernel.built.sizes(self.shapes, self.scalars)
        self.on_device: dict[str, DeviceArray] = {}

    def run(self) -> Any:
        kernel, stream = self.loaded.kernel, self.gpu.stream
        results = [self.result(number) for number in range(len(self.plan.results))]
        arguments = [self.argument(place, argument, results) for place, argument in enumerate(self.plan.arguments)]
        record = self.empty((RECORD_BYTES // 8,), "i64")
        fill(record, 0, stream)
        if kernel.launches is None:
            grid = grid_of(kernel.built, self.shapes, self.sizes)
            self.loaded.plans[0].resize(grid)
            self.loaded.plans[0](stream, *arguments, record)
        else:
            known = index_values(kernel.built.nest, arguments)
            shared = [self.workspace(mem, known) for mem in kernel.launches.workspaces]
            for number, extra in kernel.launches.steps(known):
                blocks, plan = kernel.launches.launches[number].blocks(known), self.loaded.plans[number]
                if blocks > 0:
                    plan.resize((blocks, 1, 1))
                    plan(stream, *arguments, *shared, *extra, record)
        if self.loaded.checked:
            self.require_no_fault(record)
        return self.finish(results)

    # ---- what goes in ----

    def empty(self, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        size = int(np.prod(shape, dtype=object)) * DTYPES[dtype].itemsize
        buffer = self.gpu.allocate(max(1, size))
        return DeviceArray(buffer, buffer.pointer, shape, dtype, self.gpu.stream)

    def workspace(self, mem: Mem, known: Mapping[str, int]) -> DeviceArray:
        return self.empty(tuple(dim.evaluate(known.__getitem__) for dim in mem.dims), _element(mem))

    def tensor(self, name: str) -> DeviceArray:
        """An input on the device: where it is already, or uploaded and remembered."""
        found = self.on_device.get(name)
        if found is None:
            tensor = self.tensors[name]
            found = elements_on(tensor, self.gpu)
            if found is None:
                host = tensor.contents
                found = to_device(host, self.gpu.allocate(max(1, host.nbytes)), self.gpu.stream)
            self.on_device[name] = found
        return found

    def result(self, number: int) -> DeviceArray:
        plan = self.plan.results[number]
        source = plan.input or plan.copy_of
        if source is None:
            made = self.empty(self.sizes.results[number], plan.dtype.value)
            if plan.zeroed and made.bytes:
                fill(made, 0, self.gpu.stream)
            return made
        before = self.tensor(source)
        made = self.empty(before.shape, before.dtype)
        if made.bytes:
            copy(made, before, self.gpu.stream)
        if plan.input is not None:
            self.on_device[source] = made
        return made

    def argument(self, place: int, argument: Any, results: Sequence[DeviceArray]) -> Any:
        match argument:
            case TensorArgument(name):
                return self.tensor(name)
            case StrideArgument(name, axis):
                return contiguous_strides(self.shapes[name])[axis]
            case SizeArgument():
                return self.sizes.size_arguments[place]
            case ScalarArgument(name):
                value = self.scalars[name]
                return value.item() if isinstance(value, np.generic) else value
            case ResultArgument(index):
                return results[index]
            case WorkspaceArgument(dtype):
                return self.empty(self.sizes.workspaces[place], "bool" if dtype == "i1" else dtype)
            case _:
                raise AssertionError(f"no argument {argument}")

    # ---- what comes out ----

    def require_no_fault(self, record: DeviceArray) -> None:
        words = np.empty(RECORD_BYTES // 8, np.int64)
        download(words, record, self.gpu.stream)
        self.gpu.stream.synchronize()
        if words[1] == 0:
            return
        for entry in self.loaded.entries:
            if words[2] < len(entry.checks):
                check = entry.checks[int(words[2])]
                values = [_as_written(word, dtype) for word, dtype in zip(words[3:], check.dtypes, strict=False)]
                raise ZyntaxError(self.diagnostic(check.code, check.site, values))
        raise ZyntaxError(Diagnostic("0805", "a kernel failed on the device", self.compute.span))

    def diagnostic(self, code: str, number: int, values: Sequence[Any]) -> Diagnostic:
        sites: tuple[FaultSite, ...] = self.loaded.kernel.built.lowered.function.sites
        if 0 <= number < len(sites):
            site = sites[number]
            return Diagnostic(site.code, site.message.format(*values), site.span, site.label.format(*values), hint=site.hint)
        return Diagnostic(code, f"a kernel failed with code {code}", self.compute.span)

    def finish(self, results: Sequence[DeviceArray]) -> Any:
        """Numbers are fetched; tensors stay; what was updated goes back to the memory it came from, which other tensors may view."""
        made: list[Any] = []
        for plan, elements in zip(self.plan.results, results, strict=True):
            if plan.input is not None:
                made.append(self.updated(self.values[plan.input], elements))
            elif plan.scalar:
                made.append(number_of(to_host(elements), plan.dtype))
            else:
                made.append(Tensor(None, OnGpu(elements, self.gpu)))
        return grouped(self.plan.results, made)

    def updated(self, tensor: Tensor, elements: DeviceArray) -> Tensor:
        there = elements_on(tensor, self.gpu)
        if there is None:
            tensor.array[...] = to_host(elements)
        else:
            copy(there, elements, self.gpu.stream)
            tensor.changed_there()
        return tensor


def _tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value
    return Tensor(value) if isinstance(value, np.ndarray) else None


def _element(mem: Mem) -> str:
    return {"i1": "bool", "index": "i64"}.get(mem.dtype, mem.dtype)


def _as_written(word: Any, dtype: str) -> Any:
    return float(np.int64(word).view(np.float64)) if dtype[0] in "fb" else int(word)

