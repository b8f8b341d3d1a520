"""Chains of blocks as they run: the kernels that blocks become together are kept for the next time."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from compiler.devices.placement import PlacedBlock
from compiler.diagnostics import ZyntaxError
from compiler.fusion.joined_blocks import CHAINS_REMEMBERED, ChainRun, JoinedBlocks
from compiler.fusion.kernel import JoinedBlock
from compiler.fusion.merge import NUMBERS
from compiler.fusion.plan import Joined, Link, plan_chain
from compiler.fusion.waiting import ChainBlock, identity
from compiler.launch.kernels import BuiltKernel
from compiler.launch.native_calls import watch
from compiler.launch.numbered import VERSIONS
from compiler.launch.signature import as_tensor, kernel_key
from compiler.lowering.kernel import NeedsNumbers
from compiler.lowering.result_plan import number_of
from runtime.records import Factory, define, frozen
from runtime.tensor import Tensor, numpy_dtype

INTERNAL = "09"
"""What codes of the compiler's own faults begin with: joining blocks must not hide them."""


@frozen(eq=False)
class _Group:
    """A group ready to run."""

    placed: PlacedBlock
    joined: Joined


@define(eq=False)
class Chains:
    """The chains of one program. `together`: their blocks may become one kernel."""

    together: bool = True
    _known: "dict[Any, _Planned]" = Factory(dict)

    def joined(self, blocks: Sequence[ChainBlock]) -> JoinedBlocks:
        """What the blocks become. Raises ZyntaxError."""
        if not self.together or len(blocks) == 1:
            return JoinedBlocks(None)
        groups = self._groups(blocks)
        by_extents = self._known[_key(blocks)].wants_extents
        return JoinedBlocks(None if groups is None else [group.joined for group in groups], by_extents)

    def results(self, blocks: Sequence[ChainBlock]) -> dict[int, Any]:
        """Runs the blocks. Raises ZyntaxError."""
        return self.run_of(blocks)(blocks)

    def run_of(self, blocks: Sequence[ChainBlock]) -> ChainRun:
        """See `PlannedChains`."""
        groups = self._groups(blocks) if self.together and len(blocks) > 1 else None
        return _one_by_one if groups is None else partial(_run_or_tell, groups)

    def _groups(self, blocks: Sequence[ChainBlock]) -> list[_Group] | None:
        """The chain's groups: for all extents, or for those of this call where a block has a better kernel then, or no other."""
        key = _key(blocks)
        general = self._known.get(key) or self._keep(key, _planned(blocks, exact=False))
        if not general.wants_extents or (general.is_usable and general.versions >= VERSIONS):
            return general.groups
        exact = (key, _extents(blocks))
        if exact not in self._known:
            general.versions += 1
            self._keep(exact, _planned(blocks, exact=True))
        return self._known[exact].groups

    def _keep(self, key: Any, found: "_Planned") -> "_Planned":
        if len(self._known) >= CHAINS_REMEMBERED:
            self._known.clear()
        self._known[key] = found
        return found


@define(eq=False)
class _Planned:
    """The groups of a chain; None where nothing is joined, or where something is wrong that running it will tell. `wants_extents`: a
    block has another kernel for the extents of a call. `is_usable`: not only then. `versions`: for how many extents it was planned."""

    groups: list[_Group] | None = None
    wants_extents: bool = False
    is_usable: bool = True
    versions: int = 0


def _key(blocks: Sequence[ChainBlock]) -> Any:
    """What of a chain decides on its kernels."""
    numbers: dict[Any, int] = {}
    key: list[Any] = []
    for block in blocks:
        constants = block.placed.block.constants
        key += (block.placed, tuple(block.links.items()))
        for name, value in block.values.items():
            key += (kernel_key(value, name in constants), numbers.setdefault(identity(name, value), len(numbers)))
    return tuple(key)


def _extents(blocks: Sequence[ChainBlock]) -> Any:
    """Of all that comes from outside, with the whole numbers."""
    values = [as_tensor(value) for block in blocks for value in block.values.values()]
    return tuple(value.shape if isinstance(value, Tensor) else value if isinstance(value, int) else None for value in values)


def _planned(blocks: Sequence[ChainBlock], exact: bool) -> _Planned:
    """The groups for all extents, or for those of this call."""
    kernels: list[BuiltKernel] = []
    made: list[Any] = []
    chain: list[Link] = []
    wanted = False
    try:
        for block in blocks:
            given = {**block.values, **{name: made[maker] for name, maker in block.links.items()}}
            if any(not isinstance(given[name], Tensor) for name in block.placed.block.constants.intersection(block.links)):
                return _Planned()
            order = {name: as_tensor(given[name]) for name in block.pending.values}
            general = block.placed.block
            kernel = general.kernel_of(order) if exact else general.kernel_for(general.general_signature(order))
            wanted = wanted or bool(kernel.lowered.wanted.names)
            if kernel.field is None and kernel.lowered.wanted.names and not exact:
                return _Planned(wants_extents=True, is_usable=False)
            kernels.append(kernel)
            made.append(_stand_in(kernel, order if exact else None))
            outside = {name: identity(name, value) for name, value in block.values.items()}
            device = block.placed.wish.device if block.placed.wish is not None else None
            chain.append(Link(kernel, outside, block.links, device, block.pending.readers))
        plan = plan_chain(chain, blocks[-1].placed.block.options)
    except NeedsNumbers:
        return _Planned(wants_extents=True, is_usable=False)
    except (ZyntaxError, _NotKnown):
        return _Planned()
    return _Planned([_ready(group, blocks) for group in plan.groups] if len(plan.groups) < len(blocks) else None, wanted)


class _NotKnown(Exception):
    """A block hands on something else than one tensor or float, or a number that decides on a kernel."""


def _stand_in(kernel: BuiltKernel, values: Mapping[str, Any] | None) -> Any:
    """A tensor, whose elements nothing reads, of the dtype and rank that a block makes, and of the shape that it makes of these values, if
    they are known; or a number of its dtype."""
    results = kernel.lowered.plan.results
    dtype = numpy_dtype(results[0].dtype.value)
    if len(results) != 1 or (results[0].scalar and results[0].dtype not in NUMBERS):
        raise _NotKnown
    if results[0].scalar:
        return number_of(np.zeros((), dtype), results[0].dtype)
    if values is None:
        return Tensor(np.empty((0,) * len(results[0].dims), dtype))
    shapes = {name: value.shape for name, value in values.items() if isinstance(value, Tensor)}
    scalars = {name: value for name, value in values.items() if name not in shapes}
    (shape,) = kernel.sizes(shapes, scalars).results
    return Tensor(np.lib.stride_tricks.as_strided(np.empty(1, dtype), shape, _contiguous(shape, dtype.itemsize)))


def _contiguous(shape: Sequence[int], width: int) -> tuple[int, ...]:
    """The strides in bytes of elements that lie side by side."""
    return tuple(width * prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _ready(group: Joined, blocks: Sequence[ChainBlock]) -> _Group:
    last = blocks[group.last].placed
    if len(group.members) == 1:
        return _Group(last, group)
    block = last.block
    inputs = {name: (blocks[number].placed.block.compute.span, own) for name, (number, own) in group.inputs.items()}
    watch.note_joined(group.kernel, inputs)
    joined = JoinedBlock(block.compute, {}, {}, block.options, block.warn, kernel=group.kernel)
    return _Group(PlacedBlock(joined, last.wish, last.places, last.explain), group)


def _run_or_tell(groups: Sequence[_Group], blocks: Sequence[ChainBlock]) -> dict[int, Any]:
    try:
        return _run(groups, blocks)
    except ZyntaxError as error:
        if any(diagnostic.code.startswith(INTERNAL) for diagnostic in error.diagnostics):
            raise
    # one after the other either goes well or says where it fails
    return _one_by_one(blocks)


def _run(groups: Sequence[_Group], blocks: Sequence[ChainBlock]) -> dict[int, Any]:
    results: dict[int, Any] = {}
    for group in groups:
        joined = group.joined
        values = {name: as_tensor(blocks[number].values[own]) for name, (number, own) in joined.inputs.items()}
        values.update({name: results[number] for name, number in joined.handed.items()})
        if len(joined.members) == 1:
            values = {name: values[name] for name in blocks[joined.last].pending.values}
        value = group.placed.value(values)
        results.update(zip(joined.results, value if len(joined.results) > 1 else (value,), strict=True))
    return results


def _one_by_one(blocks: Sequence[ChainBlock]) -> dict[int, Any]:
    results: dict[int, Any] = {}
    for number, block in enumerate(blocks):
        given = {**block.values, **{name: results[maker] for name, maker in block.links.items()}}
        values = {name: given[name] for name in block.pending.values}
        results[number] = block.placed.value(values)
    return results
