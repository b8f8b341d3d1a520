"""Decimals onto an instrument's grid, exactly: what is not a whole number of steps is refused, never rounded."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from runtime.records import field, frozen
from runtime.replay.bad_rows import Why

I64 = npt.NDArray[np.int64]

LEAST, MOST = -(2**63), 2**63 - 1
MOST_TICKS = 2**62 - 1
"""The highest price, and with a minus the lowest: replays add two of them, and mark positions in half ticks."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_FARTHEST = 60
"""Powers of ten beyond which a number is out of range, or too fine, without a closer look."""


def beyond(ticks: I64) -> npt.NDArray[np.bool_]:
    """Which prices are too high or too low for a replay."""
    return (ticks > MOST_TICKS) | (ticks < -MOST_TICKS)


@frozen
class GridStep:
    """What one unit of a grid is worth: `divisor` x 10^-`digits`, in lowest terms. A tick of 0.25 is 25 x 10^-2."""

    digits: int
    divisor: int

    @classmethod
    def of(cls, size: Decimal) -> "GridStep":
        """The step of a tick or lot. Raises ValueError unless it is a positive finite decimal."""
        if not size.is_finite() or size <= 0:
            raise ValueError(f"{size} is no step")
        _, mantissa, exponent = size.normalize().as_tuple()
        assert isinstance(exponent, int)
        whole = int("".join(map(str, mantissa)))
        return cls(-exponent, whole) if exponent <= 0 else cls(0, whole * 10**exponent)

    @property
    def size(self) -> Fraction:
        return Fraction(self.divisor, 10**self.digits)

    def units(self, text: str) -> int | Why:
        """How many steps a decimal is, or why it is no number of steps. This defines what the compiled reader of decimals does."""
        text = text.strip(" \t")
        if not text:
            return Why.EMPTY
        if _NUMBER.fullmatch(text) is None:
            return Why.NOT_FINITE if _NOT_FINITE.fullmatch(text) else Why.UNREADABLE
        value = Decimal(text)
        if not value:
            return 0
        if value.adjusted() > _FARTHEST:
            return Why.OUT_OF_RANGE
        if value.adjusted() < -_FARTHEST:
            return Why.OFF_GRID
        steps = Fraction(value) / self.size
        if steps.denominator != 1:
            return Why.OFF_GRID
        return steps.numerator if LEAST <= steps.numerator <= MOST else Why.OUT_OF_RANGE

    def of_integers(self, values: I64, power: int) -> tuple[I64, npt.NDArray[np.bool_]]:
        """Steps of `values` x 10^-`power`, and which of them are whole and in range; the others are 0."""
        ratio = Fraction(10**self.digits, self.divisor * 10**power)
        up, down = ratio.numerator, ratio.denominator
        if down > MOST or up > MOST:
            fits = values == 0
            return np.zeros_like(values), fits
        fits = (values >= -(MOST // up)) & (values <= MOST // up) if up > 1 else np.ones(values.shape, np.bool_)
        if down > 1:
            whole = values // down
            fits &= whole * down == values
            return np.where(fits, whole * up if up > 1 else whole, 0), fits
        return np.where(fits, values, 0) * up, fits

    def of_floats(self, values: npt.NDArray[np.float64]) -> tuple[I64, npt.NDArray[np.bool_]]:
        """Steps of doubles, and which of them are the doubles nearest to a point of the grid; the others are 0."""
        with np.errstate(invalid="ignore", over="ignore"):
            # one rounding for each of the three: exact as long as the whole numbers are below 2^53
            power = float(10**self.digits)
            steps = np.rint(values * power / self.divisor)
            fits = (np.abs(steps) * self.divisor < 2.0**53) & (steps * self.divisor / power == values) & (self.digits <= 22)
        return np.where(fits, steps, 0).astype(np.int64), fits

    def text(self, units: int) -> str:
        """So many steps as a plain decimal."""
        value = Decimal(units * self.divisor).scaleb(-self.digits)
        return f"{value:f}"


WHOLE = GridStep(0, 1)
"""The grid of integers."""


def _step(size: Decimal | str | int) -> GridStep:
    return GridStep.of(Decimal(size))


@frozen
class Listing:
    """An instrument as its data sees it: the name that files know it by, and its grid."""

    name: str
    tick: GridStep = field(converter=_step)
    lot: GridStep = field(converter=_step)
