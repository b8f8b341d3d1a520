"""Optional variables that were just assigned stand where a value is wanted; nowhere else."""

import pytest

from compiler.source import Source
from quantdsl.check.program import check_program
from quantdsl.parse import parse_source

SIGNAL = "signal s(x: f64, c: bool) -> f64 {{\n state v: f64? = none\n state w: f64? = none\n {}\n}}"
STRATEGY = """currency USD {{ scale 8 }}
instrument ES : USD {{ tick 0.25 lot 1 }}
strategy S on ES {{
  state v: f64? = none
  fn takes(y: f64) -> f64 {{ y }}
  fn resets() -> f64 {{
    v = none
    1.0
  }}
  on start {{ v = 1.0 }}
  on trade(t) {{
    {}
  }}
}}"""


def codes(text: str) -> list[str]:
    return [found.code for found in check_program(parse_source(Source("p.qdsl", text))).diagnostics.errors]


@pytest.mark.parametrize(
    "body",
    [
        "v = if let p = v { p + 2.0/(3+1) * (x - p) } else { x }\n emit v",
        "v = x\n emit v",
        "v = some(x)\n emit v",
        "v = match c { true => x, false => 2.0 }\n emit v",
        "v = x if c else 1.0\n emit v",
        "v = x\n let y = sqrt(v)\n emit v",
        "v = x\n if c { w = x }\n emit v",
        "v = x\n emit v ?? 0.0",
        "v = x\n if let p = v { w = p }\n emit x",
        "v = x\n w = none\n emit v",
        "v = x\n var k = 0\n while k < 3 { k += 1; w = v }\n emit v",
        "if c {\n v = x\n w = sqrt(v)\n }\n emit x",
    ],
)
def test_known_to_be_there(body: str) -> None:
    assert codes(SIGNAL.format(body)) == []


@pytest.mark.parametrize(
    "body",
    [
        "emit v",
        "v = w\n emit v",
        "v = none\n emit v",
        "v = x\n v = none\n emit v",
        "v = x\n v = w\n emit v",
        "if c { v = x }\n emit v",
        "v = x\n if c { v = none }\n emit v",
        "if c { v = x } else { w = sqrt(v) }\n emit x",
        "v = if c { x } else { w }\n emit v",
        "v = x\n (v, w) = (w, v)\n emit v",
        "v = x\n var k = 0\n while k < 3 {\n k += 1\n w = sqrt(v)\n v = none\n }\n emit x",
        "v = x\n for k in 0..3 {\n w = sqrt(v)\n v = w if k > 1 else none\n }\n emit x",
        "v = x\n w = if c { v = none\n 1.0 } else { 2.0 }\n emit v",
    ],
)
def test_perhaps_none(body: str) -> None:
    assert codes(SIGNAL.format(body)) == ["0726"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("v = 2.0\n _ = takes(v)", ["0726"]),
        ("v = 2.0\n let y: f64 = v", []),
        ("v = 2.0\n let y = sqrt(v)", []),
        ("v = 2.0\n let y: f64 = resets()\n let z: f64 = v", ["0726"]),
        ("let y: f64 = v", ["0726"]),
        ("v = 2.0\n if let p = delay(v, 1) { }", ["0726"]),
    ],
)
def test_states_that_functions_may_change(body: str, expected: list[str]) -> None:
    """A function of the strategy may assign to its states; what one handler knows, another doesn't."""
    assert codes(STRATEGY.format(body)) == expected
