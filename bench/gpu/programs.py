"""Whole programs."""

from collections.abc import Iterator

from bench.gpu.harness import Row


def rows(scale: int = 1) -> Iterator[Row]:
    yield from ()
