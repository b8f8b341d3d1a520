"""Random numbers by counter on a device: uniform ones to the bit, normal ones and what is priced with them to 1e-12."""

from pathlib import Path

import numpy as np
import pytest

import zynml
from tests.quantdsl.host.running import functions
from tests.randoms import known
from tests.randoms.test_randoms import KERNELS, SEEDS
from zyntax.main import cli

PROGRAMS = Path(__file__).parents[2] / "programs" / "quantdsl"
PRICES = """
use std.risk
use std.simulation
fn all(paths: int, seed: u64) -> ((f64, f64), (f64, f64), (f64, f64), (f64, f64)) {
    (mc_option(true, 100.0, 105.0, 0.03, 0.2, 1.0, paths, seed), mc_asian(false, 100.0, 105.0, 0.03, 0.2, 1.0, 12, paths, seed),
     mc_knock_out(true, 100.0, 105.0, 90.0, 0.03, 0.2, 1.0, 5, paths, seed), mc_american(false, 100.0, 105.0, 0.03, 0.2, 1.0, 6, paths, seed))
}
fn profits(table: tensor[P, 5, f64], spots: tensor[A, f64], vols: tensor[A, f64], c: tensor[A, A, f64], cases: int) -> tensor {
    simulated_profits(table, spots, vols, c, 0.03, 0.04, cases, 9)
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_of_their_counters(seed: int) -> None:
    n = 100_003
    program, i = zynml.compile(KERNELS, device="cuda:0"), np.arange(n) - 3
    np.testing.assert_array_equal(np.asarray(program.random_numbers(seed, n, 5)), known.random(seed, i, 5))
    np.testing.assert_array_equal(np.asarray(program.uniform_numbers(seed, n, 5)), known.uniform(seed, i, 5))
    np.testing.assert_allclose(np.asarray(program.normal_numbers(seed, n, 5)), known.normal(seed, i, 5), rtol=1e-12, atol=0)


def test_prices_are_those_of_the_cpu() -> None:
    there, here = (functions(PRICES, device=device).all(100_003, 7) for device in ("cuda:0", "cpu"))
    np.testing.assert_allclose(np.array(there), np.array(here), rtol=1e-9)


def test_profits_are_those_of_the_cpu() -> None:
    table = np.array([[10.0, 0, 105, 0.5, 1], [-5.0, 1, 80, 1.0, 0], [2.0, 0, 90, 0.02, 0]])
    market = (np.array([100.0, 90.0]), np.array([0.2, 0.3]), np.array([[1.0, 0.5], [0.5, 1.0]]))
    there, here = (np.asarray(functions(PRICES, device=device).profits(table, *market, 10_007)) for device in ("cuda:0", "cpu"))
    np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ("monte_carlo", "portfolio_risk"))
def test_programs_print_what_they_state(name: str) -> None:
    assert not cli.main(args=["test", str(PROGRAMS / f"{name}.qdsl"), "--device", "cuda:0"], prog_name="zyntax", standalone_mode=False)
