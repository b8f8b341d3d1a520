"""Affine forms over boxes of iterations: bounds, solutions of index equations, injectivity, and concrete
colliding iterations for messages. It knows axes and sizes, and nothing of instructions.

A *box* gives each axis its extent: the axis runs over 0 <= a < extent, where the extent names sizes only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import islice, product
from math import gcd

from compiler.hir.affine import Affine, FloorDiv
from runtime.records import Factory, define, frozen

Box = Mapping[str, Affine]


def upper(form: Affine, box: Box) -> Affine:
    """An upper bound of the form over the box, free of its axes (reached when the box isn't empty and there is no floor)."""
    return _extreme(form, box, 1)


def lower(form: Affine, box: Box) -> Affine:
    """A lower bound of the form over the box, free of its axes."""
    return _extreme(form, box, -1)


def _extreme(form: Affine, box: Box, sign: int) -> Affine:
    result = Affine((), form.constant)
    for symbol, coefficient in form.terms:
        up = (coefficient > 0) == (sign > 0)
        if isinstance(symbol, FloorDiv):
            inside = _extreme(symbol.numerator, box, 1 if up else -1)
            result = result + inside.floordiv(symbol.divisor) * coefficient
        elif symbol in box:
            if up:
                result = result + (_extreme(box[symbol], box, sign * (1 if coefficient > 0 else -1)) - 1) * coefficient
        else:
            result = result + Affine.of(symbol) * coefficient
    return result


class SolveOutcome(Enum):
    SOLVED = auto()
    """Every unknown is determined, or free."""
    NEVER = auto()
    """The equations have no solution."""
    UNKNOWN = auto()


@define
class Solution:
    """What equations say of unknowns: `values` those that are determined, `free` those that no equation names."""

    outcome: SolveOutcome
    values: dict[str, Affine] = Factory(dict)
    free: list[str] = Factory(list)
    residue: list[Affine] = Factory(list)
    """Forms without unknowns that must be 0, and aren't always."""


def solve(equations: Iterable[tuple[Affine, Affine]], unknowns: Box, known: Box) -> Solution:
    """Solve `left == right` for the unknown axes on the left, in terms of the axes and sizes on the right.

    One unknown at a time: an equation with one unknown left determines it; an equation with several is tried as a number of
    mixed radix (64*b + t against 64*b' + t'), whose digits are unique when each coefficient exceeds what the smaller digits reach. An
    axis of extent 1 is 0."""
    zero = {name: Affine() for box in (unknowns, known) for name, extent in box.items() if extent.value == 1}
    solution = Solution(SolveOutcome.SOLVED, {name: value for name, value in zero.items() if name in unknowns})
    open_ = [(left, right.substitute(zero)) for left, right in equations]
    while open_:
        progress = False
        rest: list[tuple[Affine, Affine]] = []
        for left, right in open_:
            difference = left.substitute(solution.values) - right
            mine = [name for name in difference.names if name in unknowns]
            if not mine:
                if difference.value is None:
                    if _never_zero_by_gcd(difference):
                        return Solution(SolveOutcome.NEVER)
                    solution.residue.append(difference)
                elif difference.value != 0:
                    return Solution(SolveOutcome.NEVER)
                progress = True
            elif len(mine) == 1 and difference.coefficient(mine[0]) and _only_linear(difference, mine[0]):
                solved = _divide(-difference.without(mine[0]), difference.coefficient(mine[0]))
                if solved is None:
                    if _never_zero_by_gcd(difference):
                        return Solution(SolveOutcome.NEVER)
                    rest.append((left, right))
                else:
                    solution.values[mine[0]] = solved
                    progress = True
            else:
                rest.append((left, right))
        if not progress:
            again = [pair for pair in rest if not _match_digits(pair, solution, unknowns, known)]
            if any(_never_zero_by_gcd(left.substitute(solution.values) - right) for left, right in again):
                return Solution(SolveOutcome.NEVER)
            if len(again) == len(rest):
                solution.outcome = SolveOutcome.UNKNOWN
                break
            rest = again
        open_ = rest
    if solution.residue:
        solution.outcome = SolveOutcome.UNKNOWN
    solution.free = [name for name in unknowns if name not in solution.values]
    return solution


def _only_linear(form: Affine, name: str) -> bool:
    return all(name not in symbol.numerator.names for symbol, _ in form.terms if isinstance(symbol, FloorDiv))


def _divide(form: Affine, divisor: int) -> Affine | None:
    """form / divisor when every coefficient is a multiple."""
    if form.constant % divisor or any(c % divisor for _, c in form.terms):
        return None
    return form.floordiv(divisor) if divisor > 0 else (-form).floordiv(-divisor)


def _never_zero_by_gcd(form: Affine) -> bool:
    """The common divisor of the coefficients doesn't divide the constant: no integers make the form 0."""
    common = 0
    for _, coefficient in form.terms:
        common = gcd(common, coefficient)
    return common != 0 and form.constant % common != 0


def _match_digits(pair: tuple[Affine, Affine], solution: Solution, unknowns: Box, known: Box) -> bool:
    left = pair[0].substitute(solution.values)
    mine = [(s, c) for s, c in left.terms if isinstance(s, str) and s in unknowns]
    if not all(_only_linear(left, name) for name in unknowns):
        return False  # `i - 3*floor(i/3)` is `i % 3`: no digit
    if not digits_unique([(c, unknowns[s]) for s, c in mine]):
        return False
    right = pair[1]
    values: dict[str, Affine] = {}
    for name, coefficient in mine:
        axes = [s for s, c in right.terms if c == coefficient and isinstance(s, str) and s in known]
        partner = next((s for s in axes if known[s] == unknowns[name] and Affine.of(s) not in values.values()), None)
        if partner is None:
            return False
        values[name] = Affine.of(partner)
    if left.substitute(values) != right:
        return False
    solution.values.update(values)
    return True


def digits_unique(digits: Sequence[tuple[int, Affine]]) -> bool:
    """Whether sum(coefficient * digit) determines every digit in 0..extent: each coefficient exceeds what smaller ones reach."""
    reach = 0
    for position, (coefficient, extent) in enumerate(sorted(digits, key=lambda digit: abs(digit[0]))):
        if abs(coefficient) <= reach:
            return False
        if extent.value is None:
            return position == len(digits) - 1
        reach += abs(coefficient) * max(0, extent.value - 1)
    return True


def injective(index: Sequence[Affine], box: Box) -> bool:
    """Whether different points of the box have different indices, as far as can be proved."""
    primed = {name + "'": extent for name, extent in box.items()}
    mapping = {name: Affine.of(name + "'") for name in box}
    solution = solve([(form.substitute(mapping), form) for form in index], primed, box)
    own = {name: Affine() if extent.value == 1 else Affine.of(name) for name, extent in box.items()}
    return solution.outcome is SolveOutcome.SOLVED and not solution.free and all(solution.values[n + "'"] == own[n] for n in box)


# ---- concrete iterations for messages ----

Point = dict[str, int]
TRIES = (2, 3, 4, 6, 10)
"""Sizes tried for the names that nothing determines."""
MOST_POINTS = 20000


@frozen
class IndexPoints:
    """An index over the points of a box whose extents may name earlier axes, where all the `guards` are >= 0."""

    index: tuple[Affine, ...]
    box: Box
    guards: tuple[Affine, ...] = ()
    reach: int = 70
    """How far along an axis points are tried."""

    def points(self, size: int) -> Iterator[Point]:
        """The points in the order of the loops, every unknown name taken as `size`; the first MOST_POINTS of them."""
        return islice(self._points(size, list(self.box.items()), {}), MOST_POINTS)

    def _points(self, size: int, axes: list[tuple[str, Affine]], point: Point) -> Iterator[Point]:
        if not axes:
            if all(evaluate(guard, point, size) >= 0 for guard in self.guards):
                yield dict(point)
            return
        (name, extent), *rest = axes
        for value in range(min(evaluate(extent, point, size), self.reach)):
            yield from self._points(size, rest, {**point, name: value})

    def at(self, point: Point, size: int) -> tuple[int, ...]:
        return tuple(evaluate(form, point, size) for form in self.index)


def evaluate(form: Affine, point: Point, size: int) -> int:
    return form.evaluate(lambda name: point.get(name, size))


@frozen
class Collision:
    """Two iterations that touch one element, and the sizes with which they do."""

    first: Point
    second: Point
    element: tuple[int, ...]
    size: int


def meeting(first: IndexPoints, second: IndexPoints, differ: Sequence[str], same: Sequence[str] = ()) -> Collision | None:
    """A point of each, with one index, that differ in one of `differ` and agree in `same`: near the start, the first one first
    where both orders occur."""
    for size in TRIES:
        reverse: Collision | None = None
        seen: dict[tuple[int, ...], list[Point]] = {}
        for point in first.points(size):
            seen.setdefault(first.at(point, size), []).append(point)
        for point in second.points(size):
            element = second.at(point, size)
            for earlier in seen.get(element, ()):
                if any(earlier[n] != point[n] for n in differ) and all(earlier[n] == point[n] for n in same):
                    collision = Collision(earlier, point, element, size)
                    if [earlier[n] for n in differ] < [point[n] for n in differ]:
                        return collision
                    reverse = reverse or collision
        if reverse is not None:
            return reverse
    return None


def collision(places: IndexPoints, differ: Sequence[str]) -> Collision | None:
    """Two different points with one index, which differ in one of `differ`."""
    return meeting(places, places, differ) or _far_collision(places, differ)


def _far_collision(places: IndexPoints, differ: Sequence[str]) -> Collision | None:
    """Two axes whose coefficients make up for each other, beyond what enumeration reaches: 1000*i + j."""
    box = places.box
    for first, second in product(box, box):
        for form in places.index:
            a, b = form.coefficient(first), form.coefficient(second)
            if first == second or a <= 0 or b <= 0 or not {first, second} & set(differ):
                continue
            common = gcd(a, b)
            first_point = dict.fromkeys(box, 0) | {second: a // common}
            second_point = dict.fromkeys(box, 0) | {first: b // common}
            size = max(*first_point.values(), *second_point.values()) + 1
            inside = all(0 <= p[n] < evaluate(box[n], p, size) for p in (first_point, second_point) for n in box)
            guarded = all(evaluate(guard, p, size) >= 0 for p in (first_point, second_point) for guard in places.guards)
            if inside and guarded and places.at(first_point, size) == places.at(second_point, size):
                return Collision(first_point, second_point, places.at(first_point, size), size)
    return None
