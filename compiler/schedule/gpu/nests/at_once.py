"""Several iterations of a shared loop under way in each thread, so that all their loads are on their way before the first is used; behind
the last one that is done again, and dropped. Which thread joins what, and in which order, depends on where the loop begins and ends
alone."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.core import Take
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.types import INDEX, Slot, bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.nests.barriers import Barriers
from compiler.schedule.gpu.nests.cooperate import Cooperation
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.gpu.pieces import loads_in_pieces
from compiler.schedule.stages import Start
from runtime.records import frozen


def overlaps(spread: Spread) -> bool:
    """Whether a thread may have several iterations under way: they do nothing but compute what is joined, and store elements."""
    loop = spread.outer
    ops, cells = loop.body.body, [cell for fold in spread.folds for cell in fold.cells]
    if len(spread.loops) > 1 or loop.step != 1 or spread.private or any(isinstance(cell.type, Slot) for cell in cells):
        return False
    names, stored = depending(cells, ops), set[Value]()
    for op in ops:
        if not isinstance(op, Load | Store | Check | Yield) and (op.effects is not Effect.PURE or op.regions):
            return False
        if isinstance(op, Load | Check) and (not names.isdisjoint(read_names(op)) or (isinstance(op, Load) and op.mem in stored)):
            return False
        if isinstance(op, Store):
            stored.add(op.mem)
    return bool(cells or stored)


def stores(loop: For) -> bool:
    return any(isinstance(op, Store) for op in loop.walk())


def is_running(loop: For) -> bool:
    """Whether it stores what its cells hold on the way."""
    names = depending(loop.body.parameters[1:], loop.body.body)
    return any(isinstance(op, Store) and not names.isdisjoint(read_names(op)) for op in loop.body.body)


PASSED = Value("", INDEX)
"""Whether an iteration takes part, and its checks have passed, among its values; nowhere in code."""


@frozen(eq=False)
class Pieces:
    """The loads of a loop that read neighbours in iterations side by side, of which a thread takes `width` at once."""

    loads: tuple[Load, ...] = ()
    width: int = 1


NONE = Pieces()


def pieces_of(loop: For, facts: Facts) -> Pieces:
    """In pieces of 16 bytes of the widest; loads behind a check wait for it."""
    ops = loop.body.body
    checked = next((place for place, op in enumerate(ops) if isinstance(op, Check)), len(ops))
    loads = tuple(op for op in loads_in_pieces(loop, facts) if ops.index(op) < checked)
    return Pieces(loads, ALIGNMENT // max(bytes_of(mem_of(op.mem).dtype) for op in loads)) if loads else NONE


@frozen(eq=False)
class Piece:
    """`width` neighbouring iterations, the `number`th such ones."""

    number: Value
    width: int

    def place(self, element: int) -> Affine:
        return Affine.of(self.number.name) * self.width + element

    def loaded(self, memory: Value, b: Builder) -> list[Value]:
        """What a memory holds there."""
        axis = f"simd_of_{self.width}"
        axis = axis if axis in b.owner.function.axes else b.owner.axis(axis, self.width)
        vector = b.load(memory, (self.place(0) + Affine.of(axis),))
        return [b.emit(Take(value=vector, axis=axis, at=Affine((), element))).result for element in range(self.width)]


def is_joining(op: Instruction, loop: For) -> bool:
    """Whether it computes from what the cells of a loop hold, or stores."""
    names = depending(loop.body.parameters[1:], loop.body.body)
    return isinstance(op, Store) or any(result.name in names for result in op.results)


class AtOnce(Cooperation):
    """Work whose threads have several iterations of a shared loop under way."""

    def __init__(
        self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, lanes: int, turns: int, pieces: Mapping[For, Pieces]
    ) -> None:
        """`turns`: how many."""
        super().__init__(start, spreads, barriers, lanes)
        self.turns, self.pieces = turns, pieces
        self.range: tuple[Affine, Affine] | None = None
        """Where loops begin and end, where that is not what they say."""
        self.held: int | None = None
        """Iterations of each loop that a thread has, at most, where all that it reads stays in registers."""
        self.silent = False
        """Whether nothing is stored."""

    singly = False
    """Whether what is left of turns is done one by one: reads are near."""

    def all_of_row(self, body: Sequence[Instruction], held: Sequence[int], number: int, b: Builder) -> None:
        """All that a row takes. `held`: numbers of elements of which a thread keeps what it reads, the least first, where the loops go over
        the same; `number`: of the threads that share it."""
        place = next((place for place, op in enumerate(body) if op in self.spreads), len(body)) if held else 0
        self.all(body[:place], b)
        loop = body[place] if held else None
        if not isinstance(loop, For):
            self.all(body[place:], b)
            return
        self.begins(loop, b)
        low, high = (b.index(form) for form in self.ends(loop, b))
        self.holding(body[place:], b.sub(high, low), [each * number for each in held], number, b)

    def holding(self, body: Sequence[Instruction], length: Value, most: Sequence[int], number: int, b: Builder) -> None:
        if not most:
            self.all(body, b)
            return
        with b.branch(self.everywhere(b.op("le", length, b.const(most[0], "index")), b)) as (few, many, _):
            self.held = most[0] // number
            self.all(body, few)
            self.held = None
            self.holding(body, length, most[1:], number, many)

    def begins(self, loop: For, b: Builder) -> None:
        """Before the first loop of a row."""

    def everywhere(self, condition: Value, b: Builder) -> Value:
        """Whether it holds for all threads that branch together."""
        return condition

    def ends(self, loop: For, b: Builder) -> tuple[Affine, Affine]:
        return self.range or super().ends(loop, b)

    def share(self, spread: Spread, number: Value, stride: Value | int, b: Builder) -> list[list[Value]]:
        """As any cooperation has it. Where checks fail, iterations are done once more one by one, which says where: the thread's
        own, or all of them where others are its own then."""
        if not isinstance(stride, int) or not overlaps(spread):
            return super().share(spread, number, stride, b)
        loop, parameters = spread.outer, spread.outer.body.parameters[1:]
        cells = self.started(spread, b)
        failed = b.slot(b.const(False, "i1")) if any(isinstance(op, Check) for op in loop.body.body) else None
        results = (self.at_once if self.held is None else self.all_held)(loop, number, stride, cells, failed, b)
        if failed is not None:
            with b.when(b.get(failed)) as again:
                super().share(spread, *((again.const(0, "index"), 1) if loop in self.pieces else (number, stride)), again)
        self.values.update(zip(loop.results, results, strict=True))
        totals = dict(zip(parameters, results, strict=True))
        return [[totals[cell] for cell in fold.cells] for fold in spread.folds]

    def early(self, loop: For) -> Sequence[Instruction]:
        """What iterations compute but for what the cells hold."""
        return [op for op in loop.body.body if not isinstance(op, Yield) and not is_joining(op, loop)]

    def late(self, loop: For) -> Sequence[Instruction]:
        """What they compute of the cells."""
        return [op for op in loop.body.body if not isinstance(op, Yield) and is_joining(op, loop)]

    def at_once(self, loop: For, number: Value, stride: int, cells: Sequence[Value], failed: Value | None, b: Builder) -> list[Value]:
        """What the cells hold behind the thread's iterations: turns of pieces that all threads have in full, then one in which those
        behind the last piece do that one again, and drop it; with the pieces of which the row has a part."""
        pieces = self.pieces.get(loop, NONE)
        width = pieces.width
        items, one = max(1, self.turns // width), b.const(1, "i32")
        low, end = (b.index(form) for form in self.ends(loop, b))
        begin, stop = b.index(Affine.of(low.name).ceildiv(width)), b.index(Affine.of(end.name).floordiv(width))
        step, turns = stride * items, range(items)
        whole = b.index(Affine.of(b.op("max", b.sub(stop, begin), b.const(0, "index")).name).floordiv(step) * step)
        fits = b.const(True, "i1") if width == 1 else self.in_pieces(pieces, low, end, stop, b)
        behind = b.add(begin, whole if width == 1 else b.select(fits, whole, b.const(0, "index")))
        with b.loop(loop.variable.name, begin.name, behind.name, step, cells, unroll=1) as (inner, walked):
            first = Affine.of(walked.variable.name) + Affine.of(number.name)
            values = list(walked.carried)
            for own in self.computed(loop, [Piece(inner.index(first + stride * turn), width) for turn in turns], failed, inner):
                values = self.with_all(loop, own, values, None, inner)
            inner.yield_(*values)
        if width == 1 and self.singly:
            return self.one_by_one(loop, behind, end, number, stride, walked.results, failed, b)
        with b.branch(b.op("lt", behind, stop) if width == 1 else fits, [value.type for value in cells]) as (rest, few, both):
            own_, last = rest.cast(number, "i32"), rest.cast(rest.sub(stop, behind), "i32")
            ahead = [rest.add(own_, rest.const(stride * turn, "i32")) for turn in turns]
            places = [rest.add(behind, rest.cast(rest.op("min", each, rest.sub(last, one)), "index")) for each in ahead]
            parts, inside = [Piece(place, width) for place in places], [rest.op("lt", each, last) for each in ahead]
            torn, bits = self.torn(low, end, width, own_, stride, rest) if width > 1 else ([], [])
            values, rereads = list(walked.results), any(isinstance(op, Load) and not mem_of(op.mem).readonly for op in loop.body.body)
            # what others write just now isn't read, not even to be dropped
            computed = self.computed(loop, [*parts, *torn], failed, rest, inside if rereads else ())
            for own, holds in zip(computed, inside, strict=False):
                values = self.with_all(loop, own, values, holds, rest)
            for own, mask in zip(computed[len(parts) :], bits, strict=True):
                for element, its in enumerate(own):
                    bit = rest.op("and", mask, rest.const(1 << element, "u32"))
                    values = self.with_all(loop, [its], values, rest.op("ne", bit, rest.const(0, "u32")), rest)
            rest.yield_(*values)
            few.yield_(*(self.one_by_one(loop, low, end, number, stride, walked.results, failed, few) if width > 1 else walked.results))
        return list(both.results)

    def all_held(self, loop: For, number: Value, stride: int, cells: Sequence[Value], failed: Value | None, b: Builder) -> list[Value]:
        """What the cells hold behind the thread's iterations, of which there are no more than it holds: another loop over the same elements
        finds what was read of them."""
        low, end = (b.index(form) for form in self.ends(loop, b))
        own, last = b.cast(number, "i32"), b.cast(b.sub(end, low), "i32")
        ahead = [b.add(own, b.const(stride * turn, "i32")) for turn in range(self.held or 0)]
        items = [Piece(b.add(low, b.cast(each, "index")), 1) for each in ahead]
        inside = [b.op("lt", each, last) for each in ahead]
        values = list(cells)
        for values_, holds in zip(self.computed(loop, items, failed, b, inside), inside, strict=True):
            values = self.with_all(loop, values_, values, holds, b)
        return values

    def in_pieces(self, pieces: Pieces, low: Value, end: Value, stop: Value, b: Builder) -> Value:
        """Whether a row has elements, and all pieces of which it has a part are in memory, with one before them."""
        zero, width = b.const(0, "index"), pieces.width
        held = b.both(b.both(b.op("lt", low, end), b.op("le", zero, low)), b.op("lt", zero, stop))
        behind = b.index(Affine.of(end.name).ceildiv(width) * width)
        for op in pieces.loads:
            held = b.both(held, b.op("le", behind, b.index(self.copy.form(mem_of(op.mem).dims[0]))))
        return held

    def torn(self, low: Value, end: Value, width: int, own: Value, stride: int, b: Builder) -> tuple[list["Piece"], list[Value]]:
        """The pieces of which the row has a part, the one with which it begins and the one with which it ends, and a bit for each element
        that is the thread's."""
        one, none = b.const(1, "u32"), b.const(0, "u32")
        head, tail = b.index(Affine.of(low.name).floordiv(width)), b.index((Affine.of(end.name) - 1).floordiv(width))
        begins, ends = (b.op("ne", b.index(Affine.of(place.name) % width), b.const(0, "index")) for place in (low, end))
        ends = b.both(ends, b.op("xor", b.both(begins, b.op("eq", head, tail)), b.const(True, "i1")))
        if stride == 1:
            chosen = [(head, begins), (tail, ends)]
        else:
            first, second = (b.op("eq", own, b.const(number, "i32")) for number in (0, 1))
            chosen = [(b.select(first, head, tail), b.op("or", b.both(first, begins), b.both(second, ends)))]
        pieces, bits = list[Piece](), list[Value]()
        for place, holds in chosen:
            base = b.index(Affine.of(place.name) * width)
            before = b.op("max", b.cast(b.sub(low, base), "i32"), b.const(0, "i32"))
            until = b.cast(b.op("min", b.sub(end, base), b.const(width, "index")), "u32")
            below, upto = (b.sub(b.op("shl", one, count), one) for count in (b.cast(before, "u32"), until))
            pieces.append(Piece(place, width))
            bits.append(b.select(holds, b.op("xor", upto, below), none))
        return pieces, bits

    def one_by_one(
        self, loop: For, low: Value, end: Value, number: Value, stride: int, cells: Sequence[Value], failed: Value | None, b: Builder
    ) -> list[Value]:
        """What the cells hold with the thread's iterations, none of which reads a piece."""
        begin = Affine.of(low.name) + Affine.of(number.name)
        with b.loop(loop.variable.name, begin, end.name, stride, cells, unroll=1) as (inner, walked):
            (own,) = self.computed(loop, [Piece(walked.variable, 1)], failed, inner)
            inner.yield_(*self.with_all(loop, own, walked.carried, None, inner))
        return list(walked.results)

    def computed(
        self, loop: For, items: Sequence["Piece"], failed: Value | None, b: Builder, inside: Sequence[Value | None] = ()
    ) -> list[list[dict[Value, Value]]]:
        """What iterations come to but for what the cells hold, instruction by instruction. That a check has failed is kept. `inside`: which
        of them take part."""
        own = [[{loop.variable: b.index(item.place(number))} for number in range(item.width)] for item in items]
        guards = [[guard] * item.width for item, guard in zip(items, inside or [None] * len(items), strict=True)]
        loads = self.pieces.get(loop, NONE).loads
        for op in self.early(loop):
            b.span = op.span
            for item, elements, guard in zip(items, own, guards, strict=True):
                if item.width > 1 and op in loads:
                    for values, value in zip(elements, item.loaded(self.values[op.operand_values[0]], b), strict=True):
                        values[op.results[0]] = value
                    continue
                for number, values in enumerate(elements):
                    self.values.update(values)
                    guard[number] = self.guarded(op, guard[number], failed, b)
                    values.update((result, self.values[result]) for result in op.results)
        for elements, guard in zip(own, guards, strict=True):
            for values, passed in zip(elements, guard, strict=True):
                values.update({} if passed is None else {PASSED: passed})
        return own

    def late_one(self, op: Instruction, where: Value | None, b: Builder) -> None:
        """What is computed of the cells, or a store where the iteration takes part."""
        if isinstance(op, Store) and self.silent:
            return
        if isinstance(op, Store) and where is not None:
            there = where if op.where is None else b.both(where, self.values[op.where])
            b.store(self.values[op.mem], self.values[op.value], [self.copy.form(form) for form in op.index], there)
        else:
            self.copy.one(op, b)

    def guarded(self, op: Instruction, guard: Value | None, failed: Value | None, b: Builder) -> Value | None:
        """An instruction where the checks before it have passed; what those behind it need."""
        if isinstance(op, Check) and failed is not None:
            holds = self.values[op.condition]
            b.set(failed, b.op("or", b.get(failed), b.both(guard, b.op("xor", holds, b.const(True, "i1")))))
            return b.both(guard, holds)
        if isinstance(op, Load) and guard is not None:
            where = guard if op.where is None else b.both(guard, self.values[op.where])
            index = [self.copy.form(form) for form in op.index]
            read = Load(mem=self.values[op.mem], index=index, where=where, pad=op.pad)
            self.values[op.result] = b.emit(read, repeats=not mem_of(op.mem).readonly).result
        else:
            self.copy.one(op, b)
        return guard

    def with_all(
        self, loop: For, own: Sequence[Mapping[Value, Value]], cells: Sequence[Value], inside: Value | None, b: Builder
    ) -> list[Value]:
        """What the cells hold with the iterations of a piece."""
        new = list(cells)
        for values in own:
            self.values.update(values)
            self.values.update(zip(loop.body.parameters[1:], new, strict=True))
            passed = values.get(PASSED)
            where = inside if passed is None or inside is None else b.both(inside, passed)
            for op in self.late(loop):
                b.span = op.span
                self.late_one(op, passed if where is None else where, b)
            new = [self.values[value] for op in loop.body.body if isinstance(op, Yield) for value in op.operand_values]
        return new if inside is None else [b.select(inside, value, old) for value, old in zip(new, cells, strict=True)]
