"""What is known of calls that machine code answers: the arguments that it takes, the kernels that run on them, and the value. Sizes and
numbers are not part of a plan: they are read from the arguments."""

from collections.abc import Mapping
from typing import Any

from compiler.hir.affine import Affine
from compiler.launch.kernels import BuiltKernel
from compiler.launch.native_calls.kinds import ArrayLayout
from compiler.typed_ast.types import DType
from runtime.records import field, frozen
from runtime.tuples import as_tuple


@frozen
class ArrayArgument:
    """An array of NumPy's. `extents`: what its declared type says of each extent, a form of the sizes that the function names."""

    dtype: Any
    rank: int
    layout: ArrayLayout
    extents: tuple[Affine | None, ...] = field(converter=as_tuple)
    updated: bool = False


@frozen
class NumberArgument:
    """Python's float or int, or a float of NumPy's, which the kernel takes as a `dtype`."""

    python: type
    dtype: DType


Argument = ArrayArgument | NumberArgument


@frozen
class EarlierResult:
    """A result of an earlier launch: the number of the launch, and of its result."""

    launch: int
    result: int


Origin = int | str | EarlierResult
"""Where an input of a kernel comes from: the argument at a position, the size of a name, or an earlier launch."""


@frozen
class PlannedLaunch:
    """A launch of a kernel. `inputs`: where each comes from, by the kernel's name for it."""

    kernel: BuiltKernel
    inputs: Mapping[str, Origin]


@frozen
class CallPlan:
    """Calls of one function with arguments of these kinds. `sizes`: where each size that the function names is read: position and axis.
    `launches`: in the order in which they run. `value`: the results that are the function's value, a tuple where there are several; None
    where that is all that the last launch gives. `gives_nothing`: the value is Python's None. `of_host`: host code calls, which has a
    `Tensor` for each array."""

    threads: int
    arguments: tuple[Argument, ...] = field(converter=as_tuple)
    sizes: Mapping[str, tuple[int, int]]
    launches: tuple[PlannedLaunch, ...] = field(converter=as_tuple)
    value: tuple[EarlierResult, ...] | None = None
    gives_nothing: bool = False
    of_host: bool = False


class Unplannable(Exception):
    """Calls that always go the way through the program."""
