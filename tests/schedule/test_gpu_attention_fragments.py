"""Attention on warps, from sm_80 on, in the emulator: forms and masks, few queries whose heads lie beside each other, keys that warps and
blocks share."""

from typing import Any

import numpy as np
import pytest

from tests.attentions import AXES, CASES
from tests.schedule.attention_runs import check


@pytest.mark.parametrize("passes", ["two passes", "a running maximum, sums in a row"])
def test_every_form(passes: str) -> None:
    check(passes, CASES["causal, shorter loop"], (1, 1, 70, 70, 16, 16), warps="sm_80")


@pytest.mark.parametrize("case", ["full", "causal, from the end", "window", "masked", "a factor for each head", "biased"])
def test_masks(case: str) -> None:
    check("two passes", CASES[case], (1, 2, 70, 100, 32, 16), warps="sm_80")


@pytest.mark.parametrize("layout", AXES)
def test_few_queries_with_heads_beside_each_other(layout: str) -> None:
    check("two passes", CASES["full"], (1, 8, 1, 70, 16, 32), "f16", layout, 4, warps="sm_90a", partial=(1, 2, 1, 2, 16, 32))


@pytest.mark.parametrize(("queries", "rows"), [(1, 16), (5, 32), (13, 64)])
def test_warps_share_the_keys_that_rows_leave_them(queries: int, rows: int) -> None:
    """Of a block's 4 warps, each has 16 of its rows; the others share the keys with these."""
    sizes, partial = (1, 8, queries, 150, 32, 32), (1, 2, 1, 2, rows, 32)
    check("two passes", CASES["causal, from the end"], sizes, "bf16", "heads outside", 4, warps="sm_80", partial=partial)


@pytest.mark.parametrize(("queries", "case"), [(1, "causal, from the end"), (40, "causal, from the end"), (100, "window"), (70, "later keys")])
def test_blocks_share_the_keys_of_few_queries(queries: int, case: str) -> None:
    check("two passes", CASES[case], (1, 1, queries, 330, 16, 16), warps="sm_80", partial=(1, 1, -(-queries // 64), 4, 64, 16))


@pytest.mark.parametrize("sizes", [(1, 1, 65, 70, 80, 96), (1, 1, 20, 40, 128, 48), (1, 1, 17, 33, 256, 256), (1, 1, 1, 1, 8, 8)])
def test_every_number_of_elements(sizes: tuple[int, ...]) -> None:
    check("two passes", CASES["causal"], sizes, warps="sm_80")  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [-0.3, 0.0, float("inf"), float("nan")])
def test_factors_of_every_sign(scale: float) -> None:
    check("two passes", CASES["causal"], (1, 1, 20, 70, 16, 16), scale=scale, warps="sm_80")


@pytest.mark.parametrize("queries", [70, 3])
def test_rows_that_see_nothing_are_not_a_number(queries: int) -> None:
    check("two passes", CASES["causal, from the end"], (1, 1, queries, 2, 16, 16), warps="sm_80")


@pytest.mark.parametrize(("case", "keys"), [("window", 150), ("causal, from the end", 40)])
def test_a_maximum_from_a_number_on_where_first_scores_are_hidden(case: str, keys: int) -> None:
    check("a running maximum from a number on", CASES[case], (1, 1, 70, keys, 16, 16), warps="sm_80")


def test_scores_that_are_large_or_not_finite() -> None:
    def large(q: Any, k: Any, v: Any) -> None:
        q[...] *= 50
        k[0, 0, 9:] *= 100
        q[0, 0, 5, 3], q[0, 0, 6, 2], k[0, 0, 60, 1], v[0, 0, 3, 4], v[0, 0, 64, 7] = np.nan, np.inf, -np.inf, np.inf, np.nan

    check("two passes", CASES["full"], (1, 1, 70, 70, 32, 32), change=large, warps="sm_80")


@pytest.mark.parametrize("queries", [33, 7])
def test_values_that_a_loop_does_not_reach_are_not_read(queries: int) -> None:
    def wild(q: Any, k: Any, v: Any) -> None:
        v[0, 0, 5, 3], v[0, 0, 6, 2], v[0, 0, 2, 5], k[0, 0, 4, 1] = np.inf, np.nan, -np.inf, np.nan

    check("two passes", CASES["causal, shorter loop"], (1, 1, queries, queries, 8, 8), change=wild, warps="sm_80")
