"""Loops whose bounds are data or other variables, and recurrences: rows of sparse matrices, bags of an embedding, triangles."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from bench.gpu import peers, sources
from bench.gpu.harness import Arrays, Row
from bench.gpu.limits import of_bytes, of_products


def rows(scale: int = 1) -> Iterator[Row]:
    count = (1 << 21) // scale
    yield sparse("16 a row, columns anywhere", count, _alike, near=False)
    yield sparse("16 a row, columns near the diagonal", count, _alike, near=True)
    yield sparse("rows of power law", count, _power_law, near=False)
    yield sparse("3 a row, columns near the diagonal", 4 * count, partial(_alike, each=3), near=True, mean=3)
    for each in (8, 112, 1024):
        yield sparse(f"{each} a row, columns anywhere", 16 * count // each, partial(_alike, each=each), near=False, mean=each)
    yield sparse("rows of power law, 63 on average", count // 4, partial(_power_law, mean=63, longest=300_000), near=False, mean=63)
    for words, columns, each in ((1 << 17, 128, 20), (1 << 20, 32, 40)):
        yield bags(words, columns, (1 << 21) // scale // each, each)
    yield sparse_times_matrix((1 << 18) // scale, 64)
    for batch, steps, lines in ((8, 4096 // scale, 2048), (1, 65536 // scale, 1024), (2, 16384 // scale, 256)):
        yield recurrence(batch, steps, lines)
    yield triangle(4096 // scale)


def _alike(arrays: Arrays, rows: int, each: int = 16) -> Any:
    return torch.full((rows,), each, device=arrays.device)


def _power_law(arrays: Arrays, rows: int, mean: int = 16, longest: int = 43_511) -> Any:
    """Of exponent 2.5: some rows have thousands of elements, one the most."""
    drawn = torch.rand(rows, device=arrays.device, generator=arrays.generator)
    lengths = torch.clamp(mean / 3 * (1 - drawn) ** (-1 / 1.5), max=longest).long()
    lengths[rows // 3] = longest
    return lengths


def _starts(lengths: Any) -> Any:
    return torch.cat([torch.zeros(1, dtype=torch.int64, device=lengths.device), lengths.cumsum(0)])


def _columns(arrays: Arrays, lengths: Any, near: bool) -> Any:
    rows, total = len(lengths), int(lengths.sum())
    if not near:
        return arrays.whole(0, rows, total, dtype=torch.int64)
    own = torch.repeat_interleave(torch.arange(rows, device=arrays.device), lengths)
    return torch.clamp(own + arrays.whole(-32, 32, total, dtype=torch.int64), 0, rows - 1)


def sparse(name: str, count: int, lengths: Any, near: bool, mean: int = 16) -> Row:
    """A sparse matrix by rows times a vector."""

    def inputs(arrays: Arrays) -> list[Any]:
        each = lengths(arrays, count)
        columns = _columns(arrays, each, near)
        return [_starts(each), columns, *(arrays.normal(n, dtype=torch.float32) for n in (len(columns), count)), count]

    def library(start: Any, column: Any, weight: Any, x: Any, rows: int) -> Any:
        return torch.sparse_csr_tensor(start, column, weight, (rows, len(x)), check_invariants=False) @ x

    def exactly(start: Any, column: Any, weight: Any, x: Any, rows: int) -> Any:
        return library(start, column, weight.double(), x.double(), rows)

    moved = of_bytes(count * mean * 12 + count * 16)
    return Row(f"sparse rows {count}, {name}", sources.SPARSE_ROWS, inputs, {"cuSPARSE": library}, moved, 1e-5, exactly, 1.0, quick=True)


def sparse_times_matrix(count: int, columns: int) -> Row:
    def inputs(arrays: Arrays) -> list[Any]:
        each = _alike(arrays, count)
        column = _columns(arrays, each, near=False)
        weight = arrays.normal(len(column), dtype=torch.float32)
        return [_starts(each), column, weight, arrays.normal(count, columns, dtype=torch.float32), count]

    def library(start: Any, column: Any, weight: Any, x: Any, rows: int) -> Any:
        return torch.sparse_csr_tensor(start, column, weight, (rows, len(x)), check_invariants=False) @ x

    def exactly(start: Any, column: Any, weight: Any, x: Any, rows: int) -> Any:
        return library(start, column, weight.double(), x.double(), rows)

    moved = of_bytes(4 * columns * count * 17)
    name = f"sparse rows {count}, 16 a row, times {columns} columns"
    return Row(name, sources.SPARSE_PRODUCT, inputs, {"cuSPARSE": library}, moved, 1e-5, exactly, 1.0, quick=True)


def bags(words: int, columns: int, count: int, each: int) -> Row:
    def inputs(arrays: Arrays) -> list[Any]:
        lengths = arrays.whole(0, 2 * each + 1, count, dtype=torch.int64)
        picked = arrays.whole(0, words, int(lengths.sum()), dtype=torch.int64)
        return [_starts(lengths), picked, arrays.normal(words, columns, dtype=torch.float32), count]

    def library(start: Any, picked: Any, table: Any, count: int) -> Any:
        return peers.functional.embedding_bag(picked, table, start, mode="sum", include_last_offset=True)

    def exactly(start: Any, picked: Any, table: Any, count: int) -> Any:
        return library(start, picked, table.double(), count)

    moved = of_bytes(4 * columns * count * (each + 1))
    name = f"{count} bags of {each} in {words}x{columns} f32"
    return Row(name, sources.BAGS, inputs, {"PyTorch": library}, moved, 1e-5, exactly, 1.0, quick=True)


def recurrence(batch: int, steps: int, lines: int) -> Row:
    """Against a copy of as many bytes: no library has it. The reference is the loop itself, in float64."""

    def inputs(arrays: Arrays) -> list[Any]:
        kept = torch.rand(batch, steps, lines, device=arrays.device, generator=arrays.generator)
        return [kept, arrays.normal(batch, steps, lines, dtype=torch.float32)]

    def copied(a: Any, b: Any) -> Any:
        return torch.add(a, b)

    def exactly(a: Any, b: Any) -> Any:
        state, states = torch.zeros_like(a[:, 0], dtype=torch.float64), torch.empty_like(a, dtype=torch.float64)
        for step in range(a.shape[1]):
            state = a[:, step] * state + b[:, step]
            states[:, step] = state
        return states

    name = f"recurrence {batch}x{steps}x{lines} f32"
    moved = of_bytes(12 * batch * steps * lines)
    return Row(name, sources.RECURRENCE, inputs, {"an addition": copied}, moved, 1e-6, exactly, 0.85, quick=True, alike=False)


def triangle(side: int) -> Row:
    inputs = lambda arrays: [arrays.normal(side, side, dtype=torch.float32) for _ in range(2)]  # noqa: E731
    library = lambda a, b: torch.triu(a) @ torch.triu(b)  # noqa: E731
    exactly = lambda a, b: library(a.double(), b.double())  # noqa: E731
    cost = of_products(side, side, side // 6, "f32", 4, 4)
    return Row(f"product of triangles {side}^2 f32", sources.TRIANGLES, inputs, {"PyTorch": library}, cost, 1e-5, exactly, 1.0, quick=True)
