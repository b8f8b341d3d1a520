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


def _is_same_instrument(one: DataSource, two: DataSource) -> bool:
    return (len(one.listings) == 1 or one.symbol == two.symbol) and one.mapped.get("symbol") == two.mapped.get("symbol")


def _is_same(one: DataSource, two: DataSource) -> bool:
    if one.table is not None or two.table is not None:
        return _is_same_table(one.table, two.table)
    try:
        first, second = one.path.stat(), two.path.stat()
        if (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino):
            return True
        return first.st_size == second.st_size > 0 and _is_same_content(one.path, two.path)
    except OSError as error:
        raise BadSource(f"{error.filename}: {error.strerror or error}") from None


def _is_same_content(one: Path, two: Path) -> bool:
    """Files of one length that differ do so early, mostly."""
    with one.open("rb") as first, two.open("rb") as second:
        while block := first.read(_AT_ONCE):
            if block != second.read(_AT_ONCE):
                return False
    return True


def _is_same_table(one: Any, two: Any) -> bool:
    if one is two:
        return True
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.size > 0 and one.dtype == two.dtype and np.array_equal(one, two)
    return type(one) is type(two) and hasattr(one, "num_rows") and one.num_rows > 0 and bool(one.equals(two))
