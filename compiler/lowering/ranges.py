"""What is known of indices: the ranges of loop variables, guards, sizes; proofs that an affine form can't be negative, and the
largest and smallest value of a form over its loops. Knows nothing of programs: only forms and facts.

A proof negates its goal and eliminates names one by one (Fourier and Motzkin), over the facts that the goal's names reach. It is
sound and gives up (unproved) where a system grows large."""

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from attrs import Factory, define, frozen

from compiler.hir.affine import Affine, FloorDiv, Symbol

_LARGEST_SYSTEM = 400


@frozen
class Range:
    """A name that runs from `low` to `last`, both included. `step` is that of its loop; for other names (`i % 4`) 1. `exact`: both ends
    are reached whenever the range isn't empty, by loops of their own. `of`: what else reaches them, the names that it follows from."""

    name: str
    low: Affine
    last: Affine
    step: int = 1
    exact: bool = True
    of: frozenset[str] = frozenset()

    @property
    def smallest(self) -> Affine:
        return self.low if self.step > 0 else self.last

    @property
    def largest(self) -> Affine:
        return self.last if self.step > 0 else self.low

    @property
    def extent(self) -> Affine:
        """How many values: below 1 when there are none."""
        return self.largest - self.smallest + 1 if abs(self.step) == 1 else (self.largest - self.smallest).floordiv(abs(self.step)) + 1


def loop_range(name: str, low: Affine, high: Affine, step: int) -> Range:
    """The range of a loop's variable; `last` is the bound itself less one (plus one, downwards), exact for steps of 1 and -1."""
    return Range(name, low, high - 1 if step > 0 else high + 1, step, exact=abs(step) == 1)


def last_value(low: Affine, high: Affine, step: int) -> Affine:
    """The last value that a loop takes."""
    if step > 0:
        return low + (high - 1 - low).floordiv(step) * step
    return low - (low - high - 1).floordiv(-step) * -step


def mentions(form: Affine, names: Iterable[str]) -> bool:
    have = set(form.names)
    return any(name in have for name in names)


def extreme(form: Affine, ranges: Sequence[Range], upper: bool) -> Affine:
    """The largest (smallest) value of the form over the ranges, innermost last in the sequence. Floors are bounded termwise."""
    for one in reversed(ranges):
        if one.name in form.names:
            form = _bound(form, one, upper)
    return form


def reached(form: Affine, ranges: Sequence[Range]) -> bool:
    """Whether the form takes its extremes over the ranges: it mentions names that do, and none twice, by what follows from it."""
    varying = [one for one in ranges if one.name in form.names]
    follows = [name for one in varying for name in (one.of or (one.name,))]
    return all(one.exact or one.of for one in varying) and len(follows) == len(set(follows))


def _bound(form: Affine, one: Range, upper: bool) -> Affine:
    total = Affine((), form.constant)
    for symbol, coefficient in form.terms:
        rising = (coefficient > 0) == upper
        if symbol == one.name:
            part = one.largest if rising else one.smallest
        elif isinstance(symbol, FloorDiv) and one.name in symbol.numerator.names:
            part = _bound(symbol.numerator, one, rising).floordiv(symbol.divisor)
        else:
            part = Affine(((symbol, 1),))
        total = total + part * coefficient
    return total


@define
class Facts:
    """Forms known to be at least 0, in scopes: `mark` and `forget` bracket a block. `cases`: a name is one of several forms, each
    under its own facts."""

    known: list[Affine] = Factory(list)
    cases: dict[str, tuple[tuple[Affine, tuple[Affine, ...]], ...]] = Factory(dict)

    def mark(self) -> int:
        return len(self.known)

    def forget(self, mark: int) -> None:
        del self.known[mark:]

    def at_least_zero(self, form: Affine) -> None:
        if form.value is None:
            self.known.append(form)

    def equal(self, left: Affine, right: Affine) -> None:
        self.at_least_zero(left - right)
        self.at_least_zero(right - left)

    def add_range(self, one: Range) -> None:
        self.at_least_zero(Affine.of(one.name) - one.smallest)
        self.at_least_zero(one.largest - Affine.of(one.name))
        if one.step > 1:
            self.at_least_zero(last_value(one.low, one.last + 1, one.step) - Affine.of(one.name))

    def proves(self, form: Affine, depth: int = 4) -> bool:
        """Whether the form is at least 0 wherever all facts hold."""
        if form.value is not None and form.value >= 0:
            return True
        if _infeasible([*self.known, -form - 1], form.names):
            return True
        if depth == 0:
            return False
        for name in form.names:
            if name in self.cases:
                return all(self._with(extra).proves(form.substitute({name: choice}), depth - 1) for choice, extra in self.cases[name])
        return False

    def proves_equal(self, left: Affine, right: Affine) -> bool:
        return left == right or (self.proves(left - right) and self.proves(right - left))

    def _with(self, extra: Sequence[Affine]) -> "Facts":
        return Facts([*self.known, *extra], self.cases)


_Row = tuple[Mapping[Symbol, int], int]


def _infeasible(constraints: Sequence[Affine], start: Sequence[str]) -> bool:
    rows = _rows(_reached(constraints, start))
    while True:
        if any(not terms and constant < 0 for terms, constant in rows):
            return True
        counts: dict[Symbol, list[int]] = {}
        for terms, _ in rows:
            for symbol, coefficient in terms.items():
                entry = counts.setdefault(symbol, [0, 0])
                entry[coefficient > 0] += 1
        if not counts:
            return False
        symbol = min(counts, key=lambda s: (counts[s][0] * counts[s][1] - sum(counts[s]), str(s)))
        rows = _eliminate(rows, symbol)
        if len(rows) > _LARGEST_SYSTEM:
            return False


def _reached(constraints: Sequence[Affine], start: Sequence[str]) -> list[Affine]:
    """The constraints whose names the goal (the last constraint) reaches."""
    reached = set(start)
    waiting = list(constraints)
    found: list[Affine] = []
    while True:
        rest: list[Affine] = []
        grew = False
        for constraint in waiting:
            names = constraint.names
            if not names or reached.intersection(names):
                found.append(constraint)
                grew = grew or not reached.issuperset(names)
                reached.update(names)
            else:
                rest.append(constraint)
        waiting = rest
        if not grew:
            return found


def _rows(constraints: Sequence[Affine]) -> list[_Row]:
    """Constraints as rows; each floor becomes a name q with d*q <= n < d*q + d."""
    rows: list[_Row] = []
    atoms: set[Symbol] = set()
    waiting = list(constraints)
    while waiting:
        form = waiting.pop()
        rows.append(_tightened(dict(form.terms), form.constant))
        for symbol, _ in form.terms:
            if isinstance(symbol, FloorDiv) and symbol not in atoms:
                atoms.add(symbol)
                scaled = Affine(((symbol, symbol.divisor),))
                waiting.append(symbol.numerator - scaled)
                waiting.append(scaled + (symbol.divisor - 1) - symbol.numerator)
    return rows


def _tightened(terms: dict[Symbol, int], constant: int) -> _Row:
    """Divided by the coefficients' common divisor; the constant rounds down, since all names are ints."""
    terms = {symbol: coefficient for symbol, coefficient in terms.items() if coefficient}
    divisor = gcd(*terms.values()) if terms else 1
    if divisor > 1:
        return {symbol: coefficient // divisor for symbol, coefficient in terms.items()}, constant // divisor
    return terms, constant


def _eliminate(rows: list[_Row], symbol: Symbol) -> list[_Row]:
    above = [row for row in rows if row[0].get(symbol, 0) < 0]
    below = [row for row in rows if row[0].get(symbol, 0) > 0]
    kept = {_key(row): row for row in rows if not row[0].get(symbol, 0)}
    if len(above) * len(below) > _LARGEST_SYSTEM:
        return []
    for upper_terms, upper_constant in above:
        for lower_terms, lower_constant in below:
            p, q = lower_terms[symbol], -upper_terms[symbol]
            terms = {s: q * c for s, c in lower_terms.items()}
            for s, c in upper_terms.items():
                terms[s] = terms.get(s, 0) + p * c
            row = _tightened(terms, q * lower_constant + p * upper_constant)
            kept.setdefault(_key(row), row)
    return list(kept.values())


def _key(row: _Row) -> tuple[frozenset[tuple[Symbol, int]], int]:
    return frozenset(row[0].items()), row[1]
