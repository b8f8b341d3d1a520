"""Ranges of loop variables, and the largest and smallest value of an affine form over its loops. Knows nothing of programs."""

from collections.abc import Iterable, Sequence

from compiler.hir.affine import Affine, FloorDiv
from runtime.records import frozen


@frozen
class NumberRange:
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

    @property
    def inequalities(self) -> tuple[Affine, ...]:
        """Forms of the name that are at least 0."""
        name = Affine.of(self.name)
        reached = (last_value(self.low, self.last + 1, self.step) - name,) if self.step > 1 else ()
        return (name - self.smallest, self.largest - name, *reached)


def loop_range(name: str, low: Affine, high: Affine, step: int) -> NumberRange:
    """The range of a loop's variable; `last` is the bound itself less one (plus one, downwards), exact for steps of 1 and -1."""
    return NumberRange(name, low, high - 1 if step > 0 else high + 1, step, exact=abs(step) == 1)


def last_value(low: Affine, high: Affine, step: int) -> Affine:
    """The last value that a loop takes."""
    if step > 0:
        return low + (high - 1 - low).floordiv(step) * step
    return low - (low - high - 1).floordiv(-step) * -step


def mentions(form: Affine, names: Iterable[str]) -> bool:
    have = set(form.names)
    return any(name in have for name in names)


def extreme(form: Affine, ranges: Sequence[NumberRange], upper: bool) -> Affine:
    """The largest (smallest) value of the form over the ranges, innermost last in the sequence. Floors are bounded termwise."""
    for loop in reversed(ranges):
        if loop.name in form.names:
            form = _bound(form, loop, upper)
    return form


def reached(form: Affine, ranges: Sequence[NumberRange]) -> bool:
    """Whether the form takes its extremes over the ranges: it mentions names that do, and none twice, by what follows from it."""
    varying = [loop for loop in ranges if loop.name in form.names]
    follows = [name for loop in varying for name in (loop.of or (loop.name,))]
    return all(loop.exact or loop.of for loop in varying) and len(follows) == len(set(follows))


def _bound(form: Affine, loop: NumberRange, upper: bool) -> Affine:
    total = Affine((), form.constant)
    for symbol, coefficient in form.terms:
        rising = (coefficient > 0) == upper
        if symbol == loop.name:
            part = loop.largest if rising else loop.smallest
        elif isinstance(symbol, FloorDiv) and loop.name in symbol.numerator.names:
            part = _bound(symbol.numerator, loop, rising).floordiv(symbol.divisor)
        else:
            part = Affine(((symbol, 1),))
        total = total + part * coefficient
    return total
