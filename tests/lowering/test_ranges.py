"""Proofs about indices are sound: whatever is proved holds for every assignment of small ints; and the usual cases are proved."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.hir.affine import Affine
from compiler.lowering.ranges import Facts, Range, extreme, last_value

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
    facts = Facts()
    for fact in known:
        facts.at_least_zero(fact)
    if not facts.proves(goal):
        return
    for values in product(range(-4, 5), repeat=len(NAMES)):
        assignment = dict(zip(NAMES, values, strict=True))
        constants_hold = all(fact.constant >= 0 for fact in known if fact.value is not None)
        if constants_hold and all(fact.evaluate(assignment.__getitem__) >= 0 for fact in known):
            assert goal.evaluate(assignment.__getitem__) >= 0


def test_loop_bounds_and_guards_prove_the_usual_windows() -> None:
    facts = Facts()
    facts.add_range(Range("i", Affine(), Affine.of("n") - 1))
    facts.add_range(Range("k", Affine(), Affine((), 2)))
    window = Affine.of("i") + "k" - 1
    assert not facts.proves(window)
    facts.at_least_zero(window)
    facts.at_least_zero(Affine.of("n") - 1 - window)
    assert facts.proves(window) and facts.proves(Affine.of("n") - 1 - window)


def test_half_of_an_index_is_below_it() -> None:
    facts = Facts()
    facts.add_range(Range("i", Affine(), Affine.of("n") - 1))
    half = Affine.of("i").floordiv(2)
    assert facts.proves(half) and facts.proves(Affine.of("n") - 1 - half)


def test_the_extremes_of_a_triangle() -> None:
    loops = [Range("i", Affine(), Affine.of("n") - 1), Range("j", Affine(), Affine.of("i"))]
    assert extreme(Affine.of("j"), loops, upper=True) == Affine.of("n") - 1
    assert extreme(Affine.of("i") - "j", loops, upper=False) == Affine()


def test_the_last_value_of_a_stepped_loop() -> None:
    for low, high, step in ((0, 10, 3), (2, 3, 5), (9, -1, -4), (5, 0, -2)):
        want = list(range(low, high, step))[-1]
        assert last_value(Affine((), low), Affine((), high), step).value == want
