"""Few and long rows that are read again after their reductions: each reduction is a launch of its own, in which many blocks share a row,
and leaves its results in a workspace; what reads the rows again is a launch behind them. All of the GPU works on rows that are fewer than
its multiprocessors, at the price of a read for each launch."""

from collections.abc import Callable, Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Contract, Reduce, Scan, dtype_of, union_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.rows import is_chain
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes

Schedule = Callable[[HirFunction, Facts], Launches | None]

ROWS_EACH = 2
"""Rows for each multiprocessor from which on a block a row keeps all of them at work."""

LEAST = 1 << 15
"""Elements of a row that are worth further launches."""

ALIGN = 256
"""Bytes that workspaces begin at multiples of."""


def launches_in_passes(field: HirFunction, facts: Facts, reduced: Schedule, mapped: Schedule) -> Launches | None:
    """The launches of a field whose rows are few: `reduced` schedules its reductions, `mapped` what is stored. None where rows are many,
    nothing reads them again, or a part of it can't be scheduled by itself. Raises `NotPlaceable`."""
    along = _along(field)
    common = [axis for axis in common_axes(field) if axis not in along]
    rows, length = (prod(facts.about(field.axes[axis]) for axis in axes) for axes in (common, along))
    if not along or not common or rows >= ROWS_EACH * facts.processors or length < LEAST:
        return None
    made = [schedule(part, facts) for part, schedule in _parts(field, reduced, mapped)]
    if any(one is None for one in made):
        return None
    return _one_after_the_other(field, [one for one in made if one is not None])


def _along(field: HirFunction) -> frozenset[str]:
    """The axes of every reduction, where something reads them again; none where reductions are along different ones."""
    ops = field.body.body
    over = {frozenset(op.over) for op in ops if isinstance(op, Reduce)}
    if len(over) != 1 or any(isinstance(op, Contract | Scan | Alloc) for op in ops):
        return frozenset()
    (along,) = over
    return along if any(is_chain(field, axis) for axis in along) else frozenset()


def _parts(field: HirFunction, reduced: Schedule, mapped: Schedule) -> list[tuple[HirFunction, Schedule]]:
    """The field cut behind its reductions: those that wait for no other, those that wait for these, and so on; then what is stored, apart
    by the axes along which it lies."""
    cutting = _Cutting(field)
    levels: dict[int, list[Reduce]] = {}
    for op in field.body.body:
        if isinstance(op, Reduce):
            levels.setdefault(cutting.level(op), []).append(op)
    stores: dict[frozenset[str], list[Store]] = {}
    scope = field.scope()
    for op in field.body.body:
        if isinstance(op, Store):
            stores.setdefault(frozenset(axis for axis, _ in scope.axes_of(*op.index)), []).append(op)
    parts = [(cutting.part(f"pass{level}", levels[level]), reduced) for level in sorted(levels)]
    return parts + [(cutting.part(f"stored{number}", group), mapped) for number, group in enumerate(stores.values())]


class _Cutting:
    def __init__(self, field: HirFunction) -> None:
        self.field = field
        self.named = {result.name: result for op in field.body.body for result in op.results}
        results = [result for op in field.body.body if isinstance(op, Reduce) for result in op.results]
        self.kept = {value: f"kept_{value.name}" for value in results}
        self.levels: dict[Instruction, int] = {}

    def reads(self, op: Instruction) -> list[Value]:
        """Operands, and the values behind names in affine attributes."""
        return [*op.operand_values, *(self.named[name] for name in op.symbols if name in self.named)]

    def level(self, target: Instruction) -> int:
        """How many reductions stand before an instruction, one behind the other."""
        if target not in self.levels:
            sources = [value.source for value in self.reads(target) if value.source is not None]
            self.levels[target] = max((self.level(one) + isinstance(one, Reduce) for one in sources), default=0)
        return self.levels[target]

    def part(self, name: str, targets: Sequence[Reduce | Store]) -> HirFunction:
        """A field of these alone, with the workspaces of all reductions behind its parameters."""
        field = self.field
        out = FunctionBuilder(f"{field.name}_{name}", field.form)
        values: dict[Value, Value] = {p: out.parameter(p.name, p.type) for p in field.parameters}
        memories: dict[Value, Value] = {}
        for value, memory in self.kept.items():
            extents = tuple(extent for _, extent in union_axes(value))
            memories[value] = out.parameter(memory, Mem(dtype_of(value), extents or (Affine((), 1),), align=ALIGN))
        used = {axis for target in targets for axis in self.axes(target)}
        for axis, extent in field.axes.items():
            if axis in used:
                out.axis(axis, extent)

        def place(value: Value) -> list[str | int]:
            return [axis for axis, _ in union_axes(value)] or [0]

        def made(value: Value) -> Value:
            if value in values:
                return values[value]
            source = value.source
            assert source is not None
            if value in memories and source not in targets:
                values[value] = out.body.load(memories[value], place(value))
                return values[value]
            copy = out.body.emit(rebuilt(source, made, form), source.results[0].name)
            values.update(zip(source.results, copy.results, strict=True))
            return values[value]

        def form(old: Affine) -> Affine:
            return old.substitute({name: made(self.named[name]).name for name in old.names if name in self.named})

        for target in targets:
            if isinstance(target, Store):
                out.body.emit(rebuilt(target, made, form))
            else:
                for result in target.results:
                    out.body.store(memories[result], made(result), place(result))
        part = out.finish()
        part.kernel_info, part.constraints, part.sites = field.kernel_info, field.constraints, field.sites
        part.linkage, part.span = field.linkage, field.span
        return part

    def axes(self, target: Reduce | Store) -> set[str]:
        names = {axis for axis, _ in union_axes(*target.operand_values)}
        return names | {name for name in target.symbols if name in self.field.axes}


def _one_after_the_other(field: HirFunction, parts: Sequence[Launches]) -> Launches:
    """The launches of all parts, each with the workspaces of all: those of the reductions, and those that the parts have for themselves."""
    first = parts[0].launches[0].function.parameters
    kept = first[len(field.parameters) : len(first) - len(parts[0].workspaces)]
    before, zeros = 0, set[int]()
    every = [mem for part in parts for mem in part.workspaces]
    for part in parts:
        after = before + len(part.workspaces)
        zeros.update(len(kept) + before + place for place in part.zeros)
        for launch in part.launches:
            own = launch.function.parameters
            place = len(own) - len(part.workspaces)
            others = [Value(f"other{number}", mem) for number, mem in enumerate(every)]
            launch.function.parameters = [*own[:place], *others[:before], *own[place:], *others[after:]]
        before = after
    words = dict.fromkeys(word for part in parts for word in part.words)
    stages = tuple(stage for part in parts for stage in part.stages)
    mems = tuple(value.type for value in kept if isinstance(value.type, Mem))
    return Launches(stages, (*mems, *every), ("rows are few: a launch for each reduction along them", *words), zeros=frozenset(zeros))
