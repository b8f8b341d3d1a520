"""The arguments of a kernel's call as far as they are known when it is planned, and slots for the rest. Imports no stage of the compiler: a
call that was kept on disk is made with nothing else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runtime.records import evolve, frozen

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
        slots = [(len(numbers) + number, len(self.workspaces) + number) for number in range(len(shared))]
        return BoundArguments(
            (*numbers, *[None] * len(shared)),
            evolve(self.slots, workspaces=(*self.slots.workspaces, *slots)),
            (*self.workspaces, *shared),
        )
