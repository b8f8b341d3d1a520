"""Programs of the gallery beside the same computation in NumPy, in float64."""

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.diagnostics import Diagnostic
from compiler.driver import CompileOptions
from compiler.source import Sources
from runtime.tensor import Tensor
from zynml.api import open_program

ROOT = Path(__file__).parents[2] / "programs"


def _printed(name: str, folder: Path, capsys: pytest.CaptureFixture[str], **settings: object) -> str:
    """What the program prints with these values of its parameters."""
    given = {key: str(value) for key, value in settings.items()}
    options = CompileOptions(device="cpu", parameters=given, render_folder=str(folder))
    open_program(str(ROOT / "zynml" / f"{name}.zynml"), options, Sources(), _ignore).run()
    return capsys.readouterr().out


def _ignore(warning: Diagnostic) -> None:
    """Warnings are tested where they are made."""


def _numbers(text: str, before: str) -> list[float]:
    """The numbers behind the words `before`."""
    return [float(number) for number in re.findall(re.escape(before) + r"\s+(-?[\d.]+(?:e-?\d+)?)", text)]


@pytest.mark.parametrize(("examples", "clusters"), [(1797, 10), (300, 3), (7, 2)])
def test_k_means_settles_where_lloyds_iterations_in_numpy_do(
    examples: int, clusters: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = np.load(ROOT / "data" / "digits.npz")["images"].reshape(1797, 64)[:examples].astype(np.float64)
    centres, inertia = images[:clusters].copy(), math.inf
    for _ in range(100):
        distances = ((images[:, None] - centres[None]) ** 2).sum(axis=2)
        labels, now = distances.argmin(axis=1), distances.min(axis=1).sum()
        centres = np.stack([images[labels == k].mean(axis=0) if (labels == k).any() else centres[k] for k in range(clusters)])
        if now >= inertia:
            break
        inertia = now
    found = _numbers(_printed("kmeans", tmp_path, capsys, examples=examples, clusters=clusters), "inertia")
    np.testing.assert_allclose(found, [inertia], rtol=1e-5, atol=0.05)  # sums of f32 squares, printed to a tenth


def test_heat_spreads_as_in_numpy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = np.sin(np.pi * np.arange(33) / 32)
    u = np.outer(at, at)
    u[[0, -1]] = u[:, [0, -1]] = 0.0
    for _ in range(100):
        u[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4.0
    found = _numbers(_printed("heat", tmp_path, capsys, points=33, steps=100, frames=0), "middle")
    np.testing.assert_allclose(found, [u[16, 16]], atol=2e-6)


def test_mandelbrot_counts_the_rounds_that_numpy_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    width, height, rounds = 131, 67, 50
    re_, im = np.meshgrid(-2.0 + 3.0 * np.arange(width) / width, -1.125 + 2.25 * np.arange(height) / height)
    z, count = np.zeros((2, height, width)), np.zeros((height, width), np.int64)
    for _ in range(rounds):
        stays = z[0] * z[0] + z[1] * z[1] <= 4.0
        following = np.stack([z[0] * z[0] - z[1] * z[1] + re_, 2.0 * z[0] * z[1] + im])
        z, count = np.where(stays, following, z), count + stays
    printed = _printed("mandelbrot", tmp_path, capsys, width=width, height=height, rounds=rounds)
    assert f"{(count == rounds).sum()} points stay, {count.sum()} rounds in all" in printed


def test_bodies_pull_each_other_as_in_numpy() -> None:
    program: Any = open_program(str(ROOT / "zynml" / "nbody.zynml"), CompileOptions(device="cpu"), Sources(), _ignore)
    functions = program.host.functions
    rng = np.random.default_rng(3)
    at, speed, mass = rng.random((31, 3)), rng.random((31, 3)), rng.random(31)
    gaps = at[None] - at[:, None]
    squares = (gaps**2).sum(axis=2) + 0.01
    pulls = (mass[None, :, None] * gaps / squares[..., None] ** 1.5).sum(axis=1)
    np.testing.assert_allclose(functions["pulls"](Tensor(at), Tensor(mass)).array, pulls, rtol=1e-12)
    bound = np.outer(mass, mass) / np.sqrt(squares)
    energy = 0.5 * (mass[:, None] * speed**2).sum() - 0.5 * (bound.sum() - np.trace(bound))
    np.testing.assert_allclose(functions["energy"](Tensor(at), Tensor(speed), Tensor(mass)), energy, rtol=1e-12)


def test_conjugate_gradients_find_what_a_dense_solver_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = _printed("conjugate_gradient", tmp_path, capsys, n=15)
    assert _numbers(printed, "largest error")[0] < 1e-8
    line = 2.0 * np.eye(15) - np.eye(15, k=1) - np.eye(15, k=-1)
    dense = np.kron(line, np.eye(15)) + np.kron(np.eye(15), line)
    i, j = np.mgrid[:15, :15]
    known = np.sin(0.7 * i) * np.cos(1.3 * j)
    program: Any = open_program(str(ROOT / "zynml" / "conjugate_gradient.zynml"), CompileOptions(device="cpu"), Sources(), _ignore)
    found = program.host.functions["laplacian"](Tensor(known)).array
    np.testing.assert_allclose(found.ravel(), dense @ known.ravel(), rtol=0, atol=1e-13)


def test_options_cost_what_the_formula_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def below(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2.0))

    years, spread, rate = 1.0, 0.3, 0.02
    a = (rate + 0.5 * spread**2) * years / spread
    price = 100.0 * (below(a) - math.exp(-rate * years) * below(a - spread))
    printed = _printed("black_scholes", tmp_path, capsys, options=101, rate=rate, spread=spread)
    np.testing.assert_allclose(_numbers(printed, "costs"), [price], atol=1e-6)
    assert _numbers(printed, "other by")[0] < 1e-12


@pytest.mark.parametrize("characters", [10_000_000, 20_011])
def test_words_of_the_novel_are_counted_as_by_a_regular_expression(characters: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "data" / "moby_dick.txt").read_text(encoding="utf-8")[:characters].lower()
    words = [word for word in re.findall("[a-z']+", text) if word != "'"]
    counts = Counter(words)
    longest = max(map(len, counts))
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    letters = sorted(((text.count(letter), letter) for letter in "abcdefghijklmnopqrstuvwxyz"), key=lambda pair: -pair[0])
    assert _printed("wordcount", tmp_path, capsys, characters=characters).splitlines() == [
        f"{len(words)} words, {len(counts)} of them different, {sum(count == 1 for count in counts.values())} occur once",
        "  ".join(f"{word} {count}" for word, count in ranked[:10]),
        "longest: " + ", ".join(sorted(word for word in counts if len(word) == longest)),
        "lengths 1 to 5: " + " ".join(str(sum(len(word) == length for word in words)) for length in range(1, 6)),
        "  ".join(f"{letter} {count}" for count, letter in letters[:3]),
    ]


def test_the_report_on_orders_has_the_sums_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orders = json.loads((ROOT / "data" / "orders.json").read_text(encoding="utf-8"))
    printed = _printed("json_report", tmp_path, capsys, target=tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    customers: Counter[str] = Counter()
    articles: Counter[str] = Counter()
    revenue = np.zeros(max(order["day"] for order in orders))
    for order in orders:
        sums = [item["price"] * item["count"] for item in order["items"]]
        total = sum(sums) * (0.9 if order["voucher"] else 1.0)
        customers[order["customer"]] += total  # type: ignore[assignment]
        revenue[order["day"] - 1] += total
        for item, value in zip(order["items"], sums, strict=True):
            articles[item["name"]] += value
    slope, start = np.polyfit(np.arange(len(revenue)) + 1.0, revenue, 1)
    # Sums of a few hundred f64 in another order.
    assert report["articles"] == pytest.approx(articles) and report["revenue"] == pytest.approx(revenue.tolist())
    assert [(line["customer"], line["revenue"]) for line in report["customers"]] == [
        (name, pytest.approx(value)) for name, value in customers.most_common()
    ]
    assert (report["slope"], report["start"]) == (pytest.approx(slope), pytest.approx(start))
    units = sum(item["count"] for order in orders for item in order["items"])
    vouchers = sum(order["voucher"] is not None for order in orders)
    assert f"120 orders, {units} units, {revenue.sum():.2f} in all, {vouchers} with a voucher" in printed
    table = (tmp_path / "revenue-by-customer.html").read_text(encoding="utf-8")
    assert all(f"<td>{name}</td>" in table and f"{value:.2f}</td>" in table for name, value in customers.items())
    assert (tmp_path / "report.md").read_text(encoding="utf-8").startswith("# Orders\n")
