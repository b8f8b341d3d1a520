"""Exact decimals: what a literal says, and whether it lies on a grid."""

from fractions import Fraction

from runtime.records import frozen

MAX_SCALE = 18
I64 = range(-(1 << 63), 1 << 63)


@frozen
class CheckedCurrency:
    """`scale`: decimal digits of its smallest unit."""

    name: str
    scale: int

    @property
    def unit(self) -> Fraction:
        return Fraction(1, 10**self.scale)


@frozen
class CheckedInstrument:
    """Sizes of a tick, in its currency, and of a lot; a price of p on a quantity of q is p * q * multiplier of the currency."""

    name: str
    currency: CheckedCurrency
    tick: Fraction
    lot: Fraction
    multiplier: Fraction

    @property
    def money_per_tick_and_lot(self) -> Fraction:
        """In units of the currency's scale; whole, or the instrument is refused."""
        return self.tick * self.lot * self.multiplier / self.currency.unit

    @property
    def smallest_scale(self) -> int | None:
        """The smallest scale of a currency that holds every product of a price and a quantity exactly."""
        step = self.tick * self.lot * self.multiplier
        return next((scale for scale in range(MAX_SCALE + 1) if (step * 10**scale).denominator == 1), None)


def shown(value: Fraction) -> str:
    """A value as a decimal, or as a fraction when it has none."""
    digits = next((digits for digits in range(40) if (value * 10**digits).denominator == 1), None)
    if digits is None:
        return f"{value.numerator}/{value.denominator}"
    scaled = abs(int(value * 10**digits))
    text = f"{scaled:0{digits + 1}d}"
    return ("-" if value < 0 else "") + (f"{text[:-digits]}.{text[-digits:]}" if digits else text)


def neighbours(value: Fraction, step: Fraction) -> tuple[Fraction, Fraction]:
    """The nearest multiples of a step below and above a value."""
    below = (value / step).__floor__() * step
    return below, below + step


def decimal_places(value: Fraction) -> int:
    """The digits behind the point of a value that is a decimal."""
    return next(digits for digits in range(100) if (value * 10**digits).denominator == 1)
