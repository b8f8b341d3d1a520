"""Chains of blocks as they run. A block whose value a later block reads waits for it as a `Pending`; that block then finds all its makers
at hand, and the kernels that they become together are kept for the next time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.devices.placement import PlacedBlock
from compiler.diagnostics import ZyntaxError
from compiler.fusion.kernel import JoinedBlock
from compiler.fusion.merge import NUMBERS
from compiler.fusion.plan import ChainPlan, Joined, Link, plan_chain
from compiler.launch.kernels import BuiltKernel
from compiler.launch.native_calls import watch
from compiler.launch.signature import as_tensor, kernel_key
from compiler.lowering.result_plan import number_of
from runtime.records import Factory, define, field, frozen
from runtime.tensor import Tensor, numpy_dtype

CHAINS_REMEMBERED = 256

INTERNAL = "09"
"""What codes of the compiler's own faults begin with: joining blocks must not hide them."""


@define(eq=False)
class Pending:
    """A block that waits for those that read its value, with the values it was given. `readers`: how many blocks these are, 0 where
    something else looks at the value, too. `value`: where it has run, and others than the block that ran it may read it."""

    placed: PlacedBlock
    values: Mapping[str, Any]
    readers: int = 1
    value: Any = None


@frozen(eq=False)
class _Group:
    """A group ready to run."""

    placed: PlacedBlock
    joined: Joined


@define(eq=False)
class Chains:
    """The chains of one program. `together`: their blocks may become one kernel."""

    together: bool = True
    _known: dict[Any, list[_Group] | None] = Factory(dict)

    def run(self, last: PlacedBlock, values: Mapping[str, Any]) -> Any:
        """The value of a block some of whose inputs are pending. Raises ZyntaxError."""
        return self._run(_in_order(Pending(last, values)))

    def settled(self, value: Any) -> Any:
        """The value itself, where it is pending."""
        if value.__class__ is not Pending:
            return value
        if value.value is None:
            value.value = self._run(_in_order(value))
        return value.value

    def _run(self, blocks: "Sequence[_Block]") -> Any:
        if not self.together or len(blocks) == 1:
            return _one_by_one(blocks)
        key = _key(blocks)
        if key not in self._known:
            if len(self._known) >= CHAINS_REMEMBERED:
                self._known.clear()
            self._known[key] = _groups(blocks)
        groups = self._known[key]
        if groups is not None:
            try:
                return _run(groups, blocks)
            except ZyntaxError as error:
                if any(diagnostic.code.startswith(INTERNAL) for diagnostic in error.diagnostics):
                    raise
                # one after the other either goes well or says where it fails
        return _one_by_one(blocks)


@define(eq=False)
class _Block:
    """A block of a chain: its own inputs, and those that earlier blocks make, by their numbers."""

    pending: Pending
    values: dict[str, Any]
    links: dict[str, int] = field(factory=dict)

    @property
    def placed(self) -> PlacedBlock:
        return self.pending.placed


def _in_order(last: Pending) -> list[_Block]:
    """The block and its makers that haven't run, these first."""
    blocks: list[_Block] = []
    numbers: dict[int, int] = {}

    def add(pending: Pending) -> int:
        own: dict[str, Any] = {}
        links: dict[str, int] = {}
        for name, value in pending.values.items():
            if value.__class__ is not Pending:
                own[name] = value
            elif value.value is not None:
                own[name] = value.value
            else:
                links[name] = numbers[id(value)] if id(value) in numbers else add(value)
        blocks.append(_Block(pending, own, links))
        numbers[id(pending)] = len(blocks) - 1
        return len(blocks) - 1

    add(last)
    return blocks


def _key(blocks: Sequence[_Block]) -> Any:
    """What of a chain decides on its kernels."""
    numbers: dict[Any, int] = {}
    key: list[Any] = []
    for block in blocks:
        constants = block.placed.block.constants
        key += (block.placed, tuple(block.links.items()))
        for name, value in block.values.items():
            key += (kernel_key(value, name in constants), numbers.setdefault(_identity(name, value), len(numbers)))
    return tuple(key)


def _identity(name: str, value: Any) -> Any:
    return (name, value) if value.__class__ is int or value.__class__ is bool else id(value)


def _groups(blocks: Sequence[_Block]) -> list[_Group] | None:
    """The chain's groups; None where nothing is joined, or where something is wrong that running it will tell."""
    try:
        kernels: list[BuiltKernel] = []
        chain: list[Link] = []
        for block in blocks:
            given = {**block.values, **{name: _stand_in(kernels[maker]) for name, maker in block.links.items()}}
            if any(not isinstance(given[name], Tensor) for name in block.placed.block.constants.intersection(block.links)):
                raise _NotKnown
            order = {name: given[name] for name in block.pending.values}
            general = block.placed.block
            kernels.append(general.kernel_for(general.general_signature(order)))
            outside = {name: _identity(name, value) for name, value in block.values.items()}
            device = block.placed.wish.device if block.placed.wish is not None else None
            chain.append(Link(kernels[-1], outside, block.links, device, block.pending.readers))
        plan = plan_chain(chain, blocks[-1].placed.block.options)
    except (ZyntaxError, _NotKnown):
        return None
    return [_ready(group, blocks) for group in plan.groups] if len(plan.groups) < len(blocks) else None


class _NotKnown(Exception):
    """A block hands on something else than one tensor or float, or a number that decides on a kernel."""


def _stand_in(kernel: BuiltKernel) -> Any:
    """A tensor without elements of the dtype and rank that a block makes, or a number of its dtype."""
    results = kernel.lowered.plan.results
    dtype = numpy_dtype(results[0].dtype.value)
    if len(results) != 1 or (results[0].scalar and results[0].dtype not in NUMBERS):
        raise _NotKnown
    return number_of(np.zeros((), dtype), results[0].dtype) if results[0].scalar else Tensor(np.empty((0,) * len(results[0].dims), dtype))


def _ready(group: Joined, blocks: Sequence[_Block]) -> _Group:
    last = blocks[group.last].placed
    if len(group.members) == 1:
        return _Group(last, group)
    block = last.block
    inputs = {name: (blocks[number].placed.block.compute.span, own) for name, (number, own) in group.inputs.items()}
    watch.note_joined(group.kernel, inputs)
    joined = JoinedBlock(block.compute, {}, {}, block.options, block.warn, kernel=group.kernel)
    return _Group(PlacedBlock(joined, last.wish, last.places, last.explain), group)


def _run(groups: Sequence[_Group], blocks: Sequence[_Block]) -> Any:
    results: dict[int, Any] = {}
    for group in groups:
        joined = group.joined
        values = {name: as_tensor(blocks[number].values[own]) for name, (number, own) in joined.inputs.items()}
        values.update({name: results[number] for name, number in joined.handed.items()})
        if len(joined.members) == 1:
            values = {name: values[name] for name in blocks[joined.last].pending.values}
        value = group.placed.for_values(values)(values)
        results.update(zip(joined.results, value if len(joined.results) > 1 else (value,), strict=True))
    return _kept(blocks, results)


def _one_by_one(blocks: Sequence[_Block]) -> Any:
    results: dict[int, Any] = {}
    for number, block in enumerate(blocks):
        given = {**block.values, **{name: results[maker] for name, maker in block.links.items()}}
        values = {name: given[name] for name in block.pending.values}
        results[number] = block.placed.for_values(values)(values)
    return _kept(blocks, results)


def _kept(blocks: Sequence[_Block], results: Mapping[int, Any]) -> Any:
    """The last block's value. Those that may be read again are noted."""
    for number, value in results.items():
        if blocks[number].pending.readers != 1:
            blocks[number].pending.value = value
    return results[len(blocks) - 1]


__all__ = ["ChainPlan", "Chains", "Pending"]
