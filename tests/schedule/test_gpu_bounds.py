"""Products of 16 bits whose terms lie between bounds, on warpgroups: steps without terms are left out, elements outside are zeros."""

from typing import Any

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_convolutions import built, launches, on_warpgroups

SOURCE = """
def f(A: tensor[M, M, f16], B: tensor[M, M, f16]) {
    compute(A, B) -> tensor[M, M, f32] {
        for i in 0..M, j in 0..M:
            var s = 0.0
            for k in 0..M:
                if WHEN: s += LEFT * RIGHT
            out[i, j] = s
    }
}
"""
BOUNDS = {
    "k >= i and k <= j": lambda i, j, k: (k >= i) & (k <= j),
    "k >= j + 3": lambda i, j, k: k >= j + 3,
    "k <= i": lambda i, j, k: k <= i,
}


def run(text: str, sizes: dict[str, int], arrays: dict[str, Any]) -> Launches:
    kernel = built(text)
    made = launches(kernel, sizes)
    given = [arrays[one.name] if one.name in arrays else sizes[one.name] for one in kernel.nest.parameters]
    arguments, known = made.counted(given, sizes)
    for number, after in made.steps(known):
        launch = made.launches[number]
        interpret(launch.function, [*arguments, *after], grid=(launch.blocks(known), 1, 1))
    return made


@pytest.mark.parametrize(("bounds", "turned"), [(bounds, number % 2 == 1) for number, bounds in enumerate([*BOUNDS, *BOUNDS][:4])])
def test_products_between_bounds(bounds: str, turned: bool) -> None:
    """Small whole numbers, of which every sum is exact; what takes no part may be NaN, and what does infinite."""
    sizes = {"M": 136}
    r, m = np.random.default_rng(5), 136
    a, b = r.integers(-4, 5, (m, m)).astype(np.float16), r.integers(-4, 5, (m, m)).astype(np.float16)
    where = np.broadcast_to(BOUNDS[bounds](*np.ogrid[:m, :m, :m]), (m, m, m))
    text = SOURCE.replace("WHEN", bounds)
    text = text.replace("LEFT", "A[k, i]" if turned else "A[i, k]").replace("RIGHT", "B[j, k]" if turned else "B[k, j]")

    def lying(matrix: Any) -> Any:
        return np.ascontiguousarray(matrix.T) if turned else matrix

    def check() -> None:
        out = np.full((m, m), -7, np.float32)
        made = run(text, sizes, {"A": lying(a), "B": lying(b), "out": out})
        with np.errstate(invalid="ignore"):
            terms = np.where(where, a[:, None, :].astype(np.float64) * b.T[None].astype(np.float64), 0.0)
            np.testing.assert_array_equal(out, terms.sum(-1))
        assert on_warpgroups(made)
        assert not made.workspaces

    check()
    if bounds == "k <= i":
        a[~where.any(1)] = np.nan
        b[10, 5] = np.inf
        check()


@pytest.mark.parametrize(("loop", "where"), [("i..M", lambda i, j, k: k >= i), ("0..i + 1", lambda i, j, k: k <= i), ("j..M", lambda i, j, k: k >= j)])
def test_loops_that_begin_or_end_on_the_diagonal(loop: str, where: Any) -> None:
    """That a loop ends where its axis does bounds nothing."""
    m, r = 136, np.random.default_rng(6)
    a, b = r.integers(-4, 5, (m, m)).astype(np.float16), r.integers(-4, 5, (m, m)).astype(np.float16)
    text = SOURCE.replace("0..M:\n                if WHEN: ", f"{loop}: ").replace("LEFT", "A[i, k]").replace("RIGHT", "B[k, j]")
    out = np.full((m, m), -7, np.float32)
    made = run(text, {"M": m}, {"A": a, "B": b, "out": out})
    terms = np.where(where(*np.ogrid[:m, :m, :m]), a[:, None, :].astype(np.float64) * b.T[None].astype(np.float64), 0.0)
    np.testing.assert_array_equal(out, terms.sum(-1))
    assert on_warpgroups(made)
