"""The folder of a run's outputs, from its first event to its end, whatever end that is.

From the beginning `summary.json` says that the run isn't complete, and only the last step of a good end replaces it. A run that is
stopped, by a fault or by hand, leaves tables marked partial; one that is killed leaves the parts of its last checkpoint.

Importing this raises PackageMissing where there is no package for tables."""

from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from runtime.records import frozen
from runtime.replay.bad_rows import BadRow, CrossedRows
from runtime.replay.outputs.charts import KINDS, charts
from runtime.replay.outputs.digest import Digest
from runtime.replay.outputs.files import TEMPORARY, OutputFault, whole_file, write_text
from runtime.replay.outputs.gathered import Gathered
from runtime.replay.outputs.parts import TableFile
from runtime.replay.outputs.png import require_png, write_png
from runtime.replay.outputs.records import LAYOUTS, LogRow, Records, RunDescription
from runtime.replay.outputs.report import report
from runtime.replay.outputs.summary import Summary, Totals, finished, to_json
from runtime.replay.outputs.tables import NAMES, Tables

SUMMARY, REPORT = "summary.json", "report.html"
_OURS = tuple(f"{name}{ending}" for name in (*NAMES, "log") for ending in (".parquet", ".partial-*.parquet"))


@frozen
class OutputOptions:
    """`png`: whether the charts, which the report has, are PNG files too; `part_rows`: of a part of a table, and of a row group."""

    png: bool = False
    part_rows: int = 65_536


class Outputs:
    """To be used with `with`: leaving it without `finish` marks what there is as partial. Every method raises OutputFault where something
    can't be written; what was written before stays valid. Raises PackageMissing where there is none for PNG files that are asked for."""

    def __init__(self, folder: Path, run: RunDescription, options: OutputOptions | None = None) -> None:
        self.folder, self.run, self.options = folder, run, options or OutputOptions()
        if self.options.png:
            require_png()
        self.gathered, self._digest = Gathered(run), Digest()
        tables = Tables(run)
        makers = {name: _records_maker(tables, name) for name in LAYOUTS}
        makers["bad_rows"] = lambda chunks: tables.of_bad_rows(chain.from_iterable(chunks))
        if run.logs:
            makers["log"] = lambda chunks: tables.of_log(chain.from_iterable(chunks))
        self._files = {name: TableFile(folder, name, make, self.options.part_rows) for name, make in makers.items()}
        self._ended = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._clear()
        except OSError as error:
            raise OutputFault(folder, error.strerror or str(error)) from error
        self._mark("the run has not ended")

    def add(self, table: str, records: Records) -> None:
        """Records of one of the layouts, in the order of time."""
        if records.dtype != LAYOUTS[table]:
            raise ValueError(f"records of {table} have the layout {LAYOUTS[table]}, not {records.dtype}")
        own = records.copy()
        self._digest.add(table, own)
        self.gathered.add(table, own)
        self._files[table].add(own)

    def add_bad_rows(self, rows: Collection[BadRow] | CrossedRows) -> None:
        self._digest.add_bad_rows(rows)
        self._files["bad_rows"].add(rows)

    def add_log(self, rows: Iterable[LogRow]) -> None:
        """Of a run that says it has a log."""
        records = list(rows)
        self._digest.add_log(records)
        self._files["log"].add(records)

    def checkpoint(self) -> None:
        """What was added so far survives a kill."""
        for file in self._files.values():
            file.checkpoint()

    def finish(self, totals: Totals) -> Summary:
        """Writes the tables, the PNG files, the report and, last of all, the summary, which it gives."""
        if totals.rows_bad != self._files["bad_rows"].rows:
            raise ValueError(f"{totals.rows_bad} bad rows were counted, {self._files['bad_rows'].rows} were added")
        summary = finished(self.gathered, self._digest, totals)
        found = charts(self.gathered)
        with ExitStack() as together:
            for file in self._files.values():
                together.enter_context(file.whole(partial=False))
            for chart in found if self.options.png else ():
                write_png(chart, together.enter_context(whole_file(self.folder / f"{chart.key}.png")))
            page = together.enter_context(whole_file(self.folder / REPORT))
            page.write_text(report(self.run, summary, found), encoding="utf-8")
        write_text(self.folder / SUMMARY, to_json(summary))
        self._ended = True
        for file in self._files.values():
            file.remove_parts()
        return summary

    def stop(self, reason: str) -> None:
        """Ends a run that didn't come to its end: one valid file a table, marked partial, and a summary that says why. Where something
        can't be written, what was there before stays."""
        self._ended = True
        faults: list[OutputFault] = []
        try:
            self._mark(reason)
        except OutputFault as fault:
            faults.append(fault)
        for file in self._files.values():
            try:
                with file.whole(partial=True):
                    pass
                file.remove_parts()
            except OutputFault as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def __enter__(self) -> "Outputs":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._ended:
            return
        if error is None:
            raise RuntimeError("a run's outputs were neither finished nor stopped")
        with suppress(OutputFault):
            self.stop("stopped by hand" if isinstance(error, KeyboardInterrupt) else str(error) or type(error).__name__)

    def _mark(self, reason: str) -> None:
        counts: dict[str, Any] = {name: file.rows for name, file in self._files.items()}
        text = to_json({"complete": False, "partial": reason, "program": self.run.program, "data": list(self.run.data), "rows": counts})
        write_text(self.folder / SUMMARY, text)

    def _clear(self) -> None:
        """Takes away the outputs of an earlier run, the summary first."""
        for pattern in (SUMMARY, REPORT, *_OURS, *(f"{name}{TEMPORARY}" for name in (SUMMARY, REPORT, *_OURS))):
            for path in self.folder.glob(pattern):
                path.unlink()
        for file in self.folder.glob("*.png"):
            if file.stem.partition("-")[0] in KINDS:
                file.unlink()


def _records_maker(tables: Tables, name: str) -> Any:
    def make(chunks: list[Records]) -> Any:
        return tables.of_records(name, np.concatenate(chunks) if chunks else np.empty(0, LAYOUTS[name]))

    return make
