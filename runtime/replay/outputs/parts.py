"""One table on its way to disk. While the run lasts it grows as valid Parquet files, `fills.partial-0001.parquet` and so on, which are all
that a killed run leaves; a run that ends makes one `fills.parquet` of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runtime.extras import required
from runtime.replay.outputs.files import OutputFault, whole_file

pa, parquet = required("pyarrow"), required("pyarrow.parquet")

MARK = b"partial"
"""In the metadata of each file: `true` or `false`."""


class TableFile:
    """`make` turns what was added, a list of chunks, into one Arrow table. `part_rows`: of a row group, and of a part that won't be written
    again."""

    def __init__(self, folder: Path, name: str, make: Callable[[list[Any]], Any], part_rows: int) -> None:
        self.folder, self.name, self._make, self._part_rows = folder, name, make, part_rows
        self.rows = 0
        self._chunks: list[Any] = []
        self._waiting = 0
        self._sealed = 0
        self._written = 0
        """Rows of the last part, which is written anew until it is full."""

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.parquet"

    def part(self, number: int) -> Path:
        return self.folder / f"{self.name}.partial-{number:04d}.parquet"

    def add(self, chunk: Any) -> None:
        count = len(chunk)
        if count:
            self._chunks.append(chunk)
            self._waiting += count
            self.rows += count
        if self._waiting >= self._part_rows:
            self._write_part()
            self._chunks, self._waiting, self._written = [], 0, 0
            self._sealed += 1

    def checkpoint(self) -> None:
        """From here on a killed run leaves what was added so far."""
        if self._waiting > self._written:
            self._write_part()

    @contextmanager
    def whole(self, *, partial: bool) -> Iterator[None]:
        """Writes the one file; it stands in its place once the context is left. `partial`: the run didn't come to its end."""
        table = _marked(self._make(self._chunks), partial)
        with whole_file(self.path) as temporary:
            try:
                with parquet.ParquetWriter(temporary, table.schema, compression="zstd") as writer:
                    for number in range(self._sealed):
                        part = parquet.read_table(self.part(number + 1), use_threads=False)
                        writer.write_table(_marked(part, partial), row_group_size=self._part_rows)
                    writer.write_table(table, row_group_size=self._part_rows)
            except pa.ArrowException as error:
                raise OutputFault(self.path, str(error)) from error
            yield

    def remove_parts(self) -> None:
        """Once the one file is there."""
        for part in self.folder.glob(f"{self.name}.partial-*.parquet"):
            part.unlink()

    def _write_part(self) -> None:
        table = _marked(self._make(self._chunks), partial=True)
        with whole_file(self.part(self._sealed + 1)) as temporary:
            parquet.write_table(table, temporary, compression="snappy")
        self._written = self._waiting


def _marked(table: Any, partial: bool) -> Any:
    return table.replace_schema_metadata({**(table.schema.metadata or {}), MARK: b"true" if partial else b"false"})
