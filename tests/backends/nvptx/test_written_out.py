"""Divisions and roots that call nothing are rounded as those that do: what is written for ptxas, run here number by number, against NumPy's
in f32. The approximations that it begins with are given the worst error that they may have."""

import re
from fractions import Fraction
from math import copysign, inf, isfinite, isinf, isnan, nan, sqrt

import numpy as np
import pytest

from compiler.backends.nvptx.written_out import without_calls

FIRST_ERROR = 2.0**-20


def fma(a: float, b: float, c: float) -> float:
    if not (isfinite(a) and isfinite(b) and isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return float(exact) if exact else a * b + c


def approximate_reciprocal(b: float, error: float) -> float:
    return copysign(inf, b) if b == 0 else 1 / b * (1 + error)


def approximate_root(a: float, error: float) -> float:
    if a == 0:
        return copysign(inf, a)
    return nan if a < 0 or isnan(a) else 1 / sqrt(a) * (1 + error)


def run(text: str, values: dict[str, float], error: float) -> np.float32:
    """The PTX of a block: instructions of f64 one after the other."""
    held: dict[str, object] = {name: float(value) for name, value in values.items()}

    def of(word: str) -> float:
        if word.startswith("0d"):
            return float(np.uint64(int(word[2:], 16)).view(np.float64))
        if word.startswith("0f"):
            return float(np.uint32(int(word[2:], 16)).view(np.float32))
        return held[word]  # type: ignore[return-value]

    operations = {
        "cvt.f64.f32": lambda a: a,
        "neg.f64": lambda a: -a,
        "abs.f64": abs,
        "rcp.approx.ftz.f64": lambda a: approximate_reciprocal(a, error),
        "rsqrt.approx.ftz.f64": lambda a: approximate_root(a, error),
        "mul.rn.f64": lambda a, b: a * b,
        "fma.rn.f64": fma,
        "setp.gt.f64": lambda a, b: a > b,
        "setp.eq.f64": lambda a, b: a == b,
        "setp.lt.and.f64": lambda a, b, p: a < b and p,
        "setp.ge.and.f64": lambda a, b, p: a >= b and p,
        "selp.f64": lambda a, b, p: a if p else b,
        "cvt.rn.f32.f64": np.float32,
    }
    for name, rest in re.findall(r"^\s*([a-z]\S*)\s+([^;]*);", text, re.M):
        to, *operands = [word.strip() for word in rest.split(",")]
        held[to] = operations[name](*map(of, operands))
    return held["%to"]  # type: ignore[return-value]


def numbers(seed: int, count: int) -> list[np.float32]:
    """Of every magnitude, subnormals among them, and the ends."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, count, dtype=np.uint32)
    ends = np.float32([0, -0.0, 1, -1, 3, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 1.1754942e-38, 3.4028235e38, 2.0**-126 / 3])
    return [*ends, *bits.view(np.float32)]


def alike(found: np.float32, wanted: np.float32) -> bool:
    return bool(np.isnan(found) and np.isnan(wanted)) or found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("error", [0.0, FIRST_ERROR, -FIRST_ERROR])
def test_quotients(error: float) -> None:
    text = without_calls("div.rn.f32 \t%to, %x, %z;")
    ends = numbers(1, 0)
    pairs = [(a, b) for a in ends for b in ends] + list(zip(numbers(2, 3000), numbers(3, 3000), strict=True))
    # quotients half way between two subnormals
    pairs += [(np.float32(odd) * np.float32(2.0**-140), np.float32(2.0**scale)) for odd in (1, 3, 5, 7) for scale in range(5, 10)]
    with np.errstate(all="ignore"):
        for a, b in pairs:
            assert alike(run(text, {"%x": a, "%z": b}, error), a / b), (a, b)


@pytest.mark.parametrize("error", [0.0, FIRST_ERROR, -FIRST_ERROR])
def test_reciprocals_and_roots(error: float) -> None:
    reciprocal, root = without_calls("rcp.rn.f32 \t%to, %x;"), without_calls("sqrt.rn.f32 %to, %x;")
    with np.errstate(all="ignore"):
        for a in numbers(4, 2000):
            assert alike(run(reciprocal, {"%x": a}, error), np.float32(1) / a), a
            assert alike(run(root, {"%x": a}, error), np.sqrt(a)), a


def test_numbers_among_the_operands_and_all_else() -> None:
    text = without_calls("@%p1 bra $L;\n\tdiv.rn.f32 \t%to, 0f40400000, %f2;\n\tdiv.rn.f64 %fd1, %fd2, %fd3;\n\tdiv.full.f32 %f1, %f2, %f3;")
    assert "div.rn.f64 %fd1, %fd2, %fd3;\n\tdiv.full.f32 %f1, %f2, %f3;" in text and "div.rn.f32" not in text
    block = text[text.index("{") : text.index("}")]
    assert run(block, {"%f2": np.float32(7)}, 0.0) == np.float32(3) / np.float32(7)


def test_infinite_remainders_do_not_come_through() -> None:
    with np.errstate(over="ignore"):
        assert isinf(run(without_calls("div.rn.f32 %to, %x, %z;"), {"%x": np.float32(3e38), "%z": np.float32(1e-3)}, 0.0))
