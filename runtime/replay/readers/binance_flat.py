"""Binance's trades and best quotes, many at once: messages of one short object that are right in every field. All others go through
`binance`, which knows what is wrong with them; what it would make of these is the same."""

import numpy as np
import numpy.typing as npt

from runtime.records import frozen
from runtime.replay.batches import DataSource
from runtime.replay.decoders import LONG, Bytes, Decoders, FlatFields, packed
from runtime.replay.events import EventKind, Events, Flag, MarketSide, empty
from runtime.replay.grids import I64, LEAST, WHOLE, GridStep
from runtime.replay.readers.binance import Binance
from runtime.replay.tables import flag_crossed

_KEYS = "esETtpqmabBAu"
_MS = GridStep(6, 1)
_POWERS = np.array([10**n for n in range(1, 19)], np.int64)

Marks = npt.NDArray[np.bool_]


@frozen
class ReadLines:
    """`lines`: those that are done with; `left_out`: how many of them nobody asked for."""

    events: Events
    lines: Marks
    left_out: int


def take(exchange: Binance, data: bytes, first: int, source: DataSource, decoders: Decoders) -> ReadLines:
    """The lines of `data` that are such messages. `first`: the number of the first line. Raises BadSource."""
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    text = np.frombuffer(data, np.uint8)
    fields = _FlatColumns(text, decoders.flat_fields(text, _KEYS, count), decoders)
    kinds = fields.words("e")
    trades, sums, named = (fields.says("e", word) for word in ("trade", "aggTrade", "bookTicker"))
    quotes = named | ((kinds == 0) & fields.there("B") & fields.there("A"))
    wanted = trades | sums | quotes
    instruments, known = _instruments(exchange, fields, wanted)
    ts, timed = fields.times()
    lines = fields.flat.simple & wanted & known & timed
    foreign = lines & (instruments < 0)
    events = empty(count)
    events["ts"], events["stream"], events["row"] = ts, source.stream, np.arange(first, first + count)
    events["instrument"], events["flags"] = np.maximum(instruments, 0), Flag.LAST
    ours = lines & ~foreign
    good = np.zeros(count, np.bool_)
    for which, kind, id, numbers in (
        (trades, EventKind.TRADE, "t", {"price": "p", "qty": "q"}),
        (sums, EventKind.TRADE, "a", {"price": "p", "qty": "q"}),
        (quotes, EventKind.QUOTE, "u", {"price": "b", "qty": "B", "price2": "a", "qty2": "A"}),
    ):
        here = np.flatnonzero(ours & which)
        if here.size:
            good[here] = _fill(events, here, kind, id, numbers, fields, source)
    lines &= foreign | good
    told_twice = _told_twice(exchange, trades & good, sums & good)
    kept = good & ~told_twice
    found = events[kept]
    some = found[found["kind"] == EventKind.QUOTE]
    flag_crossed(some)
    found[found["kind"] == EventKind.QUOTE] = some
    return ReadLines(found, lines, int((foreign & lines).sum() + told_twice.sum()))


@frozen
class _FlatColumns:
    text: Bytes
    flat: FlatFields
    decoders: Decoders

    def lengths(self, key: str) -> I64:
        return np.where(self.flat.simple, self.flat.lengths[key], 0)

    def there(self, key: str) -> Marks:
        return self.lengths(key) > 0

    def words(self, key: str) -> npt.NDArray[np.uint64]:
        return self.decoders.words(self.text, self.flat.starts[key], self.lengths(key))

    def says(self, key: str, word: str) -> Marks:
        """Where a value is this word, letter by letter."""
        marks: Marks = self.lengths(key) == len(word)
        here = np.flatnonzero(marks)
        letters = self.text[self.flat.starts[key][here][:, None] + np.arange(len(word))]
        marks[here] = (letters == np.frombuffer(word.encode("ascii"), np.uint8)).all(axis=1)
        return marks

    def plain(self, key: str, here: I64) -> Marks:
        """Values that aren't strings."""
        marks: Marks = self.text[self.flat.starts[key][here] - 1] != ord('"')
        return marks

    def decimals(self, key: str, here: I64, step: GridStep) -> tuple[I64, Marks]:
        return self.decoders.decimals(self.text, self.flat.starts[key][here], self.lengths(key)[here], step)

    def integers(self, key: str, here: I64) -> tuple[I64, Marks]:
        """Whole numbers written with nothing but digits."""
        values, good = self.decimals(key, here, WHOLE)
        digits = np.searchsorted(_POWERS, values, side="right") + 1
        return values, good & (values >= 0) & (digits == self.lengths(key)[here]) & (self.plain(key, here) | (key == ""))

    def times(self) -> tuple[I64, Marks]:
        """The time of receipt, else that of the event, else that of the trade."""
        everywhere = np.arange(self.flat.simple.size)
        ts, timed = self.integers("", everywhere)
        if not timed.all():
            for key, before in (("E", ("",)), ("T", ("", "E"))):
                here = np.flatnonzero(self.there(key) & ~np.logical_or.reduce([self.there(one) for one in before]))
                whole, good = self.integers(key, here)
                ns, fits = _MS.of_integers(whole, 0)
                ts[here], timed[here] = ns, good & fits
        return ts, timed


def _instruments(exchange: Binance, fields: _FlatColumns, wanted: Marks) -> tuple[I64, Marks]:
    """Places of instruments, -1 for those that nobody wants, and which symbols are short enough to say."""
    words = fields.words("s")
    known = wanted & (words != 0) & (words != LONG)
    places = np.full(words.size, -1, np.int64)
    _, firsts = np.unique(words[known], return_index=True)
    for row in np.flatnonzero(known)[np.sort(firsts)].tolist():
        start = int(fields.flat.starts["s"][row])
        symbol = fields.text[start : start + int(fields.flat.lengths["s"][row])].tobytes().decode("ascii")
        place = exchange.symbols.find(symbol)
        if place is not None:
            places[words == words[row]] = place
    return places, known


def _fill(events: Events, here: I64, kind: EventKind, id: str, numbers: dict[str, str], fields: _FlatColumns, source: DataSource) -> Marks:
    """Fields of the events `here`, and which of them are right."""
    ids, good = fields.integers(id, here)
    events["kind"][here], events["id"][here] = kind, np.where(good, ids, 0)
    instruments = events["instrument"][here]
    for name, key in numbers.items():
        for instrument in np.unique(instruments).tolist():
            part = np.flatnonzero(instruments == instrument)
            listing = source.listings[instrument]
            values, fits = fields.decimals(key, here[part], listing.lot if "qty" in name else listing.tick)
            least = 1 if name == "qty" and kind is EventKind.TRADE else LEAST if source.signed and "price" in name else 0
            good[part] &= fits & (values >= least)
            events[name][here[part]] = values
    if kind is EventKind.TRADE:
        maker = fields.words("m")[here]
        yes, no = maker == packed("true"), maker == packed("false")
        good &= (yes | no) & fields.plain("m", here)
        events["side"][here] = np.where(yes, int(MarketSide.SELL), int(MarketSide.BUY))
    return good


def _told_twice(exchange: Binance, trades: Marks, sums: Marks) -> Marks:
    """Single trades where the file gives their sums, or the sums of single ones."""
    either = np.flatnonzero(trades | sums)
    if exchange.trades is None and either.size:
        exchange.trades = "trade" if trades[either[0]] else "aggTrade"
    return sums if exchange.trades == "trade" else trades
