"""What formats of separated fields share: lines cut into fields, and the rows that haven't got theirs."""

import numpy as np
import numpy.typing as npt

from runtime.records import evolve, frozen
from runtime.replay.bad_rows import BadRow, Why
from runtime.replay.batches import DataSource
from runtime.replay.columns import TextColumn
from runtime.replay.content import WholeLines
from runtime.replay.decoders import Decoders
from runtime.replay.grids import I64


@frozen
class Fields:
    """Lines cut into fields. `rows`: the numbers of those that have them all; `misshapen`: the others."""

    columns: tuple[TextColumn, ...]
    rows: I64
    misshapen: list[BadRow]


def fields(
    lines: WholeLines, source: DataSource, separator: str, slots: npt.NDArray[np.int32], wanted: int, decoders: Decoders
) -> Fields:
    """`slots` gives each column its place among the `wanted` ones, or -1. The last row of a file breaks off where it has no line end and
    too few fields or an empty last one, or where the packing ends inside of it."""
    cut = decoders.cut(np.frombuffer(lines.text, np.uint8), separator, slots, wanted)
    right = cut.right.copy()
    if right.size and (lines.torn or (not lines.whole and lines.text.endswith(separator.encode()))):
        right[-1] = False
    ends = np.append(cut.offsets[1:], cut.text.size)
    numbers, bad = cut.lines + lines.first, []
    for row in np.flatnonzero(~right).tolist():
        text = cut.text[cut.offsets[row] : ends[row]].tobytes().decode("utf-8", "replace").rstrip("\r\n")
        broken = lines.last and not lines.whole and row == right.size - 1
        why, detail = (Why.TRUNCATED, f"the file ends at byte {lines.offset + len(lines.text)}") if broken else (Why.FIELDS, "")
        bad.append(source.bad(int(numbers[row]), "", text, why, detail))
    columns = tuple(TextColumn(cut.text, cut.starts[slot][right], cut.lengths[slot][right], decoders) for slot in range(wanted))
    return Fields(columns, numbers[right], bad)


def without_first_line(lines: WholeLines) -> tuple[bytes, WholeLines]:
    """The first line, and those behind it."""
    head, end, rest = lines.text.partition(b"\n")
    return head, evolve(lines, text=rest, offset=lines.offset + len(head) + len(end), first=lines.first + 1)
