"""The programs that are run by their `main`: what they print, worked out in NumPy from the same random numbers."""

import csv
import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist, fmean

import numpy as np
import pytest

from tests.quantdsl.host.running import printed
from tests.quantdsl.host.test_pricing import black_scholes
from tests.randoms import known

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "programs" / "quantdsl"

S, K, R, VOL, PATHS, SEED = 100.0, 105.0, 0.03, 0.2, 100_000, 7


def draws(steps: int) -> np.ndarray:
    """Standard normal numbers of each path and step."""
    return known.normal(SEED, np.arange(PATHS)[:, None], np.arange(steps)[None, :])


def shown(x: np.ndarray) -> str:
    return f"{x.mean():.4f} +- {x.std() / math.sqrt(len(x)):.4f}"


def monte_carlo() -> list[str]:
    z, drift, discount = draws(12), R - VOL**2 / 2, math.exp(-R)
    exact = black_scholes(True, S, K, R, VOL, 1)

    def call(spots: np.ndarray, k: float = K) -> np.ndarray:
        return discount * np.maximum(spots - k, 0)

    plain, other = (call(S * np.exp(drift + sign * VOL * z[:, 0])) for sign in (1, -1))

    x, y = np.zeros(PATHS), np.zeros(PATHS)
    for sign in (1, -1):
        logs = math.log(S) + np.cumsum(drift / 12 + sign * VOL / math.sqrt(12) * z, axis=1)
        x += call(np.exp(logs).mean(axis=1)) / 2
        y += call(np.exp(logs.mean(axis=1))) / 2
    mean, deviation = math.log(S) + drift * 13 / 24, VOL * math.sqrt(13 * 25 / (6 * 12 * 12))
    d = (mean - math.log(K)) / deviation
    forward = math.exp(mean + deviation**2 / 2)
    geometric = discount * (forward * NormalDist().cdf(d + deviation) - K * NormalDist().cdf(d))
    asian = x - np.cov(x, y, bias=True)[0, 1] / y.var() * (y - geometric)

    out = np.zeros(PATHS)
    for sign in (1, -1):
        distance = math.log(S / 90) + np.concatenate(
            [np.zeros((PATHS, 1)), np.cumsum(drift / 4 + sign * VOL / 2 * z[:, :4], axis=1)], axis=1
        )
        a, b = distance[:, :-1], distance[:, 1:]
        lives = np.where((a > 0) & (b > 0), 1 - np.exp(-2 * a * b / (VOL**2 / 4)), 0).prod(axis=1)
        out += lives * call(90 * np.exp(distance[:, -1])) / 2

    spots, weights, vols = np.array([100.0, 90.0, 80.0]), np.array([0.4, 0.3, 0.3]), np.array([0.2, 0.3, 0.25])
    moves = z[:, :3] @ np.linalg.cholesky(np.array([[1.0, 0.5, 0.3], [0.5, 1.0, 0.4], [0.3, 0.4, 1.0]])).T
    worth = [(weights * spots * np.exp(R - vols**2 / 2 + sign * vols * moves)).sum(axis=1) for sign in (1, -1)]
    basket = (call(worth[0], 95) + call(worth[1], 95)) / 2

    logs = np.cumsum(drift / 12 + VOL / math.sqrt(12) * z, axis=1)
    lookback = discount * S * (np.exp(logs[:, -1]) - np.exp(np.minimum(logs.min(axis=1), 0)))
    return [
        f"european   {shown(plain)}   exact {exact:.4f}   antithetic {shown((plain + other) / 2)}",
        f"asian      {shown(asian)}   of 12 months, with the geometric mean as control",
        f"knock-out  {shown(out)}   at 90, watched all the time",
        f"basket     {shown(basket)}   of three",
        f"lookback   {shown(lookback)}   of 12 months",
        "implied    0.200000",
    ]


def worth(table: list[list[float]], spots: np.ndarray, vols: np.ndarray, rate: float, gone: float = 0.0) -> float:
    return sum(
        quantity * black_scholes(bool(call), float(spots[int(asset)]), k, rate, float(vols[int(asset)]), t - gone)
        for quantity, asset, k, t, call in table
    )


def both(losses: np.ndarray, level: float) -> str:
    """The quantile, and the mean beyond it, where the case on the boundary counts in part."""
    ordered, n = np.sort(losses), len(losses)
    at = math.ceil(level * n - 1e-9)
    tail = ordered[at:].sum() + (at - level * n) * ordered[at - 1]
    return f"value at risk {ordered[at - 1]:.2f}   shortfall {tail / ((1 - level) * n):.2f}"


def portfolio_risk() -> list[str]:
    last: dict[int, float] = {}
    with (ROOT / "programs/data/btcusdt_spot_20240808_trades.csv").open() as file:
        for row in csv.DictReader(file):
            last[int(row["ts_ns"]) // 10**9] = float(row["price"])
    prices = np.array(list(last.values()))
    spot = float(prices[-1])
    profits = 2.5 * spot * (prices[1:] / prices[:-1] - 1)
    deviation, z = float(profits.std(ddof=1)), NormalDist().inv_cdf(0.99)
    normal = (deviation * z - fmean(profits), deviation * NormalDist().pdf(z) / 0.01 - fmean(profits))

    spots, vols, rate = np.array([spot, 2650.0, 5300.0]), np.array([0.55, 0.65, 0.2]), 0.04
    table = [
        [5.0, 0, 65_000, 0.25, 1],
        [-4.0, 0, 55_000, 0.25, 0],
        [60.0, 1, 2_600, 0.1, 0],
        [-100.0, 1, 3_000, 0.1, 1],
        [20.0, 2, 5_200, 0.5, 0],
    ]
    now = worth(table, spots, vols, rate)
    vega = (worth(table, spots, vols + 1e-6, rate) - worth(table, spots, vols - 1e-6, rate)) / 2e-6
    theta = (worth(table, spots, vols, rate, 1e-6) - worth(table, spots, vols, rate, -1e-6)) / 2e-6
    rho = (worth(table, spots, vols, rate + 1e-6) - worth(table, spots, vols, rate - 1e-6)) / 2e-6

    lower = np.linalg.cholesky(np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.35], [0.3, 0.35, 1.0]]))
    moves = known.normal(7, np.arange(20_000)[:, None], np.arange(3)[None, :]) @ lower.T
    moved = spots * np.exp(vols * math.sqrt(1 / 365) * moves - vols**2 / 2 / 365)
    losses = now - np.array([worth(table, case, vols, rate, 1 / 365) for case in moved])
    return [
        f"BTC at {spot:.2f}, {len(profits)} returns of a second",
        f"past       {both(-profits, 0.99)}",
        f"normal     value at risk {normal[0]:.2f}   shortfall {normal[1]:.2f}",
        f"options    worth {now:.2f}   vega {vega / 100:.2f} a point   theta {theta / 365:.2f} a day   rho {rho / 10_000:.2f} a basis point",
        f"simulated  {both(losses, 0.99)}",
        *(f"{p:>+4}%      {worth(table, spots * (1 + p / 100), vols, rate) - now:>12.2f}" for p in (-20, -10, 0, 10, 20)),
    ]


@pytest.mark.parametrize("name, expected", [("monte_carlo", monte_carlo), ("portfolio_risk", portfolio_risk)])
def test_a_program_prints_what_numpy_finds(
    name: str, expected: Callable[[], list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROGRAMS)
    text = (PROGRAMS / f"{name}.qdsl").read_text(encoding="utf-8")
    assert printed(text, capsys).splitlines() == expected()
    stated = [line.removeprefix("// prints: ") for line in text.splitlines() if line.startswith("// prints: ")]
    assert stated == expected()
