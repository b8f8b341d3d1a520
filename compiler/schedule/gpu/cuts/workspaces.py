"""Launches before a launch: copies of what a kernel is given, or what is computed from it, in workspaces, laid out as the next launch wants
them."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Protocol

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.instruction import Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem, is_float
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import ANYWHERE, lanes_along
from compiler.schedule.gpu.maps.maps import map_launches
from compiler.schedule.gpu.need import needed
from compiler.schedule.launches import CopyStage, Launches
from compiler.schedule.region import NotPlaceable
from runtime.records import evolve, frozen

ALIGN = 256
"""Bytes that workspaces begin at multiples of."""


class Workspace(Protocol):
    """Memory of its own that is filled before it is read: along these axes, with these values."""

    @property
    def name(self) -> str: ...

    @property
    def axes(self) -> tuple[tuple[str, Affine], ...]: ...

    @property
    def mem(self) -> Mem: ...

    @property
    def words(self) -> str: ...

    @property
    def read(self) -> tuple[Hashable, ...]:
        """What is read, and in which order: workspaces that have it in common are one launch."""
        ...

    @property
    def made(self) -> Hashable:
        """What tells what is made of it from anything else."""
        ...

    def source_of(self, b: Builder, values: Mapping[str, Value]) -> Value:
        """What is read, given the memories by name."""
        ...

    def value_of(self, b: Builder, source: Value) -> Value:
        """What is made of it."""
        ...


@frozen(eq=False)
class Copied:
    """A workspace: along these axes the elements of a parameter at `index`, zeros where one of `inside` is negative; or what `part`
    makes of them. Anything may be left where one of `bounds` is negative."""

    name: str
    source: Value
    axes: tuple[tuple[str, Affine], ...]
    index: tuple[Affine, ...]
    inside: tuple[Affine, ...] = ()
    part: Callable[[Builder, Value], Value] | None = None
    bounds: tuple[Affine, ...] = ()

    @property
    def mem(self) -> Mem:
        return Mem(mem_of(self.source).dtype, tuple(extent for _, extent in self.axes), align=ALIGN)

    @property
    def words(self) -> str:
        change = "is copied" if self.part is None else "has what tensor cores leave of it put aside"
        return f"{self.source.name} {change} first: {', '.join(axis for axis, _ in self.axes)}"

    @property
    def read(self) -> tuple[Hashable, ...]:
        return self.source.name, self.axes, self.index, self.inside

    @property
    def made(self) -> Hashable:
        return self.part

    def source_of(self, b: Builder, values: Mapping[str, Value]) -> Value:
        (*_, (last, _)), where = self.axes, b.none_negative([])
        for form in self.inside:
            below = form.without(last) + 1
            ends = form.coefficient(last) == -1 and last not in below.names  # lanes before an end are read at once, wherever they begin
            where = b.both(where, b.inbounds(last, below) if ends else b.op("ge", b.index(form), b.const(0, "index")))
        return b.load(values[self.source.name], self.index, where)

    def value_of(self, b: Builder, source: Value) -> Value:
        return source if self.part is None else self.part(b, source)


@frozen(eq=False)
class Computed:
    """A workspace: along these axes of a field a value of it, which loses nothing as this type; zeros where one of the guards doesn't
    hold, or one of the forms is negative."""

    name: str
    axes: tuple[tuple[str, Affine], ...]
    function: HirFunction
    value: Value
    dtype: str
    guards: tuple[Value, ...] = ()
    inside: tuple[Affine, ...] = ()

    @property
    def mem(self) -> Mem:
        return Mem(self.dtype, tuple(extent for _, extent in self.axes), align=ALIGN)

    @property
    def words(self) -> str:
        return f"{self.name} is computed first: {', '.join(axis for axis, _ in self.axes)}"

    @property
    def read(self) -> tuple[Hashable, ...]:
        return (id(self),)

    @property
    def made(self) -> Hashable:
        return None

    def source_of(self, b: Builder, values: Mapping[str, Value]) -> Value:
        copies = {one: values[one.name] for one in self.function.parameters}
        for op in needed(self.function, (self.value, *self.guards)):
            new = b.emit(rebuilt(op, copies.__getitem__), op.results[0].name if op.results else "")
            copies.update(zip(op.results, new.results, strict=True))
        value = b.cast(copies[self.value], self.dtype)
        holds = reduce(b.both, (copies[guard] for guard in self.guards), b.none_negative(self.inside))
        return value if holds is None else b.select(holds, value, b.const(0.0 if is_float(self.dtype) else 0, self.dtype))

    def value_of(self, b: Builder, source: Value) -> Value:
        return source


def filling(copies: Sequence[Workspace], kernel: HirFunction, workspaces: Sequence[tuple[str, Mem]]) -> HirFunction:
    """The map that fills workspaces of the same elements, with a kernel's parameters and all of its workspaces."""
    first = copies[0]
    out = FunctionBuilder(f"{kernel.name}_{first.name}", Form.FIELD)
    values = {parameter.name: out.parameter(parameter.name, parameter.type) for parameter in kernel.parameters}
    values |= {name: out.parameter(name, mem) for name, mem in workspaces}
    for axis, extent in first.axes:
        out.axis(axis, extent)
    b = out.body
    source = first.source_of(b, values)
    for copy in copies:
        bounds = copy.bounds if isinstance(copy, Copied) else ()
        b.store(values[copy.name], copy.value_of(b, source), [axis for axis, _ in copy.axes], b.none_negative(bounds))
    field = out.finish()
    field.constraints, field.sites, field.linkage, field.span = kernel.constraints, kernel.sites, kernel.linkage, kernel.span
    return field


def copied_before(kernel: HirFunction, copies: Sequence[Workspace], facts: Facts, launches: Launches) -> Launches:
    """The launches of a kernel whose parameters end in the copies, behind those that make them. Raises `NotPlaceable`."""
    workspaces = [(copy.name, copy.mem) for copy in copies]
    further = [(f"workspace{number}", mem) for number, mem in enumerate(launches.workspaces)]
    alike: dict[Hashable, list[Workspace]] = {}
    for copy in copies:
        alike.setdefault(copy.read, []).append(copy)
    before = [map_launches(filling(group, kernel, [*workspaces, *further]), facts, _lanes) for group in alike.values()]
    if any(launches_ is None or launches_.workspaces for launches_ in before):
        raise NotPlaceable("a copy that isn't one launch")
    stages = tuple(chain.from_iterable(launches_.stages for launches_ in before if launches_ is not None))
    numbers = {copy: number for number, copy in enumerate(copies)}
    filled = [
        CopyStage(tuple((copy.read, copy.made) for copy in group), number, tuple(numbers[copy] for copy in group))
        for number, group in enumerate(alike.values())
        if len(stages) == len(alike)
    ]
    words = tuple(copy.words for copy in copies)
    return evolve(
        launches,
        stages=(*stages, *launches.stages),
        workspaces=(*(mem for _, mem in workspaces), *launches.workspaces),
        words=(*words, *launches.words),
        copies=tuple(filled),
        zeros=frozenset(position + len(workspaces) for position in launches.zeros),
    )


def copied_behind(kernel: HirFunction, copy: Copied, facts: Facts, launches: Launches) -> Launches:
    """The launches of a kernel whose last parameter is the source of the copy, which is made of it behind them."""
    further = [(f"workspace{number}", mem) for number, mem in enumerate(launches.workspaces)]
    behind = map_launches(filling((copy,), kernel, further), facts, _lanes)
    if behind is None or behind.workspaces:
        raise NotPlaceable("a copy that isn't one launch")
    return evolve(
        launches,
        stages=(*launches.stages, *behind.stages),
        workspaces=(mem_of(copy.source), *launches.workspaces),
        words=(*launches.words, f"{copy.name} is turned behind: {', '.join(axis for axis, _ in copy.axes)}"),
        zeros=frozenset(position + 1 for position in launches.zeros),
    )


def _lanes(field: HirFunction, axes: Sequence[str]) -> int:
    """Elements that a thread copies at once: 16 bytes of the workspace, whatever it reads; of squares that are turned, as many as both
    sides have together."""
    return lanes_along(field, axes, (Store,)) if len(axes) == 1 else lanes_along(field, axes, anywhere=ANYWHERE)
