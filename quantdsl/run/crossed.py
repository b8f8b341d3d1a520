"""Rows whose update the engine refused, since after it bids would have met asks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from runtime.records import define
from runtime.replay.bad_rows import CrossedRows
from runtime.replay.batches import DataSource

BINARY = (".itch50", ".itch50.gz", ".dbn", ".dbn.zst")
"""Ends of names of files whose rows are counted in bytes."""


@define
class Crossed:
    """`count`: rows so far. A row whose updates are refused more than once is listed once."""

    sources: Sequence[DataSource]
    count: int = 0
    last: tuple[int, int] = (-1, -1)

    def rows(self, records: Any) -> CrossedRows:
        """Records of the engine (`layout.OUT_CROSSED`) as rows."""
        streams, rows = records["stream"].astype(np.int64), records["row"].astype(np.int64)
        before = [np.concatenate(([first], some[:-1])) for first, some in zip(self.last, (streams, rows), strict=True)]
        fresh = (streams != before[0]) | (rows != before[1])
        self.last = int(streams[-1]), int(rows[-1])
        self.count += int(fresh.sum())
        files = [(source.name, source.stream, _is_binary(source)) for source in self.sources]
        return CrossedRows(files, streams[fresh], rows[fresh])


def _is_binary(source: DataSource) -> bool:
    return source.table is None and source.path.name.lower().endswith(BINARY)
