"""Arg-reductions on the CPU skip tiles in which nothing beats the best so far: the first best element is found all the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zynml

SOURCE = """
def whole(x: tensor[N]) {
    compute(x) @kernel(reduce, OP) { for i in 0..N: yield (x[i], i) }
}
def rows(x: tensor[M, N]) {
    compute(x) @kernel(reduce, OP, axis=1) { for i in 0..M, j in 0..N: yield (x[i, j], j) }
}
def columns(x: tensor[M, N]) {
    compute(x) @kernel(reduce, OP, axis=0) { for i in 0..M, j in 0..N: yield (x[i, j], i) }
}
def last(x: tensor[N]) {
    compute(x) @kernel(reduce, OP) { for i in 0..N: yield (x[i], 0 - i) }
}
"""

SIZES = [1, 2, 31, 33, 257, 8192, 8193, 70_001]
NUMPY: dict[str, Callable[..., Any]] = {"argmax": np.argmax, "argmin": np.argmin}


def lines(size: int) -> dict[str, Any]:
    """Numbers in every order, equal ones, and none that beats the identity."""
    rng = np.random.default_rng(size)
    random = rng.standard_normal(size).astype(np.float32)
    few = rng.integers(0, 3, size).astype(np.float32)
    nan = random.copy()
    nan[[size // 2, size - 1]] = np.nan
    rising = np.arange(size, dtype=np.float32)
    equal = {name: np.full(size, number, np.float32) for name, number in (("zero", 0), ("high", np.inf), ("low", -np.inf))}
    return {"random": random, "few": few, "nan": nan, "rising": rising, "falling": rising[::-1].copy(), **equal}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", NUMPY)
def test_the_first_best_element_is_found(op: str, threads: int) -> None:
    program = zynml.compile(SOURCE.replace("OP", op), threads=threads)
    for size in SIZES:
        for name, x in lines(size).items():
            assert program.whole(x)[1] == NUMPY[op](x), (size, name)


@pytest.mark.parametrize("op", NUMPY)
def test_the_first_best_element_of_rows_and_columns_is_found(op: str) -> None:
    program = zynml.compile(SOURCE.replace("OP", op), threads=2)
    for size in (1, 33, 300):
        x = np.stack(list(lines(size).values()))
        np.testing.assert_array_equal(program.rows(x)[1], NUMPY[op](x, 1))
        np.testing.assert_array_equal(program.columns(x)[1], NUMPY[op](x, 0))


@pytest.mark.parametrize("op", NUMPY)
def test_places_that_fall_along_the_axis_give_the_last_of_equal_elements(op: str) -> None:
    program = zynml.compile(SOURCE.replace("OP", op), threads=2)
    for size in SIZES:
        x = lines(size)["few"]
        assert -program.last(x)[1] == size - 1 - NUMPY[op](x[::-1]), size
