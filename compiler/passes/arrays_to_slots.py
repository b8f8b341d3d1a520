"""Elements of small arrays become slots, so that they are kept in registers. Loops that count their elements are written out, and an index
that data decide chooses among the elements that it may mean:

    %s = alloc array=true : mem<2xf32, local>        %s0 = slot ...   %s1 = slot ...
    for n in 0..2 {                                  %t = get %s0 ... set %s0, ...
      %t = load %s[n] ... store %s[n], ...     =>    %t = get %s1 ... set %s1, ...
    }                                                %c = eq %k, 1   %u = select %c, get %s1, get %s0
    %u = load %s[k]

Arrays of many elements, with choices among many, or whose loops are long stay memory. Forms A and C."""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import product
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import MOST_UNROLLED, Break, Continue, For, If
from compiler.hir.core import Binary, Cast, Compare, Const, Index, Select
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.passes.canonicalize import RULES, Canonicalizing
from runtime.records import define, field

MOST_ELEMENTS = 64
"""Of an array in slots: a thread of a GPU has 255 registers."""
MOST_CHOICES = 16
"""Elements among which an index chooses: each takes a comparison and a selection."""
MOST_INSTRUCTIONS = 4096
"""Of what is written out."""


def arrays_to_slots(function: HirFunction) -> HirFunction:
    """The function with the elements of small arrays in slots."""
    plan = _Plan(function)
    plan.make()
    return _Writing(function, RULES, plan.arrays.keys(), plan.unrolled).run() if plan.arrays else function


@define(eq=False)
class _Access:
    """A load or store of an array: the loops that must be written out for its index to be numbers, and its choices where data decide."""

    op: Load | Store
    loops: set[For]
    choices: int


@define(eq=False)
class _Plan:
    """Which arrays are kept in slots, and which loops are written out for them."""

    function: HirFunction
    arrays: dict[Value, list[_Access]] = field(factory=dict, init=False)
    unrolled: set[For] = field(factory=set, init=False)
    loops: dict[str, For] = field(factory=dict, init=False)
    defined: dict[str, Value] = field(factory=dict, init=False)
    closures: dict[For, set[For] | None] = field(factory=dict, init=False)
    choices: dict[Load | Store, int] = field(factory=dict, init=False)

    def make(self) -> None:
        operations = [op for top in self.function.body.body for op in top.walk()]
        for op in operations:
            self.defined.update((result.name, result) for result in op.results)
            if isinstance(op, For):
                self.loops[op.variable.name] = op
            if isinstance(op, Alloc) and op.array and prod(dim.value or 0 for dim in op.type.dims) <= MOST_ELEMENTS:
                self.arrays[op.result] = []
        if not self.arrays:
            return
        for op in operations:
            if isinstance(op, Load | Store) and op.mem in self.arrays:
                self.arrays[op.mem].append(self.access(op))
            for value in op.operand_values:
                if value in self.arrays and not (isinstance(op, Load | Store) and op.mem is value):
                    del self.arrays[value]
        for value, accesses in list(self.arrays.items()):
            if any(access.choices > MOST_CHOICES for access in accesses):
                del self.arrays[value]
        while self.arrays:
            self.unrolled = {loop for accesses in self.arrays.values() for access in accesses for loop in access.loops}
            self.choices = {access.op: access.choices for accesses in self.arrays.values() for access in accesses}
            if self.count(self.function.body, {}, MOST_INSTRUCTIONS) <= MOST_INSTRUCTIONS:
                return
            del self.arrays[max(self.arrays, key=lambda value: prod(dim.value or 0 for dim in mem_of(value).dims))]

    def access(self, op: Load | Store) -> _Access:
        loops: set[For] = set()
        choices = 1
        for form, dim in zip(op.index, mem_of(op.mem).dims, strict=True):
            found = self.closure_of(form.names)
            if found is None:
                choices *= dim.value or 0
            else:
                loops |= found
        return _Access(op, loops, choices)

    def closure_of(self, names: Sequence[str]) -> set[For] | None:
        """The loops whose turns decide what these names are; None where data do, too."""
        found: set[For] = set()
        for name in names:
            if name in self.loops:
                closure = self.closure(self.loops[name])
            else:
                closure = self.closure_of_value(self.defined[name]) if name in self.defined else None
            if closure is None:
                return None
            found |= closure
        return found

    def closure_of_value(self, value: Value) -> set[For] | None:
        if value.name in self.loops:
            return self.closure(self.loops[value.name])
        match value.source:
            case Const():
                return set()
            case Index(of=form):
                return self.closure_of(form.names)
            case Binary() | Cast() | Compare() | Select() as op:
                parts = [self.closure_of_value(operand) for operand in op.operand_values]
                return None if any(part is None for part in parts) else {loop for part in parts for loop in part or ()}
            case _:
                return None

    def closure(self, loop: For) -> set[For] | None:
        """The loop and those around it on which its range depends; None where it can't be written out."""
        if loop not in self.closures:
            self.closures[loop] = None
            around = self.closure_of((*loop.low.names, *loop.high.names))
            if around is not None and not loop.carried and not _leaves(loop.body) and loop.place == "time":
                turns = _turns(loop.low.value, loop.high.value, loop.step) if not around else None
                if turns is None or len(turns) <= MOST_UNROLLED:
                    self.closures[loop] = {loop, *around}
        return self.closures[loop]

    def count(self, region: Region, known: dict[str, int], most: int) -> int:
        """Instructions when the loops are written out; more than `most` where there are more."""
        total = 0
        for op in region.body:
            if isinstance(op, For) and op in self.unrolled:
                if any(name not in known for name in (*op.low.names, *op.high.names)):
                    return most + 1  # a range that only values say
                low, high = (bound.evaluate(known.__getitem__) for bound in (op.low, op.high))
                for turn in range(low, high, op.step):
                    total += self.count(op.body, {**known, op.variable.name: turn}, most - total)
                    if total > most:
                        return total
                continue
            total += 2 * self.choices.get(op, 1) if isinstance(op, Load | Store) and self.choices.get(op, 1) > 1 else 1
            for inner in op.regions:
                total += self.count(inner, known, most - total)
            if total > most:
                return total
        return total


def _turns(low: int | None, high: int | None, step: int) -> range | None:
    return None if low is None or high is None else range(low, high, step)


def _leaves(region: Region) -> bool:
    """Whether a `break` or `continue` of the loop around the region stands in it."""
    return any(
        isinstance(op, Break | Continue) or (isinstance(op, If) and any(_leaves(inner) for inner in op.regions)) for op in region.body
    )


@define(eq=False)
class _Writing(Canonicalizing):
    arrays: Collection[Value] = field(factory=tuple)
    unrolled: Collection[For] = field(factory=tuple)
    elements: dict[Value, dict[tuple[int, ...], Value]] = field(factory=dict, init=False)
    read: dict[Value, tuple[object, ...]] = field(factory=dict, init=False)
    """Elements that were chosen, and where."""
    stores: dict[Value, int] = field(factory=dict, init=False)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        match op:
            case Alloc() if op.result in self.arrays:
                nothing = into.const(0, op.type.dtype)
                extents = [range(dim.value or 0) for dim in op.type.dims]
                self.elements[op.result] = {index: into.slot(nothing, f"{op.result.name}_{index[-1]}") for index in product(*extents)}
                return [nothing]  # nothing uses it
            case Load() if op.mem in self.elements:
                return [self.load(op, into)]
            case Load() if mem_of(op.mem).readonly:
                return into.emit(self.renewed(op, into), op.result.name, repeats=False).results  # the same in every turn
            case Store() if op.mem in self.elements:
                self.store(op, into)
                return []
            case For() if op in self.unrolled:
                for turn in _turns(self.form(op.low).value, self.form(op.high).value, op.step) or ():
                    self.bind(op.variable, into.index(turn))
                    self.region(op.body, into)
                return []
        return super().instruction(op, into)

    def load(self, op: Load, into: Builder) -> Value:
        """The element, or the choice among those that the index may mean."""
        chosen: Value | None = None
        for conditions, slot in self.meant(op, into):
            element = into.get(slot)
            condition = _all(conditions, into)
            chosen = element if chosen is None or condition is None else into.select(condition, element, chosen)
        assert chosen is not None
        self.read[chosen] = self.access(op, into)
        return chosen

    def access(self, op: Load | Store, into: Builder) -> tuple[object, ...]:
        """Which element it is, and since which store, where the same code goes on."""
        return op.mem, *map(self.form, op.index), self.stores.get(op.mem, 0), into.region

    def store(self, op: Store, into: Builder) -> None:
        value = self.values[op.value]
        where = [] if op.where is None else [self.values[op.where]]
        update = self.update_of(op, value, into)
        for conditions, slot in self.meant(op, into):
            condition = _all([*conditions, *where], into)
            if condition is None:
                into.set(slot, value)
                continue
            old = into.get(slot)
            into.set(slot, into.select(condition, value if update is None else update(old), old))
        self.stores[op.mem] = self.stores.get(op.mem, 0) + 1

    def update_of(self, op: Store, value: Value, into: Builder) -> Callable[[Value], Value] | None:
        """How the element that the index means is changed, `h[k] += e`: then each element is, where it is the one, as a sum of its own."""
        source = value.source
        if not isinstance(source, Binary):
            return None
        own = [side for side in (source.left, source.right) if self.read.get(side) == self.access(op, into)]
        if len(own) != 1:
            return None

        def changed(old: Value) -> Value:
            left, right = (old if side is own[0] else side for side in (source.left, source.right))
            return into.op(source.operator, left, right, flags=source.flags)

        return changed

    def meant(self, op: Load | Store, into: Builder) -> Iterator[tuple[list[Value], Value]]:
        """The elements that the access may mean, each with the conditions under which it does."""
        forms = [self.form(form) for form in op.index]
        elements = self.elements[op.mem]
        positions = {form: into.index(form) for form in forms if form.value is None}
        equal: dict[tuple[Affine, int], Value] = {}
        for index, slot in elements.items():
            if any(form.value is not None and form.value != at for form, at in zip(forms, index, strict=True)):
                continue
            conditions = []
            for form, at in zip(forms, index, strict=True):
                if form.value is None:
                    if (form, at) not in equal:
                        equal[form, at] = into.op("eq", positions[form], into.const(at, "index"))
                    conditions.append(equal[form, at])
            yield conditions, slot


def _all(conditions: Sequence[Value], into: Builder) -> Value | None:
    held: Value | None = None
    for condition in conditions:
        held = into.both(held, condition)
    return held
