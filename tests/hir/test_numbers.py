"""Numbers of narrow floats: every bit pattern, and rounding against the nearest of all patterns."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from compiler.hir.numbers import ROUND, SENTINEL, bits_of, identity, int_power, number_of, odd_double

NUMPY = {
    "f8e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "f8e5m2": (ml_dtypes.float8_e5m2, np.uint8),
    "f16": (np.float16, np.uint16),
    "bf16": (ml_dtypes.bfloat16, np.uint16),
}


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_every_pattern_is_the_number_that_numpy_says(dtype: str) -> None:
    kind, bits = NUMPY[dtype]
    patterns = np.arange(np.iinfo(bits).max + 1, dtype=bits)
    with np.errstate(invalid="ignore"):  # a cast tells of NaN
        expected = patterns.view(kind).astype(np.float64)
    found = [number_of(int(p), dtype) for p in patterns]
    np.testing.assert_array_equal(np.array(found), expected)
    assert all(bits_of(v, dtype) == p for p, v in zip(patterns.tolist(), found, strict=True) if v == v)
    assert all(math.isnan(number_of(bits_of(math.nan, d), d)) for d in NUMPY)


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_rounding_finds_the_nearest_and_the_even_in_the_middle(dtype: str) -> None:
    _, bits = NUMPY[dtype]
    step = 1 if bits is np.uint8 else 97
    patterns = np.arange(0, np.iinfo(bits).max // 2 + 1, step, dtype=bits)
    for pattern in patterns.tolist():
        low, high = number_of(pattern, dtype), number_of(pattern + 1, dtype)
        if not (math.isfinite(low) and math.isfinite(high)):
            continue
        middle = (low + high) / 2
        even = low if pattern % 2 == 0 else high
        assert ROUND[dtype](low) == low
        assert ROUND[dtype](middle) == even
        assert ROUND[dtype](-middle) == -even
        assert ROUND[dtype](math.nextafter(middle, math.inf)) == high
        assert ROUND[dtype](math.nextafter(middle, -math.inf)) == low


@pytest.mark.parametrize(
    "dtype,largest,beyond",
    [("f8e4m3", 448.0, math.nan), ("f8e5m2", 57344.0, math.inf), ("f16", 65504.0, math.inf), ("f32", 3.4028234663852886e38, math.inf)],
)
def test_what_is_too_large(dtype: str, largest: float, beyond: float) -> None:
    assert ROUND[dtype](largest) == largest
    np.testing.assert_equal(ROUND[dtype](largest * 1.2), beyond)
    np.testing.assert_equal(ROUND[dtype](-1e300), -beyond)


def test_rounding_to_odd_keeps_the_side() -> None:
    just_above = Fraction(1) + Fraction(1, 2**24) + Fraction(1, 2**80)
    assert np.float32(float(just_above)) == 1.0  # twice rounded: down
    assert np.float32(odd_double(just_above)) == np.float32(1 + 2**-23)


def test_int_powers_truncate() -> None:
    assert [int_power(2, -1), int_power(1, -5), int_power(-1, -3), int_power(-1, -2), int_power(-3, 3) - 2**64] == [0, 1, -1, 1, -27]


def test_identities_change_nothing() -> None:
    assert identity("add", "f32") == 0.0 and identity("mul", "i8") == 1 and identity("and", "u8") == 255
    assert identity("min", "f64") == math.inf and identity("max", "i16") == -32768 and identity("max", "i1") is False
    assert identity("argmax", "f32") == -math.inf and np.iinfo(np.int64).max == SENTINEL
