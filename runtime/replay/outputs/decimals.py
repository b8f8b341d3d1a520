"""Whole numbers of steps as exact decimals, for people: as columns of Arrow, and one by one."""

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.extras import required
from runtime.records import frozen
from runtime.replay.grids import GridStep
from runtime.replay.outputs.records import I64

_EXACT = Context(prec=200)
_WORDS = {128: 2, 256: 4}


@frozen
class Scale:
    """Steps of several instruments brought to as many digits as the finest needs: a unit of instrument i is `factors[i]` x 10^-`digits`."""

    digits: int
    factors: tuple[int, ...]

    @classmethod
    def of(cls, steps: Sequence[GridStep]) -> "Scale":
        digits = max((step.digits for step in steps), default=0)
        return cls(digits, tuple(step.divisor * 10 ** (digits - step.digits) for step in steps))

    @property
    def type(self) -> Any:
        pa = required("pyarrow")
        return pa.decimal128(38, self.digits) if self.digits <= 18 else pa.decimal256(76, self.digits)

    def column(self, units: I64, instruments: npt.NDArray[np.uint32], there: npt.NDArray[np.bool_] | None = None) -> Any:
        """The decimals of so many units, null where they aren't there."""
        pa = required("pyarrow")
        bits = 128 if self.digits <= 18 else 256
        most = max(self.factors, default=1)
        reach = max(abs(int(units.min())), abs(int(units.max()))) if units.size else 0
        if reach * most < 2**63:
            values = units * np.array(self.factors or (1,), np.int64)[instruments]
            words = np.empty((values.size, _WORDS[bits]), "<i8")
            words[:, 0] = values
            words[:, 1:] = (values >> 63)[:, None]
            data = words.tobytes()
        else:
            numbers = (int(unit) * self.factors[i] for unit, i in zip(units, instruments, strict=True))
            data = b"".join(number.to_bytes(bits // 8, "little", signed=True) for number in numbers)
        valid = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little").tobytes())
        return pa.Array.from_buffers(self.type, units.size, [valid, pa.py_buffer(data)])

    def value(self, units: int, instrument: int = 0) -> Decimal:
        return exact(units * self.factors[instrument], self.digits)


def exact(units: int, digits: int) -> Decimal:
    """`units` x 10^-`digits`, with all its digits."""
    return Decimal(units).scaleb(-digits, _EXACT)
