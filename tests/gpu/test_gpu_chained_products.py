"""Sums whose weights are computed from other products, on a GPU, against float64."""

from typing import Any

import numpy as np
import pytest

from tests.chains import agree, agrees_with_the_backward_pass, weighed

DEVICE = "cuda:0"


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("sizes", [(1, 65, 130, 64, 64), (3, 1000, 1013, 64, 128), (2, 512, 2048, 128, 128), (1, 1000, 31, 40, 48)])
def test_weights_that_are_no_exponentials(sizes: tuple[int, int, int, int, int], dtype: str) -> None:
    agree(*weighed(sizes, dtype=dtype, device=DEVICE), dtype)


@pytest.mark.parametrize("sizes", [(2, 260, 333, 64, 64), (1, 1024, 1024, 64, 64)])
def test_guards_that_leave_tiles_out(sizes: tuple[int, int, int, int, int]) -> None:
    agree(*weighed(sizes, guard="j <= i", seen=lambda i, j: j <= i, device=DEVICE))
    agree(*weighed(sizes, guard="i <= j", seen=lambda i, j: i <= j, device=DEVICE))


def test_values_that_a_guard_hides_are_not_read() -> None:
    def change(q: Any, k: Any, v: Any) -> None:
        v[0, 40, 3], v[0, 90, 5], v[0, 129, 7] = np.inf, np.nan, -np.inf

    sizes, square = (1, 130, 130, 64, 64), "s * s + 0.5"
    agree(*weighed(sizes, square, lambda s, a: (8 * s) ** 2 + 0.5, "j <= i", lambda i, j: j <= i, change=change, device=DEVICE))


@pytest.mark.parametrize(("length", "width"), [(150, 64), (64, 128), (1000, 64), (2048, 64), (513, 96), (1024, 128)])
def test_the_backward_pass_of_attention(length: int, width: int) -> None:
    for _ in range(3):
        agrees_with_the_backward_pass(length, width, DEVICE)
