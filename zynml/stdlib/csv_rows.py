"""Tables of csv files whose columns have types of their own: rows as structs by the header, as tuples or lists, and columns as a map."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    BOOL,
    CharType,
    DictType,
    ListType,
    OptionType,
    Scalar,
    StringType,
    StructType,
    TupleType,
    Type,
    UnknownType,
)
from runtime.tensor import Tensor
from runtime.values import NONE, ElementSet, RecordValue, StructValue, elements_of, is_array
from zynml.stdlib.csv_files import is_number, is_text, rows_of, whole
from zynml.stdlib.dtypes import host_scalar, limits, type_name
from zynml.stdlib.printing import literal_text, quoted, to_text

CELLS = "cells are numbers, bools, text and optionals of those"
_BOOLS = {"true": True, "false": False, "1": True, "0": False}


def is_table(target: Type) -> bool:
    """Whether csv files are read as such a type by this file; tensors are numbers, which csv_files reads."""
    match target:
        case ListType(element=StructType() | TupleType() | ListType()):
            return True
        case DictType(key=StringType(), value=ListType()):
            return True
    return False


def load_table(path: Path, target: Any, delimiter: str, header: bool | None) -> Any:
    """The table as `target.type` has it."""
    rows, lines = rows_of(path, delimiter)
    types = _row_types(target)
    by_name = isinstance(types, dict) or isinstance(target.type, DictType)
    if header is None:
        header = by_name or (bool(rows) and all(map(is_text, rows[0])) and not _all_text(types))
    names = [cell.strip() for cell in rows.pop(0)] if header and rows else None
    if names is not None:
        del lines[0]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None and by_name:
            raise LibraryFault("0807", f"it has two columns {quoted(twice)}")
    width = len(names) if names is not None else len(rows[0]) if rows else 0
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise LibraryFault("0807", f"row {line} has {len(row)} cells, and the rows before it have {width}")
    if isinstance(target.type, DictType):
        return target.fitted(_columns(rows, lines, names, width, types))
    if isinstance(types, dict):
        return target.fitted(_records(rows, lines, names, width, types))
    if isinstance(types, tuple) and rows and len(types) != width:
        raise LibraryFault("0807", f"it has {width} columns, and {target.type} needs {len(types)}")
    given = types if isinstance(types, tuple) else (types,) * width
    return target.fitted([_cells(row, line, range(width), given) for row, line in zip(rows, lines, strict=True)])


def _row_types(target: Any) -> Any:
    """Of a row: types by name, by position, or one for all cells."""
    match target.type:
        case ListType(element=StructType() as struct):
            return dict(target.fields(struct))
        case ListType(element=TupleType(elements=elements)):
            return elements
        case ListType(element=ListType(element=element)) | DictType(value=ListType(element=element)):
            return element
    raise AssertionError("no table")


def _all_text(types: Any) -> bool:
    every = types.values() if isinstance(types, dict) else types if isinstance(types, tuple) else (types,)
    return all(isinstance(kind, StringType | CharType | UnknownType) for kind in every)


def _columns(rows: list[list[str]], lines: list[int], names: list[str] | None, width: int, kind: Type) -> dict[str, list[Any]]:
    if names is None:
        names = [f"column {place + 1}" for place in range(width)]
    read = [_cells(row, line, range(width), (kind,) * width) for row, line in zip(rows, lines, strict=True)]
    return {name: [row[place] for row in read] for place, name in enumerate(names)}


def _records(
    rows: list[list[str]], lines: list[int], names: list[str] | None, width: int, types: dict[str, Type]
) -> list[dict[str, Any]]:
    if names is None:
        if rows and width != len(types):
            raise LibraryFault("0807", f"it has {width} columns, and the struct has {len(types)} fields")
        names = list(types)
    missing = next((name for name in types if name not in names), None)
    if missing is not None and not isinstance(types[missing], OptionType) and names:
        hint = did_you_mean(missing, names) or f"columns: {', '.join(names)}"
        raise LibraryFault("0807", f"it has no column {quoted(missing)}", hint)
    there = [name for name in types if name in names]
    places = [names.index(name) for name in there]
    kinds = [types[name] for name in there]
    return [dict(zip(there, _cells(row, line, places, kinds), strict=True)) for row, line in zip(rows, lines, strict=True)]


def _cells(row: list[str], line: int, places: Sequence[int], kinds: Sequence[Type]) -> list[Any]:
    made = []
    for place, kind in zip(places, kinds, strict=True):
        read = _reader(kind)
        value = read(row[place])
        if value is _NOT_READ:
            cell = row[place].strip()
            problem = "is empty" if not cell else f"is {quoted(cell[:40])}"
            raise LibraryFault("0807", f"row {line}, column {place + 1} {problem}, which is no {kind}")
        made.append(value)
    return made


_NOT_READ = object()


def _reader(kind: Type) -> Callable[[str], Any]:
    match kind:
        case StringType() | UnknownType():
            return str
        case CharType():
            return lambda cell: cell if len(cell) == 1 else _NOT_READ
        case OptionType(value=inner):
            read = _reader(inner)
            return lambda cell: read(cell) if cell.strip() else NONE
        case Scalar() if kind == BOOL:
            return lambda cell: _BOOLS.get(cell.strip().lower(), _NOT_READ)
        case Scalar(dtype=dtype) if dtype.is_int:
            low, high = limits(dtype)

            def read_int(cell: str) -> Any:
                value = whole(cell)
                return value if value is not None and low <= value <= high else _NOT_READ

            return read_int
        case Scalar():
            return lambda cell: float(cell) if is_number(cell) else _NOT_READ
    raise LibraryFault("0807", f"a cell of a csv file can't be {kind}", CELLS)


# ---- writing ---------------------------------------------------------------------------------------------------------


def table_of(value: Any, header: Any) -> list[list[str]] | None:
    """The rows of text of a list of structs (below their names), of tuples or lists that aren't only numbers, or of a map of columns; None
    for anything else, which is a tensor."""
    if isinstance(value, dict) and not isinstance(value, ElementSet):
        names = [to_text(name) for name in value]
        columns = [_listed(column, name) for name, column in zip(names, value.values(), strict=True)]
        longest = max(map(len, columns), default=0)
        short = next((name for name, column in zip(names, columns, strict=True) if len(column) != longest), None)
        if short is not None:
            raise LibraryFault("0807", f"the column {quoted(short)} has {len(value[short])} cells, and the longest has {longest}")
        return [header or names, *([_text(column[place]) for column in columns] for place in range(longest))]
    if not isinstance(value, list) or is_array(value) or not value:
        return None
    if all(isinstance(row, StructValue) for row in value):
        return [header or list(value[0].__record__.parts), *(list(map(_text, row)) for row in value)]
    plain = all(isinstance(row, tuple | list) and not isinstance(row, RecordValue) for row in value)
    if plain and (any(isinstance(row, tuple) for row in value) or any(isinstance(cell, str) for row in value for cell in row)):
        rows = [list(map(_text, row)) for row in value]
        uneven = next((place for place, row in enumerate(rows) if len(row) != len(rows[0])), None)
        if uneven is not None:
            raise LibraryFault("0807", f"row {uneven + 1} has {len(rows[uneven])} cells, and the first has {len(rows[0])}")
        return [header, *rows] if header is not None else rows
    return None


def _listed(column: Any, name: str) -> list[Any]:
    if isinstance(column, Tensor) and len(column.shape) == 1:
        return [host_scalar(number) for number in column.contents]
    if is_array(column):
        return elements_of(column)
    if not isinstance(column, list | range):
        raise LibraryFault("0203", f"a column is a list, and {quoted(name)} is {type_name(column)}")
    return list(column)


def _text(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, RecordValue) and cell.__record__.enum == "Option":
        return "" if cell == NONE else _text(cell[0])
    if isinstance(cell, list | tuple | dict | Tensor):
        raise LibraryFault("0807", f"a cell of a csv file can't be {type_name(cell)}", CELLS)
    return literal_text(cell, 0)


def write_table(path: Path, rows: list[list[str]], delimiter: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows(rows)
