"""Reductions whose terms share elements, with tiles of results in registers, on the emulator with everything watched. Expected values from
NumPy in float64, or exact ints."""

import re
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from attrs import evolve

import zynml
from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.build import FunctionBuilder
from compiler.hir.core import Index
from compiler.hir.gpu import GridIndex
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.reuse import register_tiles
from compiler.schedule.gpu.reuse.register_tiles import register_extents, register_launches
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_maps import ptx

DISTANCES = """def f(x: tensor[I, K], y: tensor[J, K]) {
    compute(x, y) { for i in 0..I, j in 0..J {
        var s = 0.0
        for k in 0..K {
            let d = x[i, k] - y[j, k]
            s += d * d
        }
        out[i, j] = s * 0.5
    } }
}"""

NEAREST = """def f(x: tensor[N, K], y: tensor[C, K]) {
    compute(x, y) { for i in 0..N {
        var best = inf
        for c in 0..C {
            var s = 0.0
            for k in 0..K { s += abs(x[i, k] - y[c, k]) }
            best = min(best, s)
        }
        out[i] = best
    } }
}"""

WIDEST = """def f(x: tensor[K, I, i32], y: tensor[J, K, i32]) {
    compute(x, y) { for i in 0..I, j in 0..J {
        var s = -100
        for k in 0..K { s = max(s, min(x[k, i], y[j, k])) }
        out[i, j] = s
    } }
}"""

BELOW = """def f(x: tensor[N, K]) {
    compute(x) -> tensor[N, N, f32] { for i in 0..N, j in 0..i {
        var s = 0.0
        for k in 0..K {
            let d = x[i, k] - x[j, k]
            s += d * d
        }
        out[i, j] = s
    } }
}"""

LOWER = """def f(x: tensor[N, N], y: tensor[N, M]) {
    compute(x, y) { for i in 0..N, j in 0..M {
        var s = 0.0
        for k in 0..i + 1 { s += x[i, k] * y[k, j] }
        out[i, j] = s
    } }
}"""

UPPER = """def f(x: tensor[N, N], y: tensor[N, N]) {
    compute(x, y) { for i in 0..N, j in 0..N {
        var s = 0.0
        for k in i..j + 1 { s += x[i, k] * y[k, j] }
        out[i, j] = s
    } }
}"""

PULLS = """def f(p: tensor[N, 2], m: tensor[N]) {
    compute(p, m) -> tensor[N, 2, f32] { for i in 0..N {
        var x = 0.0
        var y = 0.0
        for j in 0..N {
            let a = p[j, 0] - p[i, 0]
            let b = p[j, 1] - p[i, 1]
            let w = m[j] / (a * a + b * b + 0.5)
            x += w * a
            y += w * b
        }
        out[i, 0] = x
        out[i, 1] = y
    } }
}"""


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few results are enough."""
    for name in "LEAST_RESULTS", "LEAST_ROWS", "LEAST_TERMS", "LEAST_SIDE":
        monkeypatch.setattr(register_tiles, name, 1)


def compiled(text: str, watched: bool = True) -> Callable[..., np.ndarray]:
    return zynml.compile(text, device="emulator:sm_90a", sanitize=watched).f  # type: ignore[no-any-return]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x[:, None].astype(np.float64) - y[None]) ** 2).sum(-1)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 33, 5), (31, 9, 17), (40, 20, 0)])
def test_distances_of_all_pairs(shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    x, y = numbers(rows, depth), numbers(columns, depth)
    np.testing.assert_allclose(compiled(DISTANCES)(x, y), squares(x, y) / 2, rtol=1e-5, atol=1e-6)


def test_weighted_distances_in_batches() -> None:
    text = """def f(x: tensor[B, I, K], y: tensor[B, J, K], w: tensor[K]) {
        compute(x, y, w) { for b in 0..B, i in 0..I, j in 0..J {
            var s = 0.0
            for k in 0..K {
                let d = x[b, i, k] - y[b, j, k]
                s += w[k] * d * d
            }
            out[b, i, j] = s
        } }
    }"""
    x, y, w = numbers(2, 9, 7), numbers(2, 11, 7), numbers(7)
    expected = (w * (x[:, :, None].astype(np.float64) - y[:, None]) ** 2).sum(-1)
    np.testing.assert_allclose(compiled(text)(x, y, w), expected, rtol=1e-4, atol=1e-4)


def test_distances_whose_sum_blocks_share() -> None:
    x, y = numbers(5, 300), numbers(7, 300)
    np.testing.assert_allclose(compiled(DISTANCES, watched=False)(x, y), squares(x, y) / 2, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1, 1), (37, 19, 6), (20, 3, 21)])
def test_the_nearest_of_several(shape: tuple[int, int, int]) -> None:
    points, centres, depth = shape
    x, y = numbers(points, depth), numbers(centres, depth)
    expected = np.abs(x[:, None].astype(np.float64) - y[None]).sum(-1).min(1)
    np.testing.assert_allclose(compiled(NEAREST)(x, y), expected, rtol=1e-5)


def test_nothing_is_near_where_nothing_is_a_number() -> None:
    x, y = numbers(9, 3), numbers(5, 3)
    x[4, 1], y[2, 0] = np.nan, np.inf
    expected = np.abs(x[:, None].astype(np.float64) - y[None]).sum(-1).min(1)
    np.testing.assert_allclose(compiled(NEAREST)(x, y), expected, rtol=1e-5)


def test_the_widest_way_of_ints() -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-50, 50, shape, dtype=np.int32) for shape in ((13, 18), (35, 13)))
    expected = np.minimum(x.T[:, None], y[None]).max(-1)
    np.testing.assert_array_equal(compiled(WIDEST)(x, y), expected)


def test_the_widest_way_of_narrow_floats_is_found_among_pairs_of_them() -> None:
    x, y = numbers(7, 18).astype(np.float16), numbers(35, 7).astype(np.float16)
    x[2, 3], y[4, 1], y[5] = np.nan, -np.inf, np.inf
    text = WIDEST.replace("i32", "f16").replace("-100", "-inf")
    with np.errstate(invalid="ignore"):
        expected = np.minimum(x.T[:, None], y[None]).max(-1).astype(np.float32)
    np.testing.assert_array_equal(compiled(text)(x, y), expected)
    code = zynml.compile(text).emit("ptx", "sm_90a")
    assert "max.NaN.f16x2" in code and "max.NaN.f32" not in code


@pytest.mark.parametrize("shape", [(1, 2), (19, 3), (70, 5)])
def test_distances_below_the_diagonal(shape: tuple[int, int]) -> None:
    x = numbers(*shape)
    np.testing.assert_allclose(compiled(BELOW)(x), np.tril(squares(x, x), -1), rtol=1e-5)


def test_terms_outside_of_a_triangle_take_no_part() -> None:
    x, y = numbers(70, 70), numbers(70, 6)
    wild = np.where(np.tri(70) > 0, x, np.nan).astype(np.float32)
    expected = np.tril(x).astype(np.float64) @ y
    np.testing.assert_allclose(compiled(LOWER, watched=False)(wild, y), expected, rtol=1e-4, atol=1e-4)


def test_a_thin_triangle_of_f16_is_multiplied_in_registers() -> None:
    x, y = numbers(40, 40).astype(np.float16), numbers(40, 5).astype(np.float16)
    wild = np.where(np.tri(40) > 0, x, np.nan).astype(np.float16)
    program = zynml.compile(LOWER.replace("N]", "N, f16]").replace("M]", "M, f16]"), device="emulator:sm_90a")
    np.testing.assert_allclose(program.f(wild, y), np.tril(x).astype(np.float64) @ y, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_triangle_by_a_vector(order: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    x, y = np.asarray(numbers(40, 40), order=order), numbers(40, 1)
    wild = np.asarray(np.where(np.tri(40) > 0, x, np.nan), np.float32, order=order)
    np.testing.assert_allclose(compiled(LOWER)(wild, y), np.tril(x).astype(np.float64) @ y, rtol=1e-4, atol=1e-4)


def test_both_operands_are_triangles() -> None:
    x, y = numbers(37, 37), numbers(37, 37)
    wild = [np.where(np.tri(37, k=-1) > 0, np.inf, value).astype(np.float32) for value in (x, y)]
    expected = np.triu(x).astype(np.float64) @ np.triu(y)
    np.testing.assert_allclose(compiled(UPPER)(*wild), expected, rtol=1e-4, atol=1e-4)


def test_pulls_on_each_body_share_what_is_read() -> None:
    p, m = numbers(150, 2), np.abs(numbers(150))
    d = p[None].astype(np.float64) - p[:, None]
    w = m / ((d * d).sum(-1) + 0.5)
    np.testing.assert_allclose(compiled(PULLS, watched=False)(p, m), (w[..., None] * d).sum(1), rtol=1e-4, atol=1e-4)


def test_empty_results() -> None:
    assert compiled(DISTANCES)(numbers(0, 4), numbers(3, 4)).shape == (0, 3)
    assert np.isinf(compiled(NEAREST)(numbers(2, 4), numbers(0, 4))).all()


def test_the_number_of_the_nearest() -> None:
    text = """def f(x: tensor[N, K], y: tensor[C, K]) {
        compute(x, y) -> tensor[N, i64] { for i in 0..N {
            var best = inf
            var at = 0
            for c in 0..C {
                var s = 0.0
                for k in 0..K {
                    let d = x[i, k] - y[c, k]
                    s += d * d
                }
                if s < best {
                    best = s
                    at = c
                }
            }
            out[i] = at
        } }
    }"""
    x, y = numbers(21, 3), numbers(19, 3)
    y[7] = y[3]  # of equal ones the first
    np.testing.assert_array_equal(compiled(text)(x, y), squares(x, y).argmin(1))


def distances() -> HirFunction:
    """`out[i, j] = sum of |x[i, k] - y[j, k]|`, all extents names."""
    f = FunctionBuilder("distances", Form.FIELD, {"i": "I", "j": "J", "k": "K"})
    x, y = (f.parameter(name, Mem("f32", (rows, "K"), readonly=True)) for name, rows in (("x", "I"), ("y", "J")))
    out = f.parameter("out", Mem("f32", ("I", "J")))
    for size in "IJK":
        f.parameter(size, INDEX)
    e = f.body
    term = e.op("abs", e.sub(e.load(x, ["i", "k"]), e.load(y, ["j", "k"])))
    (total,) = e.reduce("add", term, over=["k"], flags=("reassoc",))
    e.store(out, total, ["i", "j"])
    return f.finish()


def made(field: HirFunction, **sizes: int) -> Launches | None:
    facts = evolve(facts_of(sizes, ("x", "y", "out"), MACHINES["sm_90a"]), lengths=register_extents(field, sizes))
    known, _, about = specialised(field, facts)
    return register_launches(known, about)


def test_a_kernel_is_made_for_short_extents() -> None:
    assert register_extents(distances(), {"I": 5000, "J": 100, "K": 37}) == (("J", 100), ("K", 37))
    assert register_extents(distances(), {"I": 5000, "J": 5000, "K": 370}) == ()


def test_most_of_the_inner_loop_is_arithmetic() -> None:
    launches = made(distances(), I=4096, J=4096, K=64)
    assert launches is not None
    assert "a thread 8 by 8 of them in registers" in launches.words[0]
    loop = max(re.split(r"\n\$L\w+:", ptx(launches, "sm_90a")), key=lambda block: block.count("sub.rn.f32"))
    assert loop.count("sub.rn.f32") == loop.count("add.rn.f32") == 8 * 64
    assert 0.85 * loop.count(";") < 3 * 8 * 64


def test_few_results_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert made(distances(), I=64, J=64, K=64) is None
    assert made(distances(), I=1 << 20, J=2, K=64) is None


def product(rows: str, columns: str, result: str) -> str:
    """The text of a sum of products over k whose operands' dims are named."""
    loops = ", ".join(f"{dim.lower()} in 0..{dim}" for dim in result)
    index = {name: ", ".join(dims).lower() for name, dims in (("a", rows), ("b", columns), ("out", result))}
    return f"""def f(a: tensor[{", ".join(rows)}], b: tensor[{", ".join(columns)}]) {{
    compute(a, b) {{ for {loops}:
        var s = 0.0
        for k in 0..K: s += a[{index["a"]}] * b[{index["b"]}]
        out[{index["out"]}] = s
    }}
}}"""


@pytest.mark.parametrize(
    ("a", "b", "result", "shapes"),
    [
        ("IK", "KJ", "IJ", ((33, 17), (17, 31))),
        ("IK", "JK", "IJ", ((1, 20), (40, 20))),
        ("NMIK", "KJ", "NMIJ", ((2, 3, 5, 18), (18, 24))),
        ("GKI", "GKJ", "GIJ", ((3, 18, 20), (3, 18, 9))),
        ("IK", "KJ", "IJ", ((70, 33), (33, 1))),
    ],
)
def test_products_of_numbers_that_no_matrix_unit_takes(a: str, b: str, result: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    x, y = numbers(*shapes[0]), numbers(*shapes[1])
    wanted = np.einsum(f"{a.lower()},{b.lower()}->{result.lower()}", x.astype(np.float64), y)
    np.testing.assert_allclose(compiled(product(a, b, result))(x, y), wanted, atol=1e-4)


def test_blocks_share_a_long_sum_of_products() -> None:
    x, y = numbers(33, 200), numbers(200, 40)
    np.testing.assert_allclose(compiled(product("IK", "KJ", "IJ"))(x, y), x.astype(np.float64) @ y, atol=1e-4)


@pytest.mark.parametrize(("bounds", "kept"), [("0..i + 1", np.tril), ("i..N", np.triu)])
def test_blocks_share_sums_of_different_lengths(bounds: str, kept: Callable[[np.ndarray], np.ndarray]) -> None:
    x, y = numbers(331, 331), numbers(331, 9)
    np.testing.assert_allclose(compiled(LOWER.replace("0..i + 1", bounds))(x, y), kept(x.astype(np.float64)) @ y, atol=1e-4)


@pytest.mark.parametrize(("where", "length", "covered"), [("below", 50, {"out"}), ("inside", 50, set()), ("below", 49, set())])
def test_zeros_are_stored_with_the_rest_where_all_of_a_result_has_an_axis(where: str, length: int, covered: set[str]) -> None:
    """`inside`: a condition of what is read; with 49 of 50 columns, whatever the condition says, the last one has no element to be 0."""
    f = FunctionBuilder("distances", Form.FIELD)
    f.axis("i", 50)
    f.axis("j", length)
    f.axis("k", 8)
    x, y, out = f.parameter("x", Mem("f32", (50, 8))), f.parameter("y", Mem("f32", (50, 8))), f.parameter("out", Mem("f32", (50, 50)))
    keys = f.parameter("keys", Mem("i64", (50,)))
    e = f.body
    (total,) = e.reduce("add", e.op("abs", e.sub(e.load(x, ["i", "k"]), e.load(y, ["j", "k"]))), over=["k"], flags=("reassoc",))
    near = e.inbounds("j", Affine.of("i") + 1) if where == "below" else e.op("lt", e.load(keys, ["i"]), e.const(3, "i64"))
    e.store(out, total, ["i", "j"], near)
    field = f.finish()
    launches = register_launches(field, evolve(facts_of({}, ("x", "y", "out"), MACHINES["sm_90a"]), zeroed=frozenset({"out"})))
    assert launches is not None and launches.covered == covered


WINDOW = """def f(x: tensor[N, C, H, W], w: tensor[O, C, Q, R]) {
    compute(x, w) { for n in 0..N, o in 0..O, y in 0..H + 2 * %(pad)d - (Q - 1), z in 0..W + 2 * %(pad)d - (R - 1):
        var s = 0.0
        for c in 0..C, q in 0..Q, r in 0..R:
            let i = y + q - %(pad)d
            let j = z + r - %(pad)d
            if i >= 0 and i < H and j >= 0 and j < W: s += x[n, c, i, j] * w[o, c, q, r]
        out[n, o, y, z] = s
    }
}"""


def window(x: np.ndarray, w: np.ndarray, pad: int) -> np.ndarray:
    """Term by term, so that nothing outside of the picture counts."""
    (n, _, height, width), (channels, _, down, across) = x.shape, w.shape
    out = np.zeros((n, channels, height + 2 * pad - down + 1, width + 2 * pad - across + 1))
    for y, z, q, r in np.ndindex(*out.shape[2:], down, across):
        i, j = y + q - pad, z + r - pad
        if 0 <= i < height and 0 <= j < width:
            with np.errstate(invalid="ignore"):
                out[:, :, y, z] += (x[:, None, :, i, j].astype(np.float64) * w[None, :, :, q, r]).sum(-1)
    return out


@pytest.mark.parametrize(
    ("x", "w", "pad"),
    [((2, 3, 8, 9), (9, 3, 3, 3), 1), ((1, 2, 6, 5), (8, 2, 1, 1), 0), ((2, 3, 9, 5), (5, 3, 3, 1), 0)],
)
def test_windows_along_channels_and_taps_at_once(x: tuple[int, ...], w: tuple[int, ...], pad: int) -> None:
    picture, weights = numbers(*x), numbers(*w)
    got = compiled(WINDOW % {"pad": pad})(picture, weights)
    np.testing.assert_allclose(got, window(picture, weights, pad), atol=1e-4)


def test_infinite_weights_count_nothing_outside_of_a_picture() -> None:
    picture, weights = numbers(1, 2, 6, 7), numbers(8, 2, 3, 3)
    weights[3, 1, 0, 0] = np.inf
    got = compiled(WINDOW % {"pad": 1})(picture, weights)
    np.testing.assert_allclose(got, window(picture, weights, 1), atol=1e-4)


def test_weights_are_read_along_channels_and_taps() -> None:
    """Eight of a row by threads side by side, though the loops that they are digits of are one."""
    text = re.sub("if [^:]*: ", "", WINDOW % {"pad": 0})
    (kernel,) = zynml.compile(text)._session.launches_like(["x=16x16x64x70:f32, w=128x16x3x3:f32"], "emulator:sm_90a")
    (launch,) = kernel.threads.launches.launches
    ops = [op for top in launch.function.body.body for op in top.walk()]
    forms = {op.result.name: op.of for op in ops if isinstance(op, Index)}
    threads = {op.result.name: np.arange(32) for op in ops if isinstance(op, GridIndex) and op.operator == "thread_idx"}

    def value_of(name: str) -> int:
        return forms[name].evaluate(value_of) if name in forms else threads.get(name, 0)  # type: ignore[return-value]

    copies = [op for op in ops if isinstance(op, AsyncCopy) and op.source.name == "w"]
    assert copies
    for copy in copies:
        o, c, q, r = (form.evaluate(value_of) for form in copy.source_index)
        element = np.zeros(32, int) + ((o * 16 + c) * 3 + q) * 3 + r
        assert len({*(element // 8)}) <= 8


def test_windows_along_rows_of_5_pixels_may_be_rounded() -> None:
    """Factors have 11 bits, so each term is off by less than its 2^-10th."""
    text = """def f(x: tensor[N, C, H, W, D], w: tensor[O, C, Q, R, S]) {
        compute(x, w) { for n in 0..N, o in 0..O, y in 0..H - (Q - 1), z in 0..W - (R - 1), v in 0..D - (S - 1):
            var s = 0.0
            for c in 0..C, q in 0..Q, r in 0..R, t in 0..S: s += x[n, c, y + q, z + r, v + t] * w[o, c, q, r, t]
            out[n, o, y, z, v] = s
        }
    }"""
    picture, weights = numbers(2, 3, 7, 9, 5), numbers(5, 3, 3, 2, 1)
    program = zynml.compile(text, device="emulator:sm_90a", products="tf32")
    wanted, sizes = np.zeros((2, 2, 5, 5, 8, 5))
    for q, r in np.ndindex(3, 2):
        pixels, taps = picture[:, :, q : q + 5, r : r + 8].astype(np.float64), weights[:, :, q, r, 0]
        wanted += np.einsum("ncyzv,oc->noyzv", pixels, taps)
        sizes += np.einsum("ncyzv,oc->noyzv", np.abs(pixels), np.abs(taps))
    assert np.all(np.abs(np.asarray(program.f(picture, weights)) - wanted) <= sizes * 2.0**-10)


@pytest.mark.parametrize(("n", "dtype"), [(33, np.float32), (140, np.float32), (70, np.float64)])
def test_large_triangles_have_zeros_and_look_again_where_sums_are_no_numbers(n: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums so long that blocks would share them: the thread that looks again has whole ones."""
    monkeypatch.setattr(register_tiles, "LARGE_PRODUCT", 16)
    text = """def f(a: tensor[N, N, TYPE], b: tensor[N, N, TYPE]) {
        compute(a, b) @precision(products=f32) { for i in 0..N, j in 0..N {
            var s = 0.0
            for k in i..j + 1: s += a[i, k] * b[k, j]
            out[i, j] = s
        } }
    }"""
    text = text.replace("TYPE", f"f{8 * np.dtype(dtype).itemsize}").replace("@precision(products=f32)" if dtype == np.float64 else "TYPE", "")
    a, b = numbers(n, n).astype(dtype), numbers(n, n).astype(dtype)
    b[n // 2, 5], a[3, n // 2] = np.inf, np.nan
    left, right, expected = a.astype(np.float64), b.astype(np.float64), np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            expected[i, j] = left[i, i : j + 1] @ right[i : j + 1, j]
    np.testing.assert_allclose(compiled(text)(a, b), expected, rtol=1e-4, atol=1e-4)
