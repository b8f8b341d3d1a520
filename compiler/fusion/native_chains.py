"""Chains whose launches machine code makes once they have run a few times: which values come from outside, what each launch takes, and
which results host code gets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from compiler.devices.placement import PlacedBlock
from compiler.fusion.plan import Joined
from compiler.launch.native_calls.host_blocks import MISSED, HostLaunches, LaunchStep, LaunchSteps, as_program_has_it, takes
from runtime.records import Factory, define, frozen
from runtime.tensor import Tensor


class WaitingBlock(Protocol):
    """A block of a chain. `values`: its own inputs; `links`: those that earlier blocks make, by their numbers; `readers`: how many blocks
    read its value, 0 where something else does, too."""

    values: dict[str, Any]
    links: dict[str, int]

    @property
    def placed(self) -> PlacedBlock: ...

    @property
    def readers(self) -> int: ...


@frozen(eq=False)
class ChainLaunches:
    """`launches`: of a chain whose blocks have these links and share values in this way. `kept`: the numbers of the blocks whose values
    host code gets, the last one's at the end."""

    launches: HostLaunches
    kept: tuple[int, ...]


@frozen(eq=False)
class JoinedBlocks:
    """What the blocks of a chain become: kernels, None where each block is one. `by_extents`: others where extents or whole numbers are
    others."""

    groups: Sequence[Joined] | None
    by_extents: bool = False


CHAINS_REMEMBERED = 256

BY_EXTENTS: Any = object()
"""Stands for chains whose launches are known for each of their extents."""


@define(eq=False)
class NativeChains:
    """The chains of one program. `unawaited`: see `NativeCalls`; `allows`: whether machine code may launch a block with such inputs."""

    unawaited: object
    allows: Callable[[PlacedBlock, Mapping[str, Any]], bool]
    _known: dict[Any, Any] = Factory(dict)

    def results(
        self,
        blocks: Sequence[WaitingBlock],
        groups: "Callable[[], JoinedBlocks]",
        program: Callable[[], dict[int, Any]],
    ) -> dict[int, Any]:
        """The values of blocks by their numbers: the last one's, and those that may be read again. `groups`: what the
        blocks become; `program` runs them."""
        key, values = _key_and_values(blocks)
        known = self._known.get(key, MISSED)
        if known is BY_EXTENTS:
            key = (key, tuple([value.shape if value.__class__ is Tensor else value for value in values]))
            known = self._known.get(key, MISSED)
            if known is MISSED:
                known = self._keep(key, self._launches(blocks, groups().groups, values))
        elif known is MISSED:
            joined = groups()
            known = self._keep(key, BY_EXTENTS if joined.by_extents else self._launches(blocks, joined.groups, values))
        if known is BY_EXTENTS or known is None:
            return program()
        value = known.launches.value(values)
        if value is MISSED:
            results: dict[int, Any] = known.launches.through(values, program)
            return results
        if len(known.kept) == 1:
            return {known.kept[0]: as_program_has_it(value)}
        return dict(zip(known.kept, map(as_program_has_it, value), strict=True))

    def _keep(self, key: Any, found: Any) -> Any:
        if len(self._known) >= CHAINS_REMEMBERED:
            self._known.clear()
        self._known[key] = found
        return found

    def _launches(self, blocks: Sequence[WaitingBlock], groups: Sequence[Joined] | None, values: Sequence[Any]) -> ChainLaunches | None:
        types = tuple(map(type, values))
        if not takes(types) or any(block.placed.block.updated for block in blocks):
            return None
        if not all(self.allows(block.placed, {**block.values, **block.links}) for block in blocks):
            return None
        positions = {(number, name): position for number, name, position in _outside(blocks)}
        steps: list[LaunchStep] = []
        made: dict[int, tuple[int, int]] = {}
        for inputs, handed, results in _runs(blocks, groups):
            given: dict[str, int | tuple[int, int]] = {name: positions[origin] for name, origin in inputs.items()}
            steps.append(LaunchStep({**given, **{name: made[maker] for name, maker in handed.items()}}, len(results)))
            made.update({block: (len(steps) - 1, result) for result, block in enumerate(results)})
        last = len(blocks) - 1
        kept = (*(number for number in made if number != last and blocks[number].readers != 1), last)
        steps_of_chain = LaunchSteps(types, tuple(steps), kept=tuple(made[number] for number in kept))
        return ChainLaunches(HostLaunches(steps_of_chain, self.unawaited), kept)


_Run = tuple[Mapping[str, tuple[int, str]], Mapping[str, int], Sequence[int]]
"""A launch: inputs as numbers of blocks and their names for them, those that other launches make, and the blocks whose values come out."""


def _runs(blocks: Sequence[WaitingBlock], groups: Sequence[Joined] | None) -> list[_Run]:
    if groups is None:
        return [({name: (number, name) for name in block.values}, block.links, (number,)) for number, block in enumerate(blocks)]
    return [(group.inputs, group.handed, group.results) for group in groups]


def _outside(blocks: Sequence[WaitingBlock]) -> list[tuple[int, str, int]]:
    """Each input from outside: the block's number, its name, and the position of its value among the values."""
    numbers: dict[Any, int] = {}
    return [
        (number, name, numbers.setdefault(identity(name, value), len(numbers)))
        for number, block in enumerate(blocks)
        for name, value in block.values.items()
    ]


def _key_and_values(blocks: Sequence[WaitingBlock]) -> tuple[Any, list[Any]]:
    """What of a chain decides on its launches, but for how arrays lie, and its values, each once."""
    numbers: dict[Any, int] = {}
    values: list[Any] = []
    key: list[Any] = []
    for block in blocks:
        key += (block.placed, block.readers, *block.links.items())
        for name, value in block.values.items():
            position = numbers.setdefault(identity(name, value), len(values))
            if position == len(values):
                values.append(value)
            key.append(position)
    key += map(type, values)
    return tuple(key), values


def identity(name: str, value: Any) -> Any:
    """What is the same where two blocks take the same value: joined kernels have one input for it."""
    return (name, value) if value.__class__ is int or value.__class__ is bool else id(value)
