"""Windows and other reductions of few terms, of which each thread computes its own, on the emulator with everything watched. Expected values
from NumPy in float64, or exact ints."""

import re

import numpy as np
import pytest
from attrs import evolve

import zynml
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.schedule.gpu import short_sums
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.short_sums import short_extents, short_launches
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_maps import ptx

DEPTHWISE = """def f(x: tensor[N, C, H, W], w: tensor[C, Q, R]): tensor {
    compute(x, w) { for n in 0..N, c in 0..C, y in 0..(H - Q + 1), v in 0..(W - R + 1) {
        var s = 0.0
        for q in 0..Q, r in 0..R: s += x[n, c, y + q, v + r] * w[c, q, r]
        out[n, c, y, v] = s
    } }
}"""

LARGEST = """def f(x: tensor[N, H, W, i32], k: tensor[Q, i32]): tensor {
    compute(x, k) { for n in 0..N, y in 0..(H - Q + 1), v in 0..(W - Q + 1) {
        var s = -2000000000
        for q in 0..Q, r in 0..Q: s = max(s, x[n, y + q, v + r])
        out[n, y, v] = s
    } }
}"""

MEANS = """def f(x: tensor[N, L]): tensor {
    compute(x) { for n in 0..N, i in 0..(L / 2 - 1) {
        var s = 0.0
        for q in 0..3: s += x[n, 2 * i + q]
        out[n, i] = s / 3.0
    } }
}"""


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A multiprocessor has enough to do with no results at all, and a thread takes several as soon as there are so many."""
    monkeypatch.setattr(short_sums, "MANY", 0)
    monkeypatch.setattr(short_sums, "RESIDENT", 0)


def windows(x: np.ndarray, *extents: int) -> np.ndarray:
    axes = tuple(range(x.ndim - len(extents), x.ndim))
    return np.lib.stride_tricks.sliding_window_view(x, extents, axes)


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("shape", [(1, 1, 3, 3), (2, 3, 7, 9), (1, 5, 31, 33), (2, 1, 12, 130), (1, 2, 64, 257), (0, 2, 8, 8)])
@pytest.mark.parametrize("window", [(3, 3), (1, 3), (2, 1)])
def test_depthwise_windows_whose_extents_are_names(shape: tuple[int, ...], window: tuple[int, int]) -> None:
    p = zynml.compile(DEPTHWISE, device="emulator", sanitize=True)
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal(shape).astype(np.float32), rng.standard_normal((shape[1], *window)).astype(np.float32)
    expected = np.einsum("ncyvqr,cqr->ncyv", windows(x.astype(np.float64), *window), w.astype(np.float64))
    np.testing.assert_allclose(p.f(x, w), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("shape", [(1, 2, 2), (2, 9, 5), (1, 33, 31), (3, 20, 140)])
def test_the_largest_of_each_window(shape: tuple[int, ...]) -> None:
    p = zynml.compile(LARGEST, device="emulator", sanitize=True)
    x = np.random.default_rng(2).integers(-1000, 1000, shape, dtype=np.int32)
    np.testing.assert_array_equal(p.f(x, np.zeros(2, np.int32)), windows(x, 2, 2).max((-1, -2)))


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("shape", [(1, 4), (3, 11), (2, 1000), (1, 0)])
def test_means_of_windows_that_step(shape: tuple[int, int]) -> None:
    p = zynml.compile(MEANS, device="emulator", sanitize=True)
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    count = max(0, shape[1] // 2 - 1)
    expected = np.array([[row[2 * i : 2 * i + 3].mean() for i in range(count)] for row in x.astype(np.float64)]).reshape(shape[0], count)
    np.testing.assert_allclose(p.f(x), expected, rtol=1e-5, atol=1e-6)


def depthwise() -> HirFunction:
    """`out[c, y, v] = sum of x[c, y + q, v + r] * w[c, q, r]`, all extents names."""
    f = FunctionBuilder("depthwise", Form.FIELD, {"c": "C", "y": "Y", "v": "V", "q": "Q", "r": "R"})
    height, width = Affine.of("Y") + Affine.of("Q") - 1, Affine.of("V") + Affine.of("R") - 1
    x, w = (f.parameter(n, Mem("f32", dims, readonly=True)) for n, dims in (("x", ("C", height, width)), ("w", ("C", "Q", "R"))))
    out = f.parameter("out", Mem("f32", ("C", "Y", "V")))
    for size in "CYVQR":
        f.parameter(size, INDEX)
    e = f.body
    term = e.mul(e.load(x, ["c", Affine.of("y") + "q", Affine.of("v") + "r"]), e.load(w, ["c", "q", "r"]))
    (total,) = e.reduce("add", term, over=["q", "r"], flags=("reassoc",))
    e.store(out, total, ["c", "y", "v"])
    return f.finish()


def made(field: HirFunction, **sizes: int) -> Launches | None:
    facts = evolve(facts_of(sizes, ("x", "w", "out")), lengths=short_extents(field, sizes))
    known, _, about = specialised(field, facts)
    return short_launches(known, about)


def test_a_kernel_is_made_for_the_extents_of_short_windows() -> None:
    sizes = {"C": 64, "Y": 510, "V": 510, "Q": 3, "R": 5}
    assert short_extents(depthwise(), sizes) == (("Q", 3), ("R", 5))
    assert short_extents(depthwise(), sizes | {"Q": 17}) == ()
    assert short_extents(depthwise(), sizes | {"Q": 0}) == ()


def test_rows_of_a_window_are_loaded_once_for_several_results() -> None:
    """Four results along y need six rows of three elements, and nine weights."""
    launches = made(depthwise(), C=64, Y=508, V=512, Q=3, R=3)
    assert launches is not None
    assert "a thread has 4 results along y" in launches.words
    assert len(re.findall("ld.global", ptx(launches))) == 6 * 3 + 9


def test_few_results_and_long_sums_are_left_to_others() -> None:
    assert made(depthwise(), C=2, Y=64, V=64, Q=3, R=3) is None
    assert made(depthwise(), C=64, Y=512, V=512, Q=40, R=40) is None


@pytest.mark.parametrize(("rows", "taken"), [(32, True), (109, False)])
def test_terms_that_are_read_again_are_few(rows: int, taken: bool) -> None:
    """A thread keeps them in registers."""
    f = FunctionBuilder("f", Form.FIELD, {"i": rows, "j": "N"})
    x, out = f.parameter("x", Mem("f32", (rows, "N"), readonly=True)), f.parameter("out", Mem("f32", ("N",)))
    f.parameter("N", INDEX)
    e = f.body
    value = e.load(x, ["i", "j"])
    (top,) = e.reduce("max", value, over=["i"])
    (total,) = e.reduce("add", e.op("exp", e.sub(value, top)), over=["i"], flags=("reassoc",))
    e.store(out, total, ["j"])
    assert (made(f.finish(), N=353527) is not None) is taken


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (3, 7), (5, 0)])
def test_softmax_along_a_short_leading_axis(shape: tuple[int, int]) -> None:
    p = zynml.compile(
        """def f(x: tensor[M, N]): tensor {
            compute(x) { for j in 0..N {
                var m = -inf
                for i in 0..M: m = max(m, x[i, j])
                var s = 0.0
                for i in 0..M: s += exp(x[i, j] - m)
                for i in 0..M: out[i, j] = exp(x[i, j] - m) / s
            } }
        }""",
        device="emulator",
        sanitize=True,
    )
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    weight = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(p.f(x), weight / weight.sum(0), rtol=2e-5)
