"""What formats of separated fields share: rows that haven't got theirs."""

import numpy as np

from runtime.replay.bad_rows import BadRow, Why
from runtime.replay.batches import Source
from runtime.replay.content import Lines
from runtime.replay.native.text import Cut


def misshapen(cut: Cut, lines: Lines, source: Source, first: int | None = None) -> list[BadRow]:
    """Rows with too few or too many fields; the last row of a file that has no line end breaks off. `first`: the line that the cut starts
    with, where it isn't that of `lines`."""
    found = []
    ends = np.append(cut.offsets[1:], cut.text.size)
    for place in np.flatnonzero(~cut.right).tolist():
        text = cut.text[cut.offsets[place] : ends[place]].tobytes().decode("utf-8", "replace").rstrip("\r\n")
        broken = lines.last and not lines.whole and place == cut.right.size - 1
        why, detail = (Why.TRUNCATED, f"the file ends at byte {lines.offset + len(lines.text)}") if broken else (Why.FIELDS, "")
        row = int(cut.lines[place]) + (lines.first if first is None else first)
        found.append(source.bad(row, "", text, why, detail))
    return found
