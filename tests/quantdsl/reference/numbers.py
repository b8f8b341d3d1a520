"""Exact arithmetic of the reference: Python ints, so nothing overflows unseen; what must fit 64 bits is asked to."""

from fractions import Fraction

LOWEST, HIGHEST = -(2**63), 2**63 - 1


class CheckedFailure(Exception):
    """What a checked operation of a handler stops with."""


def half_even(numerator: int, denominator: int) -> int:
    """The quotient, rounded to the nearest int, halves to the even one."""
    return round(Fraction(numerator, denominator))


def up(value: Fraction) -> int:
    """The least int that isn't below the value."""
    return -((-value.numerator) // value.denominator)


def money(value: int) -> int:
    """The value, if 64 bits hold it."""
    if not LOWEST <= value <= HIGHEST:
        raise CheckedFailure(f"{value} is outside of 64 bits")
    return value
