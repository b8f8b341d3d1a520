"""Loops along rows that data choose and that do little but move elements. LLVM would take several vectors a turn and what is left one by
one, which is most of a short row. They become loops of whole vectors, and of vectors under a mask for what is left. Rows that
fill lines of the cache can then be stored past it. Behind a check they run only where it passed: their vectors need no masks for that.

for i in 0..n place=simd { store %out[i], (load %x[i]) }   =>
    for v in 0..n/16 { .. of 16 v + simd }  for v in n/16..ceil(n/16) { .. of 16 v + simd, as far as that is below n }"""

from collections.abc import Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, Yield
from compiler.hir.core import Binary, Cast, Const, dtype_of
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.cpu import CpuMachine
from compiler.passes.rewrite import Rebuild
from compiler.passes.stop_at_faults import data_in
from runtime.records import define, field

CHEAP = ("add", "sub", "mul", "min", "max")


def rows_in_vectors(function: HirFunction, machine: CpuMachine) -> HirFunction:
    """The function (form A) with such loops; itself where it has none."""
    loops = [op for top in function.body.body for op in top.walk() if isinstance(op, For) and op.place == "simd"]
    data = data_in(function) if loops else set()
    lanes = {loop: lanes for loop in loops if (lanes := _lanes(loop, data, machine)) > 1}
    return _InVectors(function, lanes=lanes, compared="u8" if machine.masked_bits == 8 else "i32").run() if lanes else function


def _lanes(loop: For, data: set[str], machine: CpuMachine) -> int:
    """Lanes of the vectors of a loop; 0 where it isn't one of these."""
    body = [op for op in loop.body.body if not isinstance(op, Const | Yield)]
    if loop.step != 1 or loop.carried or data.isdisjoint(name for op in body for name in op.symbols):
        return 0
    if any(name != "written" for name, _ in loop.marks):
        return 0
    accesses = [op for op in body if isinstance(op, Load | Store)]
    computed = [op for op in body if isinstance(op, Cast) or (isinstance(op, Binary) and op.operator in CHEAP)]
    if len(accesses) + len(computed) < len(body) or not any(isinstance(op, Store) for op in body):
        return 0
    if {op.mem for op in accesses if isinstance(op, Load)} & {op.mem for op in accesses if isinstance(op, Store)}:
        return 0  # a load that meets what was stored under a mask waits for it
    if not all(_goes_along(op, loop) and 8 * bytes_of(mem_of(op.mem).dtype) >= machine.masked_bits for op in accesses):
        return 0
    if not computed:
        return machine.vector_bits // (8 * max(bytes_of(mem_of(op.mem).dtype) for op in accesses))
    return min(machine.lanes(dtype_of(value)) for op in body for value in op.results)


def _goes_along(op: Load | Store, loop: For) -> bool:
    """Whether a turn goes to the next element."""
    mem, steps = mem_of(op.mem), [form.coefficient(loop.variable.name) for form in op.index]
    made = {value.name for inner in loop.body.body for value in inner.results}
    dense = mem.strides is None or mem.strides[-1].value == 1
    alone = op.where is None and (not isinstance(op, Load) or op.pad is None)
    return dense and alone and not any(steps[:-1]) and steps[-1] == 1 and made.isdisjoint(op.symbols)


@define(eq=False)
class _InVectors(Rebuild):
    lanes: dict[For, int] = field(factory=dict, kw_only=True)
    compared: str = field(kw_only=True)
    """The type in which lanes are compared, as wide as the narrowest that have masks."""
    passed: Value | None = field(default=None, init=False)
    """The condition of the last check in the regions around."""

    def region(self, region: Region, into: Builder) -> None:
        before = self.passed
        super().region(region, into)
        self.passed = before

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if isinstance(op, Check):
            self.passed = self.values[op.condition]
        if not isinstance(op, For) or op not in self.lanes:
            return self.copy(op, into)
        if self.passed is None:
            self.row(op, into)
        else:
            with into.branch(self.passed) as (then, _, _):
                self.row(op, then)
        return []

    def row(self, op: For, into: Builder) -> None:
        """The loops in the place of one."""
        lanes = self.lanes[op]
        low, simd = self.form(op.low), self.axis("simd", lanes)
        count = Affine.of(into.op("max", into.index(self.form(op.high) - low), into.const(0, "index")).name)
        whole = count.floordiv(lanes)
        with into.loop(op.variable.name, 0, whole) as (body, loop):
            self.turns(op, low + Affine.of(loop.variable.name) * lanes + Affine.of(simd), None, body)
        with into.loop(op.variable.name, whole, count.ceildiv(lanes)) as (body, loop):
            first = Affine.of(loop.variable.name) * lanes
            rest, within = (body.cast(body.index(form), self.compared) for form in (count - first, Affine.of(simd)))
            self.turns(op, low + first + Affine.of(simd), body.op("lt", within, rest), body)

    def turns(self, op: For, at: Affine, inside: Value | None, into: Builder) -> None:
        """The turns of a loop at these places, as far as they are `inside`."""
        before = dict(self.values), dict(self.names)
        self.values[op.variable], self.names[op.variable.name] = into.index(at), at
        for each in op.body.body:
            if not isinstance(each, Yield):
                into.span = each.span
                masked: dict[str, Any] = {"where": inside} if isinstance(each, Load | Store) else {}
                made = into.emit(rebuilt(each, self.values.__getitem__, self.form, **masked), each.results[0].name if each.results else "")
                for old, new in zip(each.results, made.results, strict=True):
                    self.bind(old, new)
        self.values, self.names = before

    def axis(self, name: str, extent: int) -> str:
        return name if self.owner.function.axes.get(name) == Affine.of(extent) else self.owner.axis(name, extent)
