"""Parquet tables. Prices are whole numbers, decimals, text, or doubles that are the ones nearest to a point of the grid."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from runtime.extras import required
from runtime.replay.bad_rows import BadSource, Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.columns import ArrowColumn, Column
from runtime.replay.content import Content
from runtime.replay.decoders import Decoders
from runtime.replay.events import empty
from runtime.replay.tables import ColumnLayout, ColumnUnit, clock, layout, table

_ROWS = 1 << 15


def read(content: Content, source: DataSource, decoders: Decoders) -> Iterator[Batch]:
    """Trades or quotes. Raises BadSource."""
    pyarrow, parquet = required("pyarrow"), required("pyarrow.parquet")
    instrument = source.only
    try:
        file = parquet.ParquetFile(content.path, page_checksum_verification=True)
        names = file.schema_arrow.names
    except (pyarrow.ArrowException, OSError) as error:
        raise BadSource(f"{source.path}: the file can't be read: {_said(error)}") from None
    with file:
        of = layout(names, source)
        time, first = clock(of, source), 1
        wanted = {field: of.called(field) for field in of.fields}
        parts = file.iter_batches(_ROWS, columns=list(wanted.values()), use_threads=False)
        while True:
            try:
                part = next(parts, None)
            except (pyarrow.ArrowException, OSError) as error:
                yield Batch(empty(0), 1, [source.bad(first, "", "", Why.TRUNCATED, _said(error))])
                return
            if part is None:
                return
            yield arrow_batch(part, wanted, first, of, time, source, instrument, decoders)
            first += part.num_rows


def _said(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def arrow_batch(
    part: Any,
    wanted: dict[str, str],
    first: int,
    of: ColumnLayout,
    time: ColumnUnit,
    source: DataSource,
    instrument: int,
    decoders: Decoders,
) -> Batch:
    """Rows of an Arrow record batch. `wanted`: names of columns by field; `first`: the number of the first row."""
    columns: dict[str, Column] = {}
    for field, name in wanted.items():
        array = part.column(name)
        there = array.is_valid().to_numpy(zero_copy_only=False)
        columns[field] = ArrowColumn(array, there, decoders)
    return table(columns, np.arange(first, first + part.num_rows), of, time, source, instrument)
