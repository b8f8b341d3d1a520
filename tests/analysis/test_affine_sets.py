"""Bounds, signs, solutions and collisions of affine forms, against enumeration."""

import itertools
import random

from compiler.analysis.affine_sets import IndexPoints, SolveOutcome, collision, injective, lower, meeting, solve, upper
from compiler.hir.affine import Affine


def form(*terms: tuple[str, int], constant: int = 0) -> Affine:
    total = Affine((), constant)
    for name, coefficient in terms:
        total = total + Affine.of(name) * coefficient
    return total


def test_bounds_hold_on_every_point() -> None:
    chance = random.Random(1)
    box = {"i": Affine.of(4), "j": Affine.of(3)}
    for _ in range(200):
        f = form(("i", chance.randint(-3, 3)), ("j", chance.randint(-3, 3)), constant=chance.randint(-5, 5)).floordiv(
            chance.choice((1, 2, 3))
        )
        values = [f.evaluate({"i": i, "j": j}.__getitem__) for i, j in itertools.product(range(4), range(3))]
        assert (lower(f, box).value or 0) <= min(values)
        assert max(values) <= (upper(f, box).value or 0)


def test_injectivity_agrees_with_enumeration_where_it_is_claimed() -> None:
    chance = random.Random(2)
    claimed = 0
    for _ in range(400):
        extents = {"i": chance.randint(1, 5), "j": chance.randint(1, 5), "k": chance.randint(1, 3)}
        index = [
            form(*((n, chance.choice((0, 0, 1, 1, 2, 5, -1))) for n in extents), constant=chance.randint(0, 2))
            for _ in range(chance.choice((1, 2, 3)))
        ]
        if injective(index, {n: Affine.of(e) for n, e in extents.items()}):
            claimed += 1
            points = [dict(zip(extents, p, strict=True)) for p in itertools.product(*map(range, extents.values()))]
            seen = {tuple(f.evaluate(p.__getitem__) for f in index) for p in points}
            assert len(seen) == len(points), (extents, [str(f) for f in index])
    assert claimed > 50


def test_equations_are_solved_refuted_or_left() -> None:
    found = solve([(form(("a", 2), constant=1), form(("x", 2), constant=3))], {"a": Affine.of("N")}, {"x": Affine.of("N")})
    assert (found.outcome, str(found.values["a"])) == (SolveOutcome.SOLVED, "x+1")
    assert solve([(form(("a", 2)), form(("x", 2), constant=1))], {"a": Affine.of("N")}, {"x": Affine.of("N")}).outcome is SolveOutcome.NEVER
    assert solve([(form(("a", 1), ("b", 1)), form(("x", 1)))], {"a": Affine.of("N"), "b": Affine.of("N")}, {}).outcome is SolveOutcome.UNKNOWN
    assert solve([(Affine.of("x"), Affine.of("y"))], {}, {}).outcome is SolveOutcome.UNKNOWN


def test_collisions_are_real_and_the_first_comes_first() -> None:
    places = IndexPoints((form(("i", 1), ("j", 1)),), {"i": Affine.of("N"), "j": Affine.of("M")})
    met = collision(places, ["i", "j"])
    assert met is not None
    assert (met.first, met.second, met.element) == ({"i": 0, "j": 1}, {"i": 1, "j": 0}, (1,))
    assert collision(IndexPoints((Affine.of("i"),), {"i": Affine.of("N")}), ["i"]) is None


def test_guards_and_dependent_extents_limit_the_points() -> None:
    box = {"i": Affine.of("N"), "j": Affine.of("i")}
    assert all(p["j"] < p["i"] for p in IndexPoints((Affine.of("j"),), box).points(5))
    places = IndexPoints((Affine.of("i"),), {"i": Affine.of("N"), "j": Affine.of("N")}, (Affine.of("i") - "j", Affine.of("j") - "i"))
    assert collision(places, ["i", "j"]) is None


def test_a_meeting_prefers_the_order_in_which_the_write_comes_first() -> None:
    box = {"i": Affine.of("N")}
    met = meeting(IndexPoints((Affine.of("i"),), box), IndexPoints((Affine.of("i") - 1,), box), ["i"])
    assert met is not None
    assert (met.first, met.second) == ({"i": 0}, {"i": 1})
