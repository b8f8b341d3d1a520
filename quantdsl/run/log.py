"""What `log_ring(x)` noted, as text."""

from typing import Any

import numpy as np

from quantdsl.facts import Facts
from quantdsl.run.shapes import said
from runtime.replay.outputs.records import LogRow


def log_rows(records: Any, facts: Facts) -> list[LogRow]:
    """Records of the engine (`layout.OUT_LOG`) as rows: the numbers of each as its place in the program says that they are."""
    found = []
    for record in records:
        site = facts.logs[int(record["site"])]
        words = np.ascontiguousarray(record["words"]).view(np.uint8)
        found.append(LogRow(int(record["ts"]), int(record["row"]), site.line, said(site.shape, words, facts.market)))
    return found
