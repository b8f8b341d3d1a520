"""What of a kernel's threads can run in one loop: stretches of instructions between cuts, and the values that go from one stretch to
another. Facts only; `threads_to_loops` builds from them."""

from collections.abc import Iterator

from compiler.hir.control import Break, Continue, For, Return, While
from compiler.hir.gpu import Elect, GridIndex, MatchLanes, Redux, Shuffle, SyncThreads, Vote, WarpIndex, WarpSync
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.module import HirFunction

CUTS = (SyncThreads, WarpSync, Shuffle, Vote, MatchLanes, Redux, Elect)
UNIFORM = ("block_idx", "block_dim", "grid_dim")


def walk(region: Region) -> Iterator[Instruction]:
    """All instructions of a region, in order, nested ones too."""
    for op in region.body:
        yield from op.walk()


def strides(op: Instruction) -> bool:
    """A loop by which the threads of a grid share out a range, each in strides of the grid. Neighbouring threads then touch
    neighbouring elements: the loop over threads belongs inside, where memory runs in order. Between barriers any order is right."""
    return isinstance(op, For) and bool(op.mark("strided")) and not op.carried and not leaves(op.body) and not contains(op.body, Return)


def has_cut(op: Instruction) -> bool:
    return strides(op) or isinstance(op, CUTS) or any(has_cut(inner) for region in op.regions for inner in region.body)


def contains(region: Region, kind: type[Instruction]) -> bool:
    return any(isinstance(op, kind) for op in walk(region))


def leaves(region: Region) -> bool:
    """Whether a break or continue of this region's own loop stands in it."""
    for op in region.body:
        if isinstance(op, Break | Continue):
            return True
        if not isinstance(op, For | While) and any(leaves(inner) for inner in op.regions):
            return True
    return False


class Stretches:
    """The stretches of a function. `block` holds the values that are the same for a whole block, and is added to as loops are lifted;
    `crossing`, what a stretch makes and another uses."""

    def __init__(self, function: HirFunction) -> None:
        self.function = function
        self.named: dict[str, Value] = {}
        self.stretch_of: dict[Instruction, int] = {}
        self.stretches = 0
        self.crossing: set[Value] = set()
        self.block: dict[Value, Value] = {}

    def number(self, region: Region) -> None:
        """Numbers stretches: neighbours without a cut share a number, with all that is nested in them; a cut has one of its own."""
        current: int | None = None
        for op in region.body:
            if has_cut(op):
                current = None
                self.stretches += 1
                self.stretch_of[op] = self.stretches
                for inner in op.regions:
                    self.number(inner)
                continue
            if current is None:
                self.stretches += 1
                current = self.stretches
            for nested in op.walk():
                self.stretch_of[nested] = current

    def find_crossing(self, region: Region) -> None:
        """Values and slots that a stretch makes and another uses."""
        defined: dict[Value, int] = {}
        for op in walk(region):
            for result in op.results:
                defined[result] = self.stretch_of[op]
                self.named[result.name] = result
            for inner in op.regions:
                for parameter in inner.parameters:
                    self.named[parameter.name] = parameter
                    if not has_cut(op):
                        defined[parameter] = self.stretch_of[op]
        for op in walk(region):
            used = list(op.operand_values) + [self.named[name] for name in op.symbols if name in self.named]
            for value in used:
                if value in defined and defined[value] != self.stretch_of[op] and not self.again(value):
                    self.crossing.add(value)

    def again(self, value: Value) -> bool:
        """Whether the value is cheaper to compute again than to keep: pure, from the thread's place and the block's values only."""
        op = value.source
        if op is None:
            return value in self.block
        if isinstance(op, GridIndex | WarpIndex):
            return True
        if op.effects is not Effect.PURE or op.regions or has_cut(op):
            return False
        operands = list(op.operand_values) + [self.named[name] for name in op.symbols if name in self.named]
        return len(operands) <= 3 and all(self.again(operand) for operand in operands)

    def uniform(self, value: Value) -> bool:
        """Whether all threads of a block have the same value here."""
        if value in self.block:
            return True
        op = value.source
        if isinstance(op, GridIndex):
            return op.operator in UNIFORM
        if op is None or isinstance(op, WarpIndex) or op.effects is not Effect.PURE or op.regions:
            return False
        return all(self.uniform(v) for v in [*op.operand_values, *(self.named[n] for n in op.symbols if n in self.named)])
