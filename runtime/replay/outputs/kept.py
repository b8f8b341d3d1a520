"""The outputs of a run that stay in memory: for Python, and for commands that only print the summary."""

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any

import numpy as np
from attrs import fields

from runtime.records import define, field
from runtime.replay.bad_rows import BadRow, CrossedRows
from runtime.replay.outputs.digest import Digest
from runtime.replay.outputs.gathered import Gathered
from runtime.replay.outputs.records import LAYOUTS, LogRow, Records, RunDescription
from runtime.replay.outputs.summary import Summary, Totals, finished


@define
class KeptRecords:
    """Takes what `folder.Outputs` takes. `tables`: whether the records stay, too, or only what the summary needs of them."""

    run: RunDescription
    tables: bool = True
    records: dict[str, Records] = field(init=False, factory=dict)
    _bad_rows: list[Iterable[BadRow]] = field(init=False, factory=list)
    log: list[LogRow] = field(init=False, factory=list)
    partial: str | None = field(init=False, default=None)
    """Why the run didn't come to its end."""
    gathered: Gathered = field(init=False)
    _digest: Digest = field(init=False, factory=Digest)
    _chunks: dict[str, list[Records]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.gathered = Gathered(self.run)
        self._chunks = {name: [] for name in LAYOUTS}

    def __getstate__(self) -> dict[str, Any]:
        """All but the running hash, whose result stands in the summary."""
        return {attribute.name: getattr(self, attribute.name) for attribute in fields(KeptRecords) if attribute.name != "_digest"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in {**state, "_digest": Digest()}.items():
            setattr(self, name, value)

    def add(self, table: str, records: Records) -> None:
        own = records.copy()
        self._digest.add(table, own)
        self.gathered.add(table, own)
        if self.tables:
            self._chunks[table].append(own)

    def add_bad_rows(self, rows: Collection[BadRow] | CrossedRows) -> None:
        self._digest.add_bad_rows(rows)
        if len(rows):
            self._bad_rows.append(rows)

    @property
    def bad_rows(self) -> list[BadRow]:
        return list(chain.from_iterable(self._bad_rows))

    def add_log(self, rows: Iterable[LogRow]) -> None:
        records = list(rows)
        self._digest.add_log(records)
        if self.tables:
            self.log += records

    def checkpoint(self) -> None:
        """Nothing outlives the process."""

    def finish(self, totals: Totals) -> Summary:
        self._join()
        return finished(self.gathered, self._digest, totals)

    def stop(self, reason: str) -> None:
        self.partial = reason
        self._join()

    def table(self, name: str) -> Any:
        """One of the tables as Arrow has it. Raises PackageMissing."""
        from runtime.replay.outputs.tables import Tables

        tables = Tables(self.run)
        match name:
            case "bad_rows":
                return tables.of_bad_rows(self.bad_rows)
            case "log":
                return tables.of_log(self.log)
        return tables.of_records(name, self.records[name])

    def _join(self) -> None:
        self.records = {name: np.concatenate(chunks) if chunks else np.empty(0, LAYOUTS[name]) for name, chunks in self._chunks.items()}
