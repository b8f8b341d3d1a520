"""Loops whose bounds come from data stop at the first index of theirs that is outside: `for k in ptr[r]..ptr[r + 1]` whose body checks
`k < K` runs to K at most, and the check follows it, for the iteration at which it stopped. A wrong bound then costs no more than a right
one, and the loop itself checks nothing that its variable alone decides."""

from collections.abc import Container, Iterator, Mapping, Sequence

from compiler.analysis.accesses import affine_value
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, While
from compiler.hir.core import InBounds
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from runtime.records import Factory, define, frozen


def stop_at_faults(function: HirFunction) -> HirFunction:
    """The nest with such loops; itself if it has none."""
    loops = [op for top in function.body.body for op in top.walk() if isinstance(op, For)]
    data = data_in(function) if loops else set[str]()
    checks = {loop: own for loop in loops if (own := _bound_checks(loop, data))}
    return _Stopping(function, checks).run() if checks else function


@frozen(eq=False)
class _BoundCheck:
    """A check that an element at a distance from the loop's variable is inside. `around`: loops inside the loop that it stands in."""

    check: Check
    distance: Affine
    below: Affine
    around: tuple[For, ...]


@define(eq=False)
class _Stopping(Rebuild):
    checks: Mapping[For, list[_BoundCheck]]
    moved: set[Instruction] = Factory(set)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op in self.moved:
            return []
        if not isinstance(op, For) or op not in self.checks:
            return self.copy(op, into)
        checks = [each for each in self.checks[op] if each.check not in self.moved]
        self.moved.update(each.check for each in checks)
        low, high = into.index(self.form(op.low)), into.index(self.form(op.high))
        stop = high
        for each in checks:
            stop = into.op("min", stop, self.end_for(each, low, high, into))
        stop = into.op("max", stop, low, name="stop")
        if op.step > 1:
            stop = into.index(Affine.of(low.name) + (Affine.of(stop.name) - low.name).ceildiv(op.step) * op.step, "stop")
        regions = {"body": self.nested(op.body, into)}
        new = rebuilt(op, self.values.__getitem__, self.form, regions, high=Affine.of(stop.name))
        results = into.emit(new, op.results[0].name if op.results else "").results
        at_end = into.op("le", high, stop)
        for each in checks:
            position = Affine.of(stop.name) + self.form(each.distance)
            held = into.op("or", at_end, into.inbounds(position, self.form(each.below)))
            if (runs := self.runs(each, into)) is not None:
                held = into.op("or", held, into.op("xor", runs, into.const(True, "i1")))
            into.span = each.check.span
            values = (into.index(position), *(self.values[value] for value in each.check.values[1:]))
            into.check(held, *values, code=each.check.code, site=each.check.site)
        return results

    def end_for(self, each: _BoundCheck, low: Value, high: Value, into: Builder) -> Value:
        """Where the loop ends for a check: behind the last element, or at once where it begins before the first."""
        first = into.index(Affine.of(low.name) + self.form(each.distance))
        before = into.op("lt", first, into.const(0, "index"))
        end = into.select(before, low, into.index(self.form(each.below) - self.form(each.distance)))
        runs = self.runs(each, into)
        return end if runs is None else into.select(runs, end, high)

    def runs(self, each: _BoundCheck, into: Builder) -> Value | None:
        """Whether the loops that stand between the check and the loop have iterations; None: there are none."""
        held: Value | None = None
        for loop in each.around:
            held = into.both(
                held, into.op("lt" if loop.step > 0 else "gt", into.index(self.form(loop.low)), into.index(self.form(loop.high)))
            )
        return held


def _bound_checks(loop: For, data: Container[str]) -> list[_BoundCheck]:
    """The checks of a loop with bounds from data that its variable decides with what is known before it."""
    if loop.step < 1 or not any(name in data for name in (*loop.low.names, *loop.high.names)):
        return []
    inside = {parameter.name for op in loop.walk() if isinstance(op, For) for parameter in op.body.parameters}
    inside |= {result.name for op in loop.walk() if op is not loop for result in op.results}
    checks = []
    for check, around in _checks_in(loop.body.body, ()):
        condition = check.condition.source
        if not isinstance(condition, InBounds) or check.code != "0801" or affine_value(check.values[0]) != condition.of:
            continue
        distance = condition.of - Affine.of(loop.variable.name)
        names = {*distance.names, *condition.below.names, *(value.name for value in check.values[1:])}
        names |= {name for other in around for name in (*other.low.names, *other.high.names)}
        if not names & inside:
            checks.append(_BoundCheck(check, distance, condition.below, around))
    return checks


def _checks_in(ops: Sequence[Instruction], around: tuple[For, ...]) -> Iterator[tuple[Check, tuple[For, ...]]]:
    """The checks that every iteration comes to, and the loops around each."""
    for op in ops:
        if isinstance(op, Check) and op.values:
            yield op, around
        elif isinstance(op, For) and op.step == 1:
            yield from _checks_in(op.body.body, (*around, op))


def data_in(function: HirFunction) -> set[str]:
    """The names of what is computed from elements of memory, or from variables."""
    data: set[str] = set()
    for op in (inner for top in function.body.body for inner in top.walk()):
        if isinstance(op, For | While):
            data |= {value.name for region in op.regions for value in region.parameters[isinstance(op, For) :]}
        computed = op.effects is Effect.PURE and not op.regions and not isinstance(op, Load)
        if not computed or not data.isdisjoint((*(value.name for value in op.operand_values), *op.symbols)):
            data |= {result.name for result in op.results}
    return data
