"""Chains whose launches machine code makes once they have run a few times: which values come from outside, what each launch takes, and
which results host code gets."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compiler.fusion.joined_blocks import CHAINS_REMEMBERED, ChainRun, PlannedChains
from compiler.fusion.kept_launches import KeptLaunches
from compiler.fusion.waiting import ChainBlock, Pending, identity, in_order
from compiler.launch.native_calls.host_blocks import (
    MISSED,
    ChainLaunches,
    HostLaunches,
    LaunchStep,
    LaunchSteps,
    as_program_has_it,
    in_words,
    takes,
)
from runtime.lazy_numpy import np
from runtime.records import Factory, define
from runtime.tensor import Tensor

if TYPE_CHECKING:
    from compiler.devices.placement import PlacedBlock
    from compiler.fusion.plan import Joined


BY_EXTENTS: Any = object()
"""Stands for chains whose launches are known for each of their extents."""


@define(eq=False)
class NativeChains:
    """The chains of one program. `unawaited`: see `NativeCalls`; `allows`: whether machine code may launch a block with such inputs;
    `planned` gives what plans and runs them on the way through the program; `kept`: what other processes found, and find."""

    unawaited: object
    allows: "Callable[[PlacedBlock, Mapping[str, Any]], bool]"
    planned: Callable[[], PlannedChains]
    kept: KeptLaunches | None = None
    _known: dict[Any, Any] = Factory(dict)
    _runs: dict[Any, ChainRun] = Factory(dict)

    def run(self, last: Pending) -> Any:
        """The value of a block some of whose inputs are pending. Raises ZyntaxError."""
        blocks = in_order(last)
        results = self._results(blocks)
        for number, value in results.items():
            if blocks[number].pending.readers != 1:
                blocks[number].pending.value = value
        return results[len(blocks) - 1]

    def settled(self, value: Any) -> Any:
        """The value itself, where it is pending."""
        if value.__class__ is not Pending:
            return value
        if value.value is None:
            value.value = self.run(value)
        return value.value

    def _results(self, blocks: Sequence[ChainBlock]) -> dict[int, Any]:
        """The values of blocks by their numbers: the last one's, and those that may be read again."""
        key, values = _key_and_values(blocks)
        known = self._known.get(key, MISSED)
        if known is MISSED:
            known = self._keep(key, self._found(key, blocks, values))
        if known is BY_EXTENTS:
            key = (key, tuple([value.shape if value.__class__ is Tensor else value for value in values]))
            known = self._known.get(key, MISSED)
            if known is MISSED:
                known = self._keep(key, self._found(key, blocks, values, of_extents=True))
        if known is None:
            return self._program_run(key, blocks, values)(blocks)
        value = known.launches.value(values)
        if value is MISSED:
            results: dict[int, Any] = known.launches.through(values, lambda: self.planned().results(blocks))
            return results
        if len(known.kept) == 1:
            return {known.kept[0]: as_program_has_it(value)}
        return dict(zip(known.kept, map(as_program_has_it, value), strict=True))

    def _program_run(self, key: Any, blocks: Sequence[ChainBlock], values: Sequence[Any]) -> ChainRun:
        """What runs a chain on the way through the program: for values on devices that lie as before, what ran it then."""
        layouts = _layouts(values)
        if layouts is None:
            return self.planned().run_of(blocks)
        key = (key, layouts)
        run: ChainRun | None = self._runs.get(key)
        if run is None:
            run = self.planned().run_of(blocks)
            if not any(block.placed.block.constants for block in blocks):
                if len(self._runs) >= CHAINS_REMEMBERED:
                    self._runs.clear()
                self._runs[key] = run
        return run

    def _keep(self, key: Any, found: Any) -> Any:
        if len(self._known) >= CHAINS_REMEMBERED:
            self._known.clear()
        self._known[key] = found
        return found

    def _found(self, key: Any, blocks: Sequence[ChainBlock], values: Sequence[Any], of_extents: bool = False) -> Any:
        """The launches of a chain, `BY_EXTENTS`, or None for one that only the program launches. `of_extents`: the key has them."""
        found = None if self.kept is None else self.kept.chain(key, list(map(type, values)))
        if found is None:
            joined = self.planned().joined(blocks)
            by_extents = joined.by_extents and not of_extents
            found = True if by_extents else self._launches(key, blocks, joined.groups, values)
            if self.kept is not None and found is not None:
                self.kept.note_chain(key, found)
        return BY_EXTENTS if found is True else found

    def _launches(
        self, key: Any, blocks: Sequence[ChainBlock], groups: "Sequence[Joined] | None", values: Sequence[Any]
    ) -> ChainLaunches | None:
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
        answers = None if self.kept is None else self.kept.answers("chain", in_words(key))
        asks = self.kept is not None and self.kept.asks
        anywhere = all(block.placed.wish is not None for block in blocks)
        return ChainLaunches(HostLaunches(steps_of_chain, self.unawaited, answers, anywhere, asks), kept)


_Run = tuple[Mapping[str, tuple[int, str]], Mapping[str, int], Sequence[int]]
"""A launch: inputs as numbers of blocks and their names for them, those that other launches make, and the blocks whose values come out."""


def _runs(blocks: Sequence[ChainBlock], groups: "Sequence[Joined] | None") -> list[_Run]:
    if groups is None:
        return [({name: (number, name) for name in block.values}, block.links, (number,)) for number, block in enumerate(blocks)]
    return [(group.inputs, group.handed, group.results) for group in groups]


def _outside(blocks: Sequence[ChainBlock]) -> list[tuple[int, str, int]]:
    """Each input from outside: the block's number, its name, and the position of its value among the values."""
    numbers: dict[Any, int] = {}
    return [
        (number, name, numbers.setdefault(identity(name, value), len(numbers)))
        for number, block in enumerate(blocks)
        for name, value in block.values.items()
    ]


def _key_and_values(blocks: Sequence[ChainBlock]) -> tuple[Any, list[Any]]:
    """What of a chain decides on its launches, but for how arrays lie, and its values, each once."""
    numbers: dict[Any, int] = {}
    values: list[Any] = []
    key: list[Any] = []
    for block in blocks:
        key += (block.pending.number, block.readers, *block.links.items())
        for name, value in block.values.items():
            position = numbers.setdefault(identity(name, value), len(values))
            if position == len(values):
                values.append(value)
            key.append(position)
    key += map(type, values)
    return tuple(key), values


def _layouts(values: Sequence[Any]) -> Any:
    """What of values on devices decides on kernels, besides their types; None where some lie on the host, or are neither tensors nor
    numbers."""
    layouts: list[Any] = []
    for value in values:
        kind = value.__class__
        if kind is Tensor:
            if value.remote is None:
                return None
            layouts.append(value.remote.layout)
        elif kind is int or kind is bool:
            layouts.append(value)
        elif kind is not float and not isinstance(value, np.floating):
            return None
    return tuple(layouts)
