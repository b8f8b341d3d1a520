"""Sorted tensors, their orders and their largest elements, to the bit: stable, NaN last, by whichever way is taken."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from zynml.stdlib import ordering, written

PROGRAM = zynml.compile("""
def sorted_up(x, axis) { x.sort(axis) }
def sorted_down(x, axis) { x.sort(axis, descending=true) }
def order_up(x, axis) { x.argsort(axis) }
def order_down(x, axis) { x.argsort(axis, descending=true) }
def largest(x, count, axis) { x.topk(count, axis) }
""")
DTYPES = [np.bool_, np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
rng = np.random.default_rng(5)


def array(dtype: Any, shape: tuple[int, ...]) -> Any:
    """Elements of which many are equal, both ends of ints, and all that is special of floats."""
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return rng.choice(np.array([limits.min, limits.max, 0, 1, 2, 3, limits.max - 1, limits.min + 1], dtype), shape)
    if dtype is np.bool_:
        return rng.random(shape) < 0.5
    special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-7, -1e-7]
    values = rng.choice(np.array(special), shape).astype(dtype)
    nans = np.isnan(values) & (rng.random(shape) < 0.5)
    bits = values.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[values.itemsize])
    bits[nans] ^= np.array(1, bits.dtype)  # NaNs that can be told apart
    return values


def order(values: Any, axis: int, descending: bool) -> Any:
    def of_line(line: Any) -> list[int]:
        def key(place: int) -> tuple[bool, Any]:
            value = line[place].item() if not isinstance(line[place], ml_dtypes.bfloat16) else float(line[place])
            missing = value != value
            return (missing, 0 if missing else -value if descending else value)

        return sorted(range(len(line)), key=key)

    lines = np.moveaxis(values, axis, -1)
    places = np.array([of_line(line) for line in lines.reshape(-1, lines.shape[-1])], np.int64).reshape(lines.shape)
    return np.moveaxis(places, -1, axis)


def bits(values: Any) -> tuple[Any, ...]:
    values = np.ascontiguousarray(values)
    return values.dtype, values.shape, values.tobytes()


@pytest.fixture(params=["numpy", "kernels"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "KERNEL_FROM", 1 if request.param == "kernels" else 1 << 40)
    monkeypatch.setattr(ordering, "_LONG", 2)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize(("shape", "axis"), [((40,), 0), ((3, 33), -1), ((17, 2, 3), 0)])
def test_stable_with_nan_last(dtype: Any, shape: tuple[int, ...], axis: int) -> None:
    values = array(dtype, shape)
    if dtype in (np.float32, np.int64):
        values = np.repeat(values, 2, -1)[..., ::2]  # elements with gaps between them
    for descending, way in ((False, "up"), (True, "down")):
        places = order(values, axis, descending)
        assert bits(getattr(PROGRAM, f"order_{way}")(values, axis)) == bits(places)
        assert bits(getattr(PROGRAM, f"sorted_{way}")(values, axis)) == bits(np.take_along_axis(values, places, axis))
    for count in {0, 1, 2, 5, shape[axis]}:
        first = np.take(order(values, axis, True), range(count), axis)
        found, where = PROGRAM.largest(values, count, axis)
        assert bits(where) == bits(first)
        assert bits(found) == bits(np.take_along_axis(values, first, axis))


@pytest.mark.parametrize("count", [1, 3, 12])
def test_the_first_of_equals_are_picked(count: int) -> None:
    for values in (np.zeros(100, np.float32), np.arange(100, dtype=np.int32) // 7, np.r_[np.full(90, np.nan), np.arange(10.0)]):
        found, where = PROGRAM.largest(values, count, 0)
        places = order(values, 0, True)[:count]
        assert bits(where) == bits(places) and bits(found) == bits(values[places])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("shape", [(0,), (1,), (0, 3), (3, 0), (2, 1)])
def test_nothing_to_sort(shape: tuple[int, ...]) -> None:
    values = np.zeros(shape, np.float32)
    assert bits(PROGRAM.sorted_down(values, -1)) == bits(values)
    assert bits(PROGRAM.order_down(values, -1)) == bits(np.zeros(shape, np.int64))
    found, where = PROGRAM.largest(values, 0, -1)
    assert bits(found) == bits(values[..., :0]) and bits(where) == bits(np.zeros((*shape[:-1], 0), np.int64))
