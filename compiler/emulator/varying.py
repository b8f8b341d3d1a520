"""Which values of a function of form C may differ from thread to thread: those that the emulator holds as arrays over lanes."""

from collections.abc import Iterator

from compiler.hir.control import Break, Condition, Continue, For, If, Return, While, Yield
from compiler.hir.gpu import DynamicShared, GridIndex, SharedAlloc, WarpIndex
from compiler.hir.hopper import BarrierMake, WarpgroupMma, WarpgroupWait
from compiler.hir.instruction import Instruction, InstructionFamily, Region, Value
from compiler.hir.memory import Alloc, Load, SetSlot
from compiler.hir.module import HirFunction
from runtime.records import Factory, define

_BY_OPERANDS = (
    InstructionFamily.PLAIN,
    InstructionFamily.MONOID,
    InstructionFamily.AXIS,
    InstructionFamily.INDEX,
    InstructionFamily.MEMORY,
    InstructionFamily.CONTROL,
)
"""Families whose results differ only where operands do."""

_LEAVE = Break | Continue | Return


def inner(region: Region) -> Iterator[Instruction]:
    """The instructions of a region, and of all regions in it."""
    for op in region.body:
        yield from op.walk()


def yielded(region: Region) -> tuple[Value, ...]:
    last = region.body[-1] if region.body else None
    return last.values if isinstance(last, Yield) else ()


@define(eq=False)
class Varying:
    """`names`: values that may differ between threads. `late`: accumulators that may still be under way, which matrices of a warpgroup
    are until a wait. `loads`: whether each load counts as the thread's own."""

    function: HirFunction
    loads: bool = False
    names: set[str] = Factory(set)
    late: set[str] = Factory(set)

    @classmethod
    def of(cls, function: HirFunction, loads: bool = False) -> "Varying":
        varying = cls(function, loads)
        before = -1
        while len(varying.names) + len(varying.late) > before:
            before = len(varying.names) + len(varying.late)
            varying._region(function.body, False)
        return varying

    def __contains__(self, value: Value) -> bool:
        return value.name in self.names

    def bounds(self, op: For) -> bool:
        """Whether threads run the loop for different numbers of iterations."""
        return not self.names.isdisjoint((*op.low.names, *op.high.names))

    def condition(self, op: While) -> bool:
        last = op.before.body[-1]
        return isinstance(last, Condition) and last.value in self

    def _region(self, region: Region, apart: bool) -> None:
        """`apart`: not all threads that run the surrounding region are here."""
        for op in region.body:
            self._instruction(op, apart)

    def _instruction(self, op: Instruction, apart: bool) -> None:
        match op:
            case For() | While():
                self._loop(op, apart)
                return
            case If():
                self._branch(op, apart)
                return
            case SetSlot():
                if apart or op.value in self:
                    self.names.add(op.slot.name)
                return
            case GridIndex():
                differs = op.operator == "thread_idx"
            case WarpIndex():
                differs = op.operator != "cluster_rank"
            case SharedAlloc() | DynamicShared() | BarrierMake():
                differs = False
            case Alloc():
                differs = True
            case Load() if self.loads:
                differs = True
            case _:
                own = op.family not in _BY_OPERANDS and op.family is not InstructionFamily.HOST
                differs = own or any(value in self for value in op.operand_values) or not self.names.isdisjoint(op.symbols)
        if differs:
            self.names.update(result.name for result in op.results)
        if isinstance(op, WarpgroupMma):
            self.late.update(result.name for result in op.results)
        elif isinstance(op, WarpgroupWait) and op.count:
            self._pass(op.values, op.results)

    def _pass(self, values: tuple[Value, ...] | list[Value], targets: list[Value]) -> None:
        self.late.update(target.name for value, target in zip(values, targets, strict=True) if value.name in self.late)

    def _branch(self, op: If, apart: bool) -> None:
        regions = [region for region in (op.then, op.otherwise) if region is not None]
        for region in regions:
            self._region(region, apart or op.condition in self)
            self._pass(yielded(region), op.results if yielded(region) else [])
        for number, result in enumerate(op.results):
            ends = (yielded(region) for region in regions)
            if op.condition in self or any(end[number] in self for end in ends if end):
                self.names.add(result.name)

    def _loop(self, op: For | While, apart: bool) -> None:
        leaves = any(self._leaves(region) for region in op.regions)
        apart_here = apart or leaves or (self.bounds(op) if isinstance(op, For) else self.condition(op))
        if isinstance(op, For):
            variable, *carried = op.body.parameters
            if self.bounds(op):
                self.names.add(variable.name)
            sets = [carried]
        else:
            self._region(op.before, apart_here)
            sets = [op.before.parameters, *([op.body.parameters] if op.body.parameters else [])]
        self._region(op.body, apart_here)
        after = yielded(op.body)
        differs = leaves or (self.bounds(op) if isinstance(op, For) else self.condition(op))
        for number, first in enumerate(op.carried):
            targets = [*(values[number] for values in sets), op.results[number]]
            if differs or any(value in self for value in (first, after[number], *targets)):
                self.names.update(value.name for value in targets)
            if any(value.name in self.late for value in (first, after[number], *targets)):
                self.late.update(value.name for value in targets)

    def _leaves(self, region: Region) -> bool:
        """Whether some threads leave a loop where others stay."""
        branches = [op for op in inner(region) if isinstance(op, If) and op.condition in self]
        return any(isinstance(op, _LEAVE) for branch in branches for op in branch.walk())
