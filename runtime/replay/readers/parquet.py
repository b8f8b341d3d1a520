"""Parquet tables. Prices are whole numbers, decimals, text, or doubles that are the ones nearest to a point of the grid."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from runtime.extras import required
from runtime.replay.bad_rows import BadSource
from runtime.replay.batches import Batch, Source
from runtime.replay.columns import ArrowColumn, Column
from runtime.replay.content import Content
from runtime.replay.tables import Clock, Layout, clock, layout, table

_ROWS = 1 << 15


def read(content: Content, source: Source) -> Iterator[Batch]:
    """Trades or quotes. Raises BadSource."""
    pyarrow, parquet = required("pyarrow"), required("pyarrow.parquet")
    instrument = source.only
    try:
        with parquet.ParquetFile(content.path) as file:
            of = layout(file.schema_arrow.names, source)
            time, first = clock(of, source), 1
            wanted = {field: of.called(field) for field in of.fields}
            for part in file.iter_batches(_ROWS, columns=list(wanted.values()), use_threads=False):
                yield arrow_batch(part, wanted, first, of, time, source, instrument)
                first += part.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise BadSource(f"{source.path}: the file can't be read: {str(error).splitlines()[0]}") from None


def arrow_batch(part: Any, wanted: dict[str, str], first: int, of: Layout, time: Clock, source: Source, instrument: int) -> Batch:
    """Rows of an Arrow record batch. `wanted`: names of columns by field; `first`: the number of the first row."""
    columns: dict[str, Column] = {}
    for field, name in wanted.items():
        array = part.column(name)
        there = array.is_valid().to_numpy(zero_copy_only=False)
        columns[field] = ArrowColumn(array, there)
    return table(columns, np.arange(first, first + part.num_rows), of, time, source, instrument)
