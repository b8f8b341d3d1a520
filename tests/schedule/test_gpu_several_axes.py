"""Products of which both operands have several axes of their own: tiles lie along one of the columns', others are places of the grid."""

import ml_dtypes
import numpy as np
import pytest

from tests.schedule.test_gpu_computed_operands import run
from tests.schedule.test_gpu_convolutions import on_warpgroups

SOURCE = """
def f(A: tensor[LEFT, bf16], B: tensor[RIGHT, bf16]) {
    compute(A, B) -> tensor[RESULT, f32] {
        for a in 0..P, b in 0..Q, c in 0..R, d in 0..S:
            var s = 0.0
            for k in 0..K: s += A[INDEX] * B[PLACE]
            out[STORED] = s
    }
}"""
EXTENTS = {"P": 5, "Q": 33, "R": 3, "S": 40, "K": 72}
AXES = dict(zip("abcdk", EXTENTS, strict=True))


@pytest.mark.parametrize(
    ("left", "right", "stored"),
    [
        ("a b k", "c d k", "a b c d"),
        ("a b k", "c k d", "a c b d"),  # a transposed convolution's
        ("a k b", "c k d", "a b c d"),
        ("k a b", "d c k", "d c a b"),
        ("b a k", "c d k", "d b c a"),
        ("k a b", "c d k", "c d a b"),  # channels first: of both, axes that are one in memory
    ],
    ids=str,
)
def test_both_operands_have_two_axes(left: str, right: str, stored: str) -> None:
    source = SOURCE
    for word, index in (("LEFT", left), ("RIGHT", right), ("RESULT", stored)):
        source = source.replace(word, ", ".join(AXES[axis] for axis in index.split()))
    for word, index in (("INDEX", left), ("PLACE", right), ("STORED", stored)):
        source = source.replace(word, ", ".join(index.split()))
    r = np.random.default_rng(1)
    a, b = (r.integers(-4, 5, [EXTENTS[AXES[axis]] for axis in index.split()]).astype(ml_dtypes.bfloat16) for index in (left, right))
    wanted = np.einsum(f"{left},{right}->{stored}".replace(" ", ""), a.astype(np.float64), b.astype(np.float64))
    out = np.full(wanted.shape, -7, np.float32)
    made = run(source, {"A": a, "B": b, "out": out}, sizes=EXTENTS)
    np.testing.assert_array_equal(out, wanted)
    assert on_warpgroups(made)
