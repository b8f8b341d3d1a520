"""Sums that data scatter: loops whose iterations meet only in elements that indices from data name, `out[k[i]] += v[i]`. What a loop does
is recognised here; `scattered_launches.py` has the launches."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from compiler.analysis.accesses import depends, update_path, updates
from compiler.analysis.dependence import LoopKind, NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, If, Yield
from compiler.hir.core import Binary, Select, dtype_of
from compiler.hir.gpu import ATOMICS
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Slot, is_float
from compiler.schedule.copying import privately
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.stages import InstructionCopy
from runtime.records import frozen


@frozen(eq=False)
class ScatteredUpdate:
    """A store `M[p] = M[p] (+) terms` in which iterations meet: `terms` with the operators before them, and what must (or mustn't)
    hold."""

    store: Store
    monoid: str
    terms: tuple[tuple[str, Value], ...]
    conditions: tuple[tuple[Value, bool], ...]
    skipped: frozenset[Instruction]
    """What reads the old element and makes the new one."""


@frozen(eq=False)
class ScatteredSums:
    """A nest at the top whose iterations may run in any order, up to these updates. `checks`: how many indices an iteration checks, None
    where one is checked in a loop or under a condition."""

    nest: Spread
    updates: Mapping[Store, ScatteredUpdate]
    other_stores: tuple[Store, ...]
    """To what others see, each element by one iteration."""
    bounded: bool
    """Whether an iteration makes each update once at most."""
    checks: int | None

    @property
    def memories(self) -> dict[Value, str]:
        """The memories in which iterations meet, and the monoid that joins them."""
        return {update.store.mem: update.monoid for update in self.updates.values()}


def scattered_sums(op: For, facts: NestFacts) -> ScatteredSums | None:
    """What the loop scatters; None where its iterations meet in another way, or where order matters."""
    if not _joins_in_memory(op, facts) or not _is_known(op, facts):
        return None
    loops, between = [op], list[Instruction]()
    while (inner := _only_loop(loops[-1])) is not None and _joins_in_memory(inner, facts) and _is_known(inner, facts):
        between += [inside for inside in loops[-1].body.body if inside is not inner and not isinstance(inside, Yield)]
        loops.append(inner)
    met = {fold.cell: fold.monoid for loop in loops for fold in facts.loops[loop].folds}
    inside = {id(inner) for inner in op.walk()}
    accesses = [access for access in facts.nest.accesses if access.mem in met and id(access.op) in inside]
    stores = [access for access in accesses if isinstance(access.op, Store)]
    if not met or all(access.exact for access in stores) or any(access.accumulates is None for access in stores):
        return None
    changed: dict[Store, ScatteredUpdate] = {}
    for access in stores:
        assert isinstance(access.op, Store)
        update = _update_of(access.op)
        if update is None or update.monoid != met[access.mem]:
            return None
        changed[access.op] = update
    read = {op_ for update in changed.values() for op_ in update.skipped}
    if any(isinstance(access.op, Load) and access.op not in read for access in accesses):
        return None
    within = {result for inner in op.walk() for result in inner.results}
    private = {mem for loop in loops for mem in privately(facts.loops[loop])}
    others = [inner for inner in op.walk() if isinstance(inner, Store) and inner not in changed and inner.mem not in within | private]
    bounded = set(changed) <= set(_straight(loops[-1].body))
    if any(map(_rounds, met.items())) and not is_relaxed(facts.nest.function):
        again = {inner.mem for inner in op.walk() if isinstance(inner, Load)} & {inner.mem for inner in others}
        if again or (not bounded and any(mem_of(mem).dtype == "f64" for mem in met)):
            return None
    memories = tuple(sorted((mem for mem in private if not isinstance(mem.type, Slot)), key=lambda mem: mem.name))
    straight = [inner for inner in (*between, *loops[-1].body.body) if isinstance(inner, Check)]
    checks = len(straight) if len(straight) == sum(isinstance(inner, Check) for inner in op.walk()) else None
    return ScatteredSums(Spread(tuple(loops), tuple(between), (), memories), changed, tuple(others), bounded, checks)


def is_relaxed(nest: HirFunction) -> bool:
    """Whether sums of floats may be rounded in any order, each time in another."""
    return nest.kernel_info is not None and nest.kernel_info.relaxed


def _rounds(sum_: tuple[Value, str]) -> bool:
    """Whether the order of a sum shows in its bits."""
    mem, monoid = sum_
    return is_float(mem_of(mem).dtype) and monoid == "add"


def _straight(region: Region) -> Iterator[Instruction]:
    """What a region does once at most."""
    for op in region.body:
        yield op
        if isinstance(op, If):
            for inner in op.regions:
                yield from _straight(inner)


def _joins_in_memory(op: For, facts: NestFacts) -> bool:
    """Whether the loop's iterations may run in any order, and meet nowhere but in memories, by what atomics do."""
    loop_facts = facts.loops[op]
    if loop_facts.kind not in (LoopKind.PARALLEL, LoopKind.REDUCTION) or op.carried:
        return False
    return all(fold.in_memory and fold.reorders and fold.monoid in ATOMICS for fold in loop_facts.folds)


def _only_loop(op: For) -> For | None:
    """The loop that fills this one: all else in it computes values, reads, or checks an index."""
    loops = [inside for inside in op.body.body if isinstance(inside, For)]
    others = [inside for inside in op.body.body if not isinstance(inside, For | Yield)]
    plain = all((isinstance(inside, Load | Check) or inside.effects is Effect.PURE) and not inside.regions for inside in others)
    return loops[0] if len(loops) == 1 and plain else None


def _is_known(loop: For, facts: NestFacts) -> bool:
    """Whether the loop's bounds follow from the launch's sizes."""

    def known(value: Value) -> bool:
        op = value.source
        if op is None:
            return value in facts.nest.function.parameters
        pure = op.effects is Effect.PURE and not op.regions
        return pure and all(map(known, op.operand_values)) and all(known(facts.nest.definitions[name]) for name in op.symbols)

    return all(known(facts.nest.definitions[name]) for name in (*loop.low.names, *loop.high.names))


def _update_of(store: Store) -> ScatteredUpdate | None:
    def is_old(value: Value) -> bool:
        return isinstance(value.source, Load) and value.source.mem is store.mem

    update = updates(store.value, is_old)
    if update is None:
        return None
    conditions: list[tuple[Value, bool]] = []
    terms: list[tuple[str, Value]] = []
    if not _take_apart(store.value, is_old, terms, conditions):
        return None
    path = [value.source for value in update_path(store.value, is_old)]
    return ScatteredUpdate(store, update[0], tuple(terms), tuple(conditions), frozenset(op for op in path if op is not None))


def _take_apart(
    value: Value, is_old: Callable[[Value], bool], terms: list[tuple[str, Value]], conditions: list[tuple[Value, bool]]
) -> bool:
    """Adds what a new value is made of, besides the old one, to the lists; False where it is made in another way."""
    while isinstance(select := value.source, Select):
        conditions.append((select.condition, is_old(select.otherwise)))
        value = select.then if is_old(select.otherwise) else select.otherwise
    while not is_old(value):
        if not isinstance(made := value.source, Binary):
            return False
        value, term = (made.left, made.right) if depends(made.left, is_old) else (made.right, made.left)
        terms.insert(0, (made.operator, term))
    return True


@frozen(eq=False)
class ScatteredChange:
    """One update as it is to be made: of which element, by what, and whether at all."""

    update: ScatteredUpdate
    index: tuple[Affine, ...]
    added: Value
    where: Value | None


Put = Callable[[Builder, Sequence[ScatteredChange]], None]
"""Makes changes."""


class ScatterCopy(InstructionCopy):
    """A nest's instructions put into a launch, where `put` does what the updates do. `there`: loads whose elements are known."""

    def __init__(self, out: FunctionBuilder, values: dict[Value, Value], sums: ScatteredSums, put: Put) -> None:
        super().__init__(out, values)
        self.sums, self.put = sums, put
        self.skipped = frozenset(op for update in sums.updates.values() for op in update.skipped)
        self.there: dict[Instruction, Value] = {}
        self.guarding = False
        """Whether checks have been made before: then nothing is read or changed where one fails."""
        self.guard: Value | None = None

    def iteration(self, b: Builder) -> None:
        """All that the innermost loop does once; the variables' values are known."""
        self.guard = None
        self.all([*self.sums.nest.between, *self.sums.nest.inner.body.body], b)

    def one(self, op: Instruction, b: Builder) -> None:
        if op in self.skipped:
            return
        if op in self.there:
            self.values[op.results[0]] = self.there[op]
        elif isinstance(op, Store) and op in self.sums.updates:
            self.update(self.sums.updates[op], b)
        elif self.guarding and isinstance(op, Check):
            self.guard = b.both(self.guard, self.values[op.condition])
        elif self.guard is not None and isinstance(op, Check):
            passed = b.op("or", self.values[op.condition], b.op("xor", self.guard, b.const(True, "i1")))
            b.emit(rebuilt(op, self.value, self.form, condition=passed))
        elif self.guard is not None and isinstance(op, Load | Store):
            where = self.guard if op.where is None else b.both(self.guard, self.values[op.where])
            copy = b.emit(rebuilt(op, self.value, self.form, where=where), op.results[0].name if op.results else "")
            self.values.update(zip(op.results, copy.results, strict=True))
        else:
            super().one(op, b)

    def region(self, region: Region, b: Builder) -> Region:
        """What stands in a loop hasn't been checked before."""
        guarding, self.guarding = self.guarding, False
        copy = super().region(region, b)
        self.guarding = guarding
        return copy

    def update(self, update: ScatteredUpdate, b: Builder) -> None:
        with b.at(update.store.span):
            added = self.joined(update, b)
            where: Value | None = None if update.store.where is None else self.values[update.store.where]
            for condition, holds in update.conditions:
                held = self.values[condition]
                where = b.both(where, held if holds else b.op("xor", held, b.const(True, "i1")))
            if self.guard is not None:
                where = b.both(where, self.guard)
            self.put(b, [ScatteredChange(update, tuple(map(self.form, update.store.index)), added, where)])

    def joined(self, update: ScatteredUpdate, b: Builder) -> Value:
        """The terms of an update as one."""
        total: Value | None = None
        for operator, term in update.terms:
            value = self.values[term]
            if total is None:
                total = _negative(b, value) if operator == "sub" else value
            else:
                total = b.op(operator, total, value)
        assert total is not None
        return total


def _negative(b: Builder, value: Value) -> Value:
    dtype = dtype_of(value)
    return b.op("neg", value) if is_float(dtype) else b.sub(b.const(0, dtype), value)
