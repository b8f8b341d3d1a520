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
    for few in ((1 << 24) // scale, (1 << 26) // scale):
        yield sort(few, "i32", torch.int32, quick=few == (1 << 26) // scale)
    yield sort((1 << 26) // scale, "f32", torch.float32)
    yield pairs((1 << 26) // scale)


def _keys(count: int, dtype: Any) -> Any:
    def inputs(arrays: Arrays) -> list[Any]:
        if dtype is torch.int32:
            return [arrays.whole(-(2**31), 2**31 - 1, count, dtype=dtype)]
        return [arrays.normal(count, dtype=dtype)]

    return inputs


def sort(count: int, types: str, dtype: Any, quick: bool = False) -> Row:
    calls = {"PyTorch": lambda x: torch.sort(x).values, "CuPy": peers.by_cupy("sort")}
    return Row(f"sort {count} {types}", sources.sort(types), _keys(count, dtype), calls, of_keys(count, 4), 0.0, goal=0.9, quick=quick)


def pairs(count: int) -> Row:
    """Keys with their places, in order where keys are the same."""
    calls = {"PyTorch": lambda x: tuple(torch.sort(x, stable=True))}
    name = f"sort {count} i32 and places"
    return Row(name, sources.SORT_PAIRS, _keys(count, torch.int32), calls, of_keys(count, 12), 0.0, goal=0.9, quick=True)
