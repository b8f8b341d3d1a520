"""A function's body as stages, each a launch of its own: what stands in which, what a launch takes over from those before it, and the
beginning and the end that all launches of a kernel have.

Values that a launch needs from before it are computed again when they are pure (sizes, constants) or elements of what is only read; memory
that several launches share is handed to all of them as a workspace."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For
from compiler.hir.core import dtype_of, union_axes
from compiler.hir.gpu import GridIndex
from compiler.hir.instruction import Effect, Instruction, Region, Role, Value
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc, Load, mem_of
from compiler.hir.module import CallingConvention, Form, HirFunction, HirKernelInfo, LaunchBounds
from compiler.hir.types import Mem, Space, Tile
from compiler.schedule.gpu.library.sorting import counts_memory
from compiler.schedule.launches import Launch, LaunchSizedShared
from compiler.schedule.region import NotPlaceable
from runtime.records import Factory, define, evolve

Dims = tuple[int, int, int]


@define(eq=False)
class Group:
    """Instructions of one stage: a loop (and, where it goes on, what follows it), a sort, or what lies between these."""

    body: list[Instruction] = Factory(list)
    loop: For | None = None
    sort: Sort | None = None
    counts: Value | None = None
    """Of a sort: what its counts belong to."""
    again: list[Instruction] = Factory(list)
    """What earlier stages compute too, of values that are handed over: here the conditions of checks are seen to speak of the indices
    that they guard."""

    def results(self) -> set[Value]:
        """What it computes, for others to use."""
        return {result for op in self.body for result in op.results}

    def defines(self, value: Value) -> bool:
        return any(value in op.results for op in self.body)

    def uses(self, value: Value) -> bool:
        """Whether it reads a value, and doesn't compute it again."""
        if any(value in op.results for op in self.again):
            return False
        return any(value in inner.operand_values or value.name in inner.symbols for op in (*self.again, *self.body) for inner in op.walk())


@define(eq=False)
class Around:
    """What all launches of a kernel have in common. `memories` are the workspaces: `shared` memories, a memory for each value that one
    launch computes and another reads (`handed`), of its elements, and `others` by what they belong to (the second memories of what is
    sorted, partial results), by their place among the workspaces."""

    function: HirFunction
    groups: Sequence[Group]
    shared: Sequence[Alloc]
    handed: Sequence[Value]
    memories: Sequence[Mem]
    others: Mapping[Value, int]
    pure: Sequence[Instruction]


def stages_of(
    function: HirFunction,
    alone: Callable[[For], bool],
    goes_on: Callable[[For], bool] = lambda op: False,
    partial: Callable[[For], Mapping[Value, Mem]] = lambda op: {},
    in_place: Callable[[Sort], bool] = lambda op: False,
) -> Around:
    """The groups of a function: each loop that is `alone` makes one, with what follows it where it `goes_on`. `partial`: further memories
    that the stage of a loop needs, by the value that they belong to. Sorts that aren't `in_place` need second memories, and counts."""
    shared = [op for op in function.body.body if isinstance(op, Alloc)]
    pure: list[Instruction] = []
    known: set[Value] = {*function.parameters, *(op.result for op in shared)}
    names = {value.name for value in known} | set(function.axes)
    groups: list[Group] = []
    for op in function.body.body:
        if isinstance(op, Alloc):
            continue
        if op.effects is Effect.PURE and not op.regions and known.issuperset(op.operand_values) and names.issuperset(op.symbols):
            pure.append(op)
            known.update(op.results)
            names.update(result.name for result in op.results)
        elif isinstance(op, For) and alone(op):
            groups.append(Group([op], op))
        elif isinstance(op, Sort):
            groups.append(Group([op], sort=op, counts=None if in_place(op) else Value("counts", counts_memory(op))))
        else:
            last = groups[-1] if groups else None
            if last is None or last.sort is not None or (last.loop is not None and not goes_on(last.loop)):
                groups.append(Group())
            groups[-1].body.append(op)
    named = {result.name: result for op in function.body.body for result in op.results if result not in known}
    for group in groups:
        group.again = _again(group, named)
    groups = [group for group in groups if not all(map(_repeats, group.body))]
    results = [(group, value) for group in groups for value in group.results() if isinstance(value.type, Tile)]
    handed = [value for group, value in results if any(other.uses(value) for other in groups if other is not group)]
    handed.sort(key=lambda value: value.name)
    memories = [*(evolve(op.type, space=Space.GLOBAL) for op in shared), *map(_box, handed)]
    others: dict[Value, int] = {}
    for group in groups:
        wanted: dict[Value, Mem] = {}
        if group.sort is not None and group.counts is not None:
            wanted = {value: _copied(value) for value in (group.sort.keys, *group.sort.payload)}
            wanted[group.counts] = mem_of(group.counts)
        for value, mem in {**wanted, **(partial(group.loop) if group.loop is not None else {})}.items():
            if value not in others:
                others[value] = len(memories)
                memories.append(mem)
    return Around(function, groups, shared, handed, memories, others, pure)


def _again(group: Group, named: Mapping[str, Value]) -> list[Instruction]:
    """The instructions of other groups that this one needs and that can be done again, in order."""
    repeated: list[Instruction] = []

    def need(op: Instruction) -> None:
        for name in (*(value.name for value in op.operand_values), *op.symbols):
            source = named[name].source if name in named else None
            if source is None or source in group.body or source in repeated or not _repeats(source):
                continue
            need(source)
            repeated.append(source)

    for op in group.body:
        for inner in op.walk():
            need(inner)
    return repeated


def _repeats(op: Instruction) -> bool:
    """Whether every launch that needs it may do it again: it is pure, or reads what no launch writes."""
    pure = op.effects is Effect.PURE and not op.regions
    return pure or (isinstance(op, Load) and op.mem.source is None and mem_of(op.mem).readonly)


def _box(value: Value) -> Mem:
    return Mem(dtype_of(value), tuple(extent for _, extent in union_axes(value)) or (Affine((), 1),))


def _place_in_box(value: Value) -> list[Affine]:
    return [Affine.of(axis) for axis, _ in union_axes(value)] or [Affine()]


def _copied(value: Value) -> Mem:
    return Mem(mem_of(value).dtype, mem_of(value).dims)


class Start:
    """The beginning of a launch's function: parameters, what is pure, where the thread stands. `place`: its number in the grid."""

    def __init__(self, around: Around, name: str, block: Dims) -> None:
        self.around, self.block = around, block
        self.out = FunctionBuilder(f"{around.function.name}_{name}", Form.THREAD)
        for axis, extent in around.function.axes.items():
            self.out.axis(axis, extent)
        self.values: dict[Value, Value] = {}
        for parameter in around.function.parameters:
            self.values[parameter] = self.out.parameter(parameter.name, parameter.type)
        names = [op.result.name for op in around.shared] + [f"{value.name}_handed" for value in around.handed]
        names += [f"{value.name}_other" for value in around.others]
        self.workspaces = [self.out.parameter(name, mem) for name, mem in zip(names, around.memories, strict=True)]
        self.values.update(zip((op.result for op in around.shared), self.workspaces, strict=False))
        self.boxes = dict(zip(around.handed, self.workspaces[len(around.shared) :], strict=False))
        self.copy = InstructionCopy(self.out, self.values)
        self.copy.all(around.pure, self.out.body)
        self.thread = self._thread()
        self.number = self.out.body.emit(GridIndex(operator="block_idx", dim="x")).result
        self.place = Affine.of(self.number.name) * self.threads + self.thread

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    def _thread(self) -> Affine:
        """The thread's number in its block."""
        number, below = Affine(), 1
        for dim, extent in zip("xyz", self.block, strict=True):
            if extent > 1 or dim == "x":
                number = number + Affine.of(self.out.body.emit(GridIndex(operator="thread_idx", dim=dim)).result.name) * below
            below *= extent
        return number

    def take(self, group: Group, b: Builder) -> None:
        """Loads what other stages have computed for this one, and computes again what is pure of that."""
        own = group.results()
        for value, box in self.boxes.items():
            if value not in own and group.uses(value):
                self.values[value] = b.load(box, _place_in_box(value), name=value.name)
        self.copy.all(group.again, b)

    def give(self, group: Group, b: Builder, where: Value | None = None) -> None:
        """Stores what this stage has computed for others; `where`: by the thread for which that holds."""
        own = group.results()
        for value, box in self.boxes.items():
            if value in own:
                b.store(box, self.values[value], _place_in_box(value), where)

    def finish(self, counts: tuple[Affine, ...], share: int, shared: Sequence[LaunchSizedShared] = ()) -> Launch:
        """The launch; `share`: how many iterations of those that the counts say a block does; the counts, and the extents of `shared`
        memories, may name what the function's beginning computes from its parameters."""
        function, function_ = self.around.function, self.out.finish()
        info = function.kernel_info or HirKernelInfo()
        function_.kernel_info = HirKernelInfo(
            kernel_type=info.kernel_type,
            launch_bounds=LaunchBounds(self.threads),
            shared_memory_bytes=info.shared_memory_bytes,
            max_registers=info.max_registers,
            workgroup=self.block,
        )
        function_.calling_convention, function_.sites = CallingConvention.KERNEL, function.sites
        before = [op for op in function_.body.body if op.effects is Effect.PURE and not op.regions]
        return Launch(function_, counts, tuple(before), share, tuple(shared))


AXES_NAMED = ("type", "types", "over", "axis")
"""Attributes of instructions that name axes, beside affine forms."""


class InstructionCopy:
    """Instructions put into another function, names kept where they are free. `axes`: those with another name there."""

    def __init__(self, out: FunctionBuilder, values: dict[Value, Value], axes: Mapping[str, str] | None = None) -> None:
        self.out, self.values, self.axes = out, values, axes or {}

    def all(self, ops: Sequence[Instruction], b: Builder) -> None:
        for op in ops:
            self.one(op, b)

    def value(self, value: Value) -> Value:
        return self.values[value]

    def form(self, form: Affine) -> Affine:
        mentioned = form.names
        if not mentioned:
            return form
        renamed = {old.name: new.name for old, new in self.values.items() if old.name in mentioned and old.name != new.name}
        return form.substitute({**self.axes, **renamed})

    def variable(self, loop: For, number: Value, b: Builder) -> None:
        """Makes a loop's variable known, from the number of an iteration."""
        self.values[loop.variable] = b.index(self.form(loop.low) + Affine.of(number.name) * loop.step, loop.variable.name)

    def one(self, op: Instruction, b: Builder) -> None:
        if isinstance(op, Alloc) and any(dim.value is None for dim in op.type.dims):
            raise NotPlaceable("a buffer of a thread whose extent is only known as it runs")
        regions = {}
        for name in op.fields(Role.REGION, Role.OPTIONAL_REGION):
            old = getattr(op, name)
            regions[name] = None if old is None else self.region(old, b)
        changes: dict[str, object] = {"place": "time"} if isinstance(op, For) else {}
        if isinstance(op, For) and op.unrolled is None:
            changes["marks"] = tuple((name, mark) for name, mark in op.marks if name != "unroll")
        if self.axes:
            changes |= {name: self.renamed(getattr(op, name)) for name in op.fields(Role.ATTRIBUTE) if name in AXES_NAMED}
        copy = b.emit(rebuilt(op, self.value, self.form, regions, **changes), op.results[0].name if op.results else "")
        self.values.update(zip(op.results, copy.results, strict=True))

    def renamed(self, attribute: Any) -> Any:
        """What says axes, with their names in the other function."""
        match attribute:
            case Tile(axes=axes):
                return evolve(attribute, axes=tuple((self.axes.get(name, name), extent) for name, extent in axes))
            case tuple():
                return tuple(map(self.renamed, attribute))
            case _:
                return self.axes.get(attribute, attribute) if isinstance(attribute, str) else attribute

    def region(self, region: Region, b: Builder) -> Region:
        copy = Region()
        for parameter in region.parameters:
            self.values[parameter] = self.out.value(parameter.name, self.renamed(parameter.type))
            copy.parameters.append(self.values[parameter])
        self.all(region.body, b.child(copy))
        return copy


def iterations(loop: For) -> Affine:
    """How many iterations a loop has, up or down; not above 0 where it has none."""
    return (loop.high - loop.low).ceildiv(loop.step) if loop.step > 0 else (loop.low - loop.high).ceildiv(-loop.step)
