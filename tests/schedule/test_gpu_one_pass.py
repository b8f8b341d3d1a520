"""Reductions that read another of the same elements, in one pass with it, and columns that stay in registers. Expected values from NumPy in
float64."""

import numpy as np
import pytest
from attrs import evolve

import zynml
from compiler.hir.build import FunctionBuilder
from compiler.hir.core import Reduce
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.schedule.gpu.block_launches import field_launches
from compiler.schedule.gpu.facts import Facts, facts_of, specialised
from compiler.schedule.gpu.tiles import rows, tables
from compiler.schedule.gpu.tiles.one_pass import in_one_pass
from compiler.schedule.gpu.tiles.tables import block_table
from tests.schedule.test_gpu_rows import launches, reads, softmax

TARGETS = ["sm_75", "sm_90a"]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's registers hold few elements."""
    monkeypatch.setattr(rows, "MOST_THREADS", 32)
    monkeypatch.setattr(rows, "KEPT_BYTES", 16)


NORM = """def f(x: tensor[N, C, P]) {
    compute(x) { for LOOP {
        var t = 0.0
        for OVER: t += x[n, c, p]
        let mean = t / (COUNT)
        var s = 0.0
        for OVER:
            let d = x[n, c, p] - mean
            s += d * d
        let r = 1.0 / sqrt(s / (COUNT) + 0.00001)
        for OVER: out[n, c, p] = (x[n, c, p] - mean) * r
    } }
}"""


def norm(loop: str, over: str, count: str) -> str:
    return NORM.replace("LOOP", loop).replace("OVER", over).replace("COUNT", count)


ROWS = norm("n in 0..N, c in 0..C", "p in 0..P", "P")
CHANNELS = norm("c in 0..C", "n in 0..N, p in 0..P", "N * P")
PLANES = norm("n in 0..N", "c in 0..C, p in 0..P", "C * P")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("text", "axes", "shape"),
    [(ROWS, (2,), (2, 3, 700)), (ROWS, (2,), (1, 2, 1024)), (CHANNELS, (0, 2), (3, 2, 331)), (PLANES, (1, 2), (2, 7, 129)), (ROWS, (2,), (0, 3, 700))],
)
def test_norms(text: str, axes: tuple[int, ...], shape: tuple[int, ...], target: str) -> None:
    """Far from zero, where squares of the elements themselves would cancel."""
    x = (np.random.default_rng(1).standard_normal(shape) + 300).astype(np.float32)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)
    found = np.asarray(zynml.compile(text, device=f"emulator:{target}").f(x))
    # the mean is rounded at 2^-15 of what is left
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("few", [False, True])
def test_numbers_that_are_none_stay_where_they_are(few: bool, request: pytest.FixtureRequest) -> None:
    if few:
        request.getfixturevalue("in_parts")
    x = np.random.default_rng(2).standard_normal((4, 1, 800)).astype(np.float32)
    x[0, 0, 3], x[1, 0, 799] = np.nan, np.inf
    found = np.asarray(zynml.compile(ROWS, device="emulator:sm_90a").f(x))
    assert np.isnan(found[0]).all() and np.isnan(found[1]).all() and np.isfinite(found[2:]).all()


SUMS = """def f(x: tensor[M, N]) {
    compute(x) { for i in 0..M {
        var m = -inf
        for j in 0..N: m = max(m, x[i, j])
        var s = 0.0
        for j in 0..N: s += exp(x[i, j] - m)
        out[i] = m + log(s)
    } }
}"""


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3, 1500), (2, 2048), (40, 70), (1, 1), (0, 9)])
def test_logarithms_of_sums_of_exponentials(shape: tuple[int, int], target: str) -> None:
    x = (50 * np.random.default_rng(3).standard_normal(shape)).astype(np.float32)
    top = x.astype(np.float64).max(1, initial=-np.inf)
    wanted = top + np.log(np.exp(x - top[:, None]).sum(1))
    np.testing.assert_allclose(zynml.compile(SUMS, device=f"emulator:{target}").f(x), wanted, rtol=1e-6)


@pytest.mark.usefixtures("short")
def test_infinite_elements_of_such_sums() -> None:
    """As the loops have it: what is left behind an infinite maximum is NaN; elements of minus infinity add nothing."""
    x = np.full((5, 900), -np.inf, np.float32)
    x[1, 7], x[2, 0], x[3, 899], x[4, :450] = 2.0, np.inf, np.nan, 1.0
    found = np.asarray(zynml.compile(SUMS, device="emulator:sm_90a").f(x))
    assert np.isnan(found[[0, 2, 3]]).all()
    np.testing.assert_allclose(found[[1, 4]], [2.0, 1 + np.log(450)], rtol=1e-6)


def test_a_long_softmax_reads_its_rows_twice() -> None:
    field = in_one_pass(softmax())
    assert field is not None
    verify(field)
    assert [op.monoid for op in field.body.body if isinstance(op, Reduce)] == ["exponentials"]
    sizes = {"M": 4096, "N": 1 << 20}
    assert 3 * reads(launches(field, sizes)) == 2 * reads(launches(softmax(), sizes))


def sums(flags: tuple[str, ...], other: bool = False) -> HirFunction:
    """Squares of what is left behind the sum of a row, or of another row's elements."""
    f = FunctionBuilder("sums", Form.FIELD, {"i": "M", "j": "N"})
    x, y, out = (f.parameter(name, Mem("f32", ("M", "N"))) for name in ("x", "y", "out"))
    e = f.body
    element = e.load(x, ["i", "j"])
    (total,) = e.reduce("add", e.load(y, ["i", "j"]) if other else element, over=["j"], flags=flags)
    off = e.sub(element, total)
    (squares,) = e.reduce("add", e.mul(off, off), over=["j"], flags=flags)
    e.store(out, e.mul(off, squares), ["i", "j"])
    return f.finish()


def test_what_stays_as_it_is() -> None:
    """Sums whose order is written, and those of other elements."""
    assert in_one_pass(sums(("reassoc",))) is not None
    assert in_one_pass(sums(())) is None
    assert in_one_pass(sums(("reassoc",), other=True)) is None


# ---- columns in registers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 64, 128), (1, 33, 31), (3, 1, 5), (2, 100, 129), (0, 4, 8), (1, 300, 34), (2, 5, 257), (1, 32, 3)])
def test_norms_of_columns(shape: tuple[int, ...], target: str) -> None:
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    found = np.asarray(zynml.compile(norm("n in 0..N, p in 0..P", "c in 0..C", "C"), device=f"emulator:{target}").f(x))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(("length", "kept"), [(64, True), (512, True), (100, True), (1 << 16, False)])
def test_columns_are_read_once_where_they_fit(length: int, kept: bool) -> None:
    known, about = less_the_largest(length, 4096)
    table = block_table(known, about)
    assert table is not None and (table["i"].place == "once") is kept
    if kept:
        assert reads(field_launches(known, table)) == 1


def less_the_largest(length: int, columns: int) -> tuple[HirFunction, Facts]:
    """Elements less the largest of their column, in columns of this length, and the facts of that."""
    f = FunctionBuilder("columns", Form.FIELD, {"i": "M", "j": "N"})
    x, out = (f.parameter(name, Mem("f32", ("M", "N"))) for name in ("x", "out"))
    for size in "MN":
        f.parameter(size, INDEX)
    e = f.body
    element = e.load(x, ["i", "j"])
    e.store(out, e.sub(element, e.reduce("max", element, over=["i"])[0]), ["i", "j"])
    known, _, about = specialised(f.finish(), evolve(facts_of({"M": length, "N": columns}, ("x", "out")), lengths=(("M", length),)))
    return known, about


@pytest.mark.parametrize(("length", "columns", "threads"), [(8, 99999, 1), (9, 99999, 8), (8, 4097, 8), (8, 100000, 8)])
def test_a_thread_has_a_short_column_that_it_reads_one_by_one(length: int, columns: int, threads: int) -> None:
    table = block_table(*less_the_largest(length, columns))
    assert table is not None and table["i"].threads == threads


# ---- what is made of rows, reduced ----------------------------------------------------------------------------------------------

MEAN = """def f(x: tensor[M, N], t: tensor[M, i64]) {
    compute(x, t) @kernel(reduce, mean) { for i in 0..M {
        var m = -inf
        for j in 0..N: m = max(m, x[i, j])
        var s = 0.0
        for j in 0..N: s += exp(x[i, j] - m)
        yield m + log(s) - x[i, t[i]]
    } }
}"""


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3, 500), (70, 33), (1, 1), (5, 2000)])
def test_the_mean_of_what_rows_make(shape: tuple[int, int], target: str) -> None:
    random = np.random.default_rng(6)
    x, t = random.standard_normal(shape).astype(np.float32), random.integers(0, shape[1], shape[0])
    wanted = np.log(np.exp(x.astype(np.float64)).sum(1)) - x[np.arange(len(x)), t]
    np.testing.assert_allclose(zynml.compile(MEAN, device=f"emulator:{target}").f(x, t), wanted.mean(), rtol=1e-5, atol=1e-6)


# ---- columns farther across ------------------------------------------------------------------------------------------------------

COLUMN_SUMS = """def f(x: tensor[A, N, C]) {
    compute(x) { for a in 0..A, c in 0..C {
        var s = 0.0
        for n in 0..N: s += x[a, n, c]
        out[a, c] = s
    } }
}"""


@pytest.mark.parametrize("shape", [(2, 300, 300), (1, 257, 129), (3, 1, 1000), (2, 40, 7), (0, 4, 8)])
def test_sums_down_columns_that_lie_along_all_threads(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "WIDE", 0)
    x = np.random.default_rng(8).standard_normal(shape).astype(np.float32)
    found = np.asarray(zynml.compile(COLUMN_SUMS, device="emulator:sm_90a").f(x))
    np.testing.assert_allclose(found, x.astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)
