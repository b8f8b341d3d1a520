"""Reductions of rows and what reads the row again, on a GPU: rows in registers, in loops, several in a block. Expected values from NumPy
in float64."""


import numpy as np
import pytest
from attrs import evolve

import zynml
from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.memory import Load
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.block_launches import field_launches
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.tiles import rows
from compiler.schedule.gpu.tiles.rows import row_lengths, single_lengths
from compiler.schedule.gpu.tiles.tables import block_table
from compiler.schedule.launches import Launches
from tests.emulator_cases import NUMPY
from tests.schedule.test_gpu_maps import ptx

SHAPES = [(1, 1), (3, 2), (5, 31), (9, 33), (4, 64), (3, 1000), (2, 1024), (1, 2049), (0, 5), (300, 4)]

SOFTMAX = """def f(x: tensor[M, N]) {
    compute(x) { for i in 0..M {
        var m = -inf
        for j in 0..N: m = max(m, x[i, j])
        var s = 0.0
        for j in 0..N: s += exp(x[i, j] - m)
        for j in 0..N: out[i, j] = exp(x[i, j] - m) / s
    } }
}"""

NORM = """def f(x: tensor[A, B, N], y: tensor[A, B, N], w: tensor[N], c: tensor[N]) {
    compute(x, y, w, c) { for a in 0..A, b in 0..B {
        var t = 0.0
        for j in 0..N: t += x[a, b, j] + y[a, b, j]
        let mean = t / (N as f32)
        var s = 0.0
        for j in 0..N: s += (x[a, b, j] + y[a, b, j] - mean) * (x[a, b, j] + y[a, b, j] - mean)
        let r = rsqrt(s / (N as f32) + 0.00001)
        for j in 0..N: out[a, b, j] = (x[a, b, j] + y[a, b, j] - mean) * r * w[j] + c[j]
    } }
}"""


def softmax(dtype: str = "f32") -> HirFunction:
    f = FunctionBuilder("softmax", Form.FIELD)
    x = f.parameter("x", Mem(dtype, ("M", "N"), readonly=True))
    out = f.parameter("out", Mem(dtype, ("M", "N")))
    for size in "MN":
        f.parameter(size, INDEX)
    f.axis("i", "M")
    f.axis("j", "N")
    e = f.body
    value = e.cast(e.load(x, ["i", "j"]), "f32")
    (top,) = e.reduce("max", value, over=["j"])
    weight = e.op("exp", e.sub(value, top))
    (total,) = e.reduce("add", weight, over=["j"], flags=("reassoc",))
    e.store(out, e.cast(e.op("div", weight, total), dtype), ["i", "j"])
    return f.finish()


def launches(field: HirFunction, sizes: dict[str, int]) -> Launches:
    known, _, about = specialised(field, facts_of(sizes, ("x", "out")))
    table = block_table(known, about)
    assert table is not None
    return field_launches(known, table)


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, int]) -> None:
    p = zynml.compile(SOFTMAX, device="emulator")
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    weight = np.exp(x.astype(np.float64) - x.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(p.f(x), weight / weight.sum(1, keepdims=True), rtol=2e-5)


@pytest.mark.parametrize("shape", [(2, 3, 40), (1, 2, 256), (3, 1, 7)])
def test_a_norm_of_a_sum_with_weights(shape: tuple[int, ...]) -> None:
    p = zynml.compile(NORM, device="emulator")
    rng = np.random.default_rng(2)
    x, y, w, c = (rng.standard_normal(s).astype(np.float32) for s in (shape, shape, shape[2:], shape[2:]))
    z = x.astype(np.float64) + y
    z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(p.f(x, y, w, c), z * w + c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 5), (2, 700), (40, 64), (2, 9000), (1, 1)])
def test_the_largest_of_each_row_and_its_place(shape: tuple[int, int]) -> None:
    p = zynml.compile(
        "def f(x: tensor[M, N]) { compute(x) @kernel reduce(argmax, axis=1) { for i in 0..M, j in 0..N: yield (x[i, j], j) } }",
        device="emulator",
    )
    x = np.random.default_rng(3).integers(0, 40, shape).astype(np.float32)
    x[0, -1] = np.nan
    value, place = p.f(x)
    np.testing.assert_array_equal(place, x.argmax(1))
    np.testing.assert_array_equal(value, x.max(1))


def reads(found: Launches) -> int:
    ops = [op for launch in found.launches for top in launch.function.body.body for op in top.walk()]
    return sum(isinstance(op, Load) and op.mem.name == "x" for op in ops)


@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize(("dtype", "columns"), [("f32", 8192), ("f32", 64), ("f32", 30000), ("bf16", 8192), ("bf16", 32768), ("f64", 8000)])
def test_rows_are_read_once_where_they_fit(dtype: str, columns: int, target: str) -> None:
    found = launches(softmax(dtype), {"M": 4096, "N": columns})
    assert reads(found) == 1
    assert "ld.global.nc.v" in ptx(found, target)


def test_longer_rows_are_walked_again() -> None:
    found = launches(softmax(), {"M": 4096, "N": 1 << 17})
    assert reads(found) > 2
    assert "ld.global.nc.v4" in ptx(found)


@pytest.mark.parametrize("length", [96, 768, 1000, 2048, 5120, 12288])
def test_kernels_for_the_length_of_rows(length: int) -> None:
    """Registers as many as the row fills, and no masks where it ends with a tile."""
    known, _, about = specialised(softmax(), evolve(facts_of({"M": 64, "N": length}, ("x", "out")), lengths=(("N", length),)))
    table = block_table(known, about)
    assert table is not None
    plan = table["j"]
    assert plan.place == "once"
    assert plan.tile - plan.threads * plan.lanes < length <= plan.tile
    made = field_launches(known, table)
    masked = any(isinstance(op, Load) and op.where is not None for top in made.launches[0].function.body.body for op in top.walk())
    assert masked is (length != plan.tile)
    ptx(made)


def test_lengths_are_of_rows_that_are_read_again() -> None:
    assert row_lengths(softmax(), {"M": 5, "N": 768}) == (("N", 768),)
    assert row_lengths(softmax(), {"M": 5, "N": 1 << 20}) == ()
    total = FunctionBuilder("total", Form.FIELD, {"i": "M", "j": "N"})
    x, out = total.parameter("x", Mem("f32", ("M", "N"))), total.parameter("out", Mem("f32", ("M",)))
    total.body.store(out, total.body.reduce("add", total.body.load(x, ["i", "j"]), over=["j"])[0], ["i"])
    summed = total.finish()
    assert row_lengths(summed, {"M": 5, "N": 768}) == single_lengths(summed, {"M": 5, "N": 768}) == ()
    assert single_lengths(summed, {"M": 5, "N": 779}) == (("N", 779),)
    square = FunctionBuilder("square", Form.FIELD, {"i": "N", "j": "N"})
    x, out = square.parameter("x", Mem("f32", ("N", "N"))), square.parameter("out", Mem("f32", ("N",)))
    square.body.store(out, square.body.reduce("add", square.body.load(x, ["i", "j"]), over=["j"])[0], ["i"])
    assert single_lengths(square.finish(), {"N": 779}) == (("N", 779),)
    assert single_lengths(summed, {"M": 5, "N": (1 << 20) + 1}) == single_lengths(summed, {"M": 5, "N": 0}) == ()


CAUSAL = """def f(x: tensor[B, N, N]) {
    compute(x) { for b in 0..B, i in 0..N {
        var top = -inf
        for j in 0..i + 1: top = max(top, x[b, i, j])
        var s = 0.0
        for j in 0..i + 1: s += exp(x[b, i, j] - top)
        for j in 0..N: out[b, i, j] = exp(x[b, i, j] - top) / s if j <= i else 0.0
    } }
}"""


@pytest.mark.parametrize("length", [31, 130])
def test_squares_have_kernels_for_their_length(length: int) -> None:
    """Where the number of rows has the name that their length has."""
    x = np.random.default_rng(length).standard_normal((2, length, length)).astype(np.float32)
    weight = np.tril(np.exp(x.astype(np.float64)))
    p = zynml.compile(CAUSAL, device="emulator:sm_90a")
    np.testing.assert_allclose(p.f(x), weight / weight.sum(-1, keepdims=True), rtol=2e-5, atol=1e-7)
    text = str(zynml.compile(CAUSAL)._session.emit("hir", "sm_90a", ["x=29x1693x1693"]))
    assert "tile<j_r:27, f32>" in text


WEIGHTED = """def f(w: tensor[M, K, i8], x: tensor[K], scale: tensor[M]) {
    compute(w, x, scale) { for i in 0..M {
        var s = 0.0
        for k in 0..K: s += (w[i, k] as f32) * x[k]
        out[i] = s * scale[i]
    } }
}"""


@pytest.mark.parametrize("shape", [(40, 31), (37, 384), (21, 263), (5, 1), (3, 1000), (9, 16), (0, 3), (3, 0)])
def test_rows_that_read_the_same_vector(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread has elements of several rows, and reads the vector once for them."""
    monkeypatch.setattr(rows, "MANY", 0)
    rng = np.random.default_rng(6)
    w, x, scale = rng.integers(-9, 9, shape).astype(np.int8), *(rng.integers(-9, 9, n).astype(np.float32) for n in shape[::-1])
    found = zynml.compile(WEIGHTED, device="emulator:sm_90a", sanitize=True).f(w, x, scale)
    np.testing.assert_array_equal(found, w.astype(np.float64) @ x.astype(np.float64) * scale)


# ---- rows over the blocks of a cluster -----------------------------------------------------------------------------------


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 threads keep four elements each and the longest row of a block has 128."""
    monkeypatch.setattr(rows, "THREADS", 32)
    monkeypatch.setattr(rows, "MOST_THREADS", 32)
    monkeypatch.setattr(rows, "KEPT_BYTES", 16)


@pytest.mark.usefixtures("clusters")
@pytest.mark.parametrize("shape", [(2, 512), (1, 300), (3, 257), (1, 2000), (0, 300)])
def test_softmax_over_a_cluster(shape: tuple[int, int]) -> None:
    p = zynml.compile(SOFTMAX, device="emulator:sm_90a")
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    weight = np.exp(x.astype(np.float64) - x.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(p.f(x), weight / weight.sum(1, keepdims=True), rtol=2e-5)
    if shape[0]:
        x[0, -1] = np.nan
        assert np.isnan(np.asarray(p.f(x))[0]).all()


@pytest.mark.usefixtures("clusters")
@pytest.mark.parametrize("shape", [(2, 1, 400), (1, 2, 261)])
def test_a_norm_of_a_sum_over_a_cluster(shape: tuple[int, ...]) -> None:
    p = zynml.compile(NORM, device="emulator:sm_90a")
    rng = np.random.default_rng(2)
    x, y, w, c = (rng.standard_normal(s).astype(np.float32) for s in (shape, shape, shape[2:], shape[2:]))
    z = x.astype(np.float64) + y
    z = (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(p.f(x, y, w, c), z * w + c, rtol=1e-4, atol=1e-5)


def best(dtype: str) -> HirFunction:
    """Of each row its largest element, the place of that, and all elements less the largest."""
    f = FunctionBuilder("best", Form.FIELD, {"i": "M", "j": "N"})
    x = f.parameter("x", Mem(dtype, ("M", "N"), readonly=True))
    out, top, place = (f.parameter(name, type) for name, type in (("out", Mem(dtype, ("M", "N"))), ("top", Mem(dtype, ("M",))), ("place", Mem("i64", ("M",)))))
    for size in "MN":
        f.parameter(size, INDEX)
    e = f.body
    value = e.load(x, ["i", "j"])
    largest, where = e.reduce("argmax", value, e.cast(e.index("j"), "i64"), over=["j"])
    e.store(top, largest, ["i"])
    e.store(place, where, ["i"])
    e.store(out, e.sub(value, largest), ["i", "j"])
    return f.finish()


@pytest.mark.usefixtures("clusters")
@pytest.mark.parametrize("dtype", ["f32", "i16", "i64"])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_what_a_row_has_once_is_written_once(dtype: str, seed: int | None) -> None:
    """By the first block of a cluster, and in any order of warps."""
    shape = (3, 530)
    x = np.random.default_rng(4).integers(0, 200, shape).astype(NUMPY[dtype])
    known, _, about = specialised(best(dtype), evolve(facts_of({"M": 3, "N": 530}, (), MACHINES["sm_90a"]), lengths=(("N", 530),)))
    table = block_table(known, about)
    assert table is not None and table.cluster > 1
    (launch,) = field_launches(known, table).launches
    verify(launch.function)
    out, top, place = np.zeros_like(x), np.zeros(3, x.dtype), np.zeros(3, np.int64)
    sizes = {"M": 3, "N": 530}
    interpret(launch.function, [x, out, top, place, 3, 530], grid=(launch.blocks(sizes), 1, 1), seed=seed)
    np.testing.assert_array_equal(top, x.max(1))
    np.testing.assert_array_equal(place, x.argmax(1))
    np.testing.assert_array_equal(out, x - x.max(1, keepdims=True))


def test_blocks_that_share_a_row() -> None:
    """As few as hold it in 256 threads each; on GPUs without clusters it is walked again."""
    for length, blocks in ((8192, 1), (16384, 1), (16385, 2), (50257, 4), (65536, 4), (131072, 8), (262144, 8)):
        for target, clustered in (("sm_90a", True), ("sm_80", False)):
            sizes = {"M": 512, "N": length}
            lengths = row_lengths(softmax(), sizes, MACHINES[target])
            known, _, about = specialised(softmax(), evolve(facts_of(sizes, ("x", "out"), MACHINES[target]), lengths=lengths))
            table = block_table(known, about)
            assert table is not None and table.cluster == (blocks if clustered else 1)
            assert (table["j"].place == "once") is (clustered or length <= 32768)


def test_what_a_cluster_needs_of_its_launch() -> None:
    sizes = {"M": 511, "N": 65536}
    known, _, about = specialised(softmax(), evolve(facts_of(sizes, ("x", "out"), MACHINES["sm_90a"]), lengths=(("N", 65536),)))
    table = block_table(known, about)
    assert table is not None
    made = field_launches(known, table)
    text = ptx(made, "sm_90a")
    assert ".reqnctapercluster 4" in text and text.count("st.shared::cluster") == 2
    assert made.launches[0].blocks({"M": 511, "N": 65536}) == 4 * 511


@pytest.mark.parametrize("target", ["sm_90a", "sm_75"])
@pytest.mark.parametrize("shape", [(40, 31), (100, 3), (33, 33), (70, 16), (0, 3), (301, 4)])
def test_several_short_rows_a_thread(shape: tuple[int, int], target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MANY", 0)
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    weight = np.exp(x.astype(np.float64) - x.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(zynml.compile(SOFTMAX, device=f"emulator:{target}").f(x), weight / weight.sum(1, keepdims=True), rtol=2e-5)


def test_many_short_rows_are_machine_code() -> None:
    found = launches(softmax(), {"M": 1 << 21, "N": 31})
    assert ptx(found).count("ld.global") == 4


SHORT_INNERMOST = """def f(w: tensor[N, 4], b: tensor[N, 4, i32], m: tensor[J, 3]) {
    compute(w, b, m) { for n in 0..N, i in 0..3 {
        var s = 0.0
        for k in 0..4: s += w[n, k] * m[b[n, k], i]
        out[n, i] = s
    } }
}"""


@pytest.mark.parametrize("count", [0, 1, 33, 1000, 1027])
def test_rows_whose_innermost_axis_is_short(count: int) -> None:
    rng = np.random.default_rng(count)
    w, b, m = rng.standard_normal((count, 4)).astype("f4"), rng.integers(0, 5, (count, 4)).astype("i4"), rng.standard_normal((5, 3)).astype("f4")
    expected = np.einsum("nk,nki->ni", w.astype("f8"), m.astype("f8")[b])
    np.testing.assert_allclose(zynml.compile(SHORT_INNERMOST, device="emulator:sm_90a").f(w, b, m), expected, rtol=1e-4, atol=1e-6)


def test_threads_stand_along_an_axis_that_they_fill() -> None:
    """Not along the innermost of three, and not one row a block."""
    f = FunctionBuilder("short", Form.FIELD)
    w, m = f.parameter("w", Mem("f32", ("N", 4), readonly=True)), f.parameter("m", Mem("f32", (64, 3, 4), readonly=True))
    b, out = f.parameter("b", Mem("i32", ("N", 4), readonly=True)), f.parameter("out", Mem("f32", ("N", 3)))
    f.parameter("N", INDEX)
    for axis, extent in (("n", "N"), ("i", 3), ("k", 4)):
        f.axis(axis, extent)
    e = f.body
    row = e.cast(e.load(b, ["n", "k"]), "index")
    term = e.mul(e.load(w, ["n", "k"]), e.load(m, [row.name, "i", 1], e.inbounds(row.name, 64)))
    (total,) = e.reduce("add", term, over=["k"], flags=("reassoc",))
    e.store(out, total, ["n", "i"])
    known, _, about = specialised(f.finish(), facts_of({"N": 1 << 20}, ("w", "b", "m", "out")))
    table = block_table(known, about)
    assert table is not None
    assert {plan.axis: (plan.threads, plan.registers) for plan in table.plans} == {"i": (1, 3), "n": (256, 1), "k": (1, 1)}
