"""Files and tables that are given twice, under one name or two."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from runtime.replay.bad_rows import BadSource
from runtime.replay.batches import DataSource

_AT_ONCE = 1 << 20


def given_before(source: DataSource, sources: Sequence[DataSource]) -> DataSource | None:
    """The first source in front of this one that is about the same instrument and holds the same, byte by byte. Raises BadSource."""
    earlier = takewhile(lambda other: other is not source, sources)
    return next((other for other in earlier if _is_same_instrument(source, other) and _is_same(source, other)), None)


def _is_same_instrument(first: DataSource, second: DataSource) -> bool:
    return (len(first.listings) == 1 or first.symbol == second.symbol) and first.mapped.get("symbol") == second.mapped.get("symbol")


def _is_same(first_source: DataSource, second_source: DataSource) -> bool:
    if first_source.table is not None or second_source.table is not None:
        return _is_same_table(first_source.table, second_source.table)
    try:
        first, second = first_source.path.stat(), second_source.path.stat()
        if (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino):
            return True
        return first.st_size == second.st_size > 0 and _is_same_content(first_source.path, second_source.path)
    except OSError as error:
        raise BadSource(f"{error.filename}: {error.strerror or error}") from None


def _is_same_content(first_path: Path, second_path: Path) -> bool:
    """Files of one length that differ do so early, mostly."""
    with first_path.open("rb") as first, second_path.open("rb") as second:
        while block := first.read(_AT_ONCE):
            if block != second.read(_AT_ONCE):
                return False
    return True


def _is_same_table(first: Any, second: Any) -> bool:
    if first is second:
        return True
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return first.size > 0 and first.dtype == second.dtype and np.array_equal(first, second)
    return type(first) is type(second) and hasattr(first, "num_rows") and first.num_rows > 0 and bool(first.equals(second))
