"""Drops what nobody needs: instructions without effects whose results are unused, slots that are set and never read, branches and
loops that hold nothing any more. What writes, synchronises, faults or leaves is kept, and all that it needs."""

from collections.abc import Iterator

from compiler.hir.control import For, If, While, Yield
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Alloc, GetSlot, Load, MakeSlot, SetSlot
from compiler.hir.module import HirFunction
from runtime.records import define, field


def dce(function: HirFunction) -> HirFunction:
    """The function without dead instructions; changed in place and returned."""
    while _Sweep(function).run():
        pass
    return function


@define(eq=False)
class _Sweep:
    function: HirFunction
    used: set[Value] = field(factory=set)
    names: set[str] = field(factory=set)
    read: set[Value] = field(factory=set)
    written: set[Value] = field(factory=set)
    changed: bool = False

    def run(self) -> bool:
        for op in _walk(self.function.body):
            self.names.update(op.symbols)
            if isinstance(op, SetSlot):
                self.used.add(op.value)
                self.written.add(op.slot)
                continue
            self.used.update(op.operand_values)
            if isinstance(op, GetSlot):
                self.read.add(op.slot)
        self.region(self.function.body)
        return self.changed

    def region(self, region: Region) -> None:
        live = []
        for op in region.body:
            for inner in op.regions:
                self.region(inner)
            if self.needed(op):
                live.append(op)
            else:
                self.changed = True
        region.body[:] = live

    def needed(self, op: Instruction) -> bool:
        if any(result in self.used or result.name in self.names for result in op.results):
            return True
        match op:
            case MakeSlot():
                return op.result in self.written
            case Alloc():
                return False
            case SetSlot():
                return op.slot in self.read
            case GetSlot() | Load():
                return False
            case For() | If():
                return any(not isinstance(inner, Yield) for region in op.regions for inner in region.body if _acts(inner))
            case While():
                return True  # it may never end
            case _:
                return bool(op.effects)


def _acts(op: Instruction) -> bool:
    """Whether the instruction, or one inside, does more than compute values."""
    match op:
        case For() | If():
            return any(_acts(inner) for region in op.regions for inner in region.body)
        case GetSlot() | Load() | Yield():
            return False
        case _:
            return bool(op.effects & ~Effect.READ)


def _walk(region: Region) -> Iterator[Instruction]:
    for op in region.body:
        yield from op.walk()
