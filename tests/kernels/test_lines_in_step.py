"""Lines that lie side by side and take their steps together on the CPU: what one carries is its own, for any number of lines, threads, states
and inner loops, and for every dtype."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.analysis.dependence import analyse
from compiler.backends.cpu.paths import path_of
from compiler.fusion.program_kernels import kernels
from compiler.hir.control import For
from compiler.hir.memory import Store
from compiler.schedule import lines_along
from compiler.schedule.down_columns import columns_of
from compiler.schedule.lines import TURNS, in_step

Array = np.ndarray[Any, Any]
_RANDOM = np.random.default_rng(11)

STATES = """
def f(x: tensor[T, J]) {
    compute(x) {
        for j in 0..J:
            var a = 1.0
            var b = 0.25 * j
            for t in 0..T:
                let old = a
                a = 0.5 * b + x[t, j]
                b = old
                out[t, j] = a - b
            for t in 0..T:
                a = 0.5 * a + x[t, j]
                out[t, j] += a
    }
}
"""

ORDERS = """
def f(x: tensor[T, I, J, DTYPE]) {
    compute(x) {
        for j in 0..J, i in 0..I:
            var h = 0.5
            for t in 0..T:
                h = 0.5 * h + x[t, i, j]
                out[t, i, j] = h
    }
}
"""

SUMS = """
def f(x: tensor[T, J, DTYPE]) {
    compute(x) {
        for j in 0..J:
            var h = 0
            for t in 0..T:
                h += x[t, j]
                out[t, j] = h
    }
}
"""


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("steps", "lines"), [(0, 3), (0, 5), (1, 0), (1, 1), (1000, 1), (1000, 3), (7, 33), (33, 31), (1, 1000), (5, 1031), (3, 5000), (10, 63), (11, 1100)])
def test_each_line_has_its_states(steps: int, lines: int, threads: int) -> None:
    x = _RANDOM.standard_normal((steps, lines)).astype(np.float32)
    a, b = np.ones(lines), 0.25 * np.arange(lines)
    expected = np.zeros((steps, lines))
    for t in range(steps):
        a, b = 0.5 * b + x[t], a
        expected[t] = a - b
    for t in range(steps):
        a = 0.5 * a + x[t]
        expected[t] += a
    # rounded to f32 at each of a few steps, with values up to 1250
    np.testing.assert_allclose(zynml.compile(STATES, threads=threads).f(x), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("dtype", "kind"), [("f16", np.float16), ("f32", np.float32), ("f64", np.float64)])
@pytest.mark.parametrize("shape", [(9, 2, 37), (4, 11, 70), (2, 1, 1000)])
def test_lines_in_any_order_of_loops(shape: tuple[int, int, int], dtype: str, kind: type) -> None:
    x = _RANDOM.standard_normal(shape).astype(kind)
    state, expected = np.full(shape[1:], 0.5), np.zeros(shape)
    for t in range(shape[0]):
        state = 0.5 * state + x[t]
        expected[t] = state
    source = ORDERS.replace("DTYPE", dtype)
    ((_, kernel),) = kernels(zynml.compile(source)._session)
    assert in_step(kernel.nest, analyse(kernel.nest))[1] == ("i, j: thread, lines along j march in step",)
    bound = 2e-3 if kind is np.float16 else 1e-6
    results = [zynml.compile(source, threads=threads).f(x) for threads in (1, 2, 5)]
    np.testing.assert_allclose(results[0], expected, rtol=bound, atol=bound)
    assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize(("dtype", "kind"), [("i8", np.int8), ("i32", np.int32), ("i64", np.int64)])
@pytest.mark.parametrize("view", ["plain", "padded", "turned"])
def test_running_sums_down_columns(dtype: str, kind: type, view: str) -> None:
    whole = _RANDOM.integers(-100, 100, (70, 90)).astype(kind)
    x = {"plain": whole, "padded": whole[::2, 3:80], "turned": whole.T}[view]
    expected = np.cumsum(x, axis=0, dtype=np.int64)
    result = zynml.compile(SUMS.replace("DTYPE", dtype), threads=2).f(x)
    assert np.array_equal(result, expected.astype(result.dtype))


def test_lines_along_memory_and_triangles_keep_their_loops() -> None:
    along = SUMS.replace("x[t, j]", "x[j, t]").replace("out[t, j]", "out[j, t]").replace("[T, J,", "[J, T,").replace("DTYPE", "f32")
    below = SUMS.replace("0..T", "j..T").replace("DTYPE", "f32")
    for source in (along, below):
        ((_, kernel),) = kernels(zynml.compile(source)._session)
        assert in_step(kernel.nest, analyse(kernel.nest))[1] == ()


COLUMNS = """
def f(x: tensor[T, J, DTYPE]) {
    compute(x) {
        for j in 0..J:
            var s = 0.0
            var m = -inf
            for t in 0..T:
                s += x[t, j]
                m = max(m, x[t, j])
            out[j] = s + m
    }
}
"""


@pytest.mark.parametrize(("dtype", "kind", "bound"), [("f16", np.float16, 2e-3), ("f32", np.float32, 1e-5), ("f64", np.float64, 1e-12)])
@pytest.mark.parametrize("shape", [(1, 1), (1000, 1), (1000, 3), (1, 1000), (0, 5), (33, 31), (1030, 103), (1000, 33), (520, 2050), (3, 0)])
def test_sums_and_maxima_of_columns(shape: tuple[int, int], dtype: str, kind: type, bound: float) -> None:
    source = COLUMNS.replace("DTYPE", dtype)
    ((_, kernel),) = kernels(zynml.compile(source)._session)
    assert kernel.field is not None and columns_of(kernel.nest, kernel.field, analyse(kernel.nest))
    x = _RANDOM.uniform(0.5, 1.0, (shape[0], 2 * shape[1])).astype(kind)
    if x.size:
        x[0, 0], x[-1, -1] = np.nan, np.inf
    for view in (x[:, : shape[1]], x[:, ::2], x[::-1, shape[1] :]):
        expected = view.sum(0, dtype=np.float64) + view.max(0, initial=-np.inf)
        results = [zynml.compile(source, threads=threads).f(view) for threads in (1, 3)]
        np.testing.assert_allclose(results[0], expected, rtol=bound)
        assert np.array_equal(*results, equal_nan=True)


WHOLE = SUMS.replace("DTYPE", "i32").replace("        out[t, j] = h", "    out[j] = h")


@pytest.mark.parametrize(("steps", "lines"), [(2659, 103), (4096, 4096), (2000, 300), (1000, 1000), (4096, 128), (32, 80000), (10000, 33)])
def test_sums_of_wide_and_of_ragged_rows_march(steps: int, lines: int) -> None:
    assert _marches(WHOLE, {"T": steps, "J": lines})


@pytest.mark.parametrize(("steps", "lines"), [(10000, 32), (100000, 8), (300000, 3), (1000000, 1), (63, 1000), (32, 31296), (31, 90000), (0, 5)])
def test_sums_of_narrow_rows_and_of_few_go_in_tiles(steps: int, lines: int) -> None:
    assert not _marches(WHOLE, {"T": steps, "J": lines})


SHARES = """
def f(x: tensor[T, J, f32]) {
    compute(x) {
        for j in 0..J {
            var s = 0.0
            for t in 0..T: s += x[t, j]
            for t in 0..T: out[t, j] = x[t, j] / s
        }
    }
}
"""


@pytest.mark.parametrize(("steps", "lines"), [(4096, 600), (4001, 600), (70001, 33), (5, 700)])
def test_lines_that_are_read_twice_march_where_they_are_long(steps: int, lines: int) -> None:
    of_ints = SHARES.replace("f32", "i32").replace("0.0", "0").replace("/ s", "+ s")
    assert _marches(of_ints, {"T": steps, "J": lines}) == (steps >= 4096)
    x = _RANDOM.integers(1, 5, (steps, lines)).astype(np.float32)
    np.testing.assert_allclose(zynml.compile(SHARES, threads=2).f(x), x / x.sum(0, dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("lines", [0, 1, 3, 4, 1000])
def test_few_lines_of_running_sums_keep_their_loops(lines: int) -> None:
    assert _marches(SUMS.replace("DTYPE", "i64"), {"T": 1000, "J": lines}) == (lines >= 4)


def test_lines_that_store_take_several_steps_at_once() -> None:
    ((_, kernel),) = kernels(zynml.compile(SUMS.replace("DTYPE", "i32"))._session)
    loops = [op for top in in_step(kernel.nest, analyse(kernel.nest))[0].body.body for op in top.walk() if isinstance(op, For)]
    assert any(loop.step == TURNS and any(isinstance(op, Store) for op in loop.walk()) for loop in loops)


def _marches(source: str, sizes: dict[str, int]) -> bool:
    ((_, kernel),) = kernels(zynml.compile(source)._session)
    (taken,) = path_of(kernel.scheduled.function, sizes).values()
    return taken


ALONG = """
def f(x: tensor[I, T, D], a: tensor[I, T, D], w: tensor[T, D]) {
    compute(x, a, w) -> tensor[I, T, D] {
        for i in 0..I:
            var h = 0.5
            var g = -1.0
            for t in 0..T - 1:
                h = a[i, t + 1] * h + x[i, t] - w[t]
                g = max(g + 0.25, h)
                out[i, t] = g + h
    }
}
"""


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_lines_along_memory(dtype: str) -> None:
    """Fewer lines and steps than go at once, as many, and more; in rows with something between them, too."""
    kind = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[dtype]
    f = zynml.compile(ALONG.replace("D]", f"{dtype}]")).f
    for lines, steps in (0, 20), (1, 40), (7, 17), (8, 16), (16, 17), (17, 33), (31, 18), (33, 67), (16, 1), (40, 3):
        rng = np.random.default_rng(lines + steps)
        x, a = (rng.random((2, lines, steps + 3)) * 0.9).astype(kind)[:, :, :steps]
        w = rng.random(steps).astype(kind)
        h, g = np.full(lines, 0.5), np.full(lines, -1.0)
        got = np.asarray(f(x, a, w)).astype(np.float64)
        wanted = np.zeros((lines, steps))
        for t in range(steps - 1):
            h = a[:, t + 1].astype(np.float64) * h + x[:, t] - w[t].astype(np.float64)
            g = np.maximum(g + 0.25, h)
            wanted[:, t] = g + h
        # each step rounds a few times, and takes a part of what was rounded before
        tolerance = {"f32": 1e-5, "f64": 1e-13, "f16": 0.1}[dtype]
        np.testing.assert_allclose(got[:, : steps - 1], wanted[:, : steps - 1], rtol=0, atol=tolerance, err_msg=f"{lines} of {steps}")


def test_infinite_elements_stay_in_their_lines() -> None:
    f = zynml.compile(ALONG.replace("D]", "f64]")).f
    x = np.full((19, 35), 0.25)
    x[3, 20], x[18, 33] = np.inf, np.nan
    got = np.asarray(f(x, np.full((19, 35), 0.5), np.zeros(35)))[:, :34]
    bad = ~np.isfinite(got)
    assert bad[3, 20:].all() and bad[18, 33] and bad.sum() == 14 + 1


def test_lines_of_wide_elements_keep_their_loops_where_memory_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ALONG.replace("D]", "f64]")
    x, w = np.random.default_rng(5).random((20, 40)), np.zeros(40)
    near = np.asarray(zynml.compile(source, threads=1).f(x, x, w))
    monkeypatch.setattr(lines_along, "NEAR", 20 * 40 * 24 - 1)
    far = np.asarray(zynml.compile(source.replace("0.5", "0.50"), threads=1).f(x, x, w))
    np.testing.assert_allclose(near, far, rtol=1e-14)
