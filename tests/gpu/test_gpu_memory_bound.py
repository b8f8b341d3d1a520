"""Maps, turned matrices, reductions and chains of rows on a GPU: sizes that divide and sizes that don't, memory that begins anywhere, NaN,
divisions at the ends of the range. Expected values from NumPy, in float64 where sums are rounded."""

import ml_dtypes
import numpy as np
import pytest

import zynml

RNG = np.random.default_rng(20)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 3, 1000, 1024, 4097, 1 << 20, 1_000_003])
def test_maps(count: int) -> None:
    p = zynml.compile("def f(x: tensor[N], y: tensor[N]) { compute(x, y) { for i in 0..N: out[i] = x[i] * 3.0 - y[i] } }", device="cuda:0")
    x, y = normal(count + 1), normal(count + 1)
    np.testing.assert_allclose(p.f(x[:-1], y[:-1]), x[:-1] * np.float32(3) - y[:-1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(p.f(x[1:], y[:-1]), x[1:] * np.float32(3) - y[:-1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 7), (64, 64), (4096, 1024), (1000, 1016), (1023, 517), (3, 5000), (0, 4)])
def test_turned_matrices(dtype: type, shape: tuple[int, int]) -> None:
    name = {np.int8: "i8", np.float16: "f16", np.float32: "f32", np.float64: "f64"}[dtype]
    p = zynml.compile(
        f"def f(x: tensor[M, N, {name}]) {{ compute(x) {{ for i in 0..M, j in 0..N: out[j, i] = x[i, j] }} }}", device="cuda:0"
    )
    x = RNG.integers(-100, 100, shape).astype(dtype)
    np.testing.assert_array_equal(p.f(x), x.T)


@pytest.mark.parametrize("shape", [(8, 12, 16, 32), (5, 7, 33, 9), (2, 64, 3, 128)])
def test_permuted_axes(shape: tuple[int, ...]) -> None:
    text = "for a in 0..A, b in 0..B, c in 0..C, d in 0..D: out[d, a, c, b] = x[a, b, c, d]"
    p = zynml.compile(f"def f(x: tensor[A, B, C, D]) {{ compute(x) {{ {text} }} }}", device="cuda:0")
    x = normal(*shape)
    np.testing.assert_array_equal(p.f(x), x.transpose(3, 0, 2, 1))


SOFTMAX = """def f(x: tensor[M, N]) {
    compute(x) { for i in 0..M {
        var m = -inf
        for j in 0..N: m = max(m, x[i, j])
        var s = 0.0
        for j in 0..N: s += exp(x[i, j] - m)
        for j in 0..N: out[i, j] = exp(x[i, j] - m) / s
    } }
}"""


@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (1000, 3),
        (77, 33),
        (300, 64),
        (64, 1000),
        (40, 4096),
        (9, 8191),
        (5, 8192),
        (7, 16384),
        (3, 30001),
        (300, 65536),
        (33, 50257),
        (2, 100_000),
        (7, 262_144),
        (2, 262_145),
        (1, 1 << 20),
    ],
)
def test_softmax(shape: tuple[int, int]) -> None:
    p = zynml.compile(SOFTMAX, device="cuda:0")
    x = normal(*shape)
    weight = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(p.f(x), weight / weight.sum(1, keepdims=True), rtol=3e-6)
    x[0, -1] = np.nan
    found = np.asarray(p.f(x))
    assert np.isnan(found[0]).all() and not np.isnan(found[1:]).any()


@pytest.mark.parametrize("shape", [(100, 48), (64, 4096), (33, 5000), (3, 20000), (100, 65536), (5, 131_073)])
def test_norms(shape: tuple[int, int]) -> None:
    p = zynml.compile(
        """def f(x: tensor[M, N], y: tensor[M, N], w: tensor[N]) {
            compute(x, y, w) { for i in 0..M {
                var t = 0.0
                for j in 0..N: t += x[i, j] + y[i, j]
                let mean = t / (N as f32)
                var s = 0.0
                for j in 0..N: s += (x[i, j] + y[i, j] - mean) * (x[i, j] + y[i, j] - mean)
                let r = rsqrt(s / (N as f32) + 0.00001)
                for j in 0..N: out[i, j] = (x[i, j] + y[i, j] - mean) * r * w[j]
            } }
        }""",
        device="cuda:0",
    )
    x, y, w = normal(*shape), normal(*shape), normal(shape[1])
    z = x.astype(np.float64) + y
    z = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(p.f(x, y, w), z * w, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(1, 1), (7, 1 << 16), (4096, 33), (1000, 1000), (3, 1_000_003), (100_000, 8), (200_000, 3), (2, 1 << 22)])
def test_sums(shape: tuple[int, int]) -> None:
    x = normal(*shape)
    wide = x.astype(np.float64)
    body = "{ for i in 0..M, j in 0..N: yield x[i, j] }"
    for kind, expected in (("reduce(+)", wide.sum()), ("reduce(+, axis=1)", wide.sum(1)), ("reduce(+, axis=0)", wide.sum(0))):
        result = ": f32" if kind == "reduce(+)" else ""
        p = zynml.compile(f"def f(x: tensor[M, N]){result} {{ compute(x) @kernel {kind} {body} }}", device="cuda:0")
        first = np.asarray(p.f(x))
        np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-6 * np.abs(wide).sum())
        np.testing.assert_array_equal(np.asarray(p.f(x)), first)


def test_many_numbers_divided_by_one_are_rounded_as_divisions_are() -> None:
    """Numbers of every size, zeros of both signs, subnormals, infinities and NaN, by divisors of every size."""
    p = zynml.compile(
        "def f(x: tensor[M, N], y: tensor[M]) { compute(x, y) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] / y[i] } }", device="cuda:0"
    )
    bits = RNG.integers(0, 1 << 32, (257, 4096), dtype=np.uint64).astype(np.uint32)
    bits[:, ::2] = (bits[:, ::2] & 0x807FFFFF) | (RNG.integers(90, 165, bits[:, ::2].shape).astype(np.uint32) << 23)
    x = bits.view(np.float32)
    x[:, :6] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45], np.float32)
    y = RNG.integers(0, 1 << 32, 257, dtype=np.uint64).astype(np.uint32).view(np.float32).copy()
    y[:128] = np.abs(RNG.standard_normal(128)) * 10.0 ** RNG.integers(-6, 7, 128) + 1e-6
    y[-5:] = [0.0, -0.0, np.inf, np.nan, 3.0]
    with np.errstate(all="ignore"):
        expected = x / y[:, None]
    found = np.asarray(p.f(x, y))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    fine = ~np.isnan(expected)
    np.testing.assert_array_equal(found.view(np.uint32)[fine], expected.view(np.uint32)[fine])


@pytest.mark.parametrize("count", [1, 3, 31, 1000, 4097, 1 << 20, 1_000_003, 5_000_000])
def test_everything_reduced_in_one_launch_again_and_again(count: int) -> None:
    """What blocks tell each other is as it was before, call after call, and so are the bits."""
    p = zynml.compile("def f(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }", device="cuda:0")
    x = normal(count)
    found = {float(p.f(x)) for _ in range(20)}
    assert len(found) == 1
    np.testing.assert_allclose(found.pop(), x.astype(np.float64).sum(), rtol=1e-5, atol=1e-6 * np.abs(x).sum())


@pytest.mark.parametrize("count", [1, 33, 5000, 1_000_003])
def test_means_and_variances_of_everything(count: int) -> None:
    p = zynml.compile(
        """def f(x: tensor[N]) {
            compute(x) {
                var t = 0.0
                for i in 0..N: t += x[i]
                let mean = t / (N as f32)
                var s = 0.0
                for i in 0..N: s += (x[i] - mean) * (x[i] - mean)
                let r = rsqrt(s / (N as f32) + 0.00001)
                for i in 0..N: out[i] = (x[i] - mean) * r
            }
        }""",
        device="cuda:0",
    )
    x = normal(count)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(p.f(x), (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5000), (5, 33), (1, 100_003), (300, 3), (1000, 1000), (4, 1 << 20)])
def test_places_of_the_best(kind: str, shape: tuple[int, int]) -> None:
    """The first of equal ones; NaN before everything; lines of nothing but the worst."""
    worst = -np.inf if kind == "argmax" else np.inf
    x = RNG.integers(0, 1000, shape).astype(np.float32)
    x[0, :] = worst
    x[-1, shape[1] // 2 :] = np.nan
    sources = (
        (f"def f(x: tensor[M, N]) {{ compute(x) @kernel reduce({kind}, axis=1) {{ for i in 0..M, j in 0..N: yield (x[i, j], j) }} }}", 1),
        (f"def f(x: tensor[M, N]) {{ compute(x) @kernel reduce({kind}, axis=0) {{ for i in 0..M, j in 0..N: yield (x[i, j], i) }} }}", 0),
        (f"def f(x: tensor[N]) {{ compute(x) @kernel reduce({kind}) {{ for i in 0..N: yield (x[i], i) }} }}", 0),
    )
    for source, axis in sources:
        given = x.reshape(-1) if "tensor[N]" in source else x
        value, place = (np.asarray(one) for one in zynml.compile(source, device="cuda:0").f(given))
        expected = getattr(np, kind)(given, axis)
        np.testing.assert_array_equal(place, expected)
        np.testing.assert_array_equal(value, np.take_along_axis(given, np.expand_dims(expected, axis), axis).squeeze(axis))


FUNCTIONS = {
    "exp(x[i])": np.exp,
    "tanh(x[i])": np.tanh,
    "sqrt(x[i])": np.sqrt,
    "3.0 / x[i]": lambda x: 3.0 / x,
}


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_that_are_rounded_to_16_bits(text: str) -> None:
    """Of every number in bf16: half a unit in the last place, and a little."""
    p = zynml.compile(f"def f(x: tensor[N, bf16]) {{ compute(x) -> tensor[N, bf16] {{ for i in 0..N: out[i] = {text} }} }}", device="cuda:0")
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[text](x.astype(np.float64))
        found = np.asarray(p.f(x)).astype(np.float64)
        rounded = expected.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
        unit = 2.0 ** (np.floor(np.log2(np.abs(expected))) - 7)
        normal = np.isfinite(rounded) & (np.abs(expected) >= 2.0**-126)
        assert (np.abs(found - expected)[normal] <= 0.51 * unit[normal]).all()
        np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
        np.testing.assert_array_equal(found[np.isinf(rounded)], rounded[np.isinf(rounded)])
        small = np.abs(expected) < 2.0**-126
        assert (np.abs(found - expected)[small] <= 2.0**-126).all()


@pytest.mark.parametrize("shape", [(5, 33), (64, 1024), (3, 8192), (2, 20000), (200, 65536), (3, 50257)])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_softmax_of_16_bits(dtype: type, shape: tuple[int, int]) -> None:
    name = "f16" if dtype is np.float16 else "bf16"
    source = SOFTMAX.replace("tensor[M, N]", f"tensor[M, N, {name}]").replace("compute(x) {", f"compute(x) -> tensor[M, N, {name}] {{")
    x = normal(*shape).astype(dtype)
    wide = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    expected = wide / wide.sum(1, keepdims=True)
    bits = 10 if dtype is np.float16 else 7
    unit = 2.0 ** (np.maximum(np.floor(np.log2(expected)), -14 if dtype is np.float16 else -126) - bits)
    found = np.asarray(zynml.compile(source, device="cuda:0").f(x)).astype(np.float64)
    assert (np.abs(found - expected) <= 0.52 * unit).all()


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (1, 0, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
@pytest.mark.parametrize("name", ["i8", "f16", "f32", "f64"])
@pytest.mark.parametrize("shape", [(4, 6, 8, 80), (3, 5, 7, 9), (1, 31, 2, 33), (2, 0, 3, 4), (16, 3, 100, 40)])
def test_permutations_of_four_axes(shape: tuple[int, ...], name: str, order: tuple[int, ...]) -> None:
    dtype = {"i8": np.int8, "f16": np.float16, "f32": np.float32, "f64": np.float64}[name]
    to, index = ", ".join("ABCD"[n] for n in order), ", ".join("abcd"[n] for n in order)
    loops = "for a in 0..A, b in 0..B, c in 0..C, d in 0..D"
    text = f"def f(x: tensor[A, B, C, D, {name}]) {{ compute(x) -> tensor[{to}, {name}] {{ {loops}: out[{index}] = x[a, b, c, d] }} }}"
    x = RNG.integers(-100, 100, shape).astype(dtype)
    np.testing.assert_array_equal(np.asarray(zynml.compile(text, device="cuda:0").f(x)), x.transpose(order))


@pytest.mark.parametrize("shape", [(1000, 16384), (257, 40000), (129, 200_000)])
def test_rows_over_clusters_have_the_same_bits_in_every_run(shape: tuple[int, int]) -> None:
    p = zynml.compile(SOFTMAX, device="cuda:0")
    x = normal(*shape)
    first = np.asarray(p.f(x))
    np.testing.assert_allclose(first.astype(np.float64).sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(np.asarray(p.f(x)), first)


@pytest.mark.parametrize("shape", [(9, 8, 67), (33, 19, 31), (3, 2, 259)])
def test_windows_whose_last_tile_is_moved_back(shape: tuple[int, int, int]) -> None:
    """Such a tile ends with the row, and is known by a digit that is the largest."""
    loops = "for i in 0..A, j in 0..B, k in 0..C:\n var s = 0.5 * x[i, j, k]\n if k < C - 1:\n  s += 0.25 * x[i, j, k + 1]\n"
    p = zynml.compile(f"def f(x: tensor[A, B, C, f64]) {{ compute(x) {{\n{loops} out[i, j, k] = s\n}} }}", device="cuda:0")
    x = RNG.standard_normal(shape)
    wanted = 0.5 * x
    wanted[..., :-1] += 0.25 * x[..., 1:]
    np.testing.assert_array_equal(p.f(x), wanted)
