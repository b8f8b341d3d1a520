"""A column of a table, whatever it is stored as: text between separators, or an Arrow array. Each gives numbers of steps, times and short
words, tells what isn't right, and says why."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from runtime.extras import required
from runtime.records import frozen
from runtime.replay.bad_rows import Why
from runtime.replay.decoders import WORD, Bytes, Decoders, Good, packed
from runtime.replay.grids import I64, WHOLE, GridStep, beyond


class Column(Protocol):
    """Some rows of one column."""

    def units(self, step: GridStep) -> tuple[I64, Good]:
        """Numbers of steps, and which rows are good as they stand."""

    def unit(self, row: int, step: GridStep) -> int | Why:
        """One row looked at closely."""

    def words(self) -> npt.NDArray[np.uint64]:
        """Short words as `packed` gives them."""

    def text(self, row: int) -> str:
        """A row as it stands."""

    def instants(self) -> tuple[I64, Good] | None:
        """Times in ns, where the column itself says what they are; None where it holds numbers."""


@frozen
class TextColumn:
    """Fields between separators: `starts` and `lengths` [rows] in `bytes`."""

    bytes: Bytes
    starts: I64
    lengths: I64
    decoders: Decoders

    def units(self, step: GridStep) -> tuple[I64, Good]:
        return self.decoders.decimals(self.bytes, self.starts, self.lengths, step)

    def unit(self, row: int, step: GridStep) -> int | Why:
        return step.units(self.text(row))

    def words(self) -> npt.NDArray[np.uint64]:
        return self.decoders.words(self.bytes, self.starts, self.lengths)

    def text(self, row: int) -> str:
        start = int(self.starts[row])
        return self.bytes[start : start + int(self.lengths[row])].tobytes().decode("utf-8", "replace")

    def instants(self) -> tuple[I64, Good] | None:
        if not self.starts.size or self.text(0).strip()[4:5] != "-":
            return None
        return parsed_times([self.text(row) for row in range(self.starts.size)])


@frozen
class ArrowColumn:
    """An Arrow array without nulls among the rows that are `there`."""

    array: Any
    there: Good
    decoders: Decoders

    def units(self, step: GridStep) -> tuple[I64, Good]:
        kinds = required("pyarrow.types")
        kind = self.array.type
        if kinds.is_boolean(kind):
            return np.zeros(self.there.size, np.int64), np.zeros(self.there.size, np.bool_)
        if kinds.is_unsigned_integer(kind):
            wide = self.array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
            values, good = step.of_integers(wide.astype(np.int64), 0)
            return values, good & self.there & (wide < 2**63)
        if kinds.is_integer(kind):
            values, good = step.of_integers(self.array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), 0)
        elif kinds.is_floating(kind):
            floats = self.array.fill_null(float("nan")).to_numpy(zero_copy_only=False)
            values, good = step.of_floats(floats.astype(np.float64))
        elif kinds.is_decimal128(kind):
            values, good = self._decimals(step)
        else:
            column = _text_of_arrow(self.array, self.decoders)
            if column is None:
                return np.zeros(self.there.size, np.int64), np.zeros(self.there.size, np.bool_)
            values, good = column.units(step)
        return values, good & self.there

    def _decimals(self, step: GridStep) -> tuple[I64, Good]:
        """128-bit decimals whose upper halves only repeat the sign."""
        _, raw = self.array.buffers()
        offset, count = self.array.offset, len(self.array)
        halves = np.frombuffer(raw, np.int64).reshape(-1, 2)[offset : offset + count]
        low, high = halves[:, 0], halves[:, 1]
        values, good = step.of_integers(low, self.array.type.scale)
        return values, good & (high == low >> 63)

    def unit(self, row: int, step: GridStep) -> int | Why:
        import math

        value = self.array[row].as_py()
        if value is None:
            return Why.EMPTY
        if isinstance(value, float):
            if not math.isfinite(value):
                return Why.NOT_FINITE
            return Why.OFF_GRID if abs(value) < float(2**63 * step.size) else Why.OUT_OF_RANGE
        return step.units(str(value)) if not isinstance(value, (bool, bytes)) else Why.UNREADABLE

    def words(self) -> npt.NDArray[np.uint64]:
        column = _text_of_arrow(self.array, self.decoders)
        if column is not None:
            return column.words()
        return np.array([packed(self.text(row)[:WORD]) for row in range(len(self.array))], np.uint64)

    def text(self, row: int) -> str:
        value = self.array[row].as_py()
        return "" if value is None else str(value)

    def instants(self) -> tuple[I64, Good] | None:
        pyarrow, kinds = required("pyarrow"), required("pyarrow.types")
        if kinds.is_timestamp(self.array.type):
            factor = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[self.array.type.unit]
            stamps = self.array.cast(pyarrow.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            values, good = GridStep(0, 1).of_integers(stamps, 0) if factor == 1 else _times(stamps, factor)
            return values, good & self.there
        column = _text_of_arrow(self.array, self.decoders)
        return column.instants() if column is not None else None


def _times(values: I64, factor: int) -> tuple[I64, Good]:
    most = (2**63 - 1) // factor
    fits = (values >= -most) & (values <= most)
    return np.where(fits, values, 0) * factor, fits


def _text_of_arrow(array: Any, decoders: Decoders) -> TextColumn | None:
    """Strings where they lie, None for other types."""
    pyarrow, kinds = required("pyarrow"), required("pyarrow.types")
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not (kinds.is_string(array.type) or kinds.is_large_string(array.type) or kinds.is_string_view(array.type)):
        return None
    array = array.cast(pyarrow.large_string())
    _, offsets, raw = array.buffers()
    if raw is None:
        raw = pyarrow.py_buffer(b"")
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return TextColumn(np.frombuffer(raw, np.uint8), bounds[:-1].copy(), np.diff(bounds), decoders)


def parsed_times(texts: list[str]) -> tuple[I64, Good]:
    """ISO 8601 dates and times as ns since 1970 UTC; without a zone they are UTC."""
    pyarrow = required("pyarrow")
    values, good = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
    for kind in (pyarrow.timestamp("ns"), pyarrow.timestamp("ns", "UTC")):
        try:
            times = pyarrow.array(texts, pyarrow.string()).cast(kind)
        except pyarrow.ArrowInvalid:
            continue
        return times.cast(pyarrow.int64()).to_numpy(zero_copy_only=False), np.ones(len(texts), np.bool_)
    if len(texts) > 1:
        # a row among them is no time; halves find it in few steps
        half = len(texts) // 2
        for part in (slice(0, half), slice(half, None)):
            values[part], good[part] = parsed_times(texts[part])
    return values, good


def settled(column: Column, step: GridStep) -> tuple[I64, dict[int, Why]]:
    """Numbers of steps, and what is wrong with those rows that have none."""
    values, good = column.units(step)
    wrong: dict[int, Why] = {}
    if not good.all():
        if not values.flags.writeable:
            values = values.copy()
        for row in np.flatnonzero(~good).tolist():
            value = column.unit(row, step)
            if isinstance(value, Why):
                wrong[row] = value
                values[row] = 0
            else:
                values[row] = value
    return values, wrong


def prices(column: Column, tick: GridStep) -> tuple[I64, dict[int, Why]]:
    """Numbers of ticks."""
    values, wrong = settled(column, tick)
    for row in np.flatnonzero(beyond(values)).tolist():
        wrong.setdefault(row, Why.OUT_OF_RANGE)
    return values, wrong


def whole(column: Column) -> tuple[I64, dict[int, Why]]:
    """Integers."""
    return settled(column, WHOLE)
