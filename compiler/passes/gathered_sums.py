"""Scattered sums, gathered: what `out[y * s + q] += x[y] * w[q]` adds to the element p is the sum over q of what y = (p - q) / s adds,
where there is such a y. Iterations that meet in an element become iterations each of which has an element of its own."""

from collections.abc import Iterator, Sequence

from compiler.analysis.accesses import reorders, updates
from compiler.analysis.affine_sets import digits_unique
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, If, Yield
from compiler.hir.core import dtype_of
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field, frozen


def gathered_sums(nest: HirFunction) -> HirFunction | None:
    """The nest (form A) with its scattered sums gathered; None where it has none that may be added up in another order."""
    gathering = _Gathering(nest)
    function = gathering.run()
    return function if gathering.changed else None


@frozen(eq=False)
class _Scattered:
    """Loops around one another, what they hold besides loops, and the sum in which they meet. `moved`: for dimensions of its index the loop
    that is to run over the dimension instead."""

    loops: tuple[For, ...]
    held: tuple[Instruction, ...]
    store: Store
    moved: dict[int, For]


@define(eq=False)
class _Gathering(Rebuild):
    changed: bool = field(default=False, init=False)
    elements: dict[Value, dict[int, Affine]] = field(factory=dict, init=False)
    """What to put in which dimensions of indices of a memory."""

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if isinstance(op, Load | Store) and op.mem in self.elements:
            element = self.elements[op.mem]
            index = tuple(element.get(number, self.form(form)) for number, form in enumerate(op.index))
            name = op.results[0].name if op.results else ""
            return into.emit(rebuilt(op, self.values.__getitem__, self.form, index=index), name).results
        scattered = _scattered(op) if isinstance(op, For) and into.region is self.owner.body.region else None
        if scattered is None:
            return self.copy(op, into)
        self.changed = True
        self.gather(scattered, 0, {}, into)
        return []

    def gather(self, sum_: _Scattered, depth: int, positions: dict[int, Affine], into: Builder) -> None:
        """The loops from this one on; `positions`: variables of those that run over dimensions."""
        if depth == len(sum_.loops):
            self.guarded(sum_, positions, into)
            return
        loop = sum_.loops[depth]
        dimension = next((number for number, moved in sum_.moved.items() if moved is loop), None)
        low, high = self.form(loop.low), self.form(loop.high)
        if dimension is not None:
            low, high = Affine(), self.form(mem_of(sum_.store.mem).dims[dimension])
        with into.loop(loop.variable.name, low, high, 1, (), loop.place, **dict(loop.marks)) as (inner, handle):
            if dimension is None:
                self.bind(loop.variable, handle.variable)
            else:
                positions = {**positions, dimension: Affine.of(handle.variable.name)}
            self.gather(sum_, depth + 1, positions, inner)

    def guarded(self, sum_: _Scattered, positions: dict[int, Affine], into: Builder) -> None:
        """What the loops hold, where there is an iteration for this element."""
        condition: Value | None = None
        for dimension, loop in sum_.moved.items():
            form = sum_.store.index[dimension]
            factor = form.coefficient(loop.variable.name)
            away = positions[dimension] - self.form(form.without(loop.variable.name))
            away, factor = (away, factor) if factor > 0 else (-away, -factor)
            iteration = away.floordiv(factor)
            low, high = self.form(loop.low), self.form(loop.high)
            if factor > 1:
                divides = into.op("eq", into.index(away - iteration * factor), into.const(0, "index"))
                condition = into.both(condition, divides)
            condition = into.both(condition, into.inbounds(iteration - low, high - low))
            self.names[loop.variable.name] = iteration
            self.values[loop.variable] = into.index(iteration)
        assert condition is not None
        self.elements[sum_.store.mem] = positions
        with into.when(condition) as inner:
            self.region(Region(body=list(sum_.held)), inner)
        del self.elements[sum_.store.mem]


def _scattered(top: For) -> _Scattered | None:
    loops, held = _nest(top)
    everything = [op for op in top.walk() if not isinstance(op, Yield)]
    if any(not isinstance(op, For | If | Load | Store) and op.effects is not Effect.PURE for op in everything):
        return None
    if any(loop.carried or loop.step != 1 for loop in loops) or sum(isinstance(op, For) for op in everything) != len(loops):
        return None
    stores = [op for op in everything if isinstance(op, Store)]
    store = stores[0] if len(stores) == 1 else None
    own = [op for op in everything if isinstance(op, Load) and store is not None and op.mem is store.mem]
    if store is None or store.where is not None or len(own) != 1 or own[0].index != store.index:
        return None
    update = updates(store.value, lambda value: value is own[0].result)
    if update is None or not reorders(update[0], dtype_of(store.value), update[2]):
        return None
    moved = _moved(loops, store)
    return _Scattered(loops, held, store, moved) if moved else None


def _nest(top: For) -> tuple[tuple[For, ...], tuple[Instruction, ...]]:
    """Loops that hold only the next one and values beside it, and all that they and the innermost one hold, from the outermost on."""
    loops, held = [top], list[Instruction]()
    while True:
        body = [op for op in loops[-1].body.body if not isinstance(op, Yield)]
        inner = [op for op in body if isinstance(op, For)]
        others = [op for op in body if not isinstance(op, For)]
        held += others
        if len(inner) != 1 or not all(isinstance(op, Load) or op.effects is Effect.PURE for op in others):
            return tuple(loops), tuple(held)
        loops.append(inner[0])


def _moved(loops: Sequence[For], store: Store) -> dict[int, For]:
    """Loops by the dimensions that they are to run over; none where that isn't enough for each iteration to have an element."""
    extents = {loop.variable.name: loop.high - loop.low for loop in loops}
    moved: dict[int, For] = {}
    for dimension, form in enumerate(store.index):
        own = [name for name in form.names if name in extents]
        if any(form.coefficient(name) == 0 for name in own):
            return {}
        if len(own) < 2 or digits_unique([(form.coefficient(name), extents[name]) for name in own]):
            continue
        able = [loop for loop in loops if loop.variable.name in own and _is_free(loop, loops, store, dimension)]
        if not able:
            return {}
        moved[dimension] = max(able, key=lambda loop: _length(extents[loop.variable.name], abs(form.coefficient(loop.variable.name))))
    return moved


def _is_free(loop: For, loops: Sequence[For], store: Store, dimension: int) -> bool:
    """Whether the loop's variable is in no other dimension of the index, and in no other loop's bounds."""
    name = loop.variable.name
    forms: Iterator[Affine] = (form for number, form in enumerate(store.index) if number != dimension)
    bounds = (bound for other in loops for bound in (other.low, other.high))
    return not any(name in form.names for form in (*forms, *bounds))


def _length(extent: Affine, factor: int) -> tuple[bool, int, int]:
    """What the longest of several loops has most of: a size that is no number counts as long, windows are numbers."""
    return extent.value is None, extent.value or 0, factor
