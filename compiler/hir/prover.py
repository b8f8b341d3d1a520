"""The prover of non-negativity: whether an affine form is at least 0 wherever all that is known of its names holds.

A proof negates its goal and eliminates names one by one (Fourier and Motzkin), over the facts that the goal's names reach. It is
sound and gives up (unproved) where a system grows large."""

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from compiler.hir.affine import Affine, FloorDiv, Symbol
from runtime.records import Factory, define

_LARGEST_SYSTEM = 400


@define
class Inequalities:
    """Forms known to be at least 0, in scopes: `mark` and `forget` bracket a block. `cases`: a name is one of several forms, each
    under its own facts."""

    known: list[Affine] = Factory(list)
    cases: dict[str, tuple[tuple[Affine, tuple[Affine, ...]], ...]] = Factory(dict)

    def mark(self) -> int:
        return len(self.known)

    def forget(self, mark: int) -> None:
        del self.known[mark:]

    @staticmethod
    def inside(box: Mapping[str, Affine], sizes: Iterable[str] = (), known: Iterable[Affine] = ()) -> "Inequalities":
        """What holds at every point of a box, which isn't empty: each axis runs over 0 <= axis < extent. No size is negative."""
        facts = Inequalities()
        for axis, extent in box.items():
            facts.at_least_zero(Affine.of(axis), extent - 1 - axis)
        facts.at_least_zero(*map(Affine.of, sizes), *known)
        return facts

    def at_least_zero(self, *forms: Affine) -> None:
        self.known += [form for form in forms if form.value is None]

    def equal(self, left: Affine, right: Affine) -> None:
        self.at_least_zero(left - right, right - left)

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

    def proves_inside(self, form: Affine, extent: Affine) -> bool:
        """0 <= form < extent, always."""
        return self.proves(form) and self.proves(extent - 1 - form)

    def proves_equal(self, left: Affine, right: Affine) -> bool:
        return left == right or (self.proves(left - right) and self.proves(right - left))

    def _with(self, extra: Sequence[Affine]) -> "Inequalities":
        return Inequalities([*self.known, *extra], self.cases)


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
    relevant: list[Affine] = []
    while True:
        rest: list[Affine] = []
        grew = False
        for constraint in waiting:
            names = constraint.names
            if not names or reached.intersection(names):
                relevant.append(constraint)
                grew = grew or not reached.issuperset(names)
                reached.update(names)
            else:
                rest.append(constraint)
        waiting = rest
        if not grew:
            return relevant


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
    remaining = {_key(row): row for row in rows if not row[0].get(symbol, 0)}
    if len(above) * len(below) > _LARGEST_SYSTEM:
        return []
    for upper_terms, upper_constant in above:
        for lower_terms, lower_constant in below:
            p, q = lower_terms[symbol], -upper_terms[symbol]
            terms = {s: q * c for s, c in lower_terms.items()}
            for s, c in upper_terms.items():
                terms[s] = terms.get(s, 0) + p * c
            row = _tightened(terms, q * lower_constant + p * upper_constant)
            remaining.setdefault(_key(row), row)
    return list(remaining.values())


def _key(row: _Row) -> tuple[frozenset[tuple[Symbol, int]], int]:
    return frozenset(row[0].items()), row[1]
