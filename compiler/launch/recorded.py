"""Which kernels a program's calls run: blocks that tell of the kernel of each new call, and run it or leave it at that."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from compiler.backends.nvptx.target import target_of_device
from compiler.hir.types import Mem
from compiler.launch.block import ComputeBlock
from compiler.launch.cuda.kernels import CudaBlock
from compiler.launch.kernels import BuiltKernel
from compiler.launch.plan import KernelPlan, planned, value_of
from compiler.launch.signature import as_tensor
from compiler.launch.thread_kernels import ThreadKernel, launch_facts, thread_kernel
from compiler.lowering.kernel import ResultArgument, TensorArgument
from compiler.machines.access import ALIGNMENT
from compiler.machines.gpu import GpuMachine
from compiler.typed_ast import nodes
from runtime.records import Factory, define, frozen
from runtime.tensor import Tensor, numpy_dtype


@frozen(eq=False)
class LaunchedKernel:
    """The kernel of a call. `call`: the values as `--like` takes them; `machine` and `threads`, its launches: where threads run it;
    `sizes`: what is known of the parameters of the nest."""

    compute: nodes.Compute
    built: BuiltKernel
    call: str
    sizes: Mapping[str, int]
    machine: GpuMachine | None = None
    threads: ThreadKernel | None = None


@frozen
class LaunchRecording:
    """`tell` hears of a kernel before it runs for the first time with these values. `dry`: nothing runs, results are zeros, and `tell`
    hears of the kernel of every call."""

    tell: Callable[[LaunchedKernel], None]
    dry: bool = False


class RunnableBlock(Protocol):
    def __call__(self, values: Mapping[str, Any]) -> Any: ...

    def beside(self, values: Mapping[str, Any]) -> Callable[[], Any] | None: ...


@define(eq=False)
class RecordedBlock:
    """A block on one device. `kernel_for` gives the kernel that it runs there for some values."""

    block: ComputeBlock
    run: RunnableBlock
    kernel_for: Callable[[ComputeBlock, Mapping[str, Any]], LaunchedKernel]
    recording: LaunchRecording
    _known: dict[str, LaunchedKernel] = Factory(dict)
    """By the values in words."""

    def __call__(self, values: Mapping[str, Any]) -> Any:
        kernel = self._kernel(values)
        return _zeros(kernel, values) if self.recording.dry else self.run(values)

    def beside(self, values: Mapping[str, Any]) -> Callable[[], Any] | None:
        if self.recording.dry:
            return None
        self._kernel(values)
        return self.run.beside(values)

    def _kernel(self, values: Mapping[str, Any]) -> LaunchedKernel:
        call = call_in_words(values)
        if call not in self._known:
            self._known[call] = self.kernel_for(self.block, values)
            self.recording.tell(self._known[call])
        elif self.recording.dry:
            self.recording.tell(self._known[call])
        return self._known[call]


def call_in_words(values: Mapping[str, Any]) -> str:
    """`A=64x32:bf16, n=5`."""
    return ", ".join(f"{name}={_in_words(as_tensor(value))}" for name, value in values.items())


def _in_words(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{'x'.join(map(str, value.shape))}:{value.dtype_name}"
    number = value.item() if isinstance(value, np.generic) else value
    return str(number).lower()


# ---- the kernels of devices ----------------------------------------------------------------------------------------------------


def on_the_cpu(block: ComputeBlock, values: Mapping[str, Any]) -> LaunchedKernel:
    built = block.kernel_of(values)
    return LaunchedKernel(block.compute, built, call_in_words(values), _plan(built, values).known)


def by_threads(machine: GpuMachine, dry: bool) -> Callable[[ComputeBlock, Mapping[str, Any]], LaunchedKernel]:
    """On a GPU that isn't here. Arrays come to a device's memory by copies, which begin at multiples of 16 bytes; but in a `dry` run they
    stand for what is there already, and begin as they do."""

    def kernel_for(block: ComputeBlock, values: Mapping[str, Any]) -> LaunchedKernel:
        built = block.kernel_for(block.signature(values))
        sizes = _plan(built, values).known
        facts = launch_facts(built, sizes, _aligned(built, values) if dry else _memories(built), machine)
        return LaunchedKernel(block.compute, built, call_in_words(values), sizes, machine, thread_kernel(built, block.compute, facts))

    return kernel_for


def on_the_gpu(run: CudaBlock) -> Callable[[ComputeBlock, Mapping[str, Any]], LaunchedKernel]:
    """On a GPU that is here, which has tried out what estimates leave open."""

    def kernel_for(block: ComputeBlock, values: Mapping[str, Any]) -> LaunchedKernel:
        given, key, stream = run.arranged(values)
        call = run.call_for(given, key, values, stream)
        if call is None:
            return on_the_cpu(block, values)
        kernel, machine = call.loaded.kernel, target_of_device(run.gpu.device.properties.capability).machine
        words = call_in_words(values)
        return LaunchedKernel(block.compute, kernel.built, words, _plan(kernel.built, given).known, machine, kernel)

    return kernel_for


def _plan(built: BuiltKernel, values: Mapping[str, Any]) -> KernelPlan:
    """The plan of a call. Raises ZyntaxError when its values don't fit the block."""
    return planned(built, {name: as_tensor(value) for name, value in values.items()})


def _memories(built: BuiltKernel) -> list[str]:
    return [parameter.name for parameter in built.nest.parameters if isinstance(parameter.type, Mem)]


def _aligned(built: BuiltKernel, values: Mapping[str, Any]) -> list[str]:
    """The memories of a call that begin at multiples of 16 bytes, as those do that are allocated for it."""
    plan = built.lowered.plan
    sources = {
        number: argument.name if isinstance(argument, TensorArgument) else plan.results[argument.index].input
        for number, argument in enumerate(plan.arguments)
        if isinstance(argument, ResultArgument) or (isinstance(argument, TensorArgument) and not argument.packed)
    }
    apart = {number for number, name in sources.items() if name is not None and _begins_apart(as_tensor(values[name]))}
    memories = [(number, parameter) for number, parameter in enumerate(built.nest.parameters) if isinstance(parameter.type, Mem)]
    return [parameter.name for number, parameter in memories if number not in apart]


def _begins_apart(tensor: Any) -> bool:
    return bool(tensor.contents.ctypes.data % ALIGNMENT)


def _zeros(kernel: LaunchedKernel, values: Mapping[str, Any]) -> Any:
    """What the block gives where nothing runs."""
    plans = kernel.built.lowered.plan.results
    shapes = _plan(kernel.built, values).sizes.results
    arrays = []
    for number, plan in enumerate(plans):
        shape = as_tensor(values[plan.copy_of]).shape if plan.copy_of else shapes[number]
        arrays.append(None if plan.input is not None else np.zeros(shape, numpy_dtype(plan.dtype.value)))
    return value_of(plans, arrays, values)
