"""Sums over part of an axis, whose bounds other axes give, against NumPy in float64."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.hir.hopper import WarpgroupMma
from compiler.hir.memory import Store
from compiler.schedule.gpu.products import copied_operands, three_products
from compiler.schedule.gpu.reuse import register_tiles
from tests.kernels.checks import DTYPES

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_90a")
_RANDOM = np.random.default_rng(3)

PRODUCT = """
def f(a: tensor[N, K], b: tensor[K, M]): tensor {
    compute(a, b) {
        for i in 0..N, j in 0..M:
            var s = 0.0
            for k in LOW..HIGH: s += a[i, k] * b[k, j]
            out[i, j] = s
    }
}
"""
BOUNDS = {
    "i..j + 1": lambda i, j, k: (k >= i) & (k <= j),
    "0..i + 1": lambda i, j, k: k <= i,
    "j..K": lambda i, j, k: k >= j,
    "i + 1..K": lambda i, j, k: k > i,
    "0..min(i, j) + 1": lambda i, j, k: (k <= i) & (k <= j),
}


def floats(*shape: int) -> Array:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def taking_part(bounds: str, n: int, m: int, size: int) -> Array:
    i, j, k = np.ogrid[:n, :m, :size]
    return np.broadcast_to(BOUNDS[bounds](i, j, k), (n, m, size))


def summed(a: Array, b: Array, where: Array) -> Array:
    terms = a[:, None, :].astype(np.float64) * b.T[None].astype(np.float64)
    return np.where(where, terms, 0.0).sum(-1)


def program(bounds: str, device: str, **options: Any) -> Any:
    low, high = bounds.split("..")
    return zynml.compile(PRODUCT.replace("LOW", low).replace("HIGH", high), device=device, **options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bounds", list(BOUNDS)[:4])
@pytest.mark.parametrize("size", [1, 7, 33, 150])
def test_products_of_triangles(size: int, bounds: str, device: str) -> None:
    a, b = floats(size, size), floats(size, size)
    expected = summed(a, b, taking_part(bounds, size, size, size))
    np.testing.assert_allclose(program(bounds, device).f(a, b), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("bounds", ["0..i + 1", "i + 1..K", "0..min(i, j) + 1"])
def test_terms_of_a_triangle_end_in_any_block_of_the_sum(bounds: str) -> None:
    n, m, size = 700, 24, 1400
    a, b = floats(n, size), floats(size, m)
    expected = np.stack([np.where(taking_part(bounds, n, m, size)[:, j], a, 0.0).astype(np.float64) @ b[:, j] for j in range(m)], axis=1)
    one, two = (np.asarray(program(bounds, "cpu", threads=threads).f(a, b)) for threads in (1, 2))
    np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-3)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bounds", ["i..j + 1", "0..i + 1"])
def test_products_of_triangles_with_large_tiles(bounds: str, device: str) -> None:
    """Rows and columns enough for tiles of 128, some of which are empty and some whole."""
    a, b = floats(300, 300), floats(300, 300)
    expected = summed(a, b, taking_part(bounds, 300, 300, 300))
    np.testing.assert_allclose(program(bounds, device).f(a, b), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["sm_90a", "sm_75"])
def test_blocks_share_the_longest_sums(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of products with zeros in place of what takes no part: sums that are NaN for those are computed again by the block that comes last."""
    monkeypatch.setattr(register_tiles, "LARGE_PRODUCT", 64)
    a, b = floats(200, 200), floats(200, 200)
    a[3, 5], b[150, 190], a[7, 2], b[60, 20] = np.inf, np.nan, np.inf, np.nan
    expected = summed(a, b, taking_part("i..j + 1", 200, 200, 200))
    made = program("i..j + 1", f"emulator:{target}", sanitize=True)
    np.testing.assert_allclose(made.f(a, b), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bounds", ["i..j + 1", "0..i + 1"])
def test_what_takes_no_part_may_be_infinite_or_nan(bounds: str, device: str) -> None:
    a, b = floats(70, 70), floats(70, 70)
    i, k = np.indices((70, 70))
    a[k < i if bounds.startswith("i") else k > i] = np.inf
    if bounds.startswith("i"):
        b[i > k] = np.nan
    b[40, 60], b[0, 0], a[3, 3] = np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = summed(a, b, taking_part(bounds, 70, 70, 70))
    np.testing.assert_allclose(program(bounds, device).f(a, b), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_strict_products_of_triangles(device: str) -> None:
    a, b = floats(37, 37), floats(37, 37)
    expected = np.zeros((37, 37), np.float32)
    for i in range(37):
        for j in range(37):
            for k in range(i, j + 1):
                expected[i, j] += a[i, k] * b[k, j]
    assert np.array_equal(program("i..j + 1", device, floats="strict").f(a, b), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [1, 5, 64, 333])
def test_triangles_times_vectors(size: int, device: str) -> None:
    text = """
    def f(a: tensor[N, N], x: tensor[N]): tensor {
        compute(a, x) {
            for i in 0..N:
                var s = 0.0
                for k in LOOP: s += TERM * x[k]
                out[i] = s
        }
    }
    """
    a, x = floats(size, size), floats(size)
    i, k = np.indices((size, size))
    for loop, where in [("0..i + 1", k <= i), ("i..N", k >= i), ("i + 1..N", k > i), ("i / 2..i + 1", (k >= i // 2) & (k <= i))]:
        for term, matrix in [("a[i, k]", a), ("a[k, i]", a.T)]:
            got = zynml.compile(text.replace("LOOP", loop).replace("TERM", term), device=device).f(a, x)
            expected = np.where(where, matrix.astype(np.float64) * x, 0).sum(1)
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4, err_msg=f"{loop} {term}")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["i32", "f64"])
def test_other_types_bands_and_batches(dtype: str, device: str) -> None:
    text = """
    def f(a: tensor[B, N, N, T], b: tensor[B, N, N, T]): tensor {
        compute(a, b) -> tensor[B, N, N, T] {
            for n in 0..B, i in 0..N, j in 0..N:
                var s = ZERO
                for k in 0..N:
                    if k + 3 > i and k < j + 20: s += a[n, i, k] * b[n, k, j]
                out[n, i, j] = s
        }
    }
    """.replace("T]", f"{dtype}]").replace("ZERO", f"0 as {dtype}")
    numpy = {"i32": np.int32, "f64": np.float64}[dtype]
    a, b = (_RANDOM.integers(-50, 50, (2, 75, 75)).astype(numpy) for _ in range(2))
    i, j, k = np.ogrid[:75, :75, :75]
    where = (k + 3 > i) & (k < j + 20)
    expected = np.stack([summed(a[n], b[n], where) for n in range(2)])
    assert np.array_equal(zynml.compile(text, device=device).f(a, b), expected)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("size", [33, 144])
def test_products_of_triangles_on_tensor_cores(size: int, target: str) -> None:
    text = PRODUCT.replace("]", ", f16]").replace("i, k, f16]", "i, k]").replace("k, j, f16]", "k, j]").replace("i, j, f16]", "i, j]")
    a, b = floats(size, size).astype(np.float16), floats(size, size).astype(np.float16)
    expected = summed(a, b, taking_part("i..j + 1", size, size, size))
    program = zynml.compile(text.replace("LOW", "i").replace("HIGH", "j + 1"), device=f"emulator:{target}")
    np.testing.assert_allclose(program.f(a, b), expected, rtol=2e-3, atol=2e-2)
    a[np.tril_indices(size, -1)] = np.nan
    np.testing.assert_allclose(program.f(a, b), expected, rtol=2e-3, atol=2e-2)


def test_odd_triangles_are_copied_for_tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 67 begin at no multiple of 16 bytes. What takes no part may be infinite or NaN."""
    monkeypatch.setattr(copied_operands, "WORTH", 1)
    text = PRODUCT.replace("]", ", f16]").replace("i, k, f16]", "i, k]").replace("k, j, f16]", "k, j]").replace("i, j, f16]", "i, j]")
    a, b = floats(67, 67).astype(np.float16), floats(67, 67).astype(np.float16)
    expected = summed(a, b, taking_part("i..j + 1", 67, 67, 67))
    a[np.tril_indices(67, -1)], b[np.tril_indices(67, -1)] = np.nan, np.inf
    program = zynml.compile(text.replace("LOW", "i").replace("HIGH", "j + 1"), device="emulator:sm_90a")
    np.testing.assert_allclose(program.f(a, b), expected, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize(("dtype", "size"), [("u8", 131), ("bf16", 72), ("i32", 140), ("f64", 33)])
@pytest.mark.parametrize("loop", ["i..N", "0..i + 1", "i / 2..i + 1"])
def test_columns_on_one_side_of_the_diagonal(loop: str, dtype: str, size: int) -> None:
    """Whole tiles have no conditions, and blocks that share columns skip those without terms; all sums are exact."""
    text = f"""
    def f(x: tensor[N, N, {dtype}]) {{
        compute(x) -> tensor[N, f64] {{
            for i in 0..N:
                var s = 0 as {"i64" if dtype in ("u8", "i32") else "f32" if dtype == "bf16" else "f64"}
                for k in {loop}: s += x[k, i]
                out[i] = s as f64
        }}
    }}
    """
    x = _RANDOM.integers(0, 5, (size, size)).astype(DTYPES[dtype])
    k, i = np.indices((size, size))
    where = {"i..N": k >= i, "0..i + 1": k <= i, "i / 2..i + 1": (k >= i // 2) & (k <= i)}[loop]
    expected = np.where(where, x.astype(np.float64), 0).sum(0)
    assert np.array_equal(zynml.compile(text, device="emulator:sm_90a", sanitize=True).f(x), expected)


@pytest.mark.parametrize("dtype", ["u8", "i16", "f16"])
@pytest.mark.parametrize("rows", [1, 33, 131])
def test_sums_and_extremes_down_columns_of_narrow_numbers(rows: int, dtype: str) -> None:
    text = f"""
    def f(x: tensor[N, M, {dtype}]) {{
        compute(x) -> tensor[M, f32] {{
            for i in 0..M:
                var s = 0 as {"f32" if dtype == "f16" else "i32"}
                for k in 0..N: s += x[k, i]
                var most = x[0, i]
                for k in 0..N: most = max(most, x[k, i])
                out[i] = (s as f32) * 8.0 + most as f32
        }}
    }}
    """
    x = _RANDOM.integers(0, 5, (rows, 96)).astype(DTYPES[dtype])
    expected = x.astype(np.float64).sum(0) * 8 + x.max(0)
    assert np.array_equal(zynml.compile(text, device="emulator:sm_90a", sanitize=True).f(x), expected)


@pytest.mark.parametrize("n", [1, 9, 37, 70])
@pytest.mark.parametrize(("bounds", "kept"), [("0..i", np.less), ("i..N", np.greater_equal)])
def test_distances_on_one_side_of_the_diagonal(n: int, bounds: str, kept: np.ufunc) -> None:
    text = f"""fn f(x: tensor[N, K, f64]) {{ return compute(x) -> tensor[N, N, f64] {{ for i in 0..N {{ for j in {bounds} {{
        var s = 0.0
        for k in 0..K {{
            let d = x[i, k] - x[j, k]
            s += d * d
        }}
        out[i, j] = s
    }} }} }} }}"""
    x = np.random.default_rng(n).standard_normal((n, 13))
    i, j = np.indices((n, n))
    expected = np.where(kept(j, i), ((x[:, None] - x[None]) ** 2).sum(-1), 0.0)
    assert np.allclose(zynml.compile(text).f(x), expected, rtol=1e-12)


CHOICES = {
    "x[i, j] if j <= i else 0": lambda x, i, j: np.where(j <= i, x, 0),
    "0 if i < j - 3 else x[i, j]": lambda x, i, j: np.where(i < j - 3, 0, x),
    "x[i, j] if i + j < 90 else 7": lambda x, i, j: np.where(i + j < 90, x, 7),
    "y[i, j] if j >= 2 * i else x[i, j]": lambda x, i, j: np.where(j >= 2 * i, -x, x),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(("dtype", "shape"), [("f32", (64, 128)), ("f32", (7, 2048)), ("u8", (31, 160)), ("f16", (33, 31)), ("i32", (1, 3))])
def test_parts_of_matrices(choice: str, dtype: str, shape: tuple[int, int]) -> None:
    """Threads that take nothing of what is loaded load nothing, at the diagonal and away from it."""
    text = f"def f(x: tensor[N, M, {dtype}], y: tensor[N, M, {dtype}]) {{ compute(x, y) {{ for i in 0..N, j in 0..M: out[i, j] = {choice} }} }}"
    numbers = np.dtype({"f32": "float32", "f16": "float16", "u8": "uint8", "i32": "int32"}[dtype])
    whole = _RANDOM.integers(0, 100, shape).astype(numbers)
    given = whole, (0 - whole).astype(numbers)
    found = zynml.compile(text, device="emulator:sm_90a", sanitize=shape[0] == 7).f(*given)
    i, j = np.indices(shape)
    np.testing.assert_array_equal(np.asarray(found).astype(numbers), CHOICES[choice](whole, i, j).astype(numbers))


SOFTMAX = """
def f(x: tensor[N, N, DTYPE]): tensor {
    compute(x) {
        for i in 0..N:
            var top = -inf
            for j in 0..i + 1: top = max(top, x[i, j])
            var s = 0.0
            for j in 0..i + 1: s += exp(x[i, j] - top)
            for j in 0..N: out[i, j] = exp(x[i, j] - top) / s if j <= i else 0.0
    }
}
"""


@pytest.mark.parametrize("size", [1, 33, 128, 300])
def test_softmax_up_to_the_diagonal(size: int) -> None:
    """What lies above it may be anything."""
    x = floats(size, size)
    i, j = np.indices((size, size))
    x[j > i] = np.where((i + j) % 2 == 0, np.nan, np.inf)[j > i]
    weights = np.where(j <= i, np.exp(np.where(j <= i, x, 0).astype(np.float64)), 0)
    found = zynml.compile(SOFTMAX.replace("DTYPE", "f32"), device="emulator:sm_90a").f(x)
    np.testing.assert_allclose(found, weights / weights.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


SQUARE = """
def f(a: tensor[N, N], b: tensor[N, N]): tensor {
    compute(a, b) {
        for i in 0..N, j in 0..N:
            var s = 0.0
            for k in LOOP: s += A * B
            out[i, j] = s
    }
}
"""


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("bounds", ["i..j + 1", "0..i + 1"])
def test_triangles_of_f32_by_three_products_on_warpgroups(bounds: str, turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that aren't finite stand where terms take part, and where none do."""
    monkeypatch.setattr(three_products, "LEAST", 16)
    monkeypatch.setattr(three_products, "WORTH", 1)
    monkeypatch.setattr(three_products, "ends_first", lambda *about: True)
    text = SQUARE.replace("LOOP", bounds).replace("A * B", "a[k, i] * b[j, k]" if turned else "a[i, k] * b[k, j]")
    a, b = floats(101, 101), floats(101, 101)
    a[3, 5], a[92, 2], b[97, 99], b[9, 4] = np.inf, np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        expected = summed(a, b, taking_part(bounds, 101, 101, 101))
    made: Any = zynml.compile(text, device="emulator:sm_90a")
    launches = made._session.launches_like(["a=101x101:f32, b=101x101:f32"], "emulator:sm_90a")[0].threads.functions
    assert any(isinstance(op, WarpgroupMma) for function in launches for top in function.body.body for op in top.walk())
    operands = [np.ascontiguousarray(each.T) for each in (a, b)] if turned else [a, b]
    np.testing.assert_allclose(made.f(*operands), expected, rtol=1e-5, atol=2e-5)


def test_triangles_whose_sums_are_short_in_the_mean_have_fmas() -> None:
    """Three products are as exact as FMAs where sums are long: of `i..j + 1` a sixth of all terms takes part."""
    program: Any = zynml.compile(SQUARE.replace("LOOP", "i..j + 1").replace("A * B", "a[i, k] * b[k, j]"), device="emulator:sm_90a")
    on_warpgroups = []
    for n in (1000, 4096):
        launches = program._session.launches_like([f"a={n}x{n}:f32, b={n}x{n}:f32"], "emulator:sm_90a")[0].threads.functions
        on_warpgroups.append(any(isinstance(op, WarpgroupMma) for function in launches for top in function.body.body for op in top.walk()))
    assert on_warpgroups == [False, True]


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_copies_of_triangles_end_with_them(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd rows are copied for tensor cores. What takes no part isn't, whatever it is."""
    monkeypatch.setattr(copied_operands, "WORTH", 1)
    monkeypatch.setattr(three_products, "WORTH", 1)
    monkeypatch.setattr(three_products, "LEAST", 16)
    monkeypatch.setattr(three_products, "ends_first", lambda *about: True)
    text = PRODUCT.replace("N, K]", f"N, K, {dtype}]").replace("K, M]", f"K, M, {dtype}]")
    a, b = floats(301, 301).astype(DTYPES[dtype]), floats(301, 50).astype(DTYPES[dtype])
    k, i = np.indices((301, 301)).transpose(0, 2, 1)
    a[k > i] = np.nan
    expected = np.where(k <= i, a.astype(np.float64), 0.0) @ b.astype(np.float64)
    made: Any = zynml.compile(text.replace("LOW", "0").replace("HIGH", "i + 1"), device="emulator:sm_90a")
    launches = made._session.launches_like([f"a=301x301:{dtype}, b=301x50:{dtype}"], "emulator:sm_90a")[0].threads.functions
    stores = [op for op in launches[0].body.body for op in op.walk() if isinstance(op, Store)]
    assert len(launches) > 2 and stores and all(op.where is not None for op in stores)
    tolerance = 1e-2 if dtype == "bf16" else 2e-5
    np.testing.assert_allclose(np.asarray(made.f(a, b)).astype(np.float64), expected, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(("n", "m"), [(700, 45), (513, 17), (384, 100)])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("bounds", ["0..i + 1", "i + 1..K"])
def test_triangles_of_f64_by_few_columns(bounds: str, target: str, n: int, m: int) -> None:
    """Blocks share the sums of few tiles: the longest have as many as there are pieces, short ones a block. What takes no part may be
    infinite or NaN."""
    a, b = (_RANDOM.standard_normal(shape) for shape in ((n, n), (n, m)))
    i, k = np.indices((n, n))
    where = BOUNDS[bounds](i, 0, k)
    expected = np.where(where, a, 0.0) @ b
    a[~where] = np.where((i + k)[~where] % 2 == 0, np.inf, np.nan)
    text = PRODUCT.replace("N, K]", "N, N, f64]").replace("K, M]", "N, M, f64]")
    low, high = bounds.replace("K", "N").split("..")
    made: Any = zynml.compile(text.replace("LOW", low).replace("HIGH", high), device=f"emulator:{target}")
    np.testing.assert_allclose(made.f(a, b), expected, rtol=1e-10, atol=1e-10)
