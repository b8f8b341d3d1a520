"""Several iterations of a shared loop under way in each thread, so that all their loads are on their way before the first is used; behind
the last one that is done again, and dropped. Which thread joins what, and in which order, depends on where the loop begins and ends
alone."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load
from compiler.hir.types import Slot
from compiler.schedule.gpu.barriers import Barriers
from compiler.schedule.gpu.cooperate import Cooperation
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.reduction import identities
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.stages import Start


def overlaps(spread: Spread) -> bool:
    """Whether a thread may have several iterations under way: they do nothing but compute what is joined."""
    loop = spread.outer
    cells = [cell for fold in spread.folds for cell in fold.cells]
    if len(spread.loops) > 1 or loop.step != 1 or not cells or any(isinstance(cell.type, Slot) for cell in cells):
        return False
    names = depending(cells, loop.body.body)
    plain = all(isinstance(op, Load | Check | Yield) or (op.effects is Effect.PURE and not op.regions) for op in loop.body.body)
    return plain and not any(isinstance(op, Load | Check) and not names.isdisjoint(read_names(op)) for op in loop.body.body)


def is_joining(op: Instruction, loop: For) -> bool:
    """Whether it computes from what the cells of a loop hold."""
    names = depending(loop.body.parameters[1:], loop.body.body)
    return any(result.name in names for result in op.results)


class AtOnce(Cooperation):
    """Work whose threads have several iterations of a shared loop under way."""

    def __init__(self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, lanes: int, turns: int) -> None:
        """`turns`: how many."""
        super().__init__(start, spreads, barriers, lanes)
        self.turns = turns
        self.range: tuple[Affine, Affine] | None = None
        """Where loops begin and end, where that is not what they say."""

    def ends(self, loop: For, b: Builder) -> tuple[Affine, Affine]:
        return self.range or super().ends(loop, b)

    def share(self, spread: Spread, number: Value, stride: Value | int, b: Builder) -> list[list[Value]]:
        """As any cooperation has it. Where checks fail, the thread's iterations are done once more one by one, which says where."""
        if not isinstance(stride, int) or not overlaps(spread):
            return super().share(spread, number, stride, b)
        loop, parameters = spread.outer, spread.outer.body.parameters[1:]
        started: dict[Value, Value] = {}
        for fold in spread.folds:
            started.update(zip(fold.cells, identities(b, fold.monoid, fold.dtypes), strict=True))
        cells = [started.get(cell, self.values[old]) for cell, old in zip(parameters, loop.carried, strict=True)]
        failed = b.slot(b.const(False, "i1")) if any(isinstance(op, Check) for op in loop.body.body) else None
        results = self.at_once(loop, number, stride, cells, failed, b)
        if failed is not None:
            with b.when(b.get(failed)) as again:
                super().share(spread, number, stride, again)
        self.values.update(zip(loop.results, results, strict=True))
        totals = dict(zip(parameters, results, strict=True))
        return [[totals[cell] for cell in fold.cells] for fold in spread.folds]

    def at_once(self, loop: For, number: Value, stride: int, cells: Sequence[Value], failed: Value | None, b: Builder) -> list[Value]:
        """What the cells hold behind the thread's iterations: turns that all threads have in full, then one in which those behind the last
        iteration do that one again, and drop it."""
        step, one, turns = stride * self.turns, b.const(1, "i32"), range(self.turns)
        low, end = (b.index(form) for form in self.ends(loop, b))
        whole = b.index(Affine.of(b.op("max", b.sub(end, low), b.const(0, "index")).name).floordiv(step) * step)
        behind = b.add(low, whole)
        with b.loop(loop.variable.name, low.name, behind.name, step, cells, unroll=1) as (inner, walked):
            first = Affine.of(walked.variable.name) + Affine.of(number.name)
            values = list(walked.carried)
            for own in self.computed(loop, [inner.index(first + stride * turn) for turn in turns], failed, inner):
                values = self.with_one(loop, own, values, None, inner)
            inner.yield_(*values)
        with b.branch(b.op("lt", behind, end), [value.type for value in cells]) as (rest, none, both):
            left, own_ = rest.cast(rest.sub(end, behind), "i32"), rest.cast(number, "i32")
            ahead = [rest.add(own_, rest.const(stride * turn, "i32")) for turn in turns]
            places = [rest.add(behind, rest.cast(rest.op("min", each, rest.sub(left, one)), "index")) for each in ahead]
            values = list(walked.results)
            for each, own in zip(ahead, self.computed(loop, places, failed, rest), strict=True):
                values = self.with_one(loop, own, values, rest.op("lt", each, left), rest)
            rest.yield_(*values)
            none.yield_(*walked.results)
        return list(both.results)

    def computed(self, loop: For, places: Sequence[Value], failed: Value | None, b: Builder) -> list[dict[Value, Value]]:
        """What iterations come to but for what the cells hold, instruction by instruction. That a check has failed is kept."""
        own = [{loop.variable: place} for place in places]
        guards: list[Value | None] = [None] * len(own)
        for op in loop.body.body[:-1]:
            b.span = op.span
            for number, values in enumerate(own if not is_joining(op, loop) else []):
                self.values.update(values)
                guards[number] = self.guarded(op, guards[number], failed, b)
                values.update((result, self.values[result]) for result in op.results)
        return own

    def guarded(self, op: Instruction, guard: Value | None, failed: Value | None, b: Builder) -> Value | None:
        """An instruction where the checks before it have passed; what those behind it need."""
        if isinstance(op, Check) and failed is not None:
            holds = self.values[op.condition]
            b.set(failed, b.op("or", b.get(failed), b.op("xor", holds, b.const(True, "i1"))))
            return b.both(guard, holds)
        if isinstance(op, Load) and guard is not None:
            where = guard if op.where is None else b.both(guard, self.values[op.where])
            self.values[op.result] = b.load(self.values[op.mem], [self.copy.form(form) for form in op.index], where, op.pad)
        else:
            self.copy.one(op, b)
        return guard

    def with_one(self, loop: For, own: Mapping[Value, Value], cells: Sequence[Value], inside: Value | None, b: Builder) -> list[Value]:
        """What the cells hold with an iteration."""
        self.values.update(own)
        self.values.update(zip(loop.body.parameters[1:], cells, strict=True))
        for op in loop.body.body[:-1]:
            if is_joining(op, loop):
                b.span = op.span
                self.copy.one(op, b)
        new = [self.values[value] for value in loop.body.body[-1].operand_values]
        return new if inside is None else [b.select(inside, value, old) for value, old in zip(new, cells, strict=True)]
