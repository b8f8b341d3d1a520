"""Sums whose weights are computed from other products, in one launch on warpgroups, in the emulator; against float64."""

from typing import Any

import numpy as np
import pytest

import zynml
from tests.chains import NUMPY, ONE, PLAIN, agree, agrees_with_the_backward_pass, weighed

DEVICE = "emulator:sm_90a"


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("sizes", [(1, 65, 130, 64, 64), (2, 200, 64, 64, 128), (1, 130, 33, 128, 128), (1, 1000, 31, 40, 48)])
def test_weights_that_are_no_exponentials(sizes: tuple[int, int, int, int, int], dtype: str) -> None:
    agree(*weighed(sizes, dtype=dtype), dtype)


@pytest.mark.parametrize(
    ("guard", "seen"),
    [
        ("j <= i", lambda i, j: j <= i),
        ("i <= j", lambda i, j: i <= j),
        ("j <= i and i - j < 40", lambda i, j: (j <= i) & (i - j < 40)),
        ("2 * j <= i + 3", lambda i, j: 2 * j <= i + 3),
    ],
)
def test_guards_that_leave_tiles_out(guard: str, seen: Any) -> None:
    agree(*weighed((1, 260, 333, 64, 64), guard=guard, seen=seen))


def test_a_guard_from_a_tensor() -> None:
    mask = np.random.default_rng(3).random((130, 200)) < 0.5
    agree(*weighed((1, 130, 200, 64, 64), guard="A[i, j]", seen=lambda i, j: mask[i, j], also={"A": mask}))


def test_numbers_of_rows_and_of_terms() -> None:
    random = np.random.default_rng(4)
    also = {"R": random.random((2, 100)).astype(np.float32), "S": random.random((2, 150)).astype(np.float32)}
    found = weighed(
        (2, 100, 150, 64, 64), "exp(s * scale - R[h, i]) * S[h, j]", lambda s, a: np.exp(s - a["R"][:, :, None]) * a["S"][:, None], also=also
    )
    agree(*found)


def test_values_that_a_guard_hides_are_not_read() -> None:
    """Infinite ones, and NaN, in tiles that the guard cuts; those that are seen stay."""

    def change(q: Any, k: Any, v: Any) -> None:
        v[0, 40, 3], v[0, 90, 5], v[0, 129, 7] = np.inf, np.nan, -np.inf

    found, wanted, size = weighed((1, 130, 130, 64, 64), "s * s + 0.5", lambda s, a: (8 * s) ** 2 + 0.5, "j <= i", lambda i, j: j <= i, change=change)
    assert np.isfinite(wanted[0, :40]).all() and not np.isfinite(wanted[0, 129, [3, 5, 7]]).any()
    agree(found, wanted, size)


def test_sums_without_a_guard_have_what_the_loops_give() -> None:
    def change(q: Any, k: Any, v: Any) -> None:
        v[0, 40, 3], v[0, 90, 5], q[0, 7, 1] = np.inf, np.nan, np.nan

    found, wanted, size = weighed((1, 130, 130, 64, 64), "s * s", lambda s, a: (8 * s) ** 2, change=change)
    agree(found, wanted, size)


@pytest.mark.parametrize(("length", "width"), [(150, 64), (64, 128), (257, 64), (96, 96)])
def test_the_backward_pass_of_attention(length: int, width: int) -> None:
    agrees_with_the_backward_pass(length, width)


def test_what_is_left_to_others() -> None:
    """Rows that no warpgroup is full of, weights that aren't rounded, and a machine without warpgroups."""
    text = ONE.replace("SUM", PLAIN).replace("WEIGHT", "max(s * scale, 0.0)").replace("ALSO", "").replace("NAMES", "").replace("TYPE", "bf16")
    like = "Q=1xROWSx64:bf16, K=1x2000x64:bf16, V=1x2000x64:bf16, scale=0.125"
    unrounded = text.replace(") as bf16\n", ")\n").replace("(w as f32)", "w")
    for other, rows, device in ((text, "20", DEVICE), (unrounded, "200", DEVICE), (text, "200", "emulator:sm_80")):
        (kernel,) = zynml.compile(other)._session.launches_like([like.replace("ROWS", rows)], device)
        assert len(kernel.threads.launches.launches) > 1
