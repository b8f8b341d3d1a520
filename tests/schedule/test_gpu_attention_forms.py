"""Attention as textbooks write it, whatever the form, the layout and the mask, on warpgroups in the emulator."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.hir.core import Cast, Index
from compiler.schedule.gpu.attention.weights import TANHS
from tests.attentions import AXES, CASES, PASSES, Case, expected, source
from tests.schedule.attention_runs import NUMPY, ULP, check, run


@pytest.mark.parametrize("passes", [passes for passes in PASSES if passes not in ("a running maximum", "a running maximum from a number on")])
def test_every_form(passes: str) -> None:
    check(passes, CASES["causal, shorter loop"], (1, 1, 140, 140, 16, 16))


@pytest.mark.parametrize("case", CASES)
def test_every_mask(case: str) -> None:
    check("two passes", CASES[case], (1, 1, 70, 70 if case == "causal, shorter loop" else 150, 16, 16))


@pytest.mark.parametrize("layout", AXES)
def test_every_layout_with_grouped_heads(layout: str) -> None:
    check("two passes", CASES["full"], (1, 2, 65, 33, 16, 16), "f16", layout, 2)


@pytest.mark.parametrize("case", ["window", "later documents, causal", "sloped by heads"])
def test_windows_that_skip_tiles(case: str) -> None:
    check("two passes", CASES[case], (1, 1, 260, 420, 16, 16))


@pytest.mark.parametrize(
    ("case", "sizes", "processors"),
    [
        ("window", (1, 2, 300, 420, 16, 16), 1),
        ("causal, from the end", (2, 1, 400, 270, 16, 16), 1),
        ("factors", (1, 3, 260, 40, 128, 48), 2),
        ("sloped both ways", (1, 2, 130, 130, 256, 64), 1),
        ("documents", (2, 1, 300, 700, 16, 16), 1),
        ("later documents, causal", (2, 1, 270, 700, 16, 16), 2),
        ("documents that see nothing", (1, 1, 200, 300, 256, 16), 1),
    ],
)
def test_blocks_take_tiles_of_queries_until_there_are_none(case: str, sizes: tuple[int, ...], processors: int) -> None:
    """Some see nothing, whose keys no ring has."""
    check("two passes", CASES[case], sizes, processors=processors)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [2, 130, 643])
@pytest.mark.parametrize(("operator", "seen"), [("==", np.equal), ("<=", np.less_equal), (">", np.greater)])
def test_numbers_in_any_order_that_rows_and_keys_have_of_their_own(operator: str, seen: Any, keys: int) -> None:
    random = np.random.default_rng(keys)
    q, k, v = (random.standard_normal((1, 1, rows, 16)).astype(NUMPY["bf16"]) for rows in (140, keys, keys))
    of_rows, of_keys = np.sort(random.integers(0, 6, (1, 140))).astype(np.int32), random.integers(0, 6, (1, keys)).astype(np.int32)
    of_keys[0, 128:400] = 3
    case = Case(
        f"(if R[b, i] {operator} A[b, j] {{ s * scale }} else {{ -inf }})",
        lambda s, i, j, given: np.where(seen(of_rows[:, None, :, None], of_keys[:, None, None]), s * given["scale"], -np.inf),
        inputs=("R: tensor[B, M, i32]", "A: tensor[B, N, i32]"),
    )
    known = {"B": 1, "H": 1, "M": 140, "N": keys, "D": 16, "C": 16}
    found = run(source("two passes", case), {"Q": q, "K": k, "V": v, "scale": 0.25, "R": of_rows, "A": of_keys}, known, (1, 1, 140, 16), "bf16")
    wanted, size = expected(case, q, k, v, {"scale": 0.25})
    assert np.all((np.abs(found - wanted) <= 2 * ULP["bf16"] * size + 1e-6) | (np.isnan(found) & np.isnan(wanted)))


def test_a_cap_holds_scores_of_every_size() -> None:
    def spread(q: Any, k: Any, v: Any) -> None:
        q[0, 0, :30] *= 1e-4
        q[0, 0, 30:50] *= 1e4
        q[0, 0, 5, 3] = np.nan

    check("two passes", CASES["capped"], (1, 1, 70, 70, 16, 16), change=spread)


def test_caps_of_small_scores_hide_what_guards_hide() -> None:
    """All of them are polynomials, of which those of -inf, and of keys behind the end, must weigh nothing."""
    case = Case(
        "(if j <= i + 5 { 50.0 * tanh(s * scale / 50.0) } else { -inf })",
        lambda s, i, j, given: np.where(j <= i + 5, 50 * np.tanh(s * given["scale"] / 50), -np.inf),
    )
    check("two passes", case, (1, 1, 70, 77, 16, 16))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("cap", [0.5, 50.0, 300.0])
def test_caps_of_every_size(cap: float, dtype: str) -> None:
    """Rows and tiles of small and of large scores meet, with guards that cut tiles: with and without a maximum."""

    def mixed(q: Any, k: Any, v: Any) -> None:
        q[..., ::3, :] *= 8
        q[..., 1::3, :] *= 0.1
        k[..., :100, :] *= 4

    case = Case(
        f"(if j <= i and i - j < 40 {{ {cap} * tanh(s * scale / {cap}) }} else {{ -inf }})",
        lambda s, i, j, given: np.where((j <= i) & (i - j < 40), cap * np.tanh(s * given["scale"] / cap), -np.inf),
    )
    check("two passes", case, (1, 2, 133, 290, 16, 16), dtype, change=mixed)


@pytest.mark.parametrize(("limit", "factors"), TANHS)
def test_polynomials_of_small_numbers_are_tanh(limit: float, factors: tuple[float, ...]) -> None:
    """To 2^-22, half of what caps may be off by, as f32 computes it; a product and its sum are rounded together. Of -inf they are -inf, but
    for the first, whose weights are hidden instead."""
    x = np.linspace(-limit, limit, 200_001, dtype=np.float32)
    square, total = (x * x).astype(np.float64), np.full(x.shape, factors[-1], np.float32)
    for factor in factors[-2::-1]:
        total = (square * total + np.float32(factor)).astype(np.float32)
    assert np.max(np.abs((x * total).astype(np.float64) - np.tanh(x.astype(np.float64)))) <= 2.0**-22
    assert factors[-1] > 0 or limit == TANHS[0][0]


def test_distances_are_counted_from_a_threads_first_one() -> None:
    """One conversion for a thread's tile: what its elements add is constant."""
    like = "Q=1x4x512x64:bf16, K=1x4x512x64:bf16, V=1x4x512x64:bf16, A=4:f32, scale=0.125"
    program = zynml.compile(source("two passes", CASES["sloped by heads"]))
    (kernel,) = program._session.launches_like([like], "emulator:sm_90a")
    (launch,) = kernel.threads.launches.launches
    ops = [op for top in launch.function.body.body for op in top.walk()]
    forms = [op.value.source.of for op in ops if isinstance(op, Cast) and op.to == "f32" and isinstance(op.value.source, Index)]
    own = {*launch.function.axes}
    assert any(own.isdisjoint(form.names) for form in forms)
    assert all(own.isdisjoint(form.names) or own.issuperset(form.names) for form in forms)


@pytest.mark.parametrize(
    ("scale", "slope"),
    [(0.125, 0.5), (0.125, -0.5), (-0.3, 0.5), (0.0, 0.5), (0.125, 3e5), (1e-36, 1.0), (0.125, np.inf), (np.nan, 0.5), (np.inf, 0.5)],
)
def test_slopes_and_factors_of_every_size(scale: float, slope: float) -> None:
    """Scores begin with their slope, or it is added to them, where it is so large that the place of a tile tells nothing of its elements'."""
    random = np.random.default_rng(7)
    q, k, v = (random.standard_normal((1, 2, rows, 16)).astype(NUMPY["bf16"]) for rows in (140, 300, 300))
    given = {"scale": scale, "A": np.array([slope, 0.25], np.float32)}
    for name in ("sloped by heads", "sloped"):
        case, known = CASES[name], {"B": 1, "H": 2, "M": 140, "N": 300, "D": 16, "C": 16}
        found = run(source("two passes", case), {"Q": q, "K": k, "V": v, **given}, known, q.shape, "bf16", processors=1)
        wanted, size = expected(case, q, k, v, given)
        with np.errstate(invalid="ignore"):
            assert np.all((np.abs(found - wanted) <= 2 * ULP["bf16"] * size + 1e-6) | (np.isnan(found) & np.isnan(wanted)))


@pytest.mark.parametrize("sizes", [(1, 1, 65, 129, 80, 96), (1, 1, 64, 40, 128, 48), (1, 1, 64, 170, 256, 256), (1, 1, 64, 1, 16, 16)])
def test_every_number_of_elements(sizes: tuple[int, ...]) -> None:
    check("two passes", CASES["causal"], sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [-0.3, 0.0, float("inf"), float("nan")])
def test_factors_of_every_sign(scale: float) -> None:
    check("two passes", CASES["causal"], (1, 1, 64, 70, 16, 16), scale=scale)


def test_rows_that_see_nothing_are_not_a_number() -> None:
    check("two passes", CASES["causal, from the end"], (1, 1, 70, 40, 16, 16))


def test_scores_that_are_large_or_not_finite() -> None:
    def large(q: Any, k: Any, v: Any) -> None:
        q[...] *= 50
        k[0, 0, 9:] *= 100
        q[0, 0, 5, 3], q[0, 0, 6, 2], k[0, 0, 60, 1], v[0, 0, 3, 4], v[0, 0, 64, 7] = np.nan, np.inf, -np.inf, np.inf, np.nan

    check("two passes", CASES["full"], (1, 1, 70, 70, 32, 32), change=large)


def test_values_that_a_loop_does_not_reach_are_not_read() -> None:
    def wild(q: Any, k: Any, v: Any) -> None:
        v[0, 0, 7, 3], v[0, 0, 30, 2], v[0, 0, 17, 5], k[0, 0, 25, 1] = np.inf, np.nan, -np.inf, np.nan

    check("two passes", CASES["causal, shorter loop"], (1, 1, 33, 33, 8, 8), change=wild)


def test_rows_that_lie_apart() -> None:
    random = np.random.default_rng(5)
    q, k, v = (random.standard_normal((1, 1, rows, 128)).astype(NUMPY["bf16"]) for rows in (140, 81, 40))
    text = (
        source("two passes", CASES["full"]).replace("Q[b, h, i, e]", "Q[b, h, 2 * i, e]").replace("K[b, h, j, e]", "K[b, h, 2 * j + 1, e]")
    )
    text = text.replace("B, H, M, D", "B, H, P, D", 1).replace("B, H, N, D", "B, H, R, D", 1)
    known = {"B": 1, "H": 1, "M": 70, "N": 40, "D": 128, "C": 128, "P": 140, "R": 81}
    found = run(text, {"Q": q, "K": k, "V": v, "scale": 0.1}, known, (1, 1, 70, 128), "bf16")
    wanted, size = expected(CASES["full"], q[:, :, ::2], k[:, :, 1::2], v, {"scale": 0.1})
    assert np.all(np.abs(found - wanted) <= 2 * ULP["bf16"] * size + 1e-6)


def test_heads_that_are_columns_of_a_row() -> None:
    """Results go by bulk copies to columns that begin at a head's."""
    random = np.random.default_rng(3)
    q, k, v = (random.standard_normal((1, 70, 128)).astype(NUMPY["bf16"]) for _ in range(3))
    text = source("two passes", CASES["causal"]).replace("0..D", "0..64").replace("d in 0..C", "d in 0..64")
    for name in "QKV":
        text = text.replace(f"{name}: tensor[B, H, {'M' if name == 'Q' else 'N'}, {'C' if name == 'V' else 'D'}, bf16]", f"{name}: tensor[B, M, C, bf16]")
    text = text.replace("tensor[B, H, M, C, bf16]", "tensor[B, M, C, bf16]").replace("h in 0..H", "h in 0..C / 64").replace("0..N", "0..M")
    for place, row in (("[b, h, i, e]", "[b, i, 64 * h + e]"), ("[b, h, j, e]", "[b, j, 64 * h + e]"), ("[b, h, j, d]", "[b, j, 64 * h + d]")):
        text = text.replace(place, row)
    text = text.replace("out[b, h, i, d]", "out[b, i, 64 * h + d]")
    found = run(text, {"Q": q, "K": k, "V": v, "scale": 0.1}, {"B": 1, "M": 70, "C": 128}, (1, 70, 128), "bf16")
    heads = [x.reshape(1, 70, 2, 64).transpose(0, 2, 1, 3) for x in (q, k, v)]
    wanted, size = expected(CASES["causal"], *heads, {"scale": 0.1})
    found = found.reshape(-1, 70, 2, 64).transpose(0, 2, 1, 3)
    assert np.all(np.abs(found - wanted) <= 2 * ULP["bf16"] * size + 1e-6)
