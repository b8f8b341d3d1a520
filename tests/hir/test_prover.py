"""Proofs about affine forms are sound: whatever is proved holds for every assignment of small ints; and the usual cases are proved."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.hir.affine import Affine
from compiler.hir.prover import Inequalities

NAMES = ("i", "j", "n")
forms = st.builds(
    lambda terms, constant, floor: (
        sum((Affine.of(name) * c for name, c in terms), Affine((), constant)) + (Affine.of("i") * 3 + Affine.of("n")).floordiv(2) * floor
    ),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-3, 3)), max_size=3),
    st.integers(-4, 4),
    st.sampled_from((0, 0, 1, -1)),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(forms, max_size=4), forms)
def test_what_is_proved_holds(known: list[Affine], goal: Affine) -> None:
    facts = Inequalities()
    facts.at_least_zero(*known)
    if not facts.proves(goal):
        return
    for values in product(range(-4, 5), repeat=len(NAMES)):
        assignment = dict(zip(NAMES, values, strict=True))
        constants_hold = all(fact.constant >= 0 for fact in known if fact.value is not None)
        if constants_hold and all(fact.evaluate(assignment.__getitem__) >= 0 for fact in known):
            assert goal.evaluate(assignment.__getitem__) >= 0


def test_loop_bounds_and_guards_prove_the_usual_windows() -> None:
    facts = Inequalities.inside({"i": Affine.of("n"), "k": Affine((), 3)})
    window = Affine.of("i") + "k" - 1
    assert not facts.proves(window)
    facts.at_least_zero(window, Affine.of("n") - 1 - window)
    assert facts.proves_inside(window, Affine.of("n"))


def test_half_of_an_index_is_below_it() -> None:
    facts = Inequalities.inside({"i": Affine.of("n")})
    half = Affine.of("i").floordiv(2)
    assert facts.proves_inside(half, Affine.of("n"))


def test_signs_are_proved_from_extents_and_conditions() -> None:
    i, n = Affine.of("i"), Affine.of("N")
    facts = Inequalities.inside({"i": n}, ["N"])
    assert facts.proves_inside(i, n)
    assert facts.proves_inside(i + 2, n + 2)
    assert not facts.proves_inside(i + 1, n)
    assert not facts.proves(Affine.of("M"))
    assert Inequalities.inside({"i": n}, ["N"], [n - 2 - i]).proves_inside(i + 1, n)


def test_a_loop_over_tiles_has_a_whole_one_when_it_has_an_iteration() -> None:
    n = Affine.of("N")
    facts = Inequalities.inside({"i": n.floordiv(4)})
    assert facts.proves(n - 4)
    assert facts.proves_inside(Affine.of("i") * 4 + 3, n)
    assert not facts.proves_inside(Affine.of("i") * 4 + 4, n)
