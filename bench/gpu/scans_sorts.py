"""Running sums and sorts against CUB, as PyTorch and CuPy call it."""

from collections.abc import Iterator
from typing import Any

import torch

from bench.gpu import peers, sources
from bench.gpu.harness import Arrays, Row
from bench.gpu.limits import of_bytes, of_keys


def rows(scale: int = 1) -> Iterator[Row]:
    count = (1 << 28) // scale**2
    inputs = lambda arrays: [arrays.normal(count, dtype=torch.float32)]  # noqa: E731
    calls = {"PyTorch": lambda x: torch.cumsum(x, 0), "CuPy": peers.by_cupy("cumsum")}
    exact = lambda x: torch.cumsum(x.double(), 0)  # noqa: E731
    yield Row(f"scan {count} f32", sources.SCAN, inputs, calls, of_bytes(8 * count), 1e-4, exact, 1.15, quick=True)
    for axis, name in enumerate(("columns", "rows")):
        yield scan_along(axis, name, 4096 // scale)
    for few in ((1 << 24) // scale, (1 << 26) // scale):
        yield sort(few, "i32", torch.int32, quick=few == (1 << 26) // scale)
    yield sort((1 << 26) // scale, "f32", torch.float32)
    yield sort((1 << 25) // scale, "i64", torch.int64)
    yield sort((1 << 26) // scale, "i16", torch.int16)
    yield pairs((1 << 26) // scale)
    for columns in (128, 1024, 4096):
        yield sorted_rows((1 << 22) // columns // scale, columns)


def _keys(count: int, dtype: Any) -> Any:
    def inputs(arrays: Arrays) -> list[Any]:
        if not dtype.is_floating_point:
            limits = torch.iinfo(dtype)
            return [arrays.whole(limits.min, limits.max, count, dtype=dtype)]
        return [arrays.normal(count, dtype=dtype)]

    return inputs


def sort(count: int, types: str, dtype: Any, quick: bool = False) -> Row:
    calls = {"PyTorch": lambda x: torch.sort(x).values, "CuPy": peers.by_cupy("sort")}
    cost = of_keys(count, dtype.itemsize)
    return Row(f"sort {count} {types}", sources.sort(types), _keys(count, dtype), calls, cost, 0.0, goal=0.9, quick=quick)


def scan_along(axis: int, name: str, size: int) -> Row:
    inputs = lambda arrays: [arrays.normal(size, size, dtype=torch.float32)]  # noqa: E731
    calls = {"PyTorch": lambda x: torch.cumsum(x, axis)}
    exact = lambda x: torch.cumsum(x.double(), axis)  # noqa: E731
    return Row(f"scan {name} {size}x{size} f32", sources.scan_along(axis), inputs, calls, of_bytes(8 * size**2), 1e-4, exact)


def sorted_rows(rows: int, columns: int) -> Row:
    """Each row with its elements' places."""
    inputs = lambda arrays: [arrays.normal(rows, columns, dtype=torch.float32)]  # noqa: E731
    calls = {"PyTorch": lambda x: tuple(torch.sort(x, dim=-1, stable=True))}
    return Row(f"sort rows {rows}x{columns} f32 and places", sources.SORT_ROWS, inputs, calls, of_keys(rows * columns, 12), 0.0)


def pairs(count: int) -> Row:
    """Keys with their places, in order where keys are the same."""
    calls = {"PyTorch": lambda x: tuple(torch.sort(x, stable=True))}
    name = f"sort {count} i32 and places"
    return Row(name, sources.SORT_PAIRS, _keys(count, torch.int32), calls, of_keys(count, 12), 0.0, goal=0.9, quick=True)
