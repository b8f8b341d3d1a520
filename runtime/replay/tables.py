"""Tables with named columns as trades or quotes: which column is which, and what of their rows can be used."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from runtime.records import define, frozen
from runtime.replay.bad_rows import BadSource, Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.columns import Column, prices, settled, whole
from runtime.replay.decoders import packed
from runtime.replay.events import EventKind, Events, Flag, MarketSide, empty
from runtime.replay.grids import I64, GridStep

ALIASES: dict[str, tuple[str, ...]] = {
    "ts": ("ts_ns", "ts_us", "ts_ms", "ts_s", "ts", "timestamp"),
    "id": ("trade_id", "id"),
    "price": ("price",),
    "qty": ("qty", "size", "quantity"),
    "side": ("side",),
    "bid": ("bid", "bid_price"),
    "bid_qty": ("bid_qty", "bid_size", "bid_quantity"),
    "ask": ("ask", "ask_price"),
    "ask_qty": ("ask_qty", "ask_size", "ask_quantity"),
}
"""What a field may be called in a header, any case. `--map FIELD=NAME` says another name; a field of times may carry its unit:
`--map ts_ms=time`."""

FACTS = ("symbol", "date", "instrument_id", "snapshot", "prices")
"""What `--map` says that no column does."""

MAPPED = (*dict.fromkeys(name for field, aliases in ALIASES.items() for name in (field, *aliases)), *FACTS)
"""All that stands on the left of `--map FIELD=NAME`."""

TRADE, QUOTE = ("ts", "price", "qty"), ("ts", "bid", "bid_qty", "ask", "ask_qty")
"""What trades and quotes can't do without."""

SIDES = {
    **dict.fromkeys(("buy", "b", "bid"), MarketSide.BUY),
    **dict.fromkeys(("sell", "s", "ask", "a"), MarketSide.SELL),
    "": MarketSide.NONE,
}
"""Words for the side that a trade was aggressed from; any case."""

_UNIT = re.compile(r".*_(ns|us|ms|s)")
_DIGITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
_MAGNITUDES = {"s": 1e9, "ms": 1e12, "us": 1e15, "ns": 1e18}
"""Times from 2001 on have at least so many units, and less than a hundred times as many until long after 2262."""


@define
class ColumnUnit:
    """What unit a column of times is in: said by its name, or seen at the first time that can be read."""

    unit: str | None
    seen: bool = False

    @classmethod
    def named(cls, name: str) -> "ColumnUnit":
        match = _UNIT.fullmatch(name.lower())
        return cls(match[1] if match else None)

    def instants(self, column: Column, source: DataSource, name: str) -> tuple[I64, dict[int, Why]]:
        """Times in ns, and what is wrong with the others. Raises BadSource where the unit can't be told."""
        known = column.instants()
        if known is not None:
            values, good = known
            return values, dict.fromkeys(np.flatnonzero(~good).tolist(), Why.UNREADABLE)
        if self.unit is None:
            self._look(column, source, name)
        if self.unit is None:
            return settled(column, GridStep(0, 1))
        values, wrong = settled(column, GridStep(_DIGITS[self.unit], 1))
        for row, why in wrong.items():
            wrong[row] = Why.UNREADABLE if why is Why.OFF_GRID else why
        if self.seen:
            least = int(_MAGNITUDES["s"]) * 10**9
            for row in np.flatnonzero(values < least).tolist():
                wrong.setdefault(row, Why.OUT_OF_RANGE)
        return values, wrong

    def _look(self, column: Column, source: DataSource, name: str) -> None:
        values, wrong = settled(column, GridStep(0, 1))
        fine = np.ones(values.size, np.bool_)
        fine[[row for row, why in wrong.items() if why is not Why.OFF_GRID]] = False
        for row in np.flatnonzero(fine)[:1].tolist():
            size = float(column.text(row))
            for unit, least in _MAGNITUDES.items():
                if least <= size < 100 * least:
                    self.unit, self.seen = unit, True
                    return
            hint = f"--map ts_ns={name} says that it counts nanoseconds; ts_us, ts_ms and ts_s say others"
            raise BadSource(f"{source.path}: the unit of column `{name}` can't be told from {column.text(row)}", hint)


@frozen
class ColumnLayout:
    """Which column of a table is which field: the column's place by the field's name."""

    fields: dict[str, int]
    names: tuple[str, ...]
    kind: EventKind

    def called(self, field: str) -> str:
        return self.names[self.fields[field]]


def layout(names: Sequence[str], source: DataSource) -> ColumnLayout:
    """Finds the fields in a header. Raises BadSource."""
    plain = [name.strip().lower() for name in names]
    fields: dict[str, int] = {}

    def place(name: str) -> int:
        if plain.count(name) > 1:
            raise BadSource(f"{source.path}: several columns are called `{name}`", f"it has {_list(names)}")
        return plain.index(name)

    for field, aliases in ALIASES.items():
        said = [(key, name) for key, name in source.mapped.items() if key == field or key in aliases]
        if said:
            wanted = said[0][1].strip().lower()
            if wanted not in plain:
                raise BadSource(f"{source.path}: there is no column `{said[0][1]}`", f"it has {_list(names)}")
            fields[field] = place(wanted)
        else:
            alias = next((alias for alias in aliases if alias in plain), None)
            if alias is not None:
                fields[field] = place(alias)
    kind = EventKind.QUOTE if {"bid", "ask"} <= set(fields) and "price" not in fields else EventKind.TRADE
    for field in QUOTE if kind is EventKind.QUOTE else TRADE:
        if field not in fields:
            hint = f"--map {field}=NAME names it; the file has {_list(names)}"
            raise BadSource(f"{source.path}: no column is called {_list(ALIASES[field])}", hint)
    used = {field: column for field, column in fields.items() if field in (QUOTE if kind is EventKind.QUOTE else (*TRADE, "id", "side"))}
    return ColumnLayout(used, tuple(name.strip() for name in names), kind)


def clock(of: ColumnLayout, source: DataSource) -> ColumnUnit:
    """The clock of a table: `--map ts_ms=NAME` wins over what the column is called."""
    said = next((key for key in source.mapped if key in ALIASES["ts"] and key != "ts"), None)
    return ColumnUnit.named(said or of.called("ts"))


def table(columns: dict[str, Column], rows: I64, of: ColumnLayout, time: ColumnUnit, source: DataSource, instrument: int) -> Batch:
    """Events of some rows whose fields are all there. `rows`: their numbers in the file."""
    listing = source.listings[instrument]
    events = empty(rows.size)
    wrong: dict[int, tuple[str, Why]] = {}

    def mark(field: str, which: npt.NDArray[np.bool_], why: Why) -> None:
        if which.any():
            for row in np.flatnonzero(which).tolist():
                wrong.setdefault(row, (field, why))

    def take(field: str, values: I64, faults: dict[int, Why], signed: bool = False) -> I64:
        for row, why in faults.items():
            wrong.setdefault(row, (field, why))
        if not signed:
            mark(field, values < 0, Why.NEGATIVE)
        return values

    events["ts"] = take("ts", *time.instants(columns["ts"], source, of.called("ts")), signed=True)
    if of.kind is EventKind.QUOTE:
        for field, at, step in (("bid", "price", listing.tick), ("ask", "price2", listing.tick)):
            events[at] = take(field, *prices(columns[field], step), signed=source.signed)
        for field, at in (("bid_qty", "qty"), ("ask_qty", "qty2")):
            events[at] = take(field, *settled(columns[field], listing.lot))
    else:
        events["price"] = take("price", *prices(columns["price"], listing.tick), signed=source.signed)
        events["qty"] = qty = take("qty", *settled(columns["qty"], listing.lot))
        mark("qty", qty == 0, Why.ZERO)
        if "id" in columns:
            events["id"] = take("id", *whole(columns["id"])).astype(np.uint64)
        if "side" in columns:
            events["side"], faults = sides(columns["side"])
            for row, why in faults.items():
                wrong.setdefault(row, ("side", why))
    events["stream"], events["instrument"], events["kind"], events["row"] = source.stream, instrument, of.kind, rows
    events["flags"] = Flag.LAST
    if of.kind is EventKind.QUOTE:
        flag_crossed(events)
    batch = Batch(events, rows.size, time=of.called("ts"), book=of.kind is EventKind.QUOTE, instrument=instrument)
    if "id" in columns:
        batch.id = of.called("id")
    if wrong:
        for position in sorted(wrong):
            field, why = wrong[position]
            detail = source.grid(instrument, "lot" if "qty" in field else "tick") if why is Why.OFF_GRID else ""
            batch.bad.append(source.bad(int(rows[position]), of.called(field), columns[field].text(position), why, detail))
        batch.events = np.delete(events, sorted(wrong))
    return batch


def flag_crossed(quotes: Events) -> None:
    """Marks quotes of two sides whose bid isn't below the ask."""
    crossed = (quotes["qty"] > 0) & (quotes["qty2"] > 0) & (quotes["price"] >= quotes["price2"])
    quotes["flags"][crossed] |= int(Flag.CROSSED)


def sides(column: Column) -> tuple[npt.NDArray[np.uint8], dict[int, Why]]:
    """Aggressors as numbers of Side; what is no word for one can't be read."""
    words = column.words()
    codes = np.full(words.size, 255, np.uint8)
    for word, side in SIDES.items():
        codes[words == packed(word)] = side
    unknown = np.flatnonzero(codes == 255).tolist()
    codes[unknown] = MarketSide.NONE
    return codes, dict.fromkeys(unknown, Why.UNREADABLE)


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:20]) + (", ..." if len(names) > 20 else "")
