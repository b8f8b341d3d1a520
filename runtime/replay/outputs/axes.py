"""Where an axis has its ticks, and what stands beside them."""

from datetime import UTC, datetime
from math import ceil, floor, log10

_STEPS = [
    *(unit * 10**power for power in range(9) for unit in (1, 2, 5)),
    *(10**9 * seconds for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)),
    *(86_400 * 10**9 * days for days in (1, 2, 7, 14, 30, 91, 182, 365, 730, 1825, 3650, 18250)),
]


def span(values: list[float], with_zero: bool = False) -> tuple[float, float]:
    """The ends of an axis that shows all values, with some air; never one point."""
    low, high = min(values), max(values)
    if with_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        air = abs(high) * 0.01 or 1.0
        return low - air, high + air
    air = (high - low) * 0.06
    return (low - air if not (with_zero and low == 0.0) else low), (high + air if not (with_zero and high == 0.0) else high)


def number_ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Round numbers between, at most so many, each with its text."""
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(unit * power for unit in (1, 2, 2.5, 5, 10) if unit * power >= rough * 0.999)
    digits = max(0, 1 - floor(log10(step))) if step < 10 else 0
    ticks = []
    for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1):
        text = f"{number * step:,.{digits}f}"
        ticks.append((number * step, text.rstrip("0").rstrip(".") if "." in text else text))
    return ticks


def time_ticks(begin: int, end: int, most: int = 7) -> tuple[list[tuple[int, str]], str]:
    """Round moments (UTC) between, at most so many, each with its text; and the day of the first one, where the texts don't say it."""
    step = next((step for step in _STEPS if (end - begin) // step < most), _STEPS[-1])
    first = -(-begin // step) * step
    ticks = [(ts, _moment(ts, step)) for ts in range(first, end + 1, step)][: most + 1]
    return ticks, "" if step >= 86_400 * 10**9 else f"{datetime.fromtimestamp(begin // 10**9, UTC):%Y-%m-%d}"


def _moment(ts: int, step: int) -> str:
    when = datetime.fromtimestamp(ts // 10**9, UTC)
    if step >= 86_400 * 10**9:
        return f"{when:%Y-%m-%d}"
    if step >= 60 * 10**9:
        return f"{when:%H:%M}" if ts % (86_400 * 10**9) else f"{when:%b %d}"
    text = f"{when:%H:%M:%S}"
    return text if step >= 10**9 else f"{text}.{ts % 10**9:09d}".rstrip("0").rstrip(".")


def decades(low: float, high: float) -> list[tuple[float, str]]:
    """1, 2 and 5 of each power of ten between."""
    ticks = []
    for power in range(floor(log10(low)), ceil(log10(high)) + 1):
        for unit in (1, 2, 5):
            value = unit * 10.0**power
            if low <= value <= high:
                ticks.append((value, nanoseconds(value)))
    return ticks


def nanoseconds(value: float) -> str:
    """A duration with a unit that suits it, as a program writes it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value:.4g} ns"
