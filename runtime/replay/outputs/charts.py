"""The charts of a report, as data."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np

from runtime.records import frozen
from runtime.replay.outputs.gathered import PERCENTILES, Gathered, Position, is_buy
from runtime.replay.outputs.scales import Scales
from runtime.replay.outputs.statistics import Counts
from runtime.replay.outputs.summary import iso

KINDS = ("equity", "drawdown", "position", "price", "rejects", "latency")
"""What keys of charts begin with."""
SHOWN = 8
"""Instruments that get charts of their own."""


class Tone(Enum):
    """A colour by what it means; page and PNG files each have theirs."""

    MAIN = "main"
    LOSS = "loss"
    BUY = "buy"
    SELL = "sell"
    QUIET = "quiet"


class LineForm(Enum):
    LINE = "line"
    STEPS = "steps"
    AREA = "area"


class Point(NamedTuple):
    """A value at a time (ns)."""

    ts: int
    value: Decimal


class Mark(NamedTuple):
    """A single moment. `text`: what there is to say of it."""

    ts: int
    value: Decimal
    text: str


@frozen
class TimeLine:
    """A value over time. `form` STEPS: it holds until the next point; AREA: filled down to zero, too."""

    name: str
    points: Sequence[Point]
    form: LineForm = LineForm.LINE
    tone: Tone = Tone.MAIN


@frozen
class Marks:
    """Single moments. They point up, or down."""

    name: str
    points: Sequence[Mark]
    up: bool = True
    tone: Tone = Tone.BUY


@frozen
class Bar:
    """`low` and `high` are the ends of a bin; a bar with a name of its own has none."""

    name: str
    count: int
    low: float = 0.0
    high: float = 0.0


@frozen
class MarkLine:
    """A line across a chart of bins."""

    at: float
    name: str
    tone: Tone = Tone.QUIET


@frozen
class OverTime:
    """`unit` is what the values are in."""

    key: str
    title: str
    unit: str
    lines: Sequence[TimeLine]
    marks: Sequence[Marks] = ()
    note: str = ""

    @property
    def legend(self) -> Sequence[TimeLine | Marks]:
        """What has a colour that needs a name: where there are marks."""
        return [*self.lines, *self.marks] if any(marks.points for marks in self.marks) else []

    @property
    def empty(self) -> bool:
        """Whether no value of a line is a number."""
        return not any(point.value.is_finite() for line in self.lines for point in line.points)


@frozen
class NamedBars:
    """A bar a name."""

    key: str
    title: str
    unit: str
    bars: Sequence[Bar]
    note: str = ""

    @property
    def empty(self) -> bool:
        return not self.bars


@frozen
class Bins:
    """Counts of values, over a logarithmic axis."""

    key: str
    title: str
    unit: str
    bars: Sequence[Bar]
    rules: Sequence[MarkLine]
    note: str = ""

    @property
    def empty(self) -> bool:
        return not self.bars


Chart = OverTime | NamedBars | Bins


def charts(gathered: Gathered) -> list[Chart]:
    """All charts of a run, in the order that one reads them."""
    scales, run = Scales(gathered.run), gathered.run
    found: list[Chart] = []
    for name, currency in gathered.currencies.items():
        member = next(number for number, one in enumerate(run.instruments) if one.currency == name)
        ending = f" in {name}" if len(gathered.currencies) > 1 else ""
        suffix = f"-{name}" if len(gathered.currencies) > 1 else ""
        equity = _exact(currency.line.points(), partial(scales.money.value, instrument=member))
        falls = _exact(currency.falls.points(), partial(scales.money.value, instrument=member))
        found.append(OverTime(f"equity{suffix}", f"Equity{ending}", name, [TimeLine("equity", equity)]))
        found.append(OverTime(f"drawdown{suffix}", f"Drawdown{ending}", name, [TimeLine("drawdown", falls, LineForm.AREA, Tone.LOSS)]))
    busiest = sorted(range(len(run.instruments)), key=lambda number: (-gathered.positions[number].fill_count, number))[:SHOWN]
    for number in sorted(busiest):
        found += _instrument(gathered.positions[number], scales, number, several=len(run.instruments) > 1)
    found.append(_rejects(gathered))
    found.append(_latency(gathered.latency, run.target_ns))
    return found


def _instrument(one: Position, scales: Scales, number: int, several: bool) -> list[Chart]:
    name, currency = scales.names[number], scales.currencies[number]
    ending, suffix = (f" of {name}", f"-{name}") if several else ("", "")
    held = _exact(one.positions.points(), partial(scales.qty.value, instrument=number))
    marks = _exact(one.marks.points(), partial(scales.mark.value, instrument=number))
    note = f"One fill in {one.fills.every} is shown." if one.fills.every > 1 else ""
    fills = [
        Marks("bought", _moments(one, scales, number, buy=True)),
        Marks("sold", _moments(one, scales, number, buy=False), up=False, tone=Tone.SELL),
    ]
    return [
        OverTime(f"position{suffix}", f"Position{ending}", "units", [TimeLine("position", held, LineForm.STEPS)]),
        OverTime(f"price{suffix}", f"Price and fills{ending}", currency, [TimeLine("mark", marks, tone=Tone.QUIET)], fills, note),
    ]


def _moments(one: Position, scales: Scales, number: int, *, buy: bool) -> list[Mark]:
    marks = []
    for fill in one.fills.kept:
        if is_buy(fill) is buy:
            price, qty = scales.price.value(int(fill["price"]), number), scales.qty.value(int(fill["qty"]), number)
            marks.append(Mark(int(fill["ts"]), price, f"{'bought' if buy else 'sold'} {qty:f} at {price:f}"))
    return marks


def _exact(points: Sequence[tuple[int, int]], value: Callable[[int], Decimal]) -> list[Point]:
    return [Point(ts, value(units)) for ts, units in points]


def _rejects(gathered: Gathered) -> NamedBars:
    bars = [Bar(name, count) for name, count in gathered.rejects_by_rule().items()]
    bars.sort(key=lambda bar: (-bar.count, bar.name))
    note = "An order that breaks several rules counts for each." if gathered.refused else ""
    return NamedBars("rejects", "Rejects by rule", "orders", bars, note)


def _latency(counts: Counts, target: float | None) -> Bins:
    """Bins of a twentieth of a decade, empty ones among them."""
    rules = [
        MarkLine(found, name) for name, share in PERCENTILES.items() if name != "max" and (found := counts.percentile(share)) is not None
    ]
    if target is not None:
        rules.append(MarkLine(target, "target", Tone.LOSS))
    finite = np.isfinite(counts.values)
    if not finite.any():
        return Bins("latency", "Latency of handlers", "samples by ns", [], rules)
    values, numbers = np.maximum(counts.values[finite], 0.1), counts.counts[finite]
    places = np.floor(np.log10(values) * 20).astype(np.int64)
    bars = []
    for place in range(int(places.min()), int(places.max()) + 1):
        low, high = 10 ** (place / 20), 10 ** ((place + 1) / 20)
        bars.append(Bar(f"{low:.3g} to {high:.3g} ns", int(numbers[places == place].sum()), low, high))
    return Bins("latency", "Latency of handlers", "samples by ns", bars, rules, f"{counts.total:,} samples.")


def moment(ts: int) -> str:
    """A time for people."""
    return (iso(ts) or "").replace("T", " ").removesuffix("Z").rstrip("0").rstrip(".")
