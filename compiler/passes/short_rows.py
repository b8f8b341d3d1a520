"""Loops whose number of turns data say, and that do nothing but reduce: where they are short, as rows of a sparse matrix are, a loop of
whole vectors and one of single elements behind it would each end by a branch that isn't foretold. Rows in memory go in some vectors at a
time, under masks to their end, so that most have one turn. Elements at indices that are data are read one by one, and a check that fails
leaves at once: vectors of them would be put together, and what the check gives be kept.

for %k in %a..%b carried=... { .. }   =>
    if %b - %a < 64 { for %n in 0..ceil((%b - %a) / 32) carried=... { .. of %a + 32 %n + 16 row + simd, as far as that is below %b } }
    else { the same without masks for whole blocks, and with them for the last }"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from compiler.analysis.ends_by_data import ends_by_data, follows_the_last
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, Yield
from compiler.hir.core import Binary, Cast, dtype_of
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.numbers import limits
from compiler.hir.types import FLOATS, Tile, bytes_of, is_float
from compiler.machines.cpu import CpuMachine
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field, frozen

SHORT, SHORT_FETCHED = 64, 32
"""Turns below which a loop is short: one over elements in a row, and one at indices that are data."""

LANES, NARROW = 8, 2
"""Turns of a block that reads at indices that are data, and bytes of floats that are read there for which it pays."""

VECTORS = 2
"""Vectors of a block."""

AHEAD = 2048
"""Bytes that short rows one behind the other are fetched ahead where they go in lanes: others gain nothing, and long ones lose by it."""

JOINED = ("add", "mul", "min", "max")


def short_rows(function: HirFunction, machine: CpuMachine) -> HirFunction:
    """The function with such loops twice; itself where it has none."""
    ops = [op for top in function.body.body for op in top.walk()]
    made = {value.name: op for op in ops for value in op.results}
    rows: dict[Instruction, _Row] = {op: row for op in ops if isinstance(op, For) and (row := _row_of(op, made, machine)) is not None}
    return _Rows(function, rows=rows, compared="u8" if machine.masked_bits == 8 else "i32").run() if rows else function


@frozen(eq=False)
class _Row:
    """A loop that joins a term with each value that it carries."""

    folds: tuple[Binary, ...]
    terms: tuple[Value, ...]
    lanes: int
    fetches: bool
    """Whether elements are read at indices that are data."""
    fetched: tuple[Load, ...]
    """These, where they are floats that are converted, many at once, and all others can be read under masks."""
    marks: dict[str, Any]
    """Of loops over a row."""


def _row_of(op: For, made: Mapping[str, Instruction], machine: CpuMachine) -> _Row | None:
    if not op.carried or op.step != 1 or op.place != "time" or op.marks or not ends_by_data(op, made.get):
        return None
    *body, last = op.body.body
    totals = op.body.parameters[1:]
    folds = tuple(i for value in last.operand_values if isinstance(i := value.source, Binary) and i in body and _joins(i))
    if not isinstance(last, Yield) or len(set(folds)) != len(totals):
        return None
    terms = tuple(_narrowed(fold.right if fold.left is total else fold.left, fold, op) for fold, total in zip(folds, totals, strict=True))
    others = {*terms, *(value for inner in body if inner not in folds for value in inner.operand_values)}
    if not others.isdisjoint((*totals, *(fold.result for fold in folds))):
        return None
    if any(total not in fold.operand_values for fold, total in zip(folds, totals, strict=True)):
        return None
    loads = [inner for inner in body if isinstance(inner, Load)]
    plain = all(not i.regions and (i.effects in (Effect.PURE, Effect.READ) or isinstance(i, Check)) for i in body)
    if not loads or not plain:
        return None
    inside = {value.name: value for inner in body for value in inner.results}
    if any(load.where is not None or load.pad is not None for load in loads):
        return None
    fetched = [load for load in loads if any(name in inside for form in load.index for name in form.names)]
    checked = any(isinstance(inner, Check) for inner in body)
    if not fetched and (checked or not all(_is_in_vectors(load, op.variable.name, machine) for load in loads)):
        return None
    wide = {fold.result for fold in folds} | {value for fold in folds for value in fold.operand_values}
    computed = {dtype_of(value) for inner in body for value in inner.results if value not in wide or value in terms} - {"index", "i1"}
    lanes = min(machine.lanes(dtype) for dtype in computed)
    masked = all(_is_in_vectors(load, op.variable.name, machine) if load not in fetched else _is_narrow(load, inside) for load in loads)
    marks = {"ahead": AHEAD} if follows_the_last(op, made.get) else {}
    return _Row(folds, terms, lanes, bool(fetched), tuple(fetched) if masked else (), marks) if lanes > 1 else None


def _narrowed(term: Value, fold: Binary, op: For) -> Value:
    """The whole number that a least or greatest one of wider ones is one of: vectors of it have more lanes."""
    match term.source:
        case Cast(value=value) if fold.operator in ("min", "max") and not {dtype_of(value), dtype_of(term)} & {"i1", *FLOATS}:
            (low, high), (least, most) = limits(dtype_of(value)), limits(dtype_of(term))
            readers = [inner for inner in op.body.body if term in inner.operand_values]
            return value if least <= low and high <= most and readers == [fold] else term
        case _:
            return term


def _joins(op: Binary) -> bool:
    """Whether it may join terms in any order."""
    return op.operator in JOINED and ("reassoc" in op.flags or op.operator in ("min", "max") or not is_float(dtype_of(op.result)))


def _is_in_vectors(load: Load, variable: str, machine: CpuMachine) -> bool:
    """Whether the machine loads the elements of some turns at once, under a mask."""
    mem = mem_of(load.mem)
    dense = mem.strides is None or mem.strides[-1].value == 1
    steps = [form.coefficient(variable) for form in load.index]
    return dense and not any(steps[:-1]) and steps[-1] == 1 and 8 * bytes_of(mem.dtype) >= machine.masked_bits


def _is_narrow(load: Load, inside: Mapping[str, Value]) -> bool:
    """Whether a float of few bytes is read at an index that memory holds as it is: at 0 where none is read."""
    mem, forms = mem_of(load.mem), [form for form in load.index if form in map(Affine.of, inside)]
    source = inside[min(forms[0].names)].source if len(forms) == 1 == mem.rank else None
    source = source.value.source if isinstance(source, Cast) else source
    return isinstance(source, Load) and is_float(mem.dtype) and bytes_of(mem.dtype) <= NARROW


@define(eq=False)
class _Rows(Rebuild):
    rows: Mapping[Instruction, _Row] = field(factory=dict, kw_only=True)
    compared: str = field(kw_only=True)
    """The type in which turns of a block are compared, as wide as the narrowest lanes that have masks."""

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op not in self.rows or not isinstance(op, For):
            return self.copy(op, into)
        count = into.op("max", into.index(self.form(op.high) - self.form(op.low)), into.const(0, "index"))
        row = self.rows[op]
        few = into.op("lt", count, into.const(SHORT_FETCHED if row.fetches else max(SHORT, VECTORS * row.lanes), "index"))
        for extent in dict.fromkeys(dim for load in row.fetched for dim in mem_of(load.mem).dims):
            # lanes outside of a row read what is first
            few = into.both(few, into.op("gt", into.index(self.form(extent)), into.const(0, "index")))
        with into.branch(few, [value.type for value in op.results]) as (then, otherwise, chosen):
            if row.fetches:
                alone = partial(self.one_by_one, op)
                then.yield_(*(self.in_lanes(op, row, count, then) if row.fetched else alone(then, short=True)))
                otherwise.yield_(*alone(otherwise))
            else:
                then.yield_(*self.in_vectors(op, row, count, True, then))
                otherwise.yield_(*self.in_vectors(op, row, count, False, otherwise))
        return chosen.results

    def one_by_one(self, op: For, into: Builder, **marks: object) -> Sequence[Value]:
        return into.emit(rebuilt(self.renewed(op, into), lambda value: value, marks=marks)).results

    def in_lanes(self, op: For, row: _Row, count: Value, into: Builder) -> list[Value]:
        """What all turns come to, few lanes at a time, the first of them under a mask: how often a loop goes on is foretold once."""
        lanes = self.axis(f"simd_{LANES}", LANES)
        types = [Tile(dtype_of(term), ((lanes, LANES),)) for term in row.terms]
        nothing = [into.const(identity_of(f.operator, [t.dtype])[0], t) for f, t in zip(row.folds, types, strict=True)]
        low, whole, within = self.form(op.low), Affine.of(count.name).floordiv(LANES), Affine.of(lanes)
        rest = into.index(Affine.of(count.name) - whole * LANES)
        inside = into.op("lt", into.cast(into.index(within), "i32"), into.cast(rest, "i32"))
        with into.loop("first", 0, 1, carried=nothing, short=True, **row.marks) as (body, first):
            terms = self.terms(op, row, low + within, inside, body)
            body.yield_(*[body.select(inside, term, none) for term, none in zip(terms, nothing, strict=True)])
        with into.loop("block", 0, whole, carried=first.results, short=True, **row.marks) as (body, loop):
            terms = self.terms(op, row, low + rest.name + Affine.of(loop.variable.name) * LANES + within, None, body)
            body.yield_(*[body.op(f.operator, a, b, flags=f.flags) for f, a, b in zip(row.folds, loop.carried, terms, strict=True)])
        return self.whole(op, row, count, loop.results, [lanes], into)

    def in_vectors(self, op: For, row: _Row, count: Value, short: bool, into: Builder) -> list[Value]:
        """What all turns come to, some vectors at a time. `short`: under masks all along."""
        vectors, lanes = self.axis("row", VECTORS), self.axis("simd", row.lanes)
        types = [Tile(dtype_of(term), ((vectors, VECTORS), (lanes, row.lanes))) for term in row.terms]
        nothing = [into.const(identity_of(f.operator, [t.dtype])[0], t) for f, t in zip(row.folds, types, strict=True)]
        within, tile = Affine.of(vectors) * row.lanes + Affine.of(lanes), VECTORS * row.lanes
        low = self.form(op.low)

        def block(number: Affine, masked: bool, body: Builder) -> list[Value]:
            first, inside = number * tile, None
            if masked:
                # few turns: narrow numbers are compared in fewer vectors
                rest = body.op("min", body.index(Affine.of(count.name) - first), body.const(tile, "index"))
                inside = body.op("lt", body.cast(body.index(within), self.compared), body.cast(rest, self.compared))
            terms = self.terms(op, row, low + first + within, inside, body)
            return [body.select(inside, term, none) for term, none in zip(terms, nothing, strict=True)] if inside is not None else terms

        whole = Affine.of(1) if short else Affine.of(count.name).floordiv(tile)
        # a row without turns is a block of none of them: its end is foretold as that of any other
        sofar = nothing
        if short:
            with into.loop("first", 0, 1, carried=nothing) as (body, first):
                body.yield_(*block(Affine(), True, body))
            sofar = first.results
        for start, end, masked in ((Affine(), whole, False), (whole, Affine.of(count.name).ceildiv(tile), True))[short:]:
            with into.loop("block", start, end, carried=sofar) as (body, loop):
                terms = block(Affine.of(loop.variable.name), masked, body)
                body.yield_(*[body.op(f.operator, a, b, flags=f.flags) for f, a, b in zip(row.folds, loop.carried, terms, strict=True)])
            sofar = loop.results
        return self.whole(op, row, count, sofar, [vectors, lanes], into)

    def whole(self, op: For, row: _Row, count: Value, sofar: Sequence[Value], over: Sequence[str], into: Builder) -> list[Value]:
        """What lanes come to, joined with what was before."""
        results: list[Value] = []
        for fold, initial, vector in zip(row.folds, op.carried, sofar, strict=True):
            flags = [flag for flag in fold.flags if flag == "reassoc"]
            (all_,) = into.reduce(fold.operator, vector, over=over, flags=flags)
            before, wide = self.values[initial], dtype_of(fold.result)
            joined = into.op(fold.operator, before, all_ if dtype_of(all_) == wide else into.cast(all_, wide), flags=fold.flags)
            # what changes nothing in a narrow type may change something in a wide one
            results.append(joined if dtype_of(all_) == wide else into.select(into.op("gt", count, into.const(0, "index")), joined, before))
        return results

    def terms(self, op: For, row: _Row, turn: Affine, inside: Value | None, into: Builder) -> list[Value]:
        """What the turns `turn` join; those that aren't `inside` read nothing."""
        before = dict(self.values), dict(self.names)
        self.values[op.variable], self.names[op.variable.name] = into.index(turn), turn
        for each in op.body.body[:-1]:
            if each not in row.folds:
                into.span = each.span
                masked: dict[str, Any] = {"where": inside} if isinstance(each, Load) and each not in row.fetched else {}
                if isinstance(each, Check) and inside is not None:
                    masked = {"condition": into.op("or", self.values[each.condition], into.op("not", inside))}
                new = rebuilt(each, self.values.__getitem__, self.form, **masked)
                made = into.emit(new, each.results[0].name if each.results else "").results
                for old, value in zip(each.results, made, strict=True):
                    self.bind(old, value)
        terms = [self.values[term] for term in row.terms]
        self.values, self.names = before
        return terms

    def axis(self, name: str, extent: int) -> str:
        return name if self.owner.function.axes.get(name) == Affine.of(extent) else self.owner.axis(name, extent)
