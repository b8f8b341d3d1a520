"""A kernel as a sequence of launches with one thread for each iteration: the GPU's schedule of first resort, which any field or
nest has. A loop that is shared out to threads becomes a launch; what stands between such loops becomes a launch of one thread.

Values that a launch needs from before it are computed again when they are pure (sizes, constants); memory that several
launches share is handed to all of them as a workspace."""

from collections.abc import Mapping, Sequence

from attrs import Factory, define, evolve, frozen

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For
from compiler.hir.core import Binary, Const, Contract, Index, Reduce, Scan, dtype_of
from compiler.hir.gpu import GridIndex
from compiler.hir.instruction import Effect, Instruction, Region, Role, Value
from compiler.hir.memory import Alloc
from compiler.hir.module import CallingConvention, Form, HirFunction, HirKernelInfo, LaunchBounds
from compiler.hir.types import Mem, Space
from compiler.schedule.field import axes_contiguous
from compiler.schedule.materialise import common_axes
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


@frozen
class Launch:
    """One launch: a function in form C, and what tells the number of threads from the sizes."""

    function: HirFunction
    count: Affine
    before: tuple[Instruction, ...]

    def threads(self, sizes: Mapping[str, int]) -> int:
        """How many threads do something, for these values of the function's `index` parameters."""
        known = dict(sizes)
        for op in self.before:
            _evaluate(op, known)
        return self.count.evaluate(lambda name: known[name])


@frozen
class Launches:
    """A kernel as launches in order, and the workspaces that they share: the functions' last memory parameters."""

    launches: tuple[Launch, ...]
    workspaces: tuple[Mem, ...]


@define(eq=False)
class _Group:
    """Instructions of one launch: a loop that is shared out to threads, or what one thread does."""

    body: list[Instruction] = Factory(list)
    loop: For | None = None

    def made(self) -> set[Value]:
        return set() if self.loop is not None else {result for op in self.body for result in op.results}


def launches_of(function: HirFunction) -> Launches:
    """The launches of a scheduled function (form A or B, of scalars). Raises `NotPlaceable` for what no thread can do alone."""
    shared = [op for op in function.body.body if isinstance(op, Alloc)]
    pure: list[Instruction] = []
    known: set[Value] = {*function.parameters, *(op.result for op in shared)}
    groups: list[_Group] = []
    for op in function.body.body:
        if isinstance(op, Alloc):
            continue
        if op.effects is Effect.PURE and not op.regions and known.issuperset(op.operand_values):
            pure.append(op)
            known.update(op.results)
        elif isinstance(op, For) and op.place == "thread":
            groups.append(_Group([op], op))
        else:
            if not groups or groups[-1].loop is not None:
                groups.append(_Group())
            groups[-1].body.append(op)
    handed = [value for group in groups for value in group.made() if any(_uses(other, value) for other in groups if other is not group)]
    handed.sort(key=lambda value: value.name)
    memories = [*(evolve(op.type, space=Space.GLOBAL) for op in shared), *(Mem(dtype_of(value), (Affine((), 1),)) for value in handed)]
    made = [_launch(function, shared, handed, pure, group, number) for number, group in enumerate(groups)]
    return Launches(tuple(made), tuple(memories))


def _uses(group: _Group, value: Value) -> bool:
    return any(value in inner.operand_values or value.name in inner.symbols for op in group.body for inner in op.walk())


def _launch(
    function: HirFunction, shared: Sequence[Alloc], handed: Sequence[Value], pure: Sequence[Instruction], group: _Group, number: int
) -> Launch:
    """`handed` are values that one launch computes and another reads: through a memory of one element each."""
    out = FunctionBuilder(f"{function.name}_{number}", Form.THREAD)
    values: dict[Value, Value] = {}
    for parameter in function.parameters:
        values[parameter] = out.parameter(parameter.name, parameter.type)
    for op in shared:
        values[op.result] = out.parameter(op.result.name, evolve(op.type, space=Space.GLOBAL))
    boxes = {value: out.parameter(f"{value.name}_handed", Mem(dtype_of(value), (Affine((), 1),))) for value in handed}
    copy = _Copy(out, values)
    copy.all(pure, out.body)
    b = out.body
    block = b.emit(GridIndex(operator="block_idx", dim="x")).result
    thread = b.emit(GridIndex(operator="thread_idx", dim="x")).result
    place = Affine.of(block.name) * BLOCK + thread.name
    loop = group.loop
    if loop is not None and (loop.carried or loop.step < 0):
        raise NotPlaceable("a loop over threads that carries values")
    length = Affine((), 1) if loop is None else (loop.high - loop.low).ceildiv(loop.step)
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
    made = out.finish()
    made.kernel_info = HirKernelInfo(
        kernel_type=function.kernel_info.kernel_type if function.kernel_info else HirKernelInfo().kernel_type,
        launch_bounds=LaunchBounds(BLOCK),
        workgroup=(BLOCK, 1, 1),
    )
    made.calling_convention, made.sites = CallingConvention.KERNEL, function.sites
    return Launch(made, length, tuple(pure))


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


def _evaluate(op: Instruction, known: dict[str, int]) -> None:
    """Index arithmetic of the launch on the host; other pure values don't decide on numbers of threads."""
    match op:
        case Index(of=of):
            known[op.result.name] = of.evaluate(lambda name: known[name])
        case Const(value=value):
            known[op.result.name] = int(value) if value == value and abs(value) < 2**63 else 0
        case Binary(operator=operator, left=left, right=right) if left.name in known and right.name in known:
            a, c = known[left.name], known[right.name]
            results = {"add": a + c, "sub": a - c, "mul": a * c, "min": min(a, c), "max": max(a, c)}
            if operator in results:
                known[op.result.name] = results[operator]
            elif operator in ("div", "rem") and c:
                quotient = abs(a) // abs(c) * (1 if (a < 0) == (c < 0) else -1)
                known[op.result.name] = quotient if operator == "div" else a - c * quotient
        case _:
            pass
