"""Kernels that follow from a field and a table: windows, stencils, several stores, each thread with elements that share what they load, on
the emulator with everything watched. Expected values from NumPy in float64, or exact ints."""

import re
from math import prod
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import zynml
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu import choose
from compiler.schedule.gpu.derived.instances import ThreadInstances
from compiler.schedule.gpu.derived.nest import derived_extents, most_terms, thread_nest
from compiler.schedule.gpu.derived.search import candidates, derived_launches, near_tables
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.gpu.facts import Facts, specialised
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_maps import ptx

POOL = """def f(x: tensor[N, C, H, W]): tensor {
    compute(x) { for n in 0..N, c in 0..C, y in 0..((H - 3) / 2 + 1), v in 0..((W - 3) / 2 + 1) {
        var s = -inf
        for q in 0..3, r in 0..3: s = max(s, x[n, c, 2 * y + q, 2 * v + r])
        out[n, c, y, v] = s
    } }
}"""

STENCIL = """def f(x: tensor[D, H, W]): tensor {
    compute(x) { for i in 0..D, j in 0..H, k in 0..W {
        var s = -6.0 * x[i, j, k]
        if i > 0: s += x[i - 1, j, k]
        if i < D - 1: s += x[i + 1, j, k]
        if j > 0: s += x[i, j - 1, k]
        if j < H - 1: s += x[i, j + 1, k]
        if k > 0: s += x[i, j, k - 1]
        if k < W - 1: s += x[i, j, k + 1]
        out[i, j, k] = s
    } }
}"""

LIFE = """def f(x: tensor[H, W, u8]): tensor {
    compute(x) { for i in 0..H, j in 0..W {
        var n = 0
        for a in 0..3, b in 0..3 {
            let y = i + a - 1
            let z = j + b - 1
            if y >= 0 and y < H and z >= 0 and z < W: n += x[y, z] as i32
        }
        let alive = n == 3 or (n == 4 and x[i, j] == 1)
        out[i, j] = alive as u8
    } }
}"""

DEPTHWISE = """def f(x: tensor[N, H, W, C, bf16], w: tensor[Q, R, C, bf16]): tensor {
    compute(x, w) { for n in 0..N, i in 0..H, j in 0..W, c in 0..C {
        var s: f32 = 0.0
        for q in 0..Q, r in 0..R {
            let y = i + q - 1
            let z = j + r - 1
            if y >= 0 and y < H and z >= 0 and z < W: s += (x[n, y, z, c] as f32) * (w[q, r, c] as f32)
        }
        out[n, i, j, c] = s
    } }
}"""

ROTARY = """def f(x: tensor[B, H, S, D], cs: tensor[S, E], sn: tensor[S, E]) -> tensor[B, H, S, D] {
    compute(x, cs, sn) -> tensor[B, H, S, D] { for b in 0..B, h in 0..H, s in 0..S, e in 0..E {
        let p = x[b, h, s, e]
        let q = x[b, h, s, e + E]
        out[b, h, s, e] = p * cs[s, e] - q * sn[s, e]
        out[b, h, s, e + E] = q * cs[s, e] + p * sn[s, e]
    } }
}"""

MEANS = """def f(x: tensor[N, D, H, W]): tensor {
    compute(x) { for n in 0..N, d in 0..(D / 2), y in 0..(H / 2), v in 0..(W / 2) {
        var s = 0.0
        for p in 0..2, q in 0..2, r in 0..2: s += x[n, 2 * d + p, 2 * y + q, 2 * v + r]
        out[n, d, y, v] = s / 8.0
    } }
}"""

LINES = """def f(x: tensor[N, L, f64]): tensor {
    compute(x) { for n in 0..N, i in 0..(L - 2) {
        var s = 0.0
        for q in 0..3: s += x[n, i + q]
        out[n, i] = s
    } }
}"""


def compiled(source: str) -> Any:
    return zynml.compile(source, device="emulator:sm_90a", sanitize=True)


def windows(x: np.ndarray, *extents: int) -> np.ndarray:
    axes = tuple(range(x.ndim - len(extents), x.ndim))
    return np.lib.stride_tricks.sliding_window_view(x, extents, axes)


@pytest.mark.parametrize("shape", [(1, 1, 3, 3), (2, 3, 7, 9), (1, 2, 31, 33), (1, 1, 16, 16), (2, 1, 3, 40), (0, 1, 5, 5), (1, 1, 9, 131)])
def test_the_largest_of_windows_that_step(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    if x.size > 20:
        x.flat[7] = np.nan
        x.flat[-1] = np.inf
    expected = windows(x, 3, 3)[:, :, ::2, ::2].max((-1, -2), initial=-np.inf)
    np.testing.assert_array_equal(compiled(POOL).f(x), expected)


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 5, 6), (7, 1, 2), (3, 31, 33), (8, 8, 32), (2, 3, 127)])
def test_a_stencil_with_edges(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.float32)
    e = np.pad(x.astype(np.float64), 1)
    inner = slice(1, -1)
    sums = (
        e[:-2, inner, inner] + e[2:, inner, inner] + e[inner, :-2, inner] + e[inner, 2:, inner] + e[inner, inner, :-2] + e[inner, inner, 2:]
    )
    np.testing.assert_array_equal(compiled(STENCIL).f(x), sums - 6 * x)


def test_a_stencil_of_what_lies_elsewhere() -> None:
    """Transposed, mirrored and with gaps."""
    x = np.random.default_rng(3).integers(-9, 9, (9, 6, 8)).astype(np.float32)
    p = compiled(STENCIL)
    for view in (x.transpose(2, 0, 1), x[::-1, :, ::-1], x[::2, ::3, ::2], x[1:, 1:, 1:]):
        np.testing.assert_array_equal(p.f(view), p.f(np.ascontiguousarray(view)))


@pytest.mark.parametrize("shape", [(2, 64, 32), (1, 40, 70), (3, 34, 18)])
def test_lanes_lie_along_what_is_read_where_that_is_much_more(shape: tuple[int, ...]) -> None:
    """Means of 2 x 2 of a picture that is turned: neighbouring lanes read down its columns."""
    source = """def f(x: tensor[N, H, W]) {
        compute(x) { for n in 0..N, y in 0..H / 2, v in 0..W / 2 { var s = 0.0
            for q in 0..2, r in 0..2: s += x[n, 2 * y + q, 2 * v + r]
            out[n, y, v] = s / 4 } }
    }"""
    x = np.random.default_rng(7).integers(-9, 9, shape).astype(np.float32)
    turned_x = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    expected = windows(x.astype(np.float64), 2, 2)[:, ::2, ::2].mean((-1, -2))
    np.testing.assert_array_equal(compiled(source).f(turned_x), expected)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (33, 31), (16, 64), (3, 128)])
def test_life(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(4).integers(0, 2, shape).astype(np.uint8)
    e = np.pad(x.astype(int), 1)
    count = sum(e[a : a + shape[0], b : b + shape[1]] for a in range(3) for b in range(3))
    np.testing.assert_array_equal(compiled(LIFE).f(x), (count == 3) | ((count == 4) & (x == 1)))


@pytest.mark.parametrize("extents", [("H", "W"), (9, 48)])
def test_life_with_a_choice_of_numbers(extents: tuple[int | str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Extents by name, and as the type says them: the guards hold for these, so that no index is checked."""
    source = LIFE.replace("H", str(extents[0])).replace("W", str(extents[1]))
    source = source.replace("): tensor", f"): tensor[{extents[0]}, {extents[1]}, u8]").replace(
        "compute(x)", f"compute(x) -> tensor[{extents[0]}, {extents[1]}, u8]"
    )
    source = source.replace("alive as u8", "1 if alive else 0")
    shape = (9, 48)
    x = np.random.default_rng(5).integers(0, 2, shape).astype(np.uint8)
    e = np.pad(x.astype(int), 1)
    count = sum(e[a : a + shape[0], b : b + shape[1]] for a in range(3) for b in range(3))
    seen = []

    def derived(field: HirFunction, facts: Facts) -> Launches | None:
        seen.append(derived_launches(field, facts))
        return seen[-1]

    monkeypatch.setattr(choose, "WAYS", tuple(derived if way is derived_launches else way for way in choose.WAYS))
    np.testing.assert_array_equal(compiled(source).f(x), (count == 3) | ((count == 4) & (x == 1)))
    assert seen[-1] is not None


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 5, 6, 8), (1, 7, 3, 33), (1, 4, 9, 64)])
def test_depthwise_windows_of_bf16(shape: tuple[int, ...]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(5)
    x, w = (rng.integers(-8, 8, s).astype(ml_dtypes.bfloat16) for s in (shape, (3, 3, shape[-1])))
    e = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.einsum("nijcqr,qrc->nijc", np.lib.stride_tricks.sliding_window_view(e, (3, 3), (1, 2)), w.astype(np.float64))
    np.testing.assert_array_equal(np.asarray(compiled(DEPTHWISE).f(x, w)).astype(np.float64), expected)


def test_an_infinite_weight_outside_of_the_picture_counts_for_nothing() -> None:
    """`if inside: s += x * w` doesn't multiply what is outside."""
    source = DEPTHWISE.replace(", bf16]", "]")
    x, w = np.ones((1, 3, 4, 2), np.float32), np.ones((3, 3, 2), np.float32)
    w[0, 0] = np.inf
    e = np.pad(np.ones((3, 4)), 1)
    expected = np.array([[(e[i : i + 3, j : j + 3].sum() if i == 0 or j == 0 else np.inf) for j in range(4)] for i in range(3)])
    np.testing.assert_array_equal(compiled(source).f(x, w), np.repeat(expected[None, :, :, None], 2, 3))


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 5, 4), (1, 2, 33, 16), (2, 2, 3, 31)])
def test_rotary_with_two_stores(shape: tuple[int, ...]) -> None:
    b, h, s, e = shape
    rng = np.random.default_rng(6)
    x = rng.integers(-9, 9, (b, h, s, 2 * e)).astype(np.float32)
    cs, sn = (rng.integers(-9, 9, (s, e)).astype(np.float32) for _ in range(2))
    expected = np.concatenate((x[..., :e] * cs - x[..., e:] * sn, x[..., e:] * cs + x[..., :e] * sn), -1)
    np.testing.assert_array_equal(compiled(ROTARY).f(x, cs, sn), expected)


@pytest.mark.parametrize("shape", [(1, 2, 2, 2), (2, 4, 6, 9), (1, 3, 5, 66), (1, 1, 8, 8)])
def test_means_of_boxes(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(7).integers(-9, 9, shape).astype(np.float32)
    n, d, h, w = (shape[0], *(extent // 2 for extent in shape[1:]))
    boxes = x[:, : 2 * d, : 2 * h, : 2 * w].reshape(n, d, 2, h, 2, w, 2)
    np.testing.assert_array_equal(compiled(MEANS).f(x), boxes.astype(np.float64).mean((2, 4, 6)))


@pytest.mark.parametrize("shape", [(2, 3, 96), (1, 5, 10), (3, 1, 3), (70, 3, 31)])
@pytest.mark.parametrize(("taps", "step"), [(3, 3), (2, 2), (3, 2)])
def test_windows_side_by_side_keep_their_axis(shape: tuple[int, int, int], taps: int, step: int) -> None:
    """Steps as wide as a window, or whole ones: lines aren't taken apart into digits where a thread loads what windows read."""
    source = """def f(x: tensor[N, H, W, u8], R: int, T: int) { compute(x, R, T) { for n in 0..N, h in 0..H, v in 0..(W - R) / T + 1:
        var m = 0
        for q in 0..R: m = max(m, x[n, h, T * v + q])
        out[n, h, v] = m
    } }"""
    x = np.random.default_rng(3).integers(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(compiled(source).f(x, taps, step), windows(x, taps)[:, :, ::step].max(-1))


@pytest.mark.parametrize("terms", [2, 3, 8])
def test_terms_of_a_reduction_that_reduce_along_the_same_axis(terms: int) -> None:
    """The variance of a window, whose mean is part of each term."""
    source = f"""def f(x: tensor[N, f64]) {{
        compute(x) {{
            for i in 0..N - {terms - 1} {{
                var total = 0.0
                for q in 0..{terms}: total += x[i + q]
                let mean = total / {terms}.0
                var spread = 0.0
                for q in 0..{terms} {{
                    let off = mean - x[i + q]
                    spread += off * off
                }}
                out[i] = spread / {terms}.0
            }}
        }}
    }}"""
    x = np.random.default_rng(9).integers(-9, 9, 67).astype(np.float64)
    np.testing.assert_allclose(compiled(source).f(x), windows(x, terms).var(-1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 3), (3, 31), (2, 1000), (5, 67)])
def test_sums_have_the_order_that_is_written(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(8).standard_normal(shape)
    np.testing.assert_array_equal(compiled(LINES).f(x), (x[:, :-2] + x[:, 1:-1]) + x[:, 2:])


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


def numbered(**sizes: int) -> tuple[HirFunction, Facts]:
    facts = Facts(aligned=frozenset(("x", "w", "out")), machine=MACHINES["sm_90a"], lengths=derived_extents(depthwise(), sizes))
    known, _, about = specialised(depthwise(), facts)
    return known, about


def launches(**sizes: int) -> Launches:
    made = derived_launches(*numbered(**sizes))
    assert made is not None
    return made


def registers_of(made: Launches) -> int:
    """Elements of a thread."""
    each = re.findall(r"(\d+) x \d+", made.words[0])
    return int(np.prod([int(number) for number in each]))


def test_elements_that_neighbours_share_are_loaded_once() -> None:
    made = launches(C=64, Y=508, V=512, Q=3, R=3)
    text = ptx(made)
    elements = registers_of(made)
    assert elements >= 4
    loaded = sum(int(width or 1) for width in re.findall(r"ld\.global\.nc(?:\.v(\d))?\.b32", text))
    assert loaded < 9 * elements / 2 + 9


def test_aligned_neighbours_are_vectors() -> None:
    text = ptx(launches(C=64, Y=510, V=512, Q=3, R=1))
    assert "ld.global.nc.v4.b32" in text and "st.global.v4.b32" in text


def test_tables_are_priced_best_first() -> None:
    known, about = numbered(C=64, Y=510, V=510, Q=3, R=3)
    nest = thread_nest(known)
    assert nest is not None
    prices = [candidate.price.nanoseconds for candidate in candidates(nest, about)]
    assert len(prices) > 3 and prices == sorted(prices)
    bytes_moved = 4 * 64 * (512 * 512 + 510 * 510)
    assert prices[0] > bytes_moved / 4.8e3


@pytest.mark.parametrize(("length", "each"), [(4099, 1), (4096, 4)])
def test_lanes_whose_elements_cannot_be_vectors_stand_next_to_each_other(length: int, each: int) -> None:
    """Four elements of a thread in rows of odd length are four accesses, each of a warp 16 bytes apart."""
    f = FunctionBuilder("sums", Form.FIELD, {"i": 512, "j": length, "r": 3})
    x = f.parameter("x", Mem("f32", (512, length + 4), readonly=True, align=16))
    out = f.parameter("out", Mem("f32", (512, length), align=16))
    (total,) = f.body.reduce("add", f.body.load(x, ["i", Affine.of("j") + "r"]), over=["r"])
    f.body.store(out, total, ["i", "j"])
    nest = thread_nest(f.finish())
    assert nest is not None
    assert candidates(nest, Facts(machine=MACHINES["sm_90a"]))[0].table.registers[1] == each


def test_threads_at_edges_have_stores_of_their_own() -> None:
    """One store for both branches would choose between all their values."""
    session = zynml.compile(LIFE)._session
    (rows,) = re.findall(r"i: (\d+) x", str(session.emit("schedule", "sm_90a", ["x=6016x22912"])))
    assert str(session.emit("ptx", "sm_90a", ["x=6016x22912"])).count("st.global") == 2 * int(rows)


def test_filters_of_f64_over_rows_of_even_length() -> None:
    text = """def f(x: tensor[M, N, f64], w: tensor[R, f64]) {
        compute(x, w) { for i in 0..M, j in 0..N - R + 1 {
            var s = 0.0
            for r in 0..R: s += w[r] * x[i, j + r]
            out[i, j] = s
        } }
    }"""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((130, 1036)), rng.standard_normal(11)
    wanted = np.stack([np.correlate(row, w, "valid") for row in x])
    np.testing.assert_allclose(zynml.compile(text, device="emulator:sm_90a").f(x, w), wanted, rtol=1e-12, atol=1e-12)


def test_near_tables_are_choices_for_a_device() -> None:
    known, about = numbered(C=64, Y=510, V=510, Q=3, R=3)
    near = near_tables(known, about)
    times = [nanoseconds for _, nanoseconds in near]
    assert 1 < len(near) <= 5 and len({table for table, _ in near}) == len(near)
    assert times[0] == min(times) and max(times) <= 1.15 * times[0]
    for table, _ in near:
        made = derived_launches(known, evolve(about, table=table))
        assert made is not None and registers_of(made) == np.prod(table.registers)
    assert near_tables(depthwise(), about) == []


@pytest.mark.parametrize("number", [0, 1, 2, 3, -1])
@pytest.mark.parametrize(("source", "shape"), [(STENCIL, (7, 9, 32)), (STENCIL, (5, 6, 13)), (POOL, (1, 2, 21, 40))])
def test_results_are_the_same_by_any_table(number: int, source: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(9).standard_normal(shape).astype(np.float32)
    expected = zynml.compile(source, device="cpu").f(x)

    def other(field: HirFunction, facts: Facts) -> list[tuple[ThreadTable, float]]:
        nest = thread_nest(field)
        assert nest is not None
        every = candidates(nest, facts)
        return [(every[number % len(every)].table, 0.0)]

    monkeypatch.setattr(choose, "near_tables", other)
    np.testing.assert_allclose(compiled(source).f(x), expected, rtol=1e-6, atol=1e-6)


def test_products_and_names_are_left_to_others() -> None:
    assert thread_nest(depthwise()) is None
    f = FunctionBuilder("product", Form.FIELD, {"i": 64, "j": 64, "k": 64})
    a, b = (f.parameter(name, Mem("f32", (64, 64), readonly=True)) for name in "ab")
    out = f.parameter("out", Mem("f32", (64, 64)))
    f.body.store(out, f.body.contract(f.body.load(a, ["i", "k"]), f.body.load(b, ["k", "j"]), ["k"], "f32"), ["i", "j"])
    assert thread_nest(f.finish()) is None


@pytest.mark.parametrize(("index", "most"), [(("k", "j"), 64), (("j", "k"), 0)])
def test_short_sums_are_taken_where_neighbours_lie_side_by_side(index: tuple[str, str], most: int) -> None:
    f = FunctionBuilder("sums", Form.FIELD, {"j": "J", "k": "K"})
    x = f.parameter("x", Mem("f32", tuple(name.upper() for name in index), readonly=True))
    out = f.parameter("out", Mem("f32", ("J",)))
    f.body.store(out, f.body.reduce("add", f.body.load(x, list(index)), over=["k"])[0], ["j"])
    assert most_terms(f.finish()) == most


@pytest.mark.parametrize("shape", [(1, 5, 7), (2, 16, 64), (3, 64, 33)])
def test_softmax_over_few_channels(shape: tuple[int, int, int]) -> None:
    source = """def f(x: tensor[N, C, P]) {
        compute(x) { for n in 0..N, p in 0..P {
            var top = -inf
            for c in 0..C: top = max(top, x[n, c, p])
            var total = 0.0
            for c in 0..C: total += exp(x[n, c, p] - top)
            for c in 0..C: out[n, c, p] = exp(x[n, c, p] - top) / total
        } }
    }"""
    x = np.random.default_rng(10).standard_normal(shape).astype(np.float32)
    weights = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(compiled(source).f(x), weights / weights.sum(1, keepdims=True), rtol=1e-5)


def test_lanes_read_lines_that_they_share() -> None:
    """Matrices of nine elements side by side are read where they lie: nothing is copied first."""
    minors = [((0, 1, 2), 1), ((1, 2, 0), 1), ((2, 0, 1), 1), ((0, 2, 1), -1), ((1, 0, 2), -1), ((2, 1, 0), -1)]
    terms = " + ".join(f"{sign}.0 * a[n, 0, {i}] * a[n, 1, {j}] * a[n, 2, {k}]" for (i, j, k), sign in minors)
    text = f"def f(a: tensor[N, 3, 3, f64]): tensor {{ compute(a) {{ for n in 0..N: out[n] = {terms} }} }}"
    program = zynml.compile(text, device="emulator:sm_90a")
    a = np.random.default_rng(5).integers(-9, 10, (1001, 3, 3)).astype(np.float64)
    assert np.array_equal(np.asarray(program.f(a)), np.round(np.linalg.det(a)))
    assert "copied first" not in str(program.schedule)


@pytest.mark.parametrize("size", [1, 3, 4, 8])
def test_small_matrices_have_few_threads(size: int) -> None:
    """Products of many small matrices, whose extents are names: a block has several of them."""
    text = """def f(a: tensor[N, K, K], b: tensor[N, K, K]): tensor {
        compute(a, b) { for n in 0..N, i in 0..K, j in 0..K {
            var s = 0.0
            for k in 0..K: s += a[n, i, k] * b[n, k, j]
            out[n, i, j] = s
        } }
    }"""
    program = zynml.compile(text, device="emulator:sm_90a")
    a, b = np.random.default_rng(size).integers(-5, 6, (2, 101, size, size)).astype(np.float32)
    assert np.array_equal(program.f(a, b), a @ b)
    (call,) = program._session.launches_like([f"a=9999x{size}x{size}, b=9999x{size}x{size}"], "emulator:sm_90a")
    (launch,) = call.threads.launches.launches
    assert launch.blocks({"N": 9999, "K": size}) * prod(launch.block) <= 9999 * max(32, size * size)


MEDIAN = """
def f(x: tensor[H, W]) {
    compute(x) {
        for i in 0..H, j in 0..W:
            var s: [f32; 9] = [0.0; 9]
            for r in 0..3, q in 0..3: s[r * 3 + q] = x[clamp(i + r - 1, 0, H - 1), clamp(j + q - 1, 0, W - 1)]
            for a in 0..8:
                for b in 0..8 - a:
                    if s[b] > s[b + 1]:
                        let t = s[b]
                        s[b] = s[b + 1]
                        s[b + 1] = t
            out[i, j] = s[4]
    }
}
"""


def test_choices_of_choices_take_no_exponential_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine elements are sorted by 36 exchanges, each of which chooses between results of those before it."""
    asked = 0
    at = ThreadInstances.at

    def counted(self: ThreadInstances, number: int) -> int:
        nonlocal asked
        asked += 1
        assert asked < 1_000_000
        return at(self, number)

    monkeypatch.setattr(ThreadInstances, "at", counted)
    x = np.random.default_rng(0).random((5, 7)).astype("f4")
    expected = np.median(np.lib.stride_tricks.sliding_window_view(np.pad(x, 1, mode="edge"), (3, 3)).reshape(5, 7, 9), axis=-1)
    assert np.array_equal(zynml.compile(MEDIAN, device="emulator:sm_90a").f(x), expected)


def test_parts_of_reductions_of_reductions_are_made_for_sizes() -> None:
    """The best of 16 sums of 25 terms: 400 together are more than a thread's, but those of a sum aren't."""
    f = FunctionBuilder("matched", Form.FIELD, {"y": "Y", "z": "Z", "d": 16, "a": 5, "b": 5})
    low, high = (f.parameter(n, Mem("i32", (Affine.of("Y") + 4, Affine.of("Z") + 20), readonly=True)) for n in ("low", "high"))
    out = f.parameter("out", Mem("i32", ("Y", "Z")))
    for size in "YZ":
        f.parameter(size, INDEX)
    e = f.body
    row, column = Affine.of("y") + "a", Affine.of("z") + "b" + 16
    term = e.op("abs", e.sub(e.load(low, [row, column]), e.load(high, [row, column - "d"])))
    (cost,) = e.reduce("add", term, over=["a", "b"])
    (best,) = e.reduce("min", cost, over=["d"])
    e.store(out, best, ["y", "z"])
    field = f.finish()
    assert derived_extents(field, {"Y": 2044, "Z": 2028}) == (("Y", 2044), ("Z", 2028))
    assert derived_extents(field, {"Y": 2044}) == (("Y", 2044),)
