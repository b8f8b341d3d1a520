"""Checks of an innermost loop that reads nothing but indices, and elements where these say, are made before it, if it changes or sums these
elements: of a stretch of iterations at a time, by a loop that does nothing else, which LLVM makes vectors of. Where all hold, the stretch
runs without any; else, and where it is short, as it was written: so the first fault is found.

for i in 0..N { %k = load %x[i]  check %inside  %n = load %out[%k]  store %out[%k], %n + 1 }
=>  for s in 0..N/1024 { for i in .. { %k = load %x[i]  %ok = and %ok, %inside }  if %ok { for i in .. { .. } } else { .. check .. } }"""

from collections.abc import Sequence

from compiler.analysis.fetches import fetches
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, Load, mem_of
from compiler.hir.module import HirFunction
from compiler.passes.repeated_reads import written_in
from compiler.passes.rewrite import Rebuild
from compiler.passes.stop_at_faults import data_in
from runtime.records import define, field, frozen

STRETCH = 1024
"""Iterations whose checks are made together: what they read stays in the nearest cache."""

SHORT = 16
"""Iterations that are checked as they come."""


def checks_before(function: HirFunction) -> HirFunction:
    """The function (form A) with such loops."""
    loops = [op for top in function.body.body for op in top.walk() if isinstance(op, For)]
    if not any(isinstance(op, Check) for loop in loops for op in loop.body.body):
        return function
    data, written = data_in(function), written_in(function)
    before = {loop: found for loop in loops if (found := _checks_of(loop, data, written)) is not None}
    return _Before(function, before).run() if before else function


@frozen(eq=False)
class _Checks:
    """The checks of a loop, those that are the same in all iterations first, and the instructions that the others need, in order."""

    steady: tuple[Check, ...]
    varying: tuple[Check, ...]
    needed: tuple[Instruction, ...]


def _checks_of(loop: For, data: set[str], written: frozenset[Value]) -> _Checks | None:
    body = loop.body.body
    if loop.step != 1 or any(op.regions for op in body) or any(name in data for name in (*loop.low.names, *loop.high.names)):
        return None
    if loop.place not in ("time", "simd", "thread") or loop.mark("unroll") is not None:
        return None
    inside = {value.name: op for op in body for value in op.results}
    carried = {value.name for value in loop.body.parameters[1:]}
    checks = [op for op in body if isinstance(op, Check)]
    needed: set[Instruction] = set()
    waiting = [check.condition.name for check in checks]
    while waiting:
        name = waiting.pop()
        if name in carried:
            return None
        op = inside.get(name)
        if op is None or op in needed:
            continue
        if isinstance(op, Load):
            # an element whose place data decide may itself be behind a check
            if op.mem in written or not mem_of(op.mem).noalias or op.where is not None or not data.isdisjoint(op.symbols):
                return None
        elif op.effects is not Effect.PURE:
            return None
        needed.add(op)
        waiting += [*(value.name for value in op.operand_values), *op.symbols]
    loads = [op for op in body if isinstance(op, Load)]
    # what is read besides takes longer than a check on the way, and so does what is only moved
    if fetches(loop) or any(data.isdisjoint(op.symbols) if op not in needed else loop.variable.name not in op.symbols for op in loads):
        return None
    varies = {value.name for op in needed for value in op.results}
    varying = tuple(check for check in checks if check.condition.name in varies)
    if not varying:
        return None
    steady = tuple(check for check in checks if check not in varying)
    return _Checks(steady, varying, tuple(op for op in body if op in needed))


@define(eq=False)
class _Before(Rebuild):
    checks: dict[For, _Checks] = field(factory=dict)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if not isinstance(op, For) or op not in self.checks:
            return self.copy(op, into)
        checks = self.checks[op]
        carried = [self.values[value] for value in op.carried]
        low, high = self.form(op.low), self.form(op.high)
        held = into.const(True, "i1")
        for check in checks.steady:
            held = into.op("and", held, self.values[check.condition])
        place = "thread" if op.place == "thread" else "time"
        stretches = (high - low).ceildiv(STRETCH)
        with into.loop(f"{op.variable.name}_from", 0, stretches, carried=carried, place=place) as (outer, loop):
            first = outer.index(low + Affine.of(loop.variable.name) * STRETCH)
            behind = outer.op("min", outer.index(Affine.of(first.name) + STRETCH), outer.index(high))
            long = outer.op("ge", outer.sub(behind, first), outer.const(SHORT, "index"))
            end = outer.select(long, behind, first)
            all_hold = outer.op("and", held, long)
            with outer.loop(op.variable.name, Affine.of(first.name), Affine.of(end.name), carried=[all_hold]) as (inner, checking):
                (holds,) = checking.carried
                self.bind(op.variable, checking.variable)
                for each in checks.needed:
                    for old, new in zip(each.results, self.copy(each, inner), strict=True):
                        self.bind(old, new)
                for check in checks.varying:
                    holds = inner.op("and", holds, self.values[check.condition])
                inner.yield_(holds)
            own = list(loop.carried)
            results = self.either(op, checking.results[0], Affine.of(first.name), Affine.of(behind.name), own, outer)
            if carried:
                outer.yield_(*results)
        return loop.results

    def either(self, op: For, held: Value, low: Affine, high: Affine, carried: Sequence[Value], into: Builder) -> Sequence[Value]:
        """The loop without its checks where they hold, else with them."""
        place = "time" if op.place == "thread" else op.place
        with into.branch(held, [value.type for value in carried]) as (then, otherwise, chosen):
            for side, kept in (then, False), (otherwise, True):
                loop = self.loop(op, low, high, carried, place, kept, side)
                if carried:
                    side.yield_(*loop.results)
        return chosen.results

    def loop(self, op: For, low: Affine, high: Affine, carried: Sequence[Value], place: str, kept: bool, into: Builder) -> Instruction:
        body = Region()
        for parameter in op.body.parameters:
            body.parameters.append(self.owner.value(parameter.name, parameter.type))
            self.bind(parameter, body.parameters[-1])
        inner = into.child(body)
        for each in op.body.body:
            if kept or not isinstance(each, Check):
                inner.span = each.span
                for old, new in zip(each.results, self.copy(each, inner), strict=True):
                    self.bind(old, new)
        changes = {"carried": tuple(carried), "low": low, "high": high, "place": place}
        return into.emit(rebuilt(op, lambda value: self.values.get(value, value), self.form, {"body": body}, **changes))
