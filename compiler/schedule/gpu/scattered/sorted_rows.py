"""Rows that are added to rows which data name, `out[k[i], c] += v[i, c]`. Sums of floats keep their order where the row numbers are sorted
first, which is stable: a number is moved for each row, and each element is read once then, by whoever adds up its row
(`sorted_row_sums.py`). Changing every element by itself costs atomics for every element.

    check k[i]
    rows[i] = i; keys[i] = k[i]
    sort keys, rows
    out[k, c] += v[i, c]    for each run of equal keys"""

from collections.abc import Callable, Sequence

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.library import Sort
from compiler.hir.memory import Check, Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import DTYPES, Mem, is_float
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.library.sorting import WARP
from compiler.schedule.gpu.scattered.scatter_sums import ScatterSum, sum_of, with_copies
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.gpu.scattered.scattered import ScatteredSums, ScatteredUpdate, is_relaxed, scattered_sums
from compiler.schedule.stages import iterations
from runtime.records import evolve, frozen

FEWEST = 4
"""Elements of a row from which on sorting its number takes less than changing them one by one."""
MOST = 1 << 31
"""Rows, of terms or of results, that 32 bits number."""


@frozen(eq=False)
class SortedRows:
    """A nest of which one loop takes rows, and the `inner` ones their elements. `by_data`: dims of the result that data say; `naming`: what
    computes them; `checking`: what checks them, and other indices; `adding`: what computes the term of an element, with these checks
    where `guarded`. `bits` of a key; `fresh`: whether the result is zeros before."""

    nest: For
    loop: For
    inner: tuple[For, ...]
    update: ScatteredUpdate
    by_data: tuple[int, ...]
    naming: tuple[Instruction, ...]
    checking: tuple[Instruction, ...]
    adding: tuple[Instruction, ...]
    bits: int
    guarded: bool
    fresh: bool

    @property
    def target(self) -> Value:
        return self.update.store.mem

    @property
    def cells(self) -> tuple[Affine, ...]:
        """Extents of the dims that data say."""
        return tuple(mem_of(self.target).dims[dim] for dim in self.by_data)

    @property
    def whole(self) -> bool:
        """Whether every element of a result that was zeros is stored."""
        index, dims = self.update.store.index, mem_of(self.target).dims
        own = {Affine.of(loop.variable.name): loop.high for loop in self.inner if loop.low == Affine() and loop.step == 1}
        return self.fresh and all(dim in self.by_data or own.get(index[dim]) == extent for dim, extent in enumerate(dims))

    @property
    def word(self) -> str:
        return next(dtype for dtype in ("u8", "u16", "u32") if self.bits <= DTYPES[dtype])


def sorted_rows(sums: ScatteredSums, nest: HirFunction, facts: Facts) -> SortedRows | None:
    """None where rows are short, or the row of a result doesn't follow from one loop alone; or where the order of a sum doesn't show in its
    bits, as atomics are enough then."""
    if len(sums.updates) != 1 or sums.other_stores or sums.nest.private:
        return None
    (update,) = sums.updates.values()
    store, body = update.store, [*sums.nest.between, *sums.nest.inner.body.body]
    if store.where is not None or update.conditions or update.monoid != "add" or not is_float(mem_of(store.mem).dtype) or store not in body:
        return None
    variables = {loop.variable.name for loop in sums.nest.loops}
    by_data = tuple(dim for dim, form in enumerate(store.index) if not _is_own(form, variables))
    own = [name for dim, form in enumerate(store.index) if dim not in by_data for name in form.names]
    checks = [op for op in body if isinstance(op, Check)]
    names = {name for dim in by_data for name in store.index[dim].names}
    naming, checking = _slice(body, names, ()), _slice(body, set(), checks)
    told = names.union(*map(_names, (*naming, *checking)))
    rows = [loop for loop in sums.nest.loops if loop.variable.name in told]
    inner = tuple(loop for loop in sums.nest.loops if loop not in rows)
    if len(rows) != 1 or rows[0].step != 1 or sorted(own) != sorted(loop.variable.name for loop in inner):
        return None
    cells = most_elements([mem_of(store.mem).dims[dim] for dim in by_data], facts)
    count, elements = (most_elements([iterations(loop) for loop in loops], facts) for loops in (rows, inner))
    if count is None or elements is None or cells is None or max(count, cells) > MOST or elements < FEWEST:
        return None
    terms = {term.name for _, term in update.terms}
    known = variables | {parameter.name for parameter in nest.parameters}
    loads = [inside for op in _slice(body, terms, ()) for inside in op.walk() if isinstance(inside, Load)]
    guarded = any(name not in known for op in loads for form in op.index for name in form.names)
    adding = _slice(body, terms, checks if guarded else ())  # nothing is read at a place whose check has failed
    every = {inside for op in (*naming, *checking, *adding) for inside in op.walk()}
    if not all(map(_is_plain, every)) or any(isinstance(inside, Check) and inside not in every for op in body for inside in op.walk()):
        return None  # what a loop inside checks is checked where it adds
    before = nest.body.body[: nest.body.body.index(sums.nest.outer)]
    fresh = store.mem.name in facts.zeroed and not any(store.mem in op.operand_values for top in before for op in top.walk())
    bits = max(1, (cells - 1).bit_length())
    return SortedRows(sums.nest.outer, rows[0], inner, update, by_data, naming, checking, adding, bits, guarded, fresh)


def _is_own(form: Affine, variables: set[str]) -> bool:
    """Whether an index follows from one loop of a row's elements, another one for each of its iterations."""
    return len(form.terms) <= 1 and variables.issuperset(form.names) and all(isinstance(symbol, str) for symbol, _ in form.terms)


def _is_plain(op: Instruction) -> bool:
    return isinstance(op, Check | For | Yield) or op.effects is Effect.PURE or (isinstance(op, Load) and op.where is None)


def _names(op: Instruction) -> set[str]:
    return {name for inside in op.walk() for name in (*inside.symbols, *(value.name for value in inside.operand_values))}


def _slice(body: Sequence[Instruction], wanted: set[str], also: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """What values of these names, and these instructions, need of a body, in order."""
    needed = set(wanted)
    slice_: list[Instruction] = []
    for op in reversed(body):
        if op in also or any(result.name in needed for result in op.results):
            slice_.insert(0, op)
            needed |= _names(op)
    return tuple(slice_)


def with_sorted_rows(nest: HirFunction, found: SortedRows) -> tuple[HirFunction, Value, Value]:
    """The nest with the numbers of rows sorted in front of the loop that adds them; what is sorted, keys and rows."""
    out = FunctionBuilder(nest.name)
    out.scope = nest.scope()
    for name in out.scope.types:
        out.fresh(name)
    b, count = out.body, iterations(found.loop)
    keys, rows = (b.alloc(Mem(word, (count,), align=64), name) for word, name in ((found.word, "keys"), ("u32", "rows")))
    if found.checking:
        with b.loop("row", 0, count) as (inner, loop):
            _again(found, found.checking, inner, loop.variable)
    with b.loop("row", 0, count) as (inner, loop):
        row, number = loop.variable, _again(found, found.naming, inner, loop.variable)
        first, *further = (number(found.update.store.index[dim]) for dim in found.by_data)
        key = inner.cast(first, "u64")
        for extent, value in zip(found.cells[1:], further, strict=True):
            key = inner.add(inner.mul(key, inner.cast(inner.index(extent), "u64")), inner.cast(value, "u64"))
        # a key whose check has failed comes last
        key = inner.op("min", key, inner.const((1 << found.bits) - 1, "u64"))
        inner.store(keys, inner.cast(key, found.word), [row.name])
        inner.store(rows, inner.cast(row, "u32"), [row.name])
    b.emit(Sort(keys=keys, payload=(rows,), bits=found.bits))
    at = nest.body.body.index(found.nest)
    body = Region(nest.body.parameters, [*nest.body.body[:at], *out.body.region.body, *nest.body.body[at:]])
    return evolve(nest, body=body), keys, rows


def _again(found: SortedRows, ops: Sequence[Instruction], b: Builder, row: Value) -> Callable[[Affine], Value]:
    """Computes again, for a row, what instructions compute; gives what a form is there."""
    values: dict[str, Value] = {}
    names: dict[str, Affine | str] = {found.loop.variable.name: found.loop.low + row.name}

    def value(old: Value) -> Value:
        return b.index(found.loop.low + row.name) if old is found.loop.variable else values.get(old.name, old)

    for op in ops:
        copy = b.emit(rebuilt(op, value, lambda form: form.substitute(names)))
        values.update((old.name, new) for old, new in zip(op.results, copy.results, strict=True))
        names.update((old.name, new.name) for old, new in zip(op.results, copy.results, strict=True))
    plain = {Affine.of(name): known for name, known in values.items()}
    return lambda form: plain[form] if form in plain else b.index(form.substitute(names))


def rows_to_sort(op: For, nest: HirFunction, facts: NestFacts, known: Facts) -> SortedRows | None:
    """Rows that the loop adds where data say, where sorting their numbers takes less than changing their elements by atomics."""
    sums = scattered_sums(op, facts)
    if sums is None or is_relaxed(nest) or known.machine.lanes != WARP or not known.machine.has(Feature.BLOCK_ORDER):
        return None
    small = any(target.copies for method in methods_of(sums, False, known) for target in method.targets)
    return None if small else sorted_rows(sums, nest, known)


def methods_of(sums: ScatteredSums, relaxed: bool, known: Facts) -> tuple[ScatterSum, ...]:
    methods = [sum_of(mem, monoid, relaxed, sums.bounded) for mem, monoid in sums.memories.items()]
    total = most_elements([iterations(loop) for loop in sums.nest.loops], known)
    return with_copies(methods, total, not sums.other_stores, known)
