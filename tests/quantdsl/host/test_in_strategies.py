"""Random numbers, compute blocks and option prices inside a strategy's handlers."""

import math
from pathlib import Path

import numpy as np
import pytest

import quantdsl
from tests.errors.conftest import diagnose
from tests.quantdsl.elaborate.running import Functions
from tests.quantdsl.host.running import functions
from tests.quantdsl.host.test_pricing import black_scholes
from tests.randoms import known

TRADES = Path(__file__).parents[3] / "programs" / "data" / "btcusdt_spot_20240808_trades.csv"
PROGRAM = """
currency USDT { scale 8 }
instrument BTCUSDT : USDT { tick 0.01  lot 0.00001 }
risk Desk for BTCUSDT { max_position 1_000lots }
param paths: int in 1..10_000 = 300

fn simulated(s: f64, seed: u64) -> f64 {
    let total = compute(paths) @kernel(reduce, +) {
        for i in 0..paths { yield max(s * exp(0.2 * normal(seed, i) - 0.02) - s, 0.0) }
    }
    total / paths
}

strategy S on BTCUSDT {
    risk Desk
    state round: u64 = 0
    on timer(60s) {
        if let p = last() {
            round += 1
            log_ring((simulated(p.f64, round), bs_call(p.f64, p.f64, 0.0, 0.2, 1.0), implied_vol(true, 0.08 * p.f64, p.f64, p.f64, 0.0, 1.0)))
        }
    }
}
"""


def test_a_timer_computes() -> None:
    result = quantdsl.compile(PROGRAM).run(TRADES)
    assert result.failure is None
    log = result.table("log").column("text").to_pylist()
    assert len(log) == 5
    for number, row in enumerate(log, 1):
        simulated, exact, vol = map(float, row.strip("()").split(", "))
        spot = exact / black_scholes(True, 1.0, 1.0, 0.0, 0.2, 1.0)
        assert 61_000 < spot < 62_500
        x = np.maximum(np.exp(0.2 * known.normal(number, np.arange(300)) - 0.02) - 1, 0)
        assert simulated == pytest.approx(spot * x.mean(), rel=1e-11)
        assert black_scholes(True, 1.0, 1.0, 0.0, vol, 1.0) == pytest.approx(0.08, rel=1e-12)
        assert math.isfinite(vol)


SIMULATIONS = """
fn option(n: int) -> (f64, f64) { mc_option(true, 100.0, 105.0, 0.03, 0.2, 1.0, n, 7) }
fn asian(n: int) -> (f64, f64) { mc_asian(false, 100.0, 105.0, 0.03, 0.2, 1.0, 12, n, 7) }
fn knock_out(n: int) -> (f64, f64) { mc_knock_out(true, 100.0, 105.0, 90.0, 0.03, 0.2, 1.0, 4, n, 7) }
"""


def test_simulations_are_those_of_the_host() -> None:
    compiled, host = Functions(SIMULATIONS), functions(SIMULATIONS)
    for name in ("option", "asian", "knock_out"):
        found = compiled.both.native[-1][f"fn.{name}"].run([500]).results
        assert found == pytest.approx(getattr(host, name)(500), rel=1e-11)


@pytest.mark.parametrize("call", ("mc_american(true, 1.0, 1.0, 0.0, 0.2, 1.0, 3, n, 7)", "cholesky(n)", "var_historical(n, 0.9)"))
def test_tensors_stay_outside(call: str) -> None:
    message = diagnose(f"fn f(n: int) {{ {call} }}\n", language="quantdsl")
    name = call.split("(")[0]
    assert f"error[ZYN0109]: `{name}` works on tensors, which is valid, but not supported yet in compiled code" in message
    assert "<std." not in message


def test_a_program_with_a_main_is_not_replayed() -> None:
    with pytest.raises(quantdsl.QuantError) as caught:
        quantdsl.compile("fn main() { }\n")
    assert caught.value.codes == ("ZYN0505",)
