"""What elements of a ragged row come to, and what cells hold with them, where several elements are read at once."""

from collections.abc import Mapping, Sequence
from math import prod

from compiler.hir.build import Builder
from compiler.hir.control import Yield
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load
from compiler.hir.module import LaunchBounds
from compiler.hir.types import Slot
from compiler.schedule.gpu.cooperate import Cooperation
from compiler.schedule.gpu.need import depending
from compiler.schedule.gpu.reduction import combined, identities
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.launches import Launch
from runtime.records import evolve


def overlaps(spread: Spread) -> bool:
    """Whether iterations do nothing but compute what is joined."""
    loop = spread.outer
    cells = [cell for fold in spread.folds for cell in fold.cells]
    if len(spread.loops) > 1 or not cells or loop.step != 1 or any(isinstance(cell.type, Slot) for cell in cells):
        return False
    return all(isinstance(op, Load | Check | Yield) or (op.effects is Effect.PURE and not op.regions) for op in loop.body.body)


def joining(spread: Spread) -> list[Instruction]:
    """What the loop does with what the cells hold."""
    ops = spread.outer.body.body[:-1]
    names = depending([cell for fold in spread.folds for cell in fold.cells], ops)
    return [op for op in ops if any(result.name in names for result in op.results)]


def with_registers(launch: Launch, resident: int) -> Launch:
    """The launch with registers for so many blocks of a multiprocessor."""
    if (info := launch.function.kernel_info) is not None:
        launch.function.kernel_info = evolve(info, launch_bounds=LaunchBounds(prod(launch.block), resident))
    return launch


class RowElements(Cooperation):
    """The work of threads that join elements of the rows of a spread loop."""

    rows_loop: Spread
    joining: list[Instruction]
    failed: Value
    """A slot: whether a check of an element has failed."""

    def of_rows(self, spread: Spread) -> None:
        self.rows_loop, self.joining = spread, joining(spread)
        self.cells = [(fold, cell) for fold in spread.folds for cell in fold.cells]

    def computed(
        self, variables: Sequence[Value], known: Mapping[Load, Sequence[Value]], insides: Sequence[Value | None], b: Builder
    ) -> list[dict[Value, Value]]:
        """What elements come to but for what the cells hold, instruction by instruction, so that all their loads are on their way before
        the first is used. Where `insides` don't hold, nothing is read and nothing checked. That a check has failed is kept: rows do it
        once more by themselves then, and say which."""
        loop = self.rows_loop.outer
        own = [{loop.variable: variable} for variable in variables]
        guards, yes = list(insides), b.const(True, "i1")
        for op in loop.body.body[:-1]:
            if op in self.joining:
                continue
            b.span = op.span
            if isinstance(op, Load) and op in known:
                for values, value in zip(own, known[op], strict=True):
                    values[op.result] = value
                continue
            for number, values in enumerate(own):
                self.values.update(values)
                guard = guards[number]
                if isinstance(op, Load) and guard is not None:
                    where = guard if op.where is None else b.both(guard, self.values[op.where])
                    values[op.result] = b.load(self.values[op.mem], [self.copy.form(form) for form in op.index], where, op.pad)
                elif isinstance(op, Check):
                    holds, inside = self.values[op.condition], insides[number]
                    guards[number] = b.both(guard, holds)
                    fails = b.op("xor", holds, yes)
                    b.set(self.failed, b.op("or", b.get(self.failed), fails if inside is None else b.both(inside, fails)))
                else:
                    self.copy.one(op, b)
                    values.update((result, self.values[result]) for result in op.results)
        return own

    def element(self, own: Mapping[Value, Value], cells: Sequence[Value], inside: Value | None, b: Builder) -> list[Value]:
        """What the cells hold with an element."""
        loop = self.rows_loop.outer
        self.values.update(own)
        self.values.update(zip(loop.body.parameters[1:], (self.values[old] for old in loop.carried), strict=True))
        self.values.update(zip((cell for _, cell in self.cells), cells, strict=True))
        for op in loop.body.body[:-1]:
            if op in self.joining:
                b.span = op.span
                self.copy.one(op, b)
        given = dict(zip(loop.body.parameters[1:], loop.body.body[-1].operand_values, strict=True))
        new = [self.values[given[cell]] for _, cell in self.cells]
        return new if inside is None else [b.select(inside, value, old) for value, old in zip(new, cells, strict=True)]

    def nothing(self, b: Builder) -> list[Value]:
        return [value for fold in self.rows_loop.folds for value in identities(b, fold.monoid, fold.dtypes)]

    def joined(self, first: Sequence[Value], second: Sequence[Value], b: Builder) -> list[Value]:
        """Cells of all folds."""
        made: list[Value] = []
        for fold in self.rows_loop.folds:
            place, width = len(made), len(fold.cells)
            made += combined(b, fold.monoid, first[place : place + width], second[place : place + width])
        return made
