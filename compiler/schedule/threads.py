"""A kernel as a sequence of launches with one thread for each iteration: the GPU's schedule of first resort, which any field or
nest has. A loop that is shared out to threads becomes a launch; what stands between such loops becomes a launch of one thread.

Values that a launch needs from before it are computed again when they are pure (sizes, constants); memory that several
launches share is handed to all of them as a workspace."""

from collections.abc import Mapping, Sequence

from attrs import Factory, define, evolve

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For
from compiler.hir.core import Contract, Reduce, Scan, dtype_of
from compiler.hir.gpu import GridIndex
from compiler.hir.instruction import Effect, Instruction, Region, Role, Value
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc, mem_of
from compiler.hir.module import CallingConvention, Form, HirFunction, HirKernelInfo, LaunchBounds
from compiler.hir.types import INDEX, Mem, Space
from compiler.schedule.field import axes_contiguous
from compiler.schedule.launches import Launch, Launches, SortPasses
from compiler.schedule.materialise import common_axes
from compiler.schedule.merge_sort import merge_pass
from compiler.schedule.place import NotPlaceable
from compiler.schedule.table import AxisPlan, Table

BLOCK = 256
"""Threads of a block: enough warps to hide latency, few enough that any register count fits."""


def thread_table(field: HirFunction) -> Table:
    """A thread for each element of the results, neighbours along contiguous memory; what is reduced runs in time."""
    reduced = {axis for op in field.body.body if isinstance(op, Reduce | Contract | Scan) for axis in op.over}
    common = [axis for axis in common_axes(field) if axis not in reduced]
    common.sort(key=lambda axis: axis in axes_contiguous(field))
    rest = [axis for axis in field.axes if axis not in common]
    plans = [AxisPlan(axis, "thread") for axis in common]
    plans += [AxisPlan(axis, "thread" if not common and number == 0 else "time") for number, axis in enumerate(rest)]
    return Table(plans, ["one thread an element, neighbours along contiguous memory"])


@define(eq=False)
class _Group:
    """Instructions of one launch: a loop that is shared out to threads, or what one thread does."""

    body: list[Instruction] = Factory(list)
    loop: For | None = None
    sort: Sort | None = None

    def made(self) -> set[Value]:
        return set() if self.loop is not None else {result for op in self.body for result in op.results}


def launches_of(function: HirFunction) -> Launches:
    """The launches of a scheduled function (form A or B, of scalars). Raises `NotPlaceable` for what no thread can do alone."""
    shared = [op for op in function.body.body if isinstance(op, Alloc)]
    pure: list[Instruction] = []
    known: set[Value] = {*function.parameters, *(op.result for op in shared)}
    names = {value.name for value in known} | set(function.axes)
    groups: list[_Group] = []
    for op in function.body.body:
        if isinstance(op, Alloc):
            continue
        if op.effects is Effect.PURE and not op.regions and known.issuperset(op.operand_values) and names.issuperset(op.symbols):
            pure.append(op)
            known.update(op.results)
            names.update(result.name for result in op.results)
        elif isinstance(op, For) and op.place == "thread":
            groups.append(_Group([op], op))
        elif isinstance(op, Sort):
            groups.append(_Group([op], sort=op))
        else:
            if not groups or groups[-1].loop is not None or groups[-1].sort is not None:
                groups.append(_Group())
            groups[-1].body.append(op)
    handed = [value for group in groups for value in group.made() if any(_uses(other, value) for other in groups if other is not group)]
    handed.sort(key=lambda value: value.name)
    memories = [*(evolve(op.type, space=Space.GLOBAL) for op in shared), *(Mem(dtype_of(value), (Affine((), 1),)) for value in handed)]
    copies: dict[Value, int] = {}
    for group in groups:
        for value in (group.sort.keys, *group.sort.payload) if group.sort is not None else ():
            if value not in copies:
                copies[value] = len(memories)
                memories.append(Mem(mem_of(value).dtype, mem_of(value).dims))
    around = _Around(function, shared, handed, memories, copies, pure)
    return Launches(tuple(_stage(around, group, number) for number, group in enumerate(groups)), tuple(memories))


def _uses(group: _Group, value: Value) -> bool:
    return any(value in inner.operand_values or value.name in inner.symbols for op in group.body for inner in op.walk())


@define(eq=False)
class _Around:
    """What all launches of a kernel have in common. `handed` are values that one launch computes and another reads, through a memory
    of one element each; `copies` are the second memories of what is sorted, by their place among the workspaces."""

    function: HirFunction
    shared: Sequence[Alloc]
    handed: Sequence[Value]
    memories: Sequence[Mem]
    copies: Mapping[Value, int]
    pure: Sequence[Instruction]


class _Start:
    """The beginning of a launch's function: parameters, what is pure, the thread's number in the grid."""

    def __init__(self, around: _Around, name: str) -> None:
        self.around = around
        self.out = FunctionBuilder(f"{around.function.name}_{name}", Form.THREAD)
        self.values: dict[Value, Value] = {}
        for parameter in around.function.parameters:
            self.values[parameter] = self.out.parameter(parameter.name, parameter.type)
        names = [op.result.name for op in around.shared] + [f"{value.name}_handed" for value in around.handed]
        names += [f"{value.name}_other" for value in around.copies]
        self.workspaces = [self.out.parameter(name, mem) for name, mem in zip(names, around.memories, strict=True)]
        self.values.update(zip((op.result for op in around.shared), self.workspaces, strict=False))
        self.boxes = dict(zip(around.handed, self.workspaces[len(around.shared) :], strict=False))
        self.copy = _Copy(self.out, self.values)
        self.copy.all(around.pure, self.out.body)
        block = self.out.body.emit(GridIndex(operator="block_idx", dim="x")).result
        thread = self.out.body.emit(GridIndex(operator="thread_idx", dim="x")).result
        self.place = Affine.of(block.name) * BLOCK + thread.name

    def finish(self, counts: tuple[Affine, ...]) -> Launch:
        function, made = self.around.function, self.out.finish()
        made.kernel_info = HirKernelInfo(
            kernel_type=function.kernel_info.kernel_type if function.kernel_info else HirKernelInfo().kernel_type,
            launch_bounds=LaunchBounds(BLOCK),
            workgroup=(BLOCK, 1, 1),
        )
        made.calling_convention, made.sites = CallingConvention.KERNEL, function.sites
        return Launch(made, counts, tuple(self.around.pure), BLOCK)


def _stage(around: _Around, group: _Group, number: int) -> Launch | SortPasses:
    if group.sort is None:
        return _launch(around, group, number)
    there, back = (_sort_pass(around, group.sort, f"{number}_{way}", way == "back") for way in ("there", "back"))
    return SortPasses(there, back, mem_of(group.sort.keys).dims[group.sort.axis])


def _sort_pass(around: _Around, sort: Sort, name: str, back: bool) -> Launch:
    start = _Start(around, name)
    b = start.out.body
    memories = [sort.keys, *sort.payload]
    here = [start.values[memory] for memory in memories]
    there = [start.workspaces[around.copies[memory]] for memory in memories]
    dims = mem_of(sort.keys).dims
    width = start.out.parameter("width", INDEX)
    total = b.const(1, "index")
    for dim in dims:
        total = b.mul(total, b.index(start.copy.form(dim)))
    place = b.index(start.place)
    with b.when(b.op("lt", place, total)) as inner:
        merge_pass(inner, place, width, there if back else here, here if back else there, sort.axis, sort.descending)
    return start.finish(tuple(dims))


def _launch(around: _Around, group: _Group, number: int) -> Launch:
    start = _Start(around, str(number))
    b, copy, values, boxes, place = start.out.body, start.copy, start.values, start.boxes, start.place
    loop = group.loop
    if loop is not None and loop.carried:
        raise NotPlaceable("a loop over threads that carries values")
    length = Affine((), 1) if loop is None else _iterations(loop)
    with b.when(b.inbounds(place, copy.form(length))) as inner:
        mine = group.made()
        for value, box in boxes.items():
            if value not in mine and _uses(group, value):
                values[value] = inner.load(box, [0], name=value.name)
        if loop is None:
            copy.all(group.body, inner)
        else:
            values[loop.variable] = inner.index(copy.form(loop.low) + place * loop.step, loop.variable.name)
            copy.all(loop.body.body, inner)
        for value, box in boxes.items():
            if value in mine:
                inner.store(box, values[value], [0])
    return start.finish((length,))


def _iterations(loop: For) -> Affine:
    """How many iterations a loop has, up or down; not above 0 where it has none."""
    return (loop.high - loop.low).ceildiv(loop.step) if loop.step > 0 else (loop.low - loop.high).ceildiv(-loop.step)


class _Copy:
    """Instructions put into another function, names kept where they are free."""

    def __init__(self, out: FunctionBuilder, values: dict[Value, Value]) -> None:
        self.out, self.values = out, values

    def all(self, ops: Sequence[Instruction], b: Builder) -> None:
        for op in ops:
            self.one(op, b)

    def value(self, value: Value) -> Value:
        return self.values[value]

    def form(self, form: Affine) -> Affine:
        names = {old.name: new.name for old, new in self.values.items() if old.name != new.name and old.name in form.names}
        return form.substitute(names)

    def one(self, op: Instruction, b: Builder) -> None:
        if isinstance(op, Alloc) and any(dim.value is None for dim in op.type.dims):
            raise NotPlaceable("a buffer of a thread whose extent is only known as it runs")
        regions = {}
        for name in op.fields(Role.REGION, Role.OPTIONAL_REGION):
            old = getattr(op, name)
            regions[name] = None if old is None else self.region(old, b)
        changes = {"place": "time"} if isinstance(op, For) else {}
        made = b.emit(rebuilt(op, self.value, self.form, regions, **changes), op.results[0].name if op.results else "")
        self.values.update(zip(op.results, made.results, strict=True))

    def region(self, region: Region, b: Builder) -> Region:
        made = Region()
        for parameter in region.parameters:
            self.values[parameter] = self.out.value(parameter.name, parameter.type)
            made.parameters.append(self.values[parameter])
        self.all(region.body, b.child(made))
        return made
