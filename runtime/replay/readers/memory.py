"""Tables and events that are in memory already: Arrow tables, arrays by column, structured arrays, or arrays of EVENT."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from runtime.extras import required
from runtime.replay.bad_rows import BadSource
from runtime.replay.batches import NOBODY, Batch, DataSource
from runtime.replay.content import Content
from runtime.replay.decoders import Decoders
from runtime.replay.events import EVENT, OF_BOOK
from runtime.replay.readers.event_checks import check_events
from runtime.replay.readers.parquet import arrow_batch
from runtime.replay.tables import clock, layout

_ROWS = 1 << 15


def read(content: Content, source: DataSource, decoders: Decoders) -> Iterator[Batch]:
    """The rows of `source.table`. Raises BadSource."""
    table = source.table
    if isinstance(table, np.ndarray) and table.dtype == EVENT:
        yield from _events(table, source)
        return
    instrument, table = source.only, _as_arrow(table, source)
    of = layout(table.schema.names, source)
    time, first = clock(of, source), 1
    wanted = {field: of.called(field) for field in of.fields}
    for part in table.select(list(wanted.values())).to_batches(_ROWS):
        yield arrow_batch(part, wanted, first, of, time, source, instrument, decoders)
        first += part.num_rows


def _events(table: Any, source: DataSource) -> Iterator[Batch]:
    """Events as they are, numbered from 1; each is checked as a row of a file is."""
    instruments = table["instrument"][table["instrument"] != NOBODY]
    if instruments.size and int(instruments.max()) >= len(source.listings):
        raise BadSource(f"{source.name}: events of instrument {int(instruments.max())}, of {len(source.listings)}")
    book = bool(OF_BOOK[table["kind"]].any())
    for first in range(0, table.size, _ROWS):
        part = table[first : first + _ROWS].copy()
        part["stream"], part["row"] = source.stream, np.arange(first + 1, first + 1 + part.size)
        batch = Batch(part, part.size, book=book)
        check_events(batch, source)
        yield batch


def _as_arrow(table: Any, source: DataSource) -> Any:
    pyarrow = required("pyarrow")
    if isinstance(table, pyarrow.Table):
        return table
    if isinstance(table, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([table])
    if isinstance(table, np.ndarray) and table.dtype.names:
        table = {name: table[name] for name in table.dtype.names}
    if not isinstance(table, Mapping):
        hint = "give an Arrow table, arrays by column name, or a structured array"
        raise BadSource(f"{source.name}: {type(table).__name__} is no table", hint)
    try:
        columns = {name: np.ascontiguousarray(one) if isinstance(one, np.ndarray) else one for name, one in table.items()}
        return pyarrow.table(columns)
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise BadSource(f"{source.name}: the columns are no table: {str(error).splitlines()[0]}") from None
