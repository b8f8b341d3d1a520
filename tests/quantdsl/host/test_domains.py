"""What prices, risks and simulations are given lies in its domain, or is an error, on every device; at the edges of it they have their limits."""

import math

import numpy as np
import pytest

from tests.quantdsl.elaborate.running import Functions
from tests.quantdsl.host.running import functions, message
from zynml.compiled import CompiledProgram, ZynMLError

HEAD = "use std.pricing\nuse std.risk\nuse std.simulation\n"
OPTION = (100.0, 90.0, 0.03, 0.2, 1.0, 0.01)
"""Price, strike, interest, volatility, time, dividends."""
PRICES = {
    "bs_call": "bs_call(s, k, r, vol, t, q)",
    "bs_put": "bs_put(s, k, r, vol, t, q)",
    "bs_price": "bs_price(false, s, k, r, vol, t, q)",
    "bs_delta": "bs_delta(true, s, k, r, vol, t, q)",
    "bs_gamma": "bs_gamma(s, k, r, vol, t, q)",
    "bs_vega": "bs_vega(s, k, r, vol, t, q)",
    "bs_theta": "bs_theta(true, s, k, r, vol, t, q)",
    "bs_rho": "bs_rho(true, s, k, r, vol, t, q)",
    "geometric_asian": "geometric_asian(true, s, k, r, vol, t, 4, q)",
    "mc_option": "mc_option(true, s, k, r, vol, t, 4, 1, q).0",
    "mc_asian": "mc_asian(true, s, k, r, vol, t, 4, 4, 1, q).0",
    "mc_knock_out": "mc_knock_out(true, s, k, 80.0, r, vol, t, 4, 4, 1, q).0",
    "mc_american": "mc_american(false, s, k, r, vol, t, 3, 64, 1, q).0",
}
SIGNATURE = "(s: f64, k: f64, r: f64, vol: f64, t: f64, q: f64) -> f64"
WORDS = "numbers from 0 on|is above 0|are above 0"

@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    return functions(HEAD + "".join(f"fn own_{name}{SIGNATURE} {{ {call} }}\n" for name, call in PRICES.items()))
BAD = [(0, -1.0), (1, -1.0), (3, -0.2), (4, -1.0), *((n, bad) for n in range(6) for bad in (math.nan, math.inf, -math.inf))]


@pytest.mark.parametrize("name", PRICES)
def test_what_no_option_has_is_an_error(name: str, program: CompiledProgram) -> None:
    price = getattr(program, f"own_{name}")
    assert math.isfinite(price(*OPTION))
    for place, bad in BAD:
        given = [*OPTION]
        given[place] = bad
        with pytest.raises(ZynMLError, match=WORDS) as raised:
            price(*given)
        assert "ZYN0808" in str(raised.value)


def test_the_edges_have_their_limits(program: CompiledProgram) -> None:
    def own(name: str, *given: float) -> float:
        return float(getattr(program, f"own_{name}")(*given))

    for name in PRICES:
        for place in (3, 4):
            given = [*OPTION]
            given[place] = 0.0
            assert math.isfinite(own(name, *given)), (name, place)
    later = 100.0 * math.exp(-0.01) - 90.0 * math.exp(-0.03)
    assert own("bs_call", 100.0, 90.0, 0.03, 0.0, 1.0, 0.01) == pytest.approx(later, rel=1e-14)
    assert own("bs_call", 100.0, 90.0, 0.03, 0.2, 0.0, 0.01) == own("mc_option", 100.0, 90.0, 0.03, 0.2, 0.0, 0.01) == 10.0
    assert own("bs_gamma", 100.0, 90.0, 0.03, 0.2, 0.0, 0.01) == own("bs_gamma", 0.0, 90.0, 0.03, 0.2, 1.0, 0.01) == 0.0
    assert own("bs_theta", 100.0, 90.0, 0.03, 0.2, 0.0, 0.01) == pytest.approx(0.01 * 100 - 0.03 * 90)
    assert own("bs_put", 0.0, 90.0, 0.03, 0.2, 1.0, 0.01) == pytest.approx(90 * math.exp(-0.03), rel=1e-14)
    assert own("bs_call", 100.0, 0.0, 0.03, 0.2, 1.0, 0.01) == pytest.approx(100 * math.exp(-0.01), rel=1e-14)
    assert own("bs_call", 0.0, 0.0, 0.03, 0.2, 1.0, 0.01) == 0.0
    growth = sum(math.exp(0.02 * n / 4 - 0.03) for n in range(1, 5)) / 4
    assert own("mc_asian", *OPTION[:3], 0.0, *OPTION[4:]) == pytest.approx(100 * growth - 90 * math.exp(-0.03), rel=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        "implied_vol(true, 12.0, -100.0, 90.0, 0.03, 1.0)",
        "implied_vol(true, 12.0, 100.0, -90.0, 0.03, 1.0)",
        "implied_vol(true, 12.0, 100.0, 90.0, 0.03, -1.0)",
        "implied_vol(true, 12.0, 100.0, 90.0, 0.0 / 0.0, 1.0)",
        "var_normal(0.0, -1.0, 0.99)",
        "var_normal(0.0, 1.0, 1.0)",
        "var_normal(0.0 / 0.0, 1.0, 0.99)",
        "es_normal(0.0, 1.0, 0.0)",
        "es_normal(0.0, 1.0, 0.0 / 0.0)",
        "es_normal(0.0, 0.0 / 0.0, 0.9)",
        "var_historical(zeros(3), 1.5)",
        "es_historical(zeros(3), 0.0)",
        "portfolio_deviation(tensor([1.0, 1.0]), tensor([[1.0, -2.0], [-2.0, 1.0]]))",
        "mc_option(true, 100.0, 90.0, 0.03, 0.2, 1.0, 0, 1).0",
        "mc_asian(true, 100.0, 90.0, 0.03, 0.2, 1.0, 0, 8, 1).0",
        "mc_asian(true, 0.0, 90.0, 0.03, 0.2, 1.0, 4, 8, 1).0",
        "mc_knock_out(true, 100.0, 90.0, -80.0, 0.03, 0.2, 1.0, 4, 8, 1).0",
        "mc_basket(true, tensor([100.0]), tensor([1.0]), tensor([-0.2]), tensor([[1.0]]), 90.0, 0.03, 1.0, 8, 1).0",
        "mc_basket(true, ones(2), ones(2), ones(2), tensor([[1.0, 2.0], [2.0, 1.0]]), 90.0, 0.03, 1.0, 8, 1).0",
        "mc_basket(true, tensor([-1.0]), tensor([1.0]), tensor([0.2]), tensor([[1.0]]), 90.0, 0.03, 1.0, 8, 1).0",
    ],
)
def test_a_number_outside_of_its_domain_stops_a_program(call: str) -> None:
    assert message(f'{HEAD}fn main() {{ println(f"{{{call}}}") }}\n').startswith("error[ZYN0808]: assertion failed: ")


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_compute_blocks_stop_too(device: str) -> None:
    text = (
        HEAD
        + """
    fn calls(s: tensor[N, f64], vol: f64) -> tensor { compute(s, vol) { for i in 0..N: out[i] = bs_call(s[i], 100.0, 0.03, vol, 0.5) } }
    fn greeks(table: tensor[P, 5, f64], spots: tensor[A, f64], vols: tensor[A, f64]) -> f64 { portfolio_greeks(table, spots, vols, 0.02).0 }
    """
    )
    own = functions(text, device)
    assert own.calls(np.array([90.0, 0.0, 110.0]), 0.2)[1] == 0.0
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ZynMLError, match=r"ZYN0808.*price, strike, volatility and time are numbers from 0 on"):
            own.calls(np.array([90.0, bad, 110.0]), 0.2)
        with pytest.raises(ZynMLError, match="ZYN0808"):
            own.greeks(np.array([[1.0, 0.0, 100.0, 0.5, 1.0]]), np.array([100.0]), np.array([bad]))


def test_compiled_functions_stop_too(program: CompiledProgram) -> None:
    own = Functions(f"{HEAD}fn own{SIGNATURE} {{ bs_call(s, k, r, vol, t, q) }}\n")
    assert own.own(*OPTION) == pytest.approx(program.own_bs_call(*OPTION), rel=1e-14)
    for place, bad in BAD:
        given = [*OPTION]
        given[place] = bad
        assert own.own(*given).code == "0808"
