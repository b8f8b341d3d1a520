"""Results that lie along another axis than what is read, turned in tiles of shared memory, on the emulator with everything watched. Expected
values from NumPy in float64, or exact ints."""

from typing import Any

import numpy as np
import pytest

from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form
from compiler.hir.types import Mem
from compiler.schedule.gpu.derived import written
from compiler.schedule.gpu.derived.search import derived_launches
from compiler.schedule.gpu.derived.turned_results import TurnedResults
from compiler.schedule.gpu.facts import Facts
from tests.schedule.test_gpu_derived import LIFE, STENCIL, compiled, windows
from tests.schedule.test_gpu_maps import ptx


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> list[TurnedResults]:
    """The launches whose results are turned."""
    seen: list[TurnedResults] = []

    def noted(*values: Any) -> TurnedResults:
        seen.append(TurnedResults(*values))
        return seen[-1]

    monkeypatch.setattr(written, "TurnedResults", noted)
    return seen


def columns(shape: tuple[int, ...], dtype: Any, low: int = -9, high: int = 9) -> np.ndarray:
    """Whole numbers whose last two axes have changed places in memory."""
    *before, rows, length = shape
    return np.random.default_rng(sum(shape)).integers(low, high, (*before, length, rows)).astype(dtype).swapaxes(-1, -2)


@pytest.mark.parametrize("shape", [(128, 256), (129, 257), (64, 1000), (1000, 61), (96, 192), (16, 700), (700, 16)])
def test_life_of_columns(shape: tuple[int, int], turned: list[TurnedResults]) -> None:
    x = columns(shape, np.uint8, 0, 2)
    count = windows(np.pad(x, 1).astype(int), 3, 3).sum((2, 3))
    np.testing.assert_array_equal(compiled(LIFE).f(x), (count == 3) | ((count == 4) & (x == 1)))
    assert turned


@pytest.mark.parametrize("shape", [(3, 40, 70), (1, 130, 65), (7, 33, 128)])
def test_a_stencil_of_columns(shape: tuple[int, ...], turned: list[TurnedResults]) -> None:
    x = columns(shape, np.float32)
    p = np.pad(x, 1)
    sums = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
    np.testing.assert_array_equal(compiled(STENCIL).f(x), sums - 6 * x)
    assert turned


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8, np.int32])
@pytest.mark.parametrize("shape", [(64, 128), (97, 101), (50, 172)])
def test_means_along_rows_of_columns(shape: tuple[int, int], dtype: Any, turned: list[TurnedResults]) -> None:
    """Each result has three neighbours' elements; a further operand lies as results do."""
    name = {"float64": "f64", "float32": "f32", "float16": "f16", "int8": "i8", "int32": "i32"}[np.dtype(dtype).name]
    source = f"""def f(x: tensor[M, N, {name}], y: tensor[M, N, {name}]) {{
        compute(x, y) {{ for i in 0..M, j in 0..N - 2: out[i, j] = x[i, j] + x[i, j + 1] + x[i, j + 2] - y[i, j] }}
    }}"""
    x, y = columns(shape, dtype), columns(shape[::-1], dtype).T
    np.testing.assert_array_equal(compiled(source).f(x, np.ascontiguousarray(y)), windows(x, 3).sum(-1).astype(dtype) - y[:, :-2])
    assert turned


def test_what_is_not_a_number_keeps_its_place(turned: list[TurnedResults]) -> None:
    x = columns((70, 90), np.float32)
    x[3, 5], x[69, 89], x[12, 0] = np.nan, np.inf, -np.inf
    source = "def f(x: tensor[M, N]) { compute(x) { for i in 0..M, j in 0..N - 1: out[i, j] = x[i, j] - x[i, j + 1] } }"
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(compiled(source).f(x), x[:, :-1] - x[:, 1:])
    assert turned


def test_stores_with_conditions_are_written_at_once(turned: list[TurnedResults]) -> None:
    x = columns((64, 96), np.float32)
    source = "def f(x: tensor[M, N]) { compute(x) { for i in 0..M, j in 0..N - 1: if x[i, j] > 0.0: out[i, j] = x[i, j] + x[i, j + 1] } }"
    np.testing.assert_array_equal(compiled(source).f(x), np.where(x[:, :-1] > 0, x[:, :-1] + x[:, 1:], 0))
    assert not turned


@pytest.mark.parametrize("shape", [(40, 50, 60), (33, 65, 17), (5, 300, 29), (70, 3, 131)])
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0), (2, 1, 0), (0, 2, 1)])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_turned_axes(shape: tuple[int, ...], order: tuple[int, ...], dtype: Any) -> None:
    names = "ijk"
    loops = ", ".join(f"{names[axis]} in 0..{'ABC'[axis]}" for axis in order)
    index = ", ".join(names[axis] for axis in order)
    name = {"int8": "i8", "float16": "f16", "float32": "f32"}[np.dtype(dtype).name]
    source = f"def f(x: tensor[A, B, C, {name}]) {{ compute(x) {{ for {loops}: out[{index}] = x[i, j, k] }} }}"
    x = np.random.default_rng(3).integers(-99, 99, shape).astype(dtype)
    np.testing.assert_array_equal(compiled(source).f(x), x.transpose(order))


@pytest.mark.parametrize("side", [64, 70, 129])
def test_a_matrix_and_its_transpose(side: int, turned: list[TurnedResults]) -> None:
    """Either operand lies across the other: results lie along one of them."""
    x = np.random.default_rng(2).integers(-9, 9, (side, side)).astype(np.float32)
    source = "def f(x: tensor[N, N]) { compute(x) { for i in 0..N, j in 0..N: out[i, j] = x[i, j] + x[j, i] } }"
    np.testing.assert_array_equal(compiled(source).f(x), x + x.T)
    assert turned


def test_tiles_are_stored_in_vectors() -> None:
    """Each thread has some elements of a row of the tile, whichever it computed."""
    f = FunctionBuilder("turned", Form.FIELD, {"i": 4096, "j": 64})
    x, out = f.parameter("x", Mem("f32", (64, 4096), readonly=True, align=16)), f.parameter("out", Mem("f32", (4096, 64), align=16))
    f.body.store(out, f.body.load(x, ["j", "i"]), ["i", "j"])
    launches = derived_launches(f.finish(), Facts())
    assert launches is not None
    text = ptx(launches)
    assert "st.global.v" in text and "st.global.b32" not in text
