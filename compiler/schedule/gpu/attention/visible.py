"""Which keys the rows of a tile see, from the guard that hides scores: each condition a*j + c*i + r >= 0 on key j and row i bounds j from
above or below. Over the rows of a tile that gives the keys that some row sees, outside of which nothing needs to be computed, and those
that all rows see, among which nothing needs to be hidden. Causal attention, offsets and sliding windows are such guards."""

from collections.abc import Iterable, Iterator

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine
from compiler.hir.core import Binary
from compiler.hir.instruction import Value
from runtime.records import frozen


@frozen
class Bound:
    """`along` times the key's number, plus `across` times the row's, plus `rest`, is at least 0."""

    along: int
    across: int
    rest: Affine

    @property
    def above(self) -> bool:
        """Whether it is an upper bound of keys."""
        return self.along < 0

    @property
    def empty(self) -> bool:
        """Whether it says no more than that keys are counted from 0."""
        return self.along > 0 and self.across == 0 and (self.rest.value or 0) >= 0 and self.rest.value is not None

    def some(self, first: Affine, last: Affine) -> Affine:
        """The end of the keys that some of these rows see, or their begin."""
        return self._of(last if (self.across > 0) else first)

    def every(self, first: Affine, last: Affine) -> Affine:
        """The same, of keys that all of them see."""
        return self._of(first if (self.across > 0) else last)

    def last(self, row: Affine) -> Affine:
        """The last key that a row sees, or the first."""
        return self._of(row) - 1 if self.above else self._of(row)

    def _of(self, row: Affine) -> Affine:
        form = row * self.across + self.rest
        return form.floordiv(-self.along) + 1 if self.above else -form.floordiv(self.along)


@frozen
class Visible:
    """Bounds of keys, and the conditions that aren't bounds."""

    bounds: tuple[Bound, ...] = ()
    others: tuple[Value, ...] = ()

    @property
    def lower(self) -> list[Bound]:
        return [bound for bound in self.bounds if not bound.above]


def visible_of(guards: Iterable[Value], key: str, row: str) -> Visible:
    """The bounds that guards, which all must hold, put on keys."""
    bounds: list[Bound] = []
    others: list[Value] = []
    for guard in guards:
        for condition in _all_of(guard):
            form_bounds = [_bound(form, key, row) for form in constraints_of(condition) or (None,)]
            if None in form_bounds:
                others.append(condition)
            bounds += [bound for bound in form_bounds if bound is not None and not bound.empty]
    return Visible(tuple(dict.fromkeys(bounds)), tuple(dict.fromkeys(others)))


def _all_of(guard: Value) -> Iterator[Value]:
    """Conditions that the guard is the conjunction of."""
    op = guard.source
    if isinstance(op, Binary) and op.operator == "and":
        yield from _all_of(op.left)
        yield from _all_of(op.right)
    else:
        yield guard


def _bound(form: Affine | None, key: str, row: str) -> Bound | None:
    if form is None:
        return None
    along, across = form.coefficient(key), form.coefficient(row)
    rest = form.without(key, row)
    if along == 0 or key in rest.names or row in rest.names:
        return None
    return Bound(along, across, rest)
