"""Arg-reductions on the CPU keep numbers of tiles: the first best element is found all the same."""

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


@pytest.mark.parametrize("op", NUMPY)
@pytest.mark.parametrize("dtype", ["f64", "i32", "u8", "i64"])
def test_numbers_of_every_width(op: str, dtype: str) -> None:
    """Among them all numbers equal to the identity, whose first place is meant."""
    program = zynml.compile(SOURCE.replace("OP", op).replace("[N]", f"[N, {dtype}]").replace("[M, N]", f"[M, N, {dtype}]"), threads=1)
    numpy_dtype = {"f64": np.float64, "i32": np.int32, "u8": np.uint8, "i64": np.int64}[dtype]
    low, high = (0, 1) if dtype == "f64" else (np.iinfo(numpy_dtype).min, np.iinfo(numpy_dtype).max)
    for size in (1, 7, 33, 300):
        x = np.random.default_rng(size).integers(0, 5, (9, size)).astype(numpy_dtype)
        x[3], x[4] = low, high
        x[5, size // 2 :] = low
        np.testing.assert_array_equal(program.rows(x)[1], NUMPY[op](x, 1))
        np.testing.assert_array_equal(program.rows(x)[0], (np.max if op == "argmax" else np.min)(x, 1))
        np.testing.assert_array_equal(program.columns(x)[1], NUMPY[op](x, 0))
        assert [program.whole(row)[1] for row in x] == NUMPY[op](x, 1).tolist()


@pytest.mark.parametrize("op", NUMPY)
def test_the_value_is_that_of_the_first_of_equal_zeros(op: str) -> None:
    program = zynml.compile(SOURCE.replace("OP", op), threads=1)
    x = np.zeros((2, 100), np.float32)
    x[0, 17:], x[1, :17] = -0.0, -0.0
    values, places = program.rows(x)
    assert np.signbit(values).tolist() == [False, True]
    assert places.tolist() == [0, 0]


@pytest.mark.parametrize("columns", [1, 5, 33])
def test_the_best_of_several_rows_at_once_and_its_place_are_used_afterwards(columns: int) -> None:
    """Sums compared side by side: a register has the best of several rows, of which some are zeros of both signs."""
    program = zynml.compile(
        """def nearest(x: tensor[R, D], c: tensor[M, D]) {
            compute(x, c) -> (distance: tensor[R], place: tensor[R, i64]) {
                for i in 0..R {
                    var best = inf
                    var at = 0
                    for j in 0..M {
                        var d = 0.0
                        for k in 0..D: d += (x[i, k] - c[j, k]) * (x[i, k] - c[j, k])
                        if d < best {
                            best = d
                            at = j
                        }
                    }
                    distance[i] = sqrt(best)
                    place[i] = at
                }
            }
        }""",
        threads=1,
    )
    rng = np.random.default_rng(columns)
    x, c = rng.standard_normal((35, columns)).astype(np.float32), rng.standard_normal((41, columns)).astype(np.float32)
    x[3] = x[5] = c[40] = c[7]
    squares = ((x[:, None].astype(np.float64) - c) ** 2).sum(2)
    distance, place = program.nearest(x, c)
    np.testing.assert_array_equal(place, squares.argmin(1))
    np.testing.assert_allclose(distance, np.sqrt(squares.min(1)), rtol=1e-5)
