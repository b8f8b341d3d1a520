"""What one call of a kernel does on any device: its sizes, its arguments, the tensors that it makes and updates, its grid. Planned once
for the layouts, extents and ints of its values; executors run it."""

from collections.abc import Mapping
from math import prod
from typing import Any

from compiler.hir.gpu import GridIndex
from compiler.hir.module import Form
from compiler.hir.types import Mem
from compiler.launch.arguments import bind
from compiler.launch.kernels import BuiltKernel
from compiler.launch.slots import BoundArguments
from compiler.lowering.launch import LaunchSizes
from compiler.lowering.result_plan import ResultPlan, grouped, number_of
from runtime.records import frozen
from runtime.tensor import Tensor

STRIDING_BLOCKS = 64
"""Blocks for custom kernels that stride by the size of the grid."""


@frozen(eq=False)
class KernelPlan:
    """`shapes`: extents of the tensors that it is called with, by name."""

    kernel: BuiltKernel
    shapes: Mapping[str, tuple[int, ...]]
    sizes: LaunchSizes
    bound: BoundArguments

    @property
    def results(self) -> tuple[ResultPlan, ...]:
        return self.kernel.lowered.plan.results

    @property
    def is_custom(self) -> bool:
        """Whether the program wrote the kernel's threads itself."""
        return self.kernel.lowered.function.form is Form.THREAD

    @property
    def known(self) -> dict[str, int]:
        """The values of the kernel's parameters that are known, by name."""
        pairs = zip(self.kernel.nest.parameters, self.bound.numbers, strict=False)
        return {parameter.name: int(value) for parameter, value in pairs if not isinstance(parameter.type, Mem) and value is not None}

    def grid(self) -> list[int]:
        """Blocks of a custom kernel: as many as the program says, else as many as its tensors have elements for."""
        info = self.kernel.lowered.function.kernel_info
        if info is not None and info.grid is not None:
            known = self.known
            return [form.evaluate(known.__getitem__) for form in info.grid]
        return grid_of(self.kernel, self.shapes, self.sizes)


def planned(kernel: BuiltKernel, values: Mapping[str, Any]) -> KernelPlan:
    """The plan of a call with these tensors and numbers. Raises ZyntaxError when they don't fit the block."""
    tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    scalars = {name: value for name, value in values.items() if name not in tensors}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    sizes = kernel.sizes(shapes, scalars)
    strides = {name: tensor.strides for name, tensor in tensors.items()}
    return KernelPlan(kernel, shapes, sizes, bind(kernel.lowered.plan.arguments, sizes, strides, scalars))


def grid_of(kernel: BuiltKernel, shapes: Mapping[str, tuple[int, ...]], sizes: LaunchSizes) -> list[int]:
    """Blocks of a custom kernel whose program doesn't say: enough that every element of the largest tensor has a thread. A kernel that
    asks for the number of blocks walks in strides and is content with any number: it gets few."""
    x, y, z = workgroup_of(kernel)
    elements = [*shapes.values(), *sizes.results]
    if y == z == 1:
        blocks = -(-max((prod(shape) for shape in elements), default=1) // x)
        return [max(1, min(blocks, STRIDING_BLOCKS) if strides_by_the_grid(kernel) else blocks), 1, 1]
    extents = [max((shape[-1 - axis] for shape in elements if len(shape) > axis), default=1) for axis in range(3)]
    return [max(1, -(-extent // threads)) for extent, threads in zip(extents, (x, y, z), strict=True)]


def workgroup_of(kernel: BuiltKernel) -> tuple[int, int, int]:
    """Threads of a block of a custom kernel."""
    info = kernel.lowered.function.kernel_info
    return info.workgroup if info is not None and info.workgroup is not None else (256, 1, 1)


def strides_by_the_grid(kernel: BuiltKernel) -> bool:
    """Whether a custom kernel asks for the number of blocks."""
    instructions = (op for top in kernel.lowered.function.body.body for op in top.walk())
    return any(isinstance(op, GridIndex) and op.operator == "grid_dim" for op in instructions)


def value_of(plans: tuple[ResultPlan, ...], arrays: list[Any], values: Mapping[str, Any]) -> Any:
    """The block's value from its results as arrays on the host. `values` are the program's: what was updated is the program's own."""
    results = [
        number_of(array, plan.dtype) if plan.scalar else values[plan.input] if plan.input is not None else Tensor(array)
        for plan, array in zip(plans, arrays, strict=True)
    ]
    return results[0] if len(results) == 1 and plans[0].group == 0 else grouped(plans, results)
