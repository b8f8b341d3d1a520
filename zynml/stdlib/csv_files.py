"""Tables of numbers in csv files: reading with or without a header, writing with the shortest text of each number."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import DType
from runtime.tensor import Array
from zynml.stdlib.dtypes import host_scalar, limits, numpy_of, type_name
from zynml.stdlib.printing import literal_text, quoted
from zynml.stdlib.shapes import is_int, require_memory, shape_text

_NUMERIC = re.compile(r"\s*[+-]?[.,]?\d")
"""How numbers begin, also those of other languages and of spreadsheets."""


def require_delimiter(delimiter: Any) -> str:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"':
        raise LibraryFault("0203", f"a delimiter is one character, not {literal_text(delimiter, 0)}")
    return delimiter


def require_header(header: Any) -> bool | None:
    if header is not None and not isinstance(header, bool):
        raise LibraryFault("0203", f"`header=` is a bool, not {type_name(header)}")
    return header


def read(path: Path, delimiter: str, dtype: DType, header: Any = None, columns: Any = None) -> Array:
    """The table as rank 2. A first row whose cells are all text is a header, unless `header` says what it is. `columns`: the names or
    positions of those wanted, in their order."""
    header = require_header(header)
    require_memory((path.stat().st_size,), 4)
    rows, lines = rows_of(path, delimiter)
    names: list[str] | None = None
    if rows and (header is True or (header is None and all(map(is_text, rows[0])))):
        names = [cell.strip() for cell in rows.pop(0)]
        del lines[0]
    width = len(names) if names is not None else len(rows[0]) if rows else 0
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise LibraryFault("0807", f"row {line} has {len(row)} cells, and the rows before it have {width}")
    picked = list(range(width)) if columns is None else _picked(columns, names, width)
    try:
        return _numbers(rows, lines, picked, dtype)
    except _BadCell as fault:
        may_name = header is None and names is None and fault.row == 0 and not is_number(fault.cell)
        hint = "`header=true` says that the first row names the columns" if may_name else None
        raise LibraryFault("0807", fault.message, hint) from None


class _BadCell(Exception):
    """A cell that is no number of the wanted type; `row` counts from 0, without a header."""

    def __init__(self, row: int, cell: str, message: str) -> None:
        super().__init__(message)
        self.row, self.cell, self.message = row, cell, message


def rows_of(path: Path, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """The rows that aren't blank, and the lines on which they end."""
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, delimiter=delimiter, strict=True)
            for row in reader:
                if row and (len(row) > 1 or row[0].strip()):
                    rows.append(row)
                    lines.append(reader.line_num)
    except UnicodeDecodeError:
        raise LibraryFault("0807", "this is no text in UTF-8") from None
    except csv.Error as error:
        raise LibraryFault("0807", f"row {lines[-1] + 1 if lines else 1} is no csv: {error}") from None
    if any("\0" in cell for row in rows[:1] for cell in row):
        raise LibraryFault("0807", "this is no text in UTF-8")
    return rows, lines


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def is_text(cell: str) -> bool:
    """Whether a cell may name a column: it has a letter and doesn't begin as a number does. `0x1F`, `1_000`, `nan`, `-` and nothing are
    data that can't be read, which must not vanish as a header."""
    return any(map(str.isalpha, cell)) and _NUMERIC.match(cell) is None and not is_number(cell)


def _picked(columns: Any, names: list[str] | None, width: int) -> list[int]:
    wanted = columns if isinstance(columns, list | tuple | range) else [columns]
    out = []
    for column in wanted:
        if isinstance(column, str):
            if names is None:
                raise LibraryFault("0807", f"it has no header, so there is no column {quoted(column)}")
            if column not in names:
                raise LibraryFault("0807", f"it has no column {quoted(column)}", f"columns: {', '.join(names)}")
            out.append(names.index(column))
        elif is_int(column):
            if not -width <= column < width:
                raise LibraryFault("0807", f"it has no column {column}: there are {width}")
            out.append(int(column) % width)
        else:
            raise LibraryFault("0203", f"columns are names or positions, not {type_name(column)}")
    return out


def _numbers(rows: list[list[str]], lines: list[int], picked: list[int], dtype: DType) -> Array:
    every = picked == list(range(len(rows[0]))) if rows else True
    if dtype.is_float:
        wide = np.empty((len(rows), len(picked)), dtype=np.float64)
        for index, row in enumerate(rows):
            cells = row if every else [row[column] for column in picked]
            try:
                wide[index] = [float(cell) for cell in cells]
                unusual = any("_" in cell for cell in cells)
            except ValueError:
                unusual = True
            if unusual:
                raise _bad_cell(cells, picked, index, lines[index], is_number)
        with np.errstate(all="ignore"):
            return wide.astype(numpy_of(dtype))
    out = np.empty((len(rows), len(picked)), dtype=numpy_of(dtype))
    low, high = limits(dtype)
    for index, row in enumerate(rows):
        cells = [row[column] for column in picked]
        values = [whole(cell) for cell in cells]
        if any(value is None or not low <= value <= high for value in values):
            raise _bad_cell(cells, picked, index, lines[index], lambda cell: _fits(cell, low, high), dtype)
        out[index] = values
    return out


def whole(cell: str) -> int | None:
    """The int that a cell spells, also as `3.0`."""
    text = cell.strip()
    if not is_number(text):
        return None
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return int(number) if number.is_integer() else None


def _fits(cell: str, low: int, high: int) -> bool:
    value = whole(cell)
    return value is not None and low <= value <= high


def _bad_cell(cells: list[str], picked: list[int], row: int, line: int, good: Any, dtype: DType | None = None) -> _BadCell:
    column, cell = next((column, cell) for column, cell in zip(picked, cells, strict=True) if not good(cell))
    problem = "is empty" if not cell.strip() else f"is {quoted(cell.strip()[:40])}, which is no {dtype.value if dtype else 'number'}"
    return _BadCell(row, cell, f"row {line}, column {column + 1} {problem}")


def write(path: Path, array: Array, delimiter: str, header: Any = None) -> None:
    """The numbers of a tensor of rank 1 (a column) or 2, each as short as it reads back."""
    if array.ndim not in (1, 2):
        raise LibraryFault("0301", f"a csv file holds rank 1 or 2, not a tensor of shape {shape_text(array.shape)}")
    table = array[:, None] if array.ndim == 1 else array
    if header is not None and (not isinstance(header, list) or len(header) != table.shape[1]):
        raise LibraryFault("0203", f"the header has a name for each of the {table.shape[1]} columns")
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        if header is not None:
            writer.writerow(header)
        for row in table:
            writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> str:
    scalar = host_scalar(value)
    return ("1" if scalar else "0") if isinstance(scalar, bool) else literal_text(scalar, 0)
