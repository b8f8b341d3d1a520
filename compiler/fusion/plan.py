"""Which blocks of a chain become one kernel. A chain is a block and all blocks that were waiting for it, makers first; two of them are
joined where their fields allow it. What others read, too, is a result of the kernel beside the last block's value."""

from collections.abc import Hashable, Mapping, Sequence

from compiler.diagnostics import ZyntaxError
from compiler.fusion.kernel import joined, require_joinable
from compiler.fusion.merge import NotMergeable, Stage
from compiler.launch.kernels import BuiltKernel, KernelOptions
from compiler.source import Span
from runtime.records import Factory, define, field, frozen


@frozen(eq=False)
class Link:
    """A block of a chain as it was built. `outside`: what tells its inputs apart, equal for what is the same; `links`: inputs that are
    the value of an earlier block, by its number; `device`: where it is to run, None where costs decide; `readers`: how many blocks read its
    value, of this chain or later, 0 where something else does, too."""

    kernel: BuiltKernel
    outside: Mapping[str, Hashable]
    links: Mapping[str, int]
    device: Hashable = None
    readers: int = 1


@frozen
class KeptInMemory:
    """Why the value of block `maker` goes through memory to block `reader`, in words."""

    maker: int
    reader: int
    reason: str


@frozen(eq=False)
class Joined:
    """Blocks that are one kernel, by their numbers. `inputs`: its inputs by name, each as a block's number and that block's name for it;
    `handed`: those that another group makes, by the number of the block; `results`: the blocks whose values come out of it, in order."""

    members: tuple[int, ...]
    kernel: BuiltKernel
    inputs: Mapping[str, tuple[int, str]]
    handed: Mapping[str, int]
    results: tuple[int, ...]

    @property
    def last(self) -> int:
        return self.members[-1]


@define(eq=False)
class ChainPlan:
    """The groups in the order in which they run, and what stayed apart."""

    groups: list[Joined]
    kept: list[KeptInMemory] = Factory(list)


def plan_chain(chain: Sequence[Link], options: KernelOptions, span: Span | None = None) -> ChainPlan:
    """Joins what can be, from the first block on."""
    return _Planning(chain, options).run()


@define(eq=False)
class _Planning:
    chain: Sequence[Link]
    options: KernelOptions
    groups: dict[int, Joined] = field(factory=dict)
    """By the number of their last block."""
    halves: dict[tuple[int, int], Joined] = field(factory=dict)
    """Groups that were tried, by their first and last block."""
    kept: list[KeptInMemory] = field(factory=list)

    def run(self) -> ChainPlan:
        for number, link in enumerate(self.chain):
            self.groups[number] = self._group((number,), link.kernel)
        number = 0
        while number < len(self.chain):
            self._take(number, list(dict.fromkeys(self.chain[number].links.values())))
            end = self._end_of_run(number)
            self._extend(number, end)
            number = end + 1
        groups = [self.groups[number] for number in sorted(self.groups)]
        apart = [edge for edge in self.kept if not any({edge.maker, edge.reader} <= {*group.members} for group in groups)]
        return ChainPlan(groups, apart)

    def _end_of_run(self, number: int) -> int:
        """The last block of the run that begins here: each reads the one before it and no other block, and is its only reader."""
        while number + 1 < len(self.chain) and {*self.chain[number + 1].links.values()} == {number} and self.chain[number].readers == 1:
            number += 1
        return number

    def _extend(self, number: int, end: int) -> None:
        """Joins the blocks of a run from left to right. Twice as many at a time as the last time, which are joined among themselves first:
        n blocks are merged log(n) times each, not n times. Where several can't be joined, fewer are tried; one block at last, which begins
        a new group if it can't."""
        count = 1
        while number < end:
            count = min(count, end - number)
            group = self._group_of(number)
            try:
                whole = self._both(group, self._all(number + 1, number + count), number, number + 1)
            except NotMergeable as refusal:
                if count == 1:
                    self.kept.append(KeptInMemory(number, number + 1, str(refusal)))
                    number += 1
                count = max(1, count // 2)
                continue
            for last in (group.last, *range(number + 1, number + count)):
                del self.groups[last]
            number, count = number + count, 2 * count
            self.groups[number] = whole

    def _all(self, first: int, last: int) -> Joined:
        """These blocks of a run as one group, of halves. Raises NotMergeable."""
        if first == last:
            return self.groups[first]
        if (first, last) not in self.halves:
            middle = (first + last) // 2
            self.halves[first, last] = self._both(self._all(first, middle), self._all(middle + 1, last), middle, middle + 1)
        return self.halves[first, last]

    def _take(self, reader: int, makers: list[int]) -> None:
        """Joins a block with its makers, as many as can be: one may have to wait for another."""
        refused: list[KeptInMemory] = []
        for maker in makers:
            try:
                self._join(maker, reader)
            except NotMergeable as refusal:
                refused.append(KeptInMemory(maker, reader, str(refusal)))
        if 0 < len(refused) < len(makers):
            self._take(reader, [edge.maker for edge in refused])
        else:
            self.kept += refused

    def _join(self, maker: int, reader: int) -> None:
        """Makes one group of those that the two are in now."""
        first, second = self._group_of(maker), self._group_of(reader)
        if first is second:
            return
        whole = self._both(first, second, maker, reader)
        del self.groups[first.last]
        self.groups[second.last] = whole

    def _group_of(self, number: int) -> Joined:
        return next(group for group in self.groups.values() if number in group.members)

    def _both(self, first: Joined, second: Joined, maker: int, reader: int) -> Joined:
        """One group of two, of which `reader` in the second reads `maker` in the first. Raises NotMergeable."""
        if self.chain[maker].device != self.chain[reader].device:
            raise NotMergeable("the two are placed on different devices")
        for number in (maker, reader):
            require_joinable(self.chain[number].kernel)
        members = tuple(sorted((*first.members, *second.members)))
        if any(reader < members[-1] for number in members for reader in self._readers(number) if reader not in members):
            raise NotMergeable("another block between them reads it")
        names, results = self._names(members), self._results(members)
        stages = [
            Stage(
                self.chain[number].kernel.lowered,
                self.chain[number].kernel.nest,
                names[number],
                {name: members.index(maker_) for name, maker_ in self.chain[number].links.items() if maker_ in members},
                number in results,
            )
            for number in members
        ]
        fields = first.kernel.field, second.kernel.field
        assert fields[0] is not None and fields[1] is not None
        try:
            kernel = joined(stages, fields[0], fields[1], self.options, self.chain[reader].kernel.span)
        except ZyntaxError as error:
            raise NotMergeable(error.diagnostics[0].message) from None
        return self._group(members, kernel)

    def _readers(self, number: int) -> list[int]:
        """The blocks of the chain that read the block's value."""
        return [reader for reader, link in enumerate(self.chain) if number in link.links.values()]

    def _results(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """Those of a group whose values are read outside of it, too."""
        inside = {number: sum(reader in members for reader in self._readers(number)) for number in members}
        return tuple(number for number in members if inside[number] < (self.chain[number].readers or inside[number] + 1))

    def _names(self, members: tuple[int, ...]) -> dict[int, dict[str, str]]:
        """For each member its inputs' names in a kernel of all: the same for what is the same, others made different."""
        taken: dict[str, Hashable] = {}
        names: dict[int, dict[str, str]] = {}
        for number in members:
            link = self.chain[number]
            names[number] = {}
            makers = {name: maker for name, maker in link.links.items() if maker not in members}
            for name, origin in {**link.outside, **{name: ("made by", maker) for name, maker in makers.items()}}.items():
                unique, count = name, 0
                known = next((name_ for name_, other in taken.items() if other == origin), None)
                while known is None and unique in taken:
                    count += 1
                    unique = f"{name}_{count}"
                taken[known or unique] = origin
                names[number][name] = known or unique
        return names

    def _group(self, members: tuple[int, ...], kernel: BuiltKernel) -> Joined:
        if len(members) == 1:
            (number,) = members
            link = self.chain[number]
            return Joined(members, kernel, {name: (number, name) for name in link.outside}, dict(link.links), members)
        inputs: dict[str, tuple[int, str]] = {}
        handed: dict[str, int] = {}
        for number, names in self._names(members).items():
            for own, name in names.items():
                if own in self.chain[number].links:
                    handed[name] = self.chain[number].links[own]
                else:
                    inputs.setdefault(name, (number, own))
        return Joined(members, kernel, inputs, handed, self._results(members))
