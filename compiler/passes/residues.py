"""Iterations by residues: where a sum takes only every s-th tap (`if (y - q) % s == 0` around its terms, y an element, q a tap), y becomes
s * p + r and q becomes s * t + r with a residue r. Then every tap that a loop comes to counts, and (y - q) / s is p - t.

Loops behind, which read from memory of the function's own what the loop over y stores there, are split as that is: each of their turns
reads what the same turn has stored.

Where taps lie d apart, s and d have the greatest common divisor g, and only elements whose r is a multiple of g have taps at all: r is
g * r' + o then, where an offset o other than 0 has none, and q becomes s / g * t + r' (a multiple of r', where d isn't g)."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from math import gcd

from compiler.analysis.accesses import conjuncts, walk
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, If, Yield
from compiler.hir.core import Compare, Const, Index, Select
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Alloc, Load, Store
from compiler.hir.module import HirFunction
from compiler.passes.canonicalize import canonicalize
from compiler.passes.rewrite import Rebuild
from runtime.records import define, evolve, field, frozen

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
    plus something, is a multiple of `divisor`. None for the taps where each of them is a multiple itself. `tests`: the comparisons that
    say so."""

    elements: For
    taps: For | None
    form: Affine
    divisor: int
    tests: frozenset[Value]
    readers: tuple[For, ...] = ()
    """The loops that read what the one over elements hands on."""

    @property
    def sign(self) -> int:
        return self.form.coefficient(self.elements.variable.name)

    @property
    def step(self) -> int:
        """From tap to tap."""
        return 0 if self.taps is None else self.form.coefficient(self.taps.variable.name)

    @property
    def apart(self) -> int:
        """How far elements with taps lie apart."""
        return gcd(self.step, self.divisor)

    @property
    def residues(self) -> int:
        """Residues whose elements have taps of their own, and how many taps apart these lie."""
        return self.divisor // self.apart

    @property
    def multiplier(self) -> int:
        """At elements of residue r the taps count that are this times r, and a multiple of the number of residues more."""
        multiplier = -self.sign * pow(self.step // self.apart, -1, self.residues) % self.residues
        return min(multiplier, multiplier - self.residues, key=abs)

    @property
    def others(self) -> Affine:
        """What the form has besides the element and the tap."""
        names = [loop.variable.name for loop in (self.elements, self.taps) if loop is not None]
        return self.form.without(*names) * self.sign


@define(eq=False)
class _Splitting(Rebuild):
    pair: _Pair
    residue: Affine = field(factory=Affine, init=False)
    offset: Affine = field(factory=Affine, init=False)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if isinstance(op, For) and (op is self.pair.elements or op in self.pair.readers):
            self.elements(op, into)
            return []
        if op is self.pair.taps:
            return self.taps(self.pair.taps, into)
        if op.results and op.results[0] in self.pair.tests:
            return [self.counts(into)]
        return self.copy(op, into)

    def counts(self, into: Builder) -> Value:
        """Whether the tap exists, of an element that has taps."""
        condition: Value | None = None
        if self.pair.apart > 1:
            condition = into.op("eq", into.index(self.offset), into.const(0, "index"))
        if self.pair.taps is not None:
            tap = Affine.of(self.pair.taps.variable.name)
            condition = into.both(condition, into.inbounds(self.form(tap), self.form(self.pair.taps.high)))
        assert condition is not None
        return condition

    def elements(self, loop: For, into: Builder) -> None:
        """Elements of one residue beside one another, the residues inside."""
        pair, divisor, name = self.pair, self.pair.divisor, loop.variable.name
        low, high, others = self.form(loop.low), self.form(loop.high), self.form(pair.others)
        first = (low + others - (divisor - 1)).ceildiv(divisor)
        last = (high - 1 + others).floordiv(divisor)
        with ExitStack() as loops:
            body, handle = loops.enter_context(into.loop(name, first, last + 1, 1, (), loop.place, **dict(loop.marks)))
            position = Affine.of(handle.variable.name)
            digits = {"residue": pair.residues, "offset": pair.apart}
            for word, extent in digits.items():
                if extent > 1:
                    body, handle = loops.enter_context(body.loop(f"{name}_{word}", 0, extent, 1, (), loop.place))
                    setattr(self, word, Affine.of(handle.variable.name))
            element = position * divisor + self.residue * pair.apart + self.offset - others
            self.names[name] = element
            self.values[loop.variable] = body.index(element)
            with body.when(body.inbounds(element - low, high - low)) as held:
                self.region(Region(body=[op for op in loop.body.body if not isinstance(op, Yield)]), held)

    def taps(self, loop: For, into: Builder) -> Sequence[Value]:
        pair, name = self.pair, loop.variable.name
        body = Region()
        inner = into.child(body)
        for number, parameter in enumerate(loop.body.parameters):
            copy = self.owner.value(parameter.name, parameter.type)
            body.parameters.append(copy)
            if number:
                self.bind(parameter, copy)
        away = pair.multiplier * (pair.residues - 1)
        low, high = Affine.of(-max(0, away)).ceildiv(pair.residues), (self.form(loop.high) - 1 - min(0, away)).floordiv(pair.residues) + 1
        tap = Affine.of(body.parameters[0].name) * pair.residues + self.residue * pair.multiplier
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
                    return evolve(pair, readers=_readers(nest, pair.elements))
    return None


def _readers(nest: HirFunction, elements: For) -> tuple[For, ...]:
    """The loops that walk along an axis of what this one stores for them, and those that walk along what these store, and so on."""
    loops = [op for op in walk(nest.body) if isinstance(op, For) and not op.carried]
    found = [elements]
    for loop in found:
        stored = [(op.mem, axis) for op in walk(nest.body) if isinstance(op, Store) for axis in _along(op.index, loop)]
        handed = [(mem, axis) for mem, axis in stored if isinstance(mem.source, Alloc)]
        reading = [
            reader
            for reader in loops
            for op in walk(reader.body)
            if isinstance(op, Load) and any(op.mem is mem and axis in _along(op.index, reader) for mem, axis in handed)
        ]
        found += [reader for reader in dict.fromkeys(reading) if reader not in found]
    return tuple(found[1:])


def _along(index: Sequence[Affine], loop: For) -> list[int]:
    return [axis for axis, form in enumerate(index) if form == Affine.of(loop.variable.name)]


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
    if divisor > MOST_RESIDUES or any(isinstance(symbol, FloorDiv) for symbol, _ in form.terms):
        return None
    for elements, taps in _orders([loops[name] for name in names]):
        if abs(form.coefficient(elements.variable.name)) != 1 or elements.carried or elements.results or elements.step != 1:
            continue
        if taps is not None and (taps is elements or not any(op is taps for op in elements.walk())):
            continue
        if taps is not None and (taps.step != 1 or taps.low != Affine()):
            continue
        inside = [op for op in elements.walk() if isinstance(op, For) and op.carried] if taps is None else [taps]
        tests = frozenset(r for op in elements.walk() for r in op.results if _multiple(r) == multiple)
        if test in tests and any(_changes_nothing(loop, tests) for loop in inside):
            return _Pair(elements, taps, form, divisor, tests)
    return None


def _orders(loops: Sequence[For]) -> Iterator[tuple[For, For | None]]:
    """Which of the loops may be over elements, and which over taps."""
    match loops:
        case [loop]:
            yield loop, None
        case [first, second]:
            yield first, second
            yield second, first
        case _:
            pass


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
