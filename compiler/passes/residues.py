"""Iterations by residues: where a sum takes only every s-th tap (`if (y - q) % s == 0` around its terms, y an element, q a tap), y becomes
s * p + r and q becomes s * t + r with a residue r. Then every tap that a loop comes to counts, and (y - q) / s is p - t."""

from collections.abc import Sequence
from math import gcd

from compiler.analysis.accesses import walk
from compiler.analysis.guards import conjuncts
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, If, Yield
from compiler.hir.core import Compare, Const, Index, Select
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.passes.canonicalize import canonicalize
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field, frozen

MOST_RESIDUES = 8


def by_residues(nest: HirFunction) -> HirFunction | None:
    """The nest (form A) with all such loops split; None where it has none."""
    split: HirFunction | None = None
    while (pair := _pair(split or nest)) is not None:
        split = canonicalize(_Splitting(split or nest, pair).run())
    return split


@frozen(eq=False)
class _Pair:
    """A loop over elements and, inside, one over taps, which count where `form`, `sign` times the element plus a multiple of the tap
    plus something, is a multiple of `divisor`. `tests`: the comparisons that say so."""

    elements: For
    taps: For
    form: Affine
    divisor: int
    tests: frozenset[Value]

    @property
    def sign(self) -> int:
        return self.form.coefficient(self.elements.variable.name)

    @property
    def multiplier(self) -> int:
        """At elements of residue r the taps count that are this times r, and a multiple of the divisor more."""
        multiplier = -self.sign * pow(self.form.coefficient(self.taps.variable.name), -1, self.divisor) % self.divisor
        return min(multiplier, multiplier - self.divisor, key=abs)


@define(eq=False)
class _Splitting(Rebuild):
    pair: _Pair
    residue: Affine = field(factory=Affine, init=False)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op is self.pair.elements:
            self.elements(self.pair.elements, into)
            return []
        if op is self.pair.taps:
            return self.taps(self.pair.taps, into)
        if op.results and op.results[0] in self.pair.tests:
            tap = Affine.of(self.pair.taps.variable.name)
            return [into.inbounds(self.form(tap), self.form(self.pair.taps.high))]
        return self.copy(op, into)

    def elements(self, loop: For, into: Builder) -> None:
        """Elements of one residue beside one another, the residues inside."""
        pair, divisor = self.pair, self.pair.divisor
        low, high = self.form(loop.low), self.form(loop.high)
        others = self.form(pair.form.without(loop.variable.name, pair.taps.variable.name)) * pair.sign
        first = (low + others - (divisor - 1)).ceildiv(divisor)
        last = (high - 1 + others).floordiv(divisor)
        name = loop.variable.name
        with (
            into.loop(name, first, last + 1, 1, (), loop.place, **dict(loop.marks)) as (outer, position),
            outer.loop(f"{name}_residue", 0, divisor, 1, (), loop.place) as (inner, residue),
        ):
            self.residue = Affine.of(residue.variable.name)
            element = Affine.of(position.variable.name) * divisor + self.residue - others
            self.names[name] = element
            self.values[loop.variable] = inner.index(element)
            with inner.when(inner.inbounds(element - low, high - low)) as held:
                self.region(Region(body=[op for op in loop.body.body if not isinstance(op, Yield)]), held)

    def taps(self, loop: For, into: Builder) -> Sequence[Value]:
        divisor, name = self.pair.divisor, loop.variable.name
        body = Region()
        inner = into.child(body)
        for number, parameter in enumerate(loop.body.parameters):
            copy = self.owner.value(parameter.name, parameter.type)
            body.parameters.append(copy)
            if number:
                self.bind(parameter, copy)
        away = self.pair.multiplier * (divisor - 1)
        low, high = Affine.of(-max(0, away)).ceildiv(divisor), (self.form(loop.high) - 1 - min(0, away)).floordiv(divisor) + 1
        tap = Affine.of(body.parameters[0].name) * divisor + self.residue * self.pair.multiplier
        self.names[name] = tap
        self.values[loop.variable] = inner.index(tap)
        self.region(loop.body, inner)
        renewed = rebuilt(loop, self.values.__getitem__, self.form, {"body": body}, low=low, high=high)
        return into.emit(renewed, loop.results[0].name if loop.results else "").results


def _pair(nest: HirFunction) -> _Pair | None:
    loops = {op.variable.name: op for op in walk(nest.body) if isinstance(op, For)}
    for op in walk(nest.body):
        if isinstance(op, If | Select):
            for test in conjuncts(op.condition):
                pair = _pair_of(test, loops)
                if pair is not None:
                    return pair
    return None


def _multiple(test: Value) -> tuple[Affine, int] | None:
    """The form and the divisor of which the condition says that it divides the form."""
    match test.source:
        case Compare(operator="eq", left=left, right=right):
            sides = (left.source, right.source)
            remainder = next((side.of for side in sides if isinstance(side, Index)), Affine())
            atoms = [atom for atom, _ in remainder.terms if isinstance(atom, FloorDiv)]
            if len(atoms) == 1 and any(isinstance(side, Const) and side.value == 0 for side in sides):
                (atom,) = atoms
                if remainder == atom.numerator - Affine(((atom, atom.divisor),)):
                    return atom.numerator, atom.divisor
    return None


def _pair_of(test: Value, loops: dict[str, For]) -> _Pair | None:
    multiple = _multiple(test)
    if multiple is None:
        return None
    form, divisor = multiple
    names = [name for name in form.names if name in loops]
    if len(names) != 2 or divisor > MOST_RESIDUES or any(isinstance(symbol, FloorDiv) for symbol, _ in form.terms):
        return None
    for outer, inner in (names, names[::-1]):
        elements, taps = loops[outer], loops[inner]
        if abs(form.coefficient(outer)) != 1 or gcd(form.coefficient(inner), divisor) != 1:
            continue
        if taps is elements or not any(op is taps for op in elements.walk()) or elements.carried or elements.results:
            continue
        if elements.step != 1 or taps.step != 1 or taps.low != Affine():
            continue
        tests = frozenset(r for op in taps.walk() for r in op.results if _multiple(r) == multiple)
        if test in tests and _changes_nothing(taps, tests):
            return _Pair(elements, taps, form, divisor, tests)
    return None


def _changes_nothing(loop: For, tests: frozenset[Value]) -> bool:
    """Whether an iteration in which the tests fail stores nothing and hands on what it got."""
    handed = dict(zip(loop.body.parameters[1:], range(len(loop.carried)), strict=True))
    kept: dict[Value, Value] = {parameter: parameter for parameter in handed}
    for op in loop.body.body:
        match op:
            case Yield(values=values):
                return all(kept.get(value) is parameter for value, parameter in zip(values, handed, strict=True))
            case If(condition=condition, otherwise=otherwise) if not tests.isdisjoint(conjuncts(condition)):
                last = otherwise.body[-1] if otherwise is not None and otherwise.body else None
                if otherwise is not None and any(inner.effects is not Effect.PURE for inner in otherwise.body if inner is not last):
                    return False
                given = last.values if isinstance(last, Yield) else ()
                kept.update({result: kept[value] for result, value in zip(op.results, given, strict=False) if value in kept})
            case Select(condition=condition, otherwise=value, result=result) if not tests.isdisjoint(conjuncts(condition)):
                if value in kept:
                    kept[result] = kept[value]
            case For():
                if not _changes_nothing(op, tests):
                    return False
                kept.update({result: kept[value] for result, value in zip(op.results, op.carried, strict=True) if value in kept})
            case Load():
                return False
            case _ if op.effects is not Effect.PURE:
                return False
            case _:
                pass
    return not handed
