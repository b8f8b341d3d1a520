"""What `log_ring(x)` noted, as text."""

from typing import Any

from quantdsl.facts import StrategyFacts
from quantdsl.run.shapes import said
from runtime.replay.outputs.records import LogRow


def log_rows(records: Any, facts: StrategyFacts) -> list[LogRow]:
    """Records of the engine (`layout.OUT_LOG`) as rows: the numbers of each as its place in the program says that they are."""
    data, size, first = records.tobytes(), records.dtype.itemsize, records.dtype.fields["words"][1]
    numbers = zip(*(records[name].tolist() for name in ("ts", "row", "site")), strict=True)
    found = []
    for place, (ts, row, number) in enumerate(numbers):
        site = facts.logs[number]
        found.append(LogRow(ts, row, site.line, said(site.shape, data, facts.market, place * size + first)))
    return found
