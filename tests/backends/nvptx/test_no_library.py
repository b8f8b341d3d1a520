"""What kernels compute without a C library: remainders and large angles, run here on this machine's processor from the same code."""

import ctypes
import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.large_angles import two_over_pi
from compiler.backends.llvm.types import F32, F64
from compiler.backends.llvm.writer import ModuleWriter

SPECIAL = [0.0, -0.0, 5e-324, 2.2e-308, 1.0, -1.0, 0.1, 3.0, 1e308, -1e308, math.inf, -math.inf, math.nan, 1e-320]


@cache
def _engine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = ModuleWriter("library")
    module.c_library = False
    for type, dtype in ((F64, "f64"), (F32, "f32")):
        for operator in ("sin", "cos", "tan"):
            f = module.function(f"{operator}_{dtype}", type, [(type, "x")])
            f.ret(arithmetic.unary(f, operator, dtype, f.parameters[0]))
        f = module.function(f"rem_{dtype}", type, [(type, "x"), (type, "y")])
        f.ret(arithmetic.binary(f, "rem", dtype, *f.parameters))
    parsed = binding.parse_assembly(module.text())
    parsed.verify()
    engine = binding.create_mcjit_compiler(parsed, binding.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    return engine


def native(operator: str, dtype: str, count: int) -> Callable[..., float]:
    kind = ctypes.c_double if dtype == "f64" else ctypes.c_float
    return ctypes.CFUNCTYPE(kind, *[kind] * count)(_engine().get_function_address(f"{operator}_{dtype}"))


def numbers(count: int, low: int, high: int) -> list[float]:
    source = random.Random(1)
    return [math.ldexp(source.choice((-1, 1)) * source.uniform(1, 2), source.randint(low, high)) for _ in range(count)]


def same(found: float, expected: float) -> bool:
    if expected != expected:
        return found != found
    return found == expected and math.copysign(1, found) == math.copysign(1, expected)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_remainders_are_exact(dtype: str) -> None:
    rem = native("rem", dtype, 2)
    kind = np.float64 if dtype == "f64" else np.float32
    span = (-1074, 1023) if dtype == "f64" else (-149, 127)
    values = numbers(4000, *span)
    with np.errstate(all="ignore"):
        for x, y in [*itertools.product(SPECIAL, SPECIAL), *zip(values[::2], values[1::2], strict=True)]:
            a, b = kind(x), kind(y)
            assert same(rem(float(a), float(b)), float(np.fmod(a, b))), (x, y)


def quarter_turns(x: float) -> tuple[int, float]:
    """x less its nearest multiple of pi/2, by whole numbers: how many, and the rest with 100 bits more than a float has."""
    words = two_over_pi()
    table = sum(word << 64 * (len(words) - 1 - number) for number, word in enumerate(words))
    bits = 64 * (len(words) - 1)
    mantissa, exponent = math.frexp(x)
    whole, exponent = int(mantissa * 2**53), exponent - 53
    # whole * 2**exponent quarter turns times 2/pi, counted in units of 2**-bits
    product, scale = whole * table << max(exponent, 0), max(-exponent, 0)
    bits += scale
    count = (product + (1 << bits - 1)) >> bits
    rest = product - (count << bits)
    return count & 3, float(Fraction(rest, table << scale))


def exact(operator: str, x: float) -> float:
    count, rest = quarter_turns(x)
    sine = (math.sin(rest), math.cos(rest), -math.sin(rest), -math.cos(rest))
    if operator == "tan":
        return sine[count] / sine[(count + 1) % 4]
    return sine[count if operator == "sin" else (count + 1) % 4]


@pytest.mark.parametrize("operator", ["sin", "cos", "tan"])
def test_angles_past_the_plain_reduction(operator: str) -> None:
    """Among them the f64 nearest to a multiple of pi/2 of all. The reference itself is right to two ulp."""
    function, single = native(operator, "f64", 1), native(operator, "f32", 1)
    for x in [*numbers(3000, 51, 1023), 6381956970095103 * 2.0**797, 1.7976931348623157e308, 2.0**52, -(2.0**53)]:
        expected = exact(operator, x)
        assert abs(function(x) - expected) <= 4 * math.ulp(expected), x
    for x in numbers(1000, 52, 127):
        x = float(np.float32(x))
        expected = exact(operator, x)
        assert abs(single(x) - expected) <= 1.5 * float(np.spacing(np.float32(abs(expected)))), x
    assert all(function(x) != function(x) for x in (math.inf, -math.inf, math.nan))


def test_the_bits_of_two_over_pi() -> None:
    """Against the first digits of 2/pi, known from elsewhere, and float's own."""
    words = two_over_pi()
    assert words[:5] == (0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561)
    assert words[1] / 2.0**64 == 2 / math.pi
