"""The arguments of a kernel's call. Numbers follow from layouts, extents and ints, and are bound when the call is planned; addresses (on
the emulator: arrays) and floats differ from run to run and have slots."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

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
from runtime.records import frozen

Workspace = tuple[tuple[int, ...], str]
"""Extents of scratch memory, and a program's name of its elements."""


def element_name(dtype: str) -> str:
    """A program's name for the HIR's element type."""
    return {"i1": "bool", "index": "i64"}.get(dtype, dtype)


@frozen
class Slots:
    """The numbers of the arguments that only a run knows, each with what goes there: the name of a tensor (`packed`: without gaps) or
    of a float, the number of a result or of a workspace."""

    tensors: tuple[tuple[int, str], ...] = ()
    packed: tuple[tuple[int, str], ...] = ()
    results: tuple[tuple[int, int], ...] = ()
    workspaces: tuple[tuple[int, int], ...] = ()
    scalars: tuple[tuple[int, str], ...] = ()


@frozen
class BoundArguments:
    """`numbers`: one for each argument, None for those that have slots."""

    numbers: tuple[Any, ...]
    slots: Slots
    workspaces: tuple[Workspace, ...]

    def filled(
        self,
        tensors: Callable[[str], Any],
        packed: Callable[[str], Any],
        results: Sequence[Any],
        workspaces: Sequence[Any],
        scalars: Mapping[str, Any],
    ) -> list[Any]:
        """The arguments of one run."""
        arguments, slots = [*self.numbers], self.slots
        for number, name in slots.tensors:
            arguments[number] = tensors(name)
        for number, name in slots.packed:
            arguments[number] = packed(name)
        for number, index in slots.results:
            arguments[number] = results[index]
        for number, index in slots.workspaces:
            arguments[number] = workspaces[index]
        for number, name in slots.scalars:
            arguments[number] = scalars[name]
        return arguments

    def with_workspaces(self, numbers: Sequence[Any], shared: Sequence[Workspace]) -> "BoundArguments":
        """These numbers for the arguments, and slots for further workspaces behind them."""
        slots = [(len(numbers) + place, len(self.workspaces) + place) for place in range(len(shared))]
        return BoundArguments(
            (*numbers, *[None] * len(shared)),
            evolve(self.slots, workspaces=(*self.slots.workspaces, *slots)),
            (*self.workspaces, *shared),
        )


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
