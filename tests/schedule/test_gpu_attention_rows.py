"""Attention with what its rows come to as results besides: the log of the sum of exponentials, or the maximum and the sum; on warpgroups and
on warps, in the emulator."""

from typing import Any

import numpy as np
import pytest

from compiler.hir.hopper import WarpgroupMma
from compiler.hir.tensor_core import WarpMma
from tests.attentions import CASES, expected, inputs, source
from tests.schedule.attention_runs import NUMPY, ULP, run

Sizes = tuple[int, int, int, int, int, int]

WAYS = {"warpgroups": ("sm_90a", WarpgroupMma), "warps": ("sm_80", WarpMma)}
LOG = {"row": "m + log(l)"}
PAIR = {"most": "m", "sum": "l"}


def scores_of(case: str, q: Any, k: Any, given: dict[str, Any]) -> Any:
    """What exponents are taken of, in float64."""
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    plain = np.einsum("bhme,bhne->bhmn", q.astype(np.float64), k.astype(np.float64))
    with np.errstate(all="ignore"):
        scores = CASES[case].value(plain, i, j, {**given, "N": k.shape[2], "M": q.shape[2], "D": q.shape[3]})
    return np.where(CASES[case].inside(i, j, k.shape[2], q.shape[2]), scores, -np.inf)


def attended(
    way: str, case: str, sizes: Sizes, results: dict[str, str], scale: float, out: str = "o", change: Any = None, partial: tuple[int, ...] = ()
) -> tuple[Any, dict[str, Any], Any, Any, Any]:
    """The program's value and what its rows come to; the scores, the values, and what attention comes to by itself, with its size."""
    b, h, m, n, d, c = sizes
    random = np.random.default_rng(m * n)
    q, k, v = (random.standard_normal((b, h, rows, width)).astype(NUMPY["bf16"]) for rows, width in ((m, d), (n, d), (n, c)))
    if change is not None:
        change(q, k, v)
    given = {"scale": scale, **inputs(CASES[case], sizes, 40, random)}
    stored = "".join(f"    {name}[b, h, i] = {value}\n" for name, value in results.items())
    text = source("three passes", CASES[case]).replace("    for d in 0..C:\n", stored + "    for d in 0..C:\n")
    text = text.replace(" - m) / l *", " - m) *").replace("= o\n", f"= {out}\n")
    named = "".join(f", {name}: tensor[B, H, M]" for name in results)
    text = text.replace("-> tensor[B, H, M, C, bf16]", f"-> (out: tensor[B, H, M, C, bf16]{named})") if results else text
    rows = {name: np.full((b, h, m), -7, np.float32) for name in results}
    known = dict(zip("BHMNDC", sizes, strict=True)) | {"G": h, "W": 40}
    found = run(text, {"Q": q, "K": k, "V": v, **given, **rows}, known, (b, h, m, c), "bf16", *WAYS[way], partial)
    return found, rows, scores_of(case, q, k, given), v, expected(CASES[case], q, k, v, given)


def agree(found: Any, wanted: Any, tolerance: Any) -> None:
    with np.errstate(invalid="ignore"):
        close = np.abs(found - wanted) <= tolerance
    assert np.all(close | (np.isnan(found) & np.isnan(wanted)) | (found == wanted))


def log_of_sum(scores: Any) -> Any:
    """As the loops come to it: NaN where all that is seen is -inf."""
    with np.errstate(all="ignore"):
        most = scores.max(-1, initial=-np.inf)
        return most + np.log(np.exp(scores - most[..., None]).sum(-1))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ["full", "causal", "causal, from the end", "window", "masked", "capped", "sloped", "documents that see nothing"])
def test_the_log_of_the_sum(way: str, case: str) -> None:
    found, rows, scores, _, (wanted, size) = attended(way, case, (1, 2, 70, 150, 16, 16), LOG, 0.25, "o / l")
    agree(found, wanted, 2 * ULP["bf16"] * size + 1e-6)
    # a sum of up to 150 exponentials by an approximation that is off by 2^-22
    agree(rows["row"], log_of_sum(scores), 2e-5 * (1 + np.abs(np.where(np.isfinite(scores), scores, 0)).max(-1)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scale", [0.25, -0.3, 0.0, 3.0])
def test_the_maximum_and_the_sum(way: str, scale: float) -> None:
    """Both are of the row's own maximum, however little it grew."""
    _, rows, scores, _, _ = attended(way, "causal", (1, 1, 70, 200, 16, 16), PAIR, scale)
    most = scores.max(-1)
    agree(rows["most"], most, 1e-5 * (1 + np.abs(most)))
    total = np.exp(scores - most[..., None]).sum(-1)
    agree(rows["sum"], total, 1e-4 * total * (1 + abs(scale)))


@pytest.mark.parametrize("way", WAYS)
def test_a_sum_that_is_added_to_is_that_of_the_own_maximum(way: str) -> None:
    """`o / (l + 1)`: the maximum doesn't cancel."""
    found, _, scores, v, (_, size) = attended(way, "full", (1, 1, 66, 260, 16, 16), {}, 0.5, out="o / (l + 1.0)")
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    agree(found, weights @ v.astype(np.float64) / (weights.sum(-1, keepdims=True) + 1), 2 * ULP["bf16"] * size + 1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_scores_that_are_not_finite(way: str) -> None:
    def change(q: Any, k: Any, v: Any) -> None:
        q[0, 0, 5, 3], q[0, 0, 6, 2], k[0, 0, 60, 1] = np.nan, np.inf, -np.inf

    _, rows, scores, _, _ = attended(way, "causal", (1, 1, 70, 70, 16, 16), LOG | PAIR, 0.25, change=change)
    wanted = log_of_sum(scores)
    agree(rows["row"], wanted, 1e-4 * (1 + np.abs(np.nan_to_num(wanted, posinf=0, neginf=0))))
    assert np.array_equal(np.isnan(rows["row"]), np.isnan(wanted))


@pytest.mark.parametrize(("queries", "width", "partial"), [(1, 32, (1, 1, 1, 4, 16, 32)), (40, 16, (1, 1, 1, 4, 64, 16))])
def test_keys_that_warps_and_blocks_share(queries: int, width: int, partial: tuple[int, ...]) -> None:
    sizes = (1, 1, queries, 330, width, width)
    _, rows, scores, _, _ = attended("warps", "causal, from the end", sizes, LOG | PAIR, 0.25, partial=partial)
    most = scores.max(-1)
    agree(rows["most"], most, 1e-5 * (1 + np.abs(most)))
    agree(rows["row"], log_of_sum(scores), 1e-4 * (1 + np.abs(most)))


@pytest.mark.parametrize("way", WAYS)
def test_rows_that_see_nothing(way: str) -> None:
    """Exponents are -inf less -inf there; where no key is there at all, nothing is summed."""
    _, rows, scores, _, _ = attended(way, "causal, from the end", (1, 1, 70, 2, 16, 16), LOG, 0.25)
    wanted = log_of_sum(scores)
    assert np.isnan(wanted[0, 0, :68]).all() and np.array_equal(np.isnan(rows["row"]), np.isnan(wanted))
