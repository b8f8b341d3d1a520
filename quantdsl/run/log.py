"""What `log_ring(x)` noted, as text."""

from typing import Any

from quantdsl.metadata import StrategyMetadata
from quantdsl.run.shapes import said
from runtime.replay.outputs.records import LogRow


def log_rows(records: Any, metadata: StrategyMetadata) -> list[LogRow]:
    """Records of the engine (`layout.OUT_LOG`) as rows: the numbers of each as its place in the program says that they are."""
    data, size, first = records.tobytes(), records.dtype.itemsize, records.dtype.fields["words"][1]
    columns = zip(records["ts"].tolist(), records["row"].tolist(), records["site"].tolist(), strict=True)
    rows = []
    for index, (ts, row, number) in enumerate(columns):
        site = metadata.logs[number]
        rows.append(LogRow(ts=ts, row=row, line=site.line, text=said(site.shape, data, metadata.market, index * size + first)))
    return rows
