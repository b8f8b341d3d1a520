"""Blocks that wait for those that read their values. A block whose value a later block reads waits for it as a `Pending`; that block then
finds all its makers at hand, in their order."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from runtime.records import Factory, define

if TYPE_CHECKING:
    from compiler.devices.placement import PlacedBlock


@define(eq=False)
class Pending:
    """A block that waits, with the values it was given. `number`: the block's among those of the program, of which `block` gives it;
    `readers`: how many blocks read its value, 0 where something else looks at it, too. `value`: where it has run, and others than the
    block that ran it may read it."""

    number: int
    block: "Callable[[int], PlacedBlock]"
    values: Mapping[str, Any]
    readers: int = 1
    value: Any = None

    @property
    def placed(self) -> "PlacedBlock":
        return self.block(self.number)


@define(eq=False)
class ChainBlock:
    """A block of a chain. `values`: its own inputs; `links`: those that earlier blocks make, by their places in the chain."""

    pending: Pending
    values: dict[str, Any]
    links: dict[str, int] = Factory(dict)

    @property
    def placed(self) -> "PlacedBlock":
        return self.pending.placed

    @property
    def readers(self) -> int:
        return self.pending.readers


def in_order(last: Pending) -> list[ChainBlock]:
    """The block and its makers that haven't run, these first."""
    blocks: list[ChainBlock] = []
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
        blocks.append(ChainBlock(pending, own, links))
        numbers[id(pending)] = len(blocks) - 1
        return len(blocks) - 1

    add(last)
    return blocks


def identity(name: str, value: Any) -> Any:
    """What is the same where two blocks take the same value: joined kernels have one input for it."""
    return (name, value) if value.__class__ is int or value.__class__ is bool else id(value)
