"""Blocks of a custom kernel, computed in machine code as `launch.plan` computes them."""

from collections.abc import Mapping, Sequence

from compiler.launch.kernels import BuiltKernel
from compiler.launch.native_calls.code import CallCode
from compiler.launch.native_calls.numbers import WholeNumber
from compiler.launch.native_calls.plan import Unplannable
from compiler.launch.plan import STRIDING_BLOCKS, strides_by_the_grid, workgroup_of


def blocks_of(
    code: CallCode,
    kernel: BuiltKernel,
    known: Mapping[str, WholeNumber],
    shapes: Sequence[Sequence[WholeNumber]],
    counts: Sequence[WholeNumber],
) -> list[WholeNumber]:
    """Blocks along x, y and z. `known`: sizes and ints by the kernel's names for them; `shapes`: of its tensors and results, `counts` of
    their elements. Raises Unplannable."""
    info = kernel.lowered.function.kernel_info
    if info is not None and info.grid is not None:
        if not all(known.keys() >= {*form.names} for form in info.grid):
            raise Unplannable("a grid by another number than a size")
        return [code.number(form.evaluate(known.__getitem__)) for form in info.grid]  # type: ignore[arg-type]
    one, (x, y, z) = code.number(1), workgroup_of(kernel)
    if y == z == 1:
        blocks = _rounded_up(_largest(one, counts), x)
        return [_largest(one, [blocks.smallest(STRIDING_BLOCKS) if strides_by_the_grid(kernel) else blocks]), one, one]
    extents = [[shape[-1 - axis] for shape in shapes if len(shape) > axis] for axis in range(3)]
    return [_largest(one, [_rounded_up(_largest(one, along), threads)]) for along, threads in zip(extents, (x, y, z), strict=True)]


def _rounded_up(number: WholeNumber, divisor: int) -> WholeNumber:
    return (number + (divisor - 1)) // divisor


def _largest(least: WholeNumber, numbers: Sequence[WholeNumber]) -> WholeNumber:
    for number in numbers:
        least = least.largest(number)
    return least
