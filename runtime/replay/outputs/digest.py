"""One hash of all that a run decides: the same for the same program, data and seed, on any machine and with any version of what writes
files. Times that were measured, names of files and facts about the machine don't count."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from runtime.replay.bad_rows import BadRow, CrossedRows
from runtime.replay.outputs.records import LAYOUTS, LogRow, Records

LEFT_OUT = ("latency",)


class Digest:
    """Takes records as they come; in what pieces makes no difference."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], Any] = {
            (table, name): hashlib.sha256()
            for table, layout in LAYOUTS.items()
            if table not in LEFT_OUT
            for name in layout.names or ()
            if name != "unused"
        }
        self._bad_rows, self._crossed, self._log = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
        self._has_crossed = False

    def add(self, table: str, records: Records) -> None:
        for (of, name), column in self._columns.items():
            if of == table:
                column.update(np.ascontiguousarray(records[name]).tobytes())

    def add_bad_rows(self, rows: Iterable[BadRow]) -> None:
        if isinstance(rows, CrossedRows):
            self._crossed.update(rows.content())
            self._has_crossed |= len(rows) > 0
            return
        for row in rows:
            _take(self._bad_rows, (str(row.stream), str(row.row), row.column, row.text, row.why.name, row.detail))

    def add_log(self, rows: Iterable[LogRow]) -> None:
        for row in rows:
            _take(self._log, (str(row.ts), str(row.row), str(row.line), row.text))

    def hex(self, facts: str) -> str:
        """The hash of everything so far together with a text of plain facts."""
        whole = hashlib.sha256()
        for (table, name), column in self._columns.items():
            whole.update(f"{table}.{name}:{column.hexdigest()}\n".encode())
        whole.update(f"bad_rows:{self._bad_rows.hexdigest()}\nlog:{self._log.hexdigest()}\n{facts}".encode())
        if self._has_crossed:
            whole.update(f"\ncrossed:{self._crossed.hexdigest()}".encode())
        return whole.hexdigest()


def _take(into: Any, texts: Iterable[str]) -> None:
    into.update(b"".join(map(_framed, texts)))


@lru_cache(1 << 10)
def _framed(text: str) -> bytes:
    """The text behind its length; most texts of a table are few, again and again."""
    data = text.encode()
    return len(data).to_bytes(8, "little") + data
