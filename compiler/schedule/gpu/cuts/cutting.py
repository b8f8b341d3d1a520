"""A field cut in parts that are launched one after the other: values that a part keeps lie in workspaces for those behind it."""

from collections.abc import Hashable, Iterable, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Reduce, dtype_of, union_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.schedule.gpu.need import needed
from compiler.schedule.launches import Launch, Launches, Stage

ALIGN = 256
"""Bytes that workspaces begin at multiples of."""


class Cutting:
    """Parts of a field, each a field of its own, that keep these values for each other."""

    def __init__(self, field: HirFunction, stored: Iterable[Value]) -> None:
        self.field = field
        self.named = {result.name: result for op in field.body.body for result in op.results}
        self.kept = {value: f"kept_{value.name}" for value in stored}
        self.levels: dict[Instruction, int] = {}

    def reads(self, op: Instruction) -> list[Value]:
        """Operands, and the values behind names in affine attributes."""
        return [*op.operand_values, *(self.named[name] for name in op.symbols if name in self.named)]

    def level(self, target: Instruction) -> int:
        """How many reductions stand before an instruction, one behind the other."""
        if target not in self.levels:
            sources = [value.source for value in self.reads(target) if value.source is not None]
            self.levels[target] = max((self.level(source) + isinstance(source, Reduce) for source in sources), default=0)
        return self.levels[target]

    def kept_axes(self, value: Value) -> list[tuple[str, Affine]]:
        """As they lie in a workspace: those of the results as in these, then those along which what is behind sums it."""
        order = [*self.field.axes]
        return sorted(union_axes(value), key=lambda axis: order.index(axis[0]))

    def part(self, name: str, targets: Sequence[Instruction]) -> HirFunction:
        """A field of these alone, with the workspaces of all that is kept behind its parameters."""
        field = self.field
        out = FunctionBuilder(f"{field.name}_{name}", field.form)
        values: dict[Value, Value] = {p: out.parameter(p.name, p.type) for p in field.parameters}
        memories: dict[Value, Value] = {}
        for value, memory in self.kept.items():
            extents = tuple(extent for _, extent in self.kept_axes(value))
            memories[value] = out.parameter(memory, Mem(dtype_of(value), extents or (Affine((), 1),), align=ALIGN))
        used = self.axes(targets)
        for axis, extent in field.axes.items():
            if axis in used:
                out.axis(axis, extent)

        def place(value: Value) -> list[str | int]:
            return [axis for axis, _ in self.kept_axes(value)] or [0]

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
        part.stands_for(field)
        return part

    def stored(self) -> HirFunction:
        """The field's results, of what is kept."""
        return self.part("stored", [op for op in self.field.body.body if isinstance(op, Store)])

    def axes(self, targets: Sequence[Instruction]) -> set[str]:
        """The axes of all that a part computes."""
        own = {result for target in targets for result in target.results}
        read = [value for target in targets for value in self.reads(target)]
        ops = [*targets, *needed(self.field, read, self.kept.keys() - own)]
        values = [value for op in ops for value in self.reads(op)]
        return {axis for axis, _ in union_axes(*values)} | {name for op in ops for name in op.symbols if name in self.field.axes}


def one_after_the_other(field: HirFunction, parts: Sequence[Launches], words: str) -> Launches:
    """The launches of all parts, each with the products of sizes that any part has as parameters, and with the workspaces of all: those of
    what is kept, and those that the parts have for themselves. What several parts copy alike is copied once. `words`: why there are
    several."""
    own, first = len(field.parameters), parts[0]
    results = [value.type for value in first.launches[0].function.parameters[own:] if isinstance(value.type, Mem)]
    mems = results[: len(results) - len(first.workspaces)]
    products = dict.fromkeys(product for part in parts for product in part.products)
    every: list[Mem] = []
    stages: list[Stage] = []
    zeros, copied = set[int](), dict[Hashable, tuple[int, ...]]()
    numbered: list[tuple[Launch, int, dict[int, int]]] = []
    for part in parts:
        again = [copy for copy in part.copies if copy.key in copied]
        numbers = {old: number for copy in again for old, number in zip(copy.workspaces, copied[copy.key], strict=True)}
        for old, mem in enumerate(part.workspaces):
            if old not in numbers:
                numbers[old] = len(every)
                every.append(mem)
        copied |= {copy.key: tuple(numbers[old] for old in copy.workspaces) for copy in part.copies}
        zeros.update(len(mems) + numbers[old] for old in part.zeros)
        stages += [stage for number, stage in enumerate(part.stages) if number not in {copy.stage for copy in again}]
        numbered += [(launch, len(part.workspaces), numbers) for launch in part.launches]
    for launch, count, numbers in numbered:
        parameters = launch.function.parameters
        others = {value.name: value for value in parameters[own : len(parameters) - count] if value.type == INDEX}
        further = [others.get(product.name) or Value(product.name, INDEX) for product in products]
        kept = [value for value in parameters[own : len(parameters) - count] if value.type != INDEX]
        workspaces = [Value(f"other{number}", mem) for number, mem in enumerate(every)]
        for old, value in enumerate(parameters[len(parameters) - count :]):
            workspaces[numbers[old]] = value
        launch.function.parameters = [*parameters[:own], *further, *kept, *workspaces]
    said = dict.fromkeys(word for part in parts for word in part.words)
    heeded = frozenset(entry for part in parts for entry in part.heeded)
    return Launches(
        tuple(stages), (*mems, *every), (words, *said), products=tuple(products), zeros=frozenset(zeros), heeded=heeded
    )
