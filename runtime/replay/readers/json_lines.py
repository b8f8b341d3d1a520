"""JSON lines as exchanges send them, one message a line, with the local time of receipt in ns in front of it or without. Numbers keep
their text, so that no decimal goes through a float."""

import json
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from runtime.replay.bad_rows import Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.collecting import Collector, RowFault
from runtime.replay.content import Content, WholeLines, line_blocks
from runtime.replay.decoders import Decoders
from runtime.replay.readers import binance, binance_flat, hyperliquid
from runtime.replay.readers.json_fields import Symbols

_DECODER = json.JSONDecoder(parse_float=str, parse_constant=str)


class Messages(Protocol):
    """The messages of one exchange: takes one, gives False when nobody asked for it. Raises RowFault."""

    symbols: Symbols

    def take(self, message: dict[str, Any], row: int, received: int | None, into: Collector) -> bool: ...


def read(content: Content, source: DataSource, decoders: Decoders) -> Iterator[Batch]:
    """Trades, quotes and books. Raises BadSource."""
    exchange: Messages | None = None
    for lines in line_blocks(content):
        exchange = exchange or _first(lines, source)
        into = Collector(source, decoders)
        texts = lines.text.split(b"\n")
        done = np.zeros(len(texts), np.bool_)
        taken = None
        if isinstance(exchange, binance.Binance) and lines.text:
            taken = binance_flat.take(exchange, lines.text, lines.first, source, decoders)
        if taken is not None:
            done[: taken.lines.size] = taken.lines
        for row in np.flatnonzero(~done).tolist():
            last = lines.last and row == len(texts) - 1
            exchange = _take(texts[row], lines.first + row, exchange, into, source, last)
        batch = into.batch()
        batch.strangers = exchange.symbols.strangers if exchange is not None else ()
        if taken is not None:
            batch.rows, batch.left_out = batch.rows + int(done.sum()), batch.left_out + taken.left_out
            together = np.concatenate((batch.events, taken.events))
            batch.events = together[np.argsort(together["row"], kind="stable")]
        yield batch


def _take(line: bytes, row: int, exchange: Messages | None, into: Collector, source: DataSource, last: bool) -> Messages | None:
    """One line; `last`: the file ends behind it, without a line end."""
    if not line.strip():
        return exchange
    into.rows += 1
    mark = into.marked()
    try:
        received, message = _parsed(line)
        exchange = exchange or _exchange(message, source)
        if exchange is None or not exchange.take(message, row, received, into):
            into.left_out += 1
    except RowFault as fault:
        into.back(mark)
        into.faults.append((row, RowFault(fault.column, fault.text, Why.TRUNCATED) if last else fault))
    return exchange


def _first(lines: WholeLines, source: DataSource) -> Messages | None:
    """The exchange, where the first line tells it."""
    try:
        return _exchange(_parsed(lines.text.lstrip().partition(b"\n")[0])[1], source)
    except RowFault:
        return None


def _parsed(line: bytes) -> tuple[int | None, dict[str, Any]]:
    try:
        text = line.decode("utf-8").strip()
        stamp, space, rest = text.partition(" ")
        received = int(stamp) if space and stamp.isascii() and stamp.isdecimal() else None
        message = _DECODER.decode(text if received is None else rest.strip())
    except (ValueError, RecursionError):
        raise RowFault("", line.decode("utf-8", "replace"), Why.UNREADABLE) from None
    if not isinstance(message, dict):
        raise RowFault("", line.decode("utf-8", "replace"), Why.UNREADABLE)
    if received is not None and received >= 2**63:
        raise RowFault("time of receipt", stamp, Why.OUT_OF_RANGE)
    return received, message


def _exchange(message: dict[str, Any], source: DataSource) -> Messages | None:
    """Who sends such messages, None where this one doesn't tell."""
    if "channel" in message:
        return hyperliquid.Hyperliquid(source)
    if "stream" in message or "lastUpdateId" in message or "e" in message or "u" in message:
        return binance.Binance(source)
    return None
