"""Several iterations a thread where loads follow loads: values against NumPy on the emulator, at sizes around whole turns; indices outside."""

import numpy as np
import pytest

import zynml
from compiler.schedule.gpu.nests import turns

ELEMENTS = "def f(t: tensor[V, f64], x: tensor[N, i32]) { compute(t, x) { for i in 0..N: out[i] = t[x[i]] } }"
ROWS = """
def f(t: tensor[M, N], x: tensor[M, N, i32], y: tensor[M, N]) {
    compute(t, x, y) { for i in 0..M, j in 0..N: out[i, j] = y[i, j] + t[i, x[i, j]] }
}"""
OTHER_ROWS = ROWS.replace("t: tensor[M, N]", "t: tensor[M, K]")
DEEP = """
def f(t: tensor[B, M, K], x: tensor[B, M, N, i32]) {
    compute(t, x) { for b in 0..B, i in 0..M, j in 0..N: out[b, i, j] = t[b, i, x[b, i, j]] }
}"""


@pytest.fixture(autouse=True)
def few_threads_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "RESIDENT", 0)


@pytest.mark.parametrize("count", [0, 1, 3, 255, 256, 257, 1000, 1023, 1024, 1025, 3 * 1024 + 31])
def test_elements_of_a_table(count: int) -> None:
    random = np.random.default_rng(count)
    t, x = random.standard_normal(37), random.integers(0, 37, count).astype(np.int32)
    program = zynml.compile(ELEMENTS, device="emulator", sanitize=True)
    np.testing.assert_array_equal(program.f(t, x), t[x])


@pytest.mark.parametrize("shape", [(1, 1), (3, 341), (7, 1031), (1031, 3), (31, 33), (0, 5)])
def test_elements_within_rows(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(3)
    t, y = (random.standard_normal(shape).astype(np.float32) for _ in range(2))
    x = random.integers(0, shape[1], shape).astype(np.int32)
    want = y.astype(np.float64) + np.take_along_axis(t, x, axis=1)
    np.testing.assert_allclose(zynml.compile(ROWS, device="emulator").f(t, x, y), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("dtype", ["i8", "f16", "f32", "f64"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 64), (7, 1000), (5, 33), (40, 256), (0, 4), (97, 9), (33, 31)])
def test_pieces_of_rows_of_every_type(shape: tuple[int, int], dtype: str, index: str) -> None:
    """Pieces begin in one row and end in the next, or behind an element of the last row."""
    random, kind = np.random.default_rng(4), np.dtype({"i": "int", "f": "float"}[dtype[0]] + dtype[1:])
    t, y = (random.integers(0, 9, shape).astype(kind) for _ in range(2))
    x = random.integers(0, shape[1], shape).astype(np.dtype("int" + index[1:]))
    for text, operands, want in (
        (ROWS, (t, x, y), y + np.take_along_axis(t, x.astype(np.int64), axis=1)),
        (ELEMENTS, (t.ravel(), x.ravel()), t.ravel()[x.ravel()]),
    ):
        typed = text.replace("i32", index).replace("f64", dtype).replace("[M, N]", f"[M, N, {dtype}]")
        np.testing.assert_array_equal(zynml.compile(typed, device="emulator", sanitize=True).f(*operands), want)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns", "wide"), [(600, 33, 47), (601, 100, 61), (530, 8, 5), (529, 17, 16), (300, 9, 0)])
def test_rows_of_other_lengths(rows: int, columns: int, wide: int, dtype: type) -> None:
    random = np.random.default_rng(columns)
    t = random.integers(0, 50, (rows, wide)).astype(dtype)
    y = random.integers(0, 50, (rows, columns)).astype(dtype)
    x = random.integers(0, max(wide, 1), (rows, columns)).astype(np.int32)
    kind = f"{t.dtype.kind}{8 * t.itemsize}"
    typed = OTHER_ROWS.replace("[M, K]", f"[M, K, {kind}]").replace("[M, N]", f"[M, N, {kind}]")
    program = zynml.compile(typed, device="emulator:sm_90a", sanitize=True)
    if wide:
        np.testing.assert_array_equal(program.f(t, x, y), y + np.take_along_axis(t, x.astype(np.int64), axis=1))
        x[rows // 2, columns - 1] = wide
    with pytest.raises(zynml.ZynMLError) as error:
        program.f(t, x, y)
    assert error.value.codes == ("ZYN0801",)


def test_rows_of_two_loops() -> None:
    random = np.random.default_rng(5)
    t, x = random.standard_normal((5, 131, 37)).astype(np.float32), random.integers(0, 37, (5, 131, 41)).astype(np.int32)
    program = zynml.compile(DEEP, device="emulator:sm_90a", sanitize=True)
    np.testing.assert_array_equal(program.f(t, x), np.take_along_axis(t, x.astype(np.int64), axis=2))


@pytest.mark.parametrize("position", [0, 255, 256, 700, 1999])
@pytest.mark.parametrize("index", [-1, 37, 2**31 - 1])
def test_an_index_outside_is_told(position: int, index: int) -> None:
    x = np.zeros(2000, np.int32)
    x[position] = index
    with pytest.raises(zynml.ZynMLError) as error:
        zynml.compile(ELEMENTS, device="emulator").f(np.ones(37), x)
    assert error.value.codes == ("ZYN0801",)
    assert str(error.value).startswith(f"error[ZYN0801]: index {index} is out of range: axis 0 of `t` has 37 elements\n")


@pytest.mark.parametrize("count", [1, 300, 1025])
def test_what_is_updated_is_read_by_one_thread_alone(count: int) -> None:
    text = """
    def f(mut x: tensor[N], k: tensor[N, i32], y: tensor[M]) {
        compute(mut x, k, y) { for i in 0..N: x[i] = x[i] + y[k[i]] }
    }"""
    x, k, y = np.arange(count, dtype=np.float32), np.arange(count, dtype=np.int32) % 5, np.arange(5, dtype=np.float32)
    zynml.compile(text, device="emulator", sanitize=True).f(x, k, y)
    np.testing.assert_array_equal(x, np.arange(count) + np.arange(count) % 5)


def test_the_schedule_says_so() -> None:
    shown = str(zynml.compile(ELEMENTS).emit("schedule", "sm_90a"))
    assert "  i: a thread an iteration\n  a thread takes 8 of them at once\n" in shown
    like = "t=4000x501:f32, x=4000x501:i32, y=4000x501:f32"
    shown = str(zynml.compile(ROWS)._session.emit("schedule", "sm_90a", [like]))
    assert "  a thread takes 8 of them at once, in pieces of 4 neighbours\n" in shown
