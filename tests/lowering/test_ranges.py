"""The extremes of forms over loops, and the last values of these."""

from compiler.hir.affine import Affine
from compiler.lowering.ranges import NumberRange, extreme, last_value


def test_the_extremes_of_a_triangle() -> None:
    loops = [NumberRange("i", Affine(), Affine.of("n") - 1), NumberRange("j", Affine(), Affine.of("i"))]
    assert extreme(Affine.of("j"), loops, upper=True) == Affine.of("n") - 1
    assert extreme(Affine.of("i") - "j", loops, upper=False) == Affine()


def test_the_last_value_of_a_stepped_loop() -> None:
    for low, high, step in ((0, 10, 3), (2, 3, 5), (9, -1, -4), (5, 0, -2)):
        want = list(range(low, high, step))[-1]
        assert last_value(Affine((), low), Affine((), high), step).value == want
