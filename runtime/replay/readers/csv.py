"""CSV: lines of fields behind a header. Decimals are read as they stand, without floats in between."""

import csv
from collections.abc import Iterator

import numpy as np

from runtime.replay.bad_rows import BadSource
from runtime.replay.batches import Batch, DataSource
from runtime.replay.columns import Column
from runtime.replay.content import EMPTY, Content, WholeLines, line_blocks
from runtime.replay.decoders import Decoders
from runtime.replay.readers.fields import fields, without_first_line
from runtime.replay.tables import ColumnLayout, ColumnUnit, clock, layout, table

_SEPARATORS = ",;\t|"


def read(content: Content, source: DataSource, decoders: Decoders) -> Iterator[Batch]:
    """Trades or quotes. Raises BadSource."""
    instrument, form = source.only, None
    for lines in line_blocks(content):
        if form is None:
            if content.broken not in (None, EMPTY) and b"\n" not in lines.text:
                return  # the header itself breaks off
            head, lines = without_first_line(lines)
            form = _Form.of(head, source)
        yield form.batch(lines, source, instrument, decoders)


class _Form:
    """What a header says: separator and columns."""

    def __init__(self, separator: str, of: ColumnLayout, time: ColumnUnit, columns: int) -> None:
        self.separator, self.layout, self.time = separator, of, time
        self.slots = np.full(columns, -1, np.int32)
        for slot, column in enumerate(of.fields.values()):
            self.slots[column] = slot

    @classmethod
    def of(cls, line: bytes, source: DataSource) -> "_Form":
        text = line.decode("utf-8-sig", "replace").rstrip("\r")
        if not text.strip():
            raise BadSource(f"{source.path}: the file is empty" if not text else f"{source.path}: the first line is no header")
        separator = max(_SEPARATORS, key=text.count)
        if "\r" in text:
            raise BadSource(f"{source.path}: its lines end in CR alone, and are read where they end in LF or CR LF")
        try:
            names = next(csv.reader([text], delimiter=separator))
        except csv.Error as error:
            raise BadSource(f"{source.path}: the first line is no header: {error}") from None
        of = layout(names, source)
        return cls(separator, of, clock(of, source), len(names))

    def batch(self, lines: WholeLines, source: DataSource, instrument: int, decoders: Decoders) -> Batch:
        names = self.layout.fields
        cut = fields(lines, source, self.separator, self.slots, len(names), decoders)
        columns: dict[str, Column] = dict(zip(names, cut.columns, strict=True))
        batch = table(columns, cut.rows, self.layout, self.time, source, instrument)
        batch.rows += len(cut.misshapen)
        batch.bad += cut.misshapen
        return batch
