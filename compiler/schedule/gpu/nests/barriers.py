"""Where the threads of a block must meet: between two accesses to one element by different threads of which one writes it. All threads
read what everyone computes alike; thread 0 writes what isn't spread; iterations of spread loops belong to threads by their number, so
that two loops of the same shape which touch an element in the same iteration need no barrier.

Barriers stand as late as they can; what a loop has left open at its end is open at its beginning."""

from collections.abc import Iterator, Mapping
from enum import Enum

from compiler.analysis.accesses import NestAccess, NestLoop
from compiler.analysis.dependence import NestFacts
from compiler.hir.control import Break, Continue, For, If, While
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Alloc, Load, MakeSlot, SetSlot, Store
from compiler.hir.types import Mem
from compiler.schedule.gpu.nests.spread import Spread, is_plain, is_single
from runtime.records import Factory, define, frozen


class Who(Enum):
    """Which threads make an access."""

    ALL = "all"
    ONE = "one"
    SPREAD = "spread"


@frozen
class Touch:
    """An access to a memory, or to the slots through which an instruction's results go to all threads (`memory` is then that
    instruction)."""

    memory: Value | Instruction
    writes: bool
    who: Who
    access: NestAccess | None = None
    spread: Spread | None = None


Open = frozenset[Touch]


@define(eq=False)
class Barriers:
    """`before`: instructions before which the threads meet; `handing`: those whose results go through slots that threads may still
    read from before, and meet after their own work."""

    facts: NestFacts
    spreads: Mapping[For, Spread]
    fixed: frozenset[str] = frozenset()
    """Names of values that data decide once for all that the threads do."""
    before: set[Instruction] = Factory(set)
    handing: set[Instruction] = Factory(set)

    def place(self, region: Region) -> None:
        self.region(region, frozenset())

    def region(self, region: Region, open: Open) -> Open:
        for op in region.body:
            open = self.instruction(op, open)
        return open

    def instruction(self, op: Instruction, open: Open) -> Open:
        match op:
            case For() if op in self.spreads:
                spread = self.spreads[op]
                open = self.meet(op, frozenset(self.touches(op, Who.SPREAD, spread)), open)
                return self.handed(op, open) if spread.folds else open
            case For() | While() if is_single(op, self.spreads):
                open = self.meet(op, frozenset(self.touches(op, Who.ONE)), open)
                return self.handed(op, open) if hands_over(op) else open
            case _ if is_plain(op, self.spreads):
                return self.meet(op, frozenset(self.touches(op, Who.ALL)), open)
            case For() | While():
                return self.loop(op, open)
            case If(then=then, otherwise=otherwise):
                other = self.region(otherwise, open) if otherwise is not None else open
                return self.region(then, open) | other
            case Load() | Store():
                who = Who.ONE if isinstance(op, Store) else Who.ALL
                return self.meet(op, frozenset(self.touches(op, who)), open)
            case _:
                return open

    def loop(self, op: For | While, open: Open) -> Open:
        """Until nothing more is open at the end than was taken to be at the beginning."""
        leaves = any(isinstance(inside, Break | Continue) for inside in op.walk())
        assumed = open | (frozenset(self.touches(op, Who.ALL)) if leaves else frozenset())
        while True:
            asked = self.region(op.before, assumed) if isinstance(op, While) else assumed
            end = self.region(op.body, asked)
            if end <= assumed:
                return assumed | asked
            assumed |= end

    def touches(self, op: Instruction, who: Who, spread: Spread | None = None) -> Iterator[Touch]:
        """What the instruction, and all inside it, touches; not the memories of its own."""
        inside = {id(inner) for inner in op.walk()}
        own = {inner.result for inner in op.walk() if isinstance(inner, Alloc)} if who is Who.SPREAD else set()
        own |= set(spread.private) if spread is not None else set()
        for access in self.facts.nest.accesses:
            if id(access.op) in inside and access.mem not in own:
                yield Touch(access.mem, access.is_store, who, access, spread)

    def meet(self, op: Instruction, touches: Open, open: Open) -> Open:
        """The accesses happen; a barrier stands before them when one of the open ones wants it."""
        if op in self.before or any(self.clash(first, second) for first in open for second in touches):
            self.before.add(op)
            open = frozenset()
        return open | touches

    def handed(self, op: Instruction, open: Open) -> Open:
        """Results go through slots to all threads: written, a barrier, read."""
        if any(touch.memory is op for touch in open):
            self.handing.add(op)
        return frozenset({Touch(op, False, Who.ALL)})

    def clash(self, first: Touch, second: Touch) -> bool:
        if not (first.writes or second.writes) or not _may_be_one(first.memory, second.memory):
            return False
        if first.who is Who.ONE and second.who is Who.ONE:
            return False
        return not (first.who is Who.SPREAD and second.who is Who.SPREAD and self.same_thread(first, second))

    def same_thread(self, first: Touch, second: Touch) -> bool:
        """Whether an element that both touch is touched in iterations of one number, which one thread has."""
        if first.spread is None or second.spread is None or first.access is None or second.access is None:
            return False
        ones, twos = (self.axes(touch.spread) for touch in (first, second))
        if len(ones) != len(twos) or any(a.extent != b.extent for a, b in zip(ones[1:], twos[1:], strict=True)):
            return False
        if not (first.access.data | second.access.data) <= self.fixed or first.memory is not second.memory:
            return False
        renamed = {a.axis: b.axis for a, b in zip(ones, twos, strict=True)}
        known = {parameter.name for parameter in self.facts.nest.function.parameters} | self.fixed
        fixed: set[str] = set()
        for a, b in zip(first.access.index, second.access.index, strict=True):
            rest = set(b.names) - known
            if a.substitute(renamed) == b and len(rest) == 1 and b.coefficient(next(iter(rest))):
                fixed |= rest
        return fixed.issuperset(two.axis for two in twos)

    def axes(self, spread: Spread | None) -> list[NestLoop]:
        return [self.facts.nest.of_loop(loop) for loop in spread.loops] if spread is not None else []


def hands_over(op: Instruction) -> bool:
    """Whether what one thread did gives values that the others need."""
    return bool(op.results) or bool(slots_changed(op))


def slots_changed(op: Instruction) -> list[Value]:
    """Slots from outside that the instruction sets."""
    own = {inside.result for inside in op.walk() if isinstance(inside, MakeSlot)}
    return list(dict.fromkeys(inside.slot for inside in op.walk() if isinstance(inside, SetSlot) and inside.slot not in own))


def _may_be_one(first: Value | Instruction, second: Value | Instruction) -> bool:
    if first is second:
        return True
    memories = [memory.type for memory in (first, second) if isinstance(memory, Value) and isinstance(memory.type, Mem)]
    return len(memories) == 2 and not all(mem.noalias for mem in memories)
