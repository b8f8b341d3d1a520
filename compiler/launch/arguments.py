"""The arguments of a kernel's call. Numbers follow from layouts, extents and ints, and are bound when the call is planned; addresses (on
the emulator: arrays) and floats differ from run to run and have slots."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.launch.slots import BoundArguments, Slots, Workspace, element_name
from compiler.lowering.kernel import (
    KernelArgument,
    ResultArgument,
    ScalarArgument,
    SizeArgument,
    StrideArgument,
    TensorArgument,
    WorkspaceArgument,
)
from compiler.lowering.launch import LaunchSizes


def bind(
    arguments: Sequence[KernelArgument], sizes: LaunchSizes, strides: Mapping[str, Sequence[int]], scalars: Mapping[str, Any]
) -> BoundArguments:
    """The arguments of calls with these sizes, strides in elements, and ints."""
    numbers: list[Any] = [None] * len(arguments)
    slots: dict[type, list[tuple[int, Any]]] = {}
    packed: list[tuple[int, str]] = []
    workspaces: list[Workspace] = []
    for number, argument in enumerate(arguments):
        match argument:
            case StrideArgument(name, axis):
                numbers[number] = strides[name][axis]
            case SizeArgument():
                numbers[number] = sizes.size_arguments[number]
            case ScalarArgument(name) if isinstance(value := _plain(scalars[name]), int):
                numbers[number] = value
            case TensorArgument(name, True):
                packed.append((number, name))
            case TensorArgument(source) | ScalarArgument(source) | ResultArgument(source):
                slots.setdefault(type(argument), []).append((number, source))
            case WorkspaceArgument(dtype):
                slots.setdefault(WorkspaceArgument, []).append((number, len(workspaces)))
                workspaces.append((sizes.workspaces[number], element_name(dtype)))
    kinds = (TensorArgument, ResultArgument, WorkspaceArgument, ScalarArgument)
    tensors, results, scratch, floats = (tuple(slots.get(kind, ())) for kind in kinds)
    return BoundArguments(tuple(numbers), Slots(tensors, tuple(packed), results, scratch, floats), tuple(workspaces))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
