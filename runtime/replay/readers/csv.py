"""CSV: lines of fields behind a header. Decimals are read as they stand, without floats in between."""

import csv
from collections.abc import Iterator

import numpy as np

from runtime.replay.bad_rows import BadSource
from runtime.replay.batches import Batch, Source
from runtime.replay.columns import Column, TextColumn
from runtime.replay.content import Content, Lines, line_blocks
from runtime.replay.native import text as native
from runtime.replay.readers.fields import misshapen
from runtime.replay.tables import Clock, Layout, clock, layout, table

_SEPARATORS = ",;\t|"


def read(content: Content, source: Source) -> Iterator[Batch]:
    """Trades or quotes. Raises BadSource."""
    instrument, form = source.only, None
    for lines in line_blocks(content):
        text, first = lines.text, lines.first
        if form is None:
            head, _, text = text.partition(b"\n")
            form, first = _Form.of(head, source), first + 1
        yield from form.batches(lines, text, first, source, instrument, content)
    if form is None:
        raise BadSource(f"{source.path}: the file is empty")


class _Form:
    """What a header says: separator and columns."""

    def __init__(self, separator: str, of: Layout, time: Clock, columns: int) -> None:
        self.separator, self.layout, self.time = separator, of, time
        self.slots = np.full(columns, -1, np.int32)
        for slot, place in enumerate(of.fields.values()):
            self.slots[place] = slot

    @classmethod
    def of(cls, line: bytes, source: Source) -> "_Form":
        text = line.decode("utf-8-sig", "replace").rstrip("\r")
        if not text.strip():
            raise BadSource(f"{source.path}: the file is empty" if not text else f"{source.path}: the first line is no header")
        separator = max(_SEPARATORS, key=text.count)
        names = next(csv.reader([text], delimiter=separator))
        of = layout(names, source)
        return cls(separator, of, clock(of, source), len(names))

    def batches(self, lines: Lines, text: bytes, first: int, source: Source, instrument: int, content: Content) -> Iterator[Batch]:
        cut = native.cut(np.frombuffer(text, np.uint8), self.separator, self.slots, len(self.layout.fields))
        rows = cut.lines + first
        good = cut.right
        starts, lengths = cut.starts, cut.lengths
        if not good.all():
            starts, lengths = starts[:, good], lengths[:, good]
        columns: dict[str, Column] = {
            field: TextColumn(cut.text, starts[slot], lengths[slot]) for slot, field in enumerate(self.layout.fields)
        }
        batch = table(columns, rows[good], self.layout, self.time, source, instrument)
        batch.rows = rows.size
        batch.bad += misshapen(cut, lines, source, first)
        yield batch
