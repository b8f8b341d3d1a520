"""A block's threads in step: a function of form C made again so that what differs from thread to thread has one axis more, that of
the threads, and is computed for all threads at once. Branches become masks, loops go on while any thread does. That is what the
threads mean as long as no two meet an element between barriers; `threads_in_step.py` sees to that.

What threads do at different places (copies under way, warpgroups, locks) isn't for threads in step."""

from collections.abc import Callable
from typing import Any

from attrs import evolve

from compiler.hir.affine import Affine
from compiler.hir.clone import rebuilt
from compiler.hir.control import Condition, For, If, While, Yield
from compiler.hir.core import Binary, Compare, Const, Index, Select, Unary
from compiler.hir.gpu import (
    Atomic,
    DynamicShared,
    Elect,
    Fence,
    GridIndex,
    Match,
    Redux,
    SharedAlloc,
    Shuffle,
    SyncThreads,
    Uniform,
    Vote,
    WarpIndex,
)
from compiler.hir.instruction import Family, Instruction, Region, Value, operand
from compiler.hir.memory import Alloc, Check, GlobalRef, Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import Mma, MmaLoad, MmaStore
from compiler.hir.types import I1, INDEX, Fragment, HirType, Mem, Tile, is_float
from runtime.records import define

THREAD = "!thread"
"""The axis of what differs from thread to thread: the first of a tile's, which are in order of their names."""

_OWN = (Atomic, Vote, Match, Redux, Elect, Alloc)
"""What gives each thread something of its own, whatever it is given."""

_TAKEN = (Load, Store, Alloc, Check, GlobalRef, SharedAlloc, DynamicShared, Atomic, Fence, GridIndex, WarpIndex, Uniform, SyncThreads)
_WARPS = (Shuffle, Vote, Match, Redux, Elect, MmaLoad, Mma, MmaStore)


class NotInStep(Exception):
    """Why a function's threads can't be run in step, or not this time."""


@define(eq=False, kw_only=True)
class Anyone(Instruction):
    """Whether the condition holds for any thread."""

    value: Value = operand()


def varying(function: HirFunction) -> set[str]:
    """Names of the values that may differ from thread to thread."""
    found: set[str] = set()
    while True:
        before = len(found)
        for op in function.body.body:
            _vary(op, found)
        if len(found) == before:
            return found


def _vary(op: Instruction, found: set[str]) -> None:
    differs = any(value.name in found for value in op.operand_values) or not found.isdisjoint(op.symbols)
    match op:
        case GridIndex():
            differs = op.operator == "thread_idx"
        case WarpIndex():
            differs = op.operator in ("lane", "warp")
        case Shuffle():
            differs = op.value.name in found
        case For() | While():
            _vary_loop(op, found)
            return
        case If():
            branches = [region for region in (op.then, op.otherwise) if region is not None]
            for region in branches:
                _vary_all(region, found)
            for number, result in enumerate(op.results):
                if op.condition.name in found or any(_yielded(region)[number].name in found for region in branches):
                    found.add(result.name)
            return
    if differs or isinstance(op, _OWN):
        found.update(result.name for result in op.results)


def _vary_all(region: Region, found: set[str]) -> None:
    for op in region.body:
        _vary(op, found)


def _vary_loop(op: For | While, found: set[str]) -> None:
    if isinstance(op, For):
        differs = not found.isdisjoint((*op.low.names, *op.high.names))
        variable, *inner = op.body.parameters
        if differs:
            found.add(variable.name)
        sets = [inner]
    else:
        _vary_all(op.before, found)
        last = op.before.body[-1]
        differs = isinstance(last, Condition) and last.value.name in found
        sets = [op.before.parameters, *([op.body.parameters] if op.body.parameters else [])]
    _vary_all(op.body, found)
    after = _yielded(op.body)
    for number, first in enumerate(op.carried):
        together = [first, after[number], *(values[number] for values in sets), op.results[number]]
        if differs or any(value.name in found for value in together):
            found.update(value.name for value in together[1:] if value is not after[number])


def _yielded(region: Region) -> tuple[Value, ...]:
    last = region.body[-1] if region.body else None
    return last.values if isinstance(last, Yield) else ()


class InStep:
    """Makes the function again for blocks of so many threads. `masks`: who takes part in an instruction, where not all do."""

    def __init__(self, function: HirFunction, threads: int) -> None:
        self.threads = threads
        self.source = function
        self.varying = varying(function)
        self.values: dict[Value, Value] = {parameter: parameter for parameter in function.parameters}
        self.masks: dict[int, Value] = {}
        self.counter = 0
        written = {op.mem.name for top in function.body.body for op in top.walk() if isinstance(op, Store | Atomic | MmaStore)}
        self.waits_on = written
        self.number = self.fresh(Tile("index", ((THREAD, Affine.of(threads)),)))
        """Each thread's number in its block."""
        self.private: set[str] = set()

    def run(self) -> HirFunction:
        """The function. Raises `NotInStep`."""
        made = HirFunction(self.source.name, list(self.source.parameters), form=self.source.form, axes=self.source.axes)
        made.sites = self.source.sites
        self.region(self.source.body, made.body, None)
        return made

    # ---- values ----

    def fresh(self, type: HirType) -> Value:
        self.counter += 1
        return Value(f"~{self.counter}", type)

    def wide(self, type: HirType) -> HirType:
        """The type with each thread's own."""
        if isinstance(type, Tile):
            return Tile(type.dtype, ((THREAD, Affine.of(self.threads)), *type.axes))
        if isinstance(type, Fragment):
            return type
        raise NotInStep(f"a {type} for each thread")

    def type_of(self, value: Value) -> HirType:
        return self.wide(value.type) if value.name in self.varying else value.type

    def made(self, value: Value) -> Value:
        """A new value of this name."""
        self.values[value] = Value(value.name, self.type_of(value))
        return self.values[value]

    def emit(self, region: Region, op: Instruction, *results: Value) -> Value:
        op.results = list(results)
        for result in results:
            result.source = op
        region.body.append(op)
        return results[0] if results else self.number

    def plain(self, region: Region, op: Instruction, dtype: str, *operands: Value) -> Value:
        """An instruction of our own, whose result has the axes of its operands."""
        axes: dict[str, Affine] = {}
        for value in operands:
            axes.update(dict(getattr(value.type, "axes", ())))
        first = {THREAD: axes.pop(THREAD)} if THREAD in axes else {}
        return self.emit(region, op, self.fresh(Tile(dtype, tuple({**first, **axes}.items()))))

    def both(self, region: Region, mask: Value | None, condition: Value) -> Value:
        if mask is None:
            return condition
        return self.plain(region, Binary(operator="and", left=mask, right=condition), "i1", mask, condition)

    def chosen(self, region: Region, condition: Value, then: Value, otherwise: Value) -> Value:
        if isinstance(then.type, Fragment):
            raise NotInStep("warps that multiply apart")
        assert isinstance(then.type, Tile)
        op = Select(condition=condition, then=then, otherwise=otherwise)
        return self.plain(region, op, then.type.dtype, condition, then, otherwise)

    def widened(self, region: Region, value: Value, like: Value) -> Value:
        """The value with an axis of threads, where `like` has one."""
        if value.type == like.type or isinstance(value.type, Fragment):
            return value
        every = self.plain(region, Compare(operator="eq", left=self.number, right=self.number), "i1", self.number)
        return self.chosen(region, every, value, value)

    # ---- instructions ----

    def region(self, source: Region, out: Region, mask: Value | None) -> tuple[Value, ...]:
        """The region's instructions; what it yields."""
        for op in source.body:
            if isinstance(op, Yield):
                return tuple(self.values[value] for value in op.values)
            self.instruction(op, out, mask)
        return ()

    def instruction(self, op: Instruction, out: Region, mask: Value | None) -> None:
        match op:
            case If():
                if op.condition.name in self.varying:
                    self.divided(op, out, mask)
                else:
                    self.branch(op, out, mask)
            case For():
                if self.varying.isdisjoint((*op.low.names, *op.high.names)):
                    self.loop(op, out, mask)
                else:
                    self.counted(op, out, mask)
            case While():
                self.repeated(op, out, mask)
            case _ if isinstance(op, _TAKEN + _WARPS) or op.family in (Family.PLAIN, Family.MONOID, Family.AXIS):
                self.other(op, out, mask)
            case _:
                raise NotInStep(f"`{op.name}`")

    def other(self, op: Instruction, out: Region, mask: Value | None) -> None:
        changes: dict[str, Any] = {}
        value_of: Callable[[Value], Value] = self.values.__getitem__
        match op:
            case SyncThreads() if op.id or op.count or op.arrive:
                raise NotInStep("a barrier of some threads")
            case Binary() if mask is not None and op.operator in ("div", "rem") and op.right.name in self.varying and _whole(op):
                one = self.emit(out, Const(value=1, type=Tile(_dtype(op.right))), self.fresh(Tile(_dtype(op.right))))
                changes["right"] = self.chosen(out, mask, value_of(op.right), one)
            case Check() if mask is not None:
                idle = self.plain(out, Unary(operator="not", value=mask), "i1", mask)
                condition = value_of(op.condition)
                changes["condition"] = self.plain(out, Binary(operator="or", left=idle, right=condition), "i1", idle, condition)
            case Alloc():
                self.private.add(op.result.name)
                type = op.type
                assert isinstance(type, Mem)
                if type.strides is not None:
                    raise NotInStep("memory of a thread with strides")
                wide = evolve(type, dims=(Affine.of(self.threads), *type.dims))
                self.values[op.result] = Value(op.result.name, wide)
                self.emit(out, Alloc(type=wide), self.values[op.result])
                return
            case Load() | Store():
                own = op.mem.name in self.private
                if own:
                    changes["index"] = (Affine.of(self.number.name), *op.index)
                results = {result.name for result in op.results}
                if mask is not None and (isinstance(op, Store) or own or not results.isdisjoint(self.varying)):
                    where = None if op.where is None else value_of(op.where)
                    changes["where"] = mask if where is None else self.both(out, mask, where)
        made = rebuilt(op, value_of, **changes)
        self.emit(out, made, *map(self.made, op.results))
        if mask is not None:
            self.masks[id(made)] = mask

    def branch(self, op: If, out: Region, mask: Value | None) -> None:
        """All threads go the same way."""
        then, otherwise = Region(), Region() if op.otherwise is not None else None
        regions = [(op.then, then), *([(op.otherwise, otherwise)] if op.otherwise is not None and otherwise is not None else [])]
        results = [Value(result.name, self.type_of(result)) for result in op.results]
        for source, made in regions:
            ends = self.region(source, made, mask)
            if ends:
                self.emit(made, Yield(values=tuple(self.widened(made, end, r) for end, r in zip(ends, results, strict=True))))
        types = tuple(result.type for result in results)
        self.emit(out, If(condition=self.values[op.condition], then=then, otherwise=otherwise, types=types), *results)
        self.values.update(zip(op.results, results, strict=True))

    def divided(self, op: If, out: Region, mask: Value | None) -> None:
        """Each side for the threads that go there; skipped where there are none."""
        condition = self.values[op.condition]
        ours = self.both(out, mask, condition)
        ends = [self.side(op.then, op.results, ours, out)]
        if op.otherwise is not None:
            no = self.plain(out, Unary(operator="not", value=condition), "i1", condition)
            ends.append(self.side(op.otherwise, op.results, self.both(out, mask, no), out))
        for number, result in enumerate(op.results):
            self.values[result] = self.named(result, self.chosen(out, condition, ends[0][number], ends[1][number]))

    def named(self, old: Value, new: Value) -> Value:
        """The value under the name that forms use."""
        assert new.source is not None
        value = Value(old.name, new.type)
        value.source = new.source
        new.source.results = [value]
        return value

    def side(self, source: Region, results: list[Value], mask: Value, out: Region) -> list[Value]:
        anyone = self.emit(out, Anyone(value=mask), self.fresh(I1))
        then, otherwise = Region(), Region()
        ends = self.region(source, then, mask)
        made = [self.fresh(end.type) for end in ends]
        if ends:
            self.emit(then, Yield(values=ends))
            self.emit(otherwise, Yield(values=tuple(self.nothing(otherwise, end.type) for end in ends)))
        self.emit(out, If(condition=anyone, then=then, otherwise=otherwise if ends else None, types=tuple(v.type for v in made)), *made)
        return made

    def nothing(self, out: Region, type: HirType) -> Value:
        """A value that nobody reads."""
        if not isinstance(type, Tile):
            raise NotInStep("warps that multiply apart")
        return self.emit(out, Const(value=0.0 if is_float(type.dtype) else 0, type=type), self.fresh(type))

    def loop(self, op: For, out: Region, mask: Value | None) -> None:
        variable, *inner = op.body.parameters
        results = [Value(result.name, self.type_of(result)) for result in op.results]
        first = tuple(self.widened(out, self.values[c], r) for c, r in zip(op.carried, results, strict=True))
        body = Region([self.made(variable), *map(self.made, inner)])
        ends = self.region(op.body, body, mask)
        if ends:
            self.emit(body, Yield(values=tuple(self.widened(body, end, r) for end, r in zip(ends, results, strict=True))))
        self.emit(out, For(carried=first, body=body, low=op.low, high=op.high, step=op.step), *results)
        self.values.update(zip(op.results, results, strict=True))

    def counted(self, op: For, out: Region, mask: Value | None) -> None:
        """A loop whose threads go on for different numbers of iterations."""
        variable, *inner = op.body.parameters
        low, high = (self.plain_index(out, form) for form in (op.low, op.high))
        place = Value(variable.name, self.type_of(variable))
        before, body = Region([place]), Region()
        self.values[variable] = place
        live = self.plain(before, Compare(operator="lt", left=place, right=high), "i1", place, high)
        live = self.both(before, mask, live)

        def step(region: Region) -> Value:
            by = self.emit(region, Const(value=op.step, type=INDEX), self.fresh(INDEX))
            return self.plain(region, Binary(operator="add", left=place, right=by), "index", place)

        self.gone_through(op, inner, inner, [(self.widened(out, low, place), step)], before, body, live, out)

    def plain_index(self, out: Region, form: Affine) -> Value:
        named = [self.number] if not self.varying.isdisjoint(form.names) else []
        return self.plain(out, Index(of=form), "index", *named)

    def repeated(self, op: While, out: Region, mask: Value | None) -> None:
        inside = [inner for inner in op.walk() if inner is not op]
        if any(isinstance(inner, Atomic) or (isinstance(inner, Load) and inner.mem.name in self.waits_on) for inner in inside):
            raise NotInStep("a loop that may wait for another thread")
        last = op.before.body[-1]
        assert isinstance(last, Condition)
        if last.value.name not in self.varying:
            results = [Value(result.name, self.type_of(result)) for result in op.results]
            first = tuple(self.widened(out, self.values[c], r) for c, r in zip(op.carried, results, strict=True))
            before, body = Region([*map(self.made, op.before.parameters)]), Region([*map(self.made, op.body.parameters)])
            for one in op.before.body[:-1]:
                self.instruction(one, before, mask)
            self.emit(before, Condition(value=self.values[last.value]))
            ends = self.region(op.body, body, mask)
            if ends:
                self.emit(body, Yield(values=tuple(self.widened(body, end, r) for end, r in zip(ends, results, strict=True))))
            self.emit(out, While(carried=first, before=before, body=body), *results)
            self.values.update(zip(op.results, results, strict=True))
            return
        live_type = self.wide(I1)
        every = self.plain(out, Compare(operator="eq", left=self.number, right=self.number), "i1", self.number)
        alive = self.fresh(live_type)
        before, body = Region([alive]), Region()
        for parameter in op.before.parameters:
            before.parameters.append(self.made(parameter))
        for one in op.before.body[:-1]:
            self.instruction(one, before, alive)
        live = self.both(before, alive, self.values[last.value])
        own = [(every if mask is None else mask, lambda region: live)]
        self.gone_through(op, op.before.parameters, op.body.parameters, own, before, body, live, out)

    def gone_through(
        self,
        op: For | While,
        outer: list[Value],
        inner: list[Value],
        own: list[tuple[Value, Callable[[Region], Value]]],
        before: Region,
        body: Region,
        live: Value,
        out: Region,
    ) -> None:
        """The rest of a loop that goes on while any thread is `live`: `own` is what it carries besides, from the start and from step to
        step. What a thread carries stays as it was once it has left."""
        first = tuple(self.widened(out, self.values[c], Value("", self.type_of(r))) for c, r in zip(op.carried, op.results, strict=True))
        kept = [self.values[value] if isinstance(op, While) else self.made(value) for value in outer]
        if isinstance(op, For):
            before.parameters += kept
        elif inner:
            body.parameters = [*(self.fresh(start.type) for start, _ in own), *map(self.made, inner)]
        anyone = self.emit(before, Anyone(value=live), self.fresh(I1))
        self.emit(before, Condition(value=anyone))
        ends = self.region(op.body, body, live)
        after = [self.chosen(body, live, self.widened(body, end, old), old) for end, old in zip(ends, kept, strict=True)]
        self.emit(body, Yield(values=(*(step(body) for _, step in own), *after)))
        results = [Value(result.name, self.type_of(result)) for result in op.results]
        ends_of_own = [self.fresh(start.type) for start, _ in own]
        self.emit(out, While(carried=(*(start for start, _ in own), *first), before=before, body=body), *ends_of_own, *results)
        self.values.update(zip(op.results, results, strict=True))


def _dtype(value: Value) -> str:
    assert isinstance(value.type, Tile)
    return value.type.dtype


def _whole(op: Binary) -> bool:
    return not is_float(_dtype(op.right))
