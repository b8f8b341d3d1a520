"""Arrays whose elements lie side by side along another axis than the last: transposed views are read along it, in any turn of layouts."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import zynml

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rows": lambda x: x,
    "columns": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "padded": lambda x: np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 3)])[..., : x.shape[-1]],
    "apart": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "first": lambda x: np.asfortranarray(x),
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
}

MAP = "fn f(x: tensor[M, N, {dtype}], y: tensor[N, {dtype}]) {{ return compute(x, y) {{ for i in 0..M, j in 0..N: out[i, j] = x[i, j] * 2 + y[j] }} }}"


@pytest.mark.parametrize("dtype", ["f32", "f64", "i16", "u8"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (33, 8), (67, 70), (8, 16)])
def test_a_map_takes_layouts_in_turn(dtype: str, shape: tuple[int, int]) -> None:
    kind = {"f32": np.float32, "f64": np.float64, "i16": np.int16, "u8": np.uint8}[dtype]
    m, n = shape
    f = zynml.compile(MAP.format(dtype=dtype)).f
    x = (np.arange(m * n).reshape(m, n) % 97).astype(kind)
    y = (np.arange(n) % 13).astype(kind)
    for _ in range(2):
        for layout in LAYOUTS.values():
            assert np.array_equal(np.asarray(f(layout(x), y)), (x.astype(np.int64) * 2 + y.astype(np.int64)).astype(kind))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_of_transposed_matrices_are_read_along_their_columns(layout: str) -> None:
    text = """fn f(x: tensor[B, M, N], y: tensor[B, M, N]) { return compute(x, y) {
        for b in 0..B, i in 0..M, j in 0..N: out[b, i, j] = x[b, i, j] - y[b, i, j] } }"""
    x, y = np.random.default_rng(3).standard_normal((2, 3, 19, 21)).astype(np.float32)
    assert np.array_equal(np.asarray(zynml.compile(text).f(LAYOUTS[layout](x), y)), x - y)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_and_products_of_transposed_operands(layout: str) -> None:
    text = """fn rows(x: tensor[M, N]) { return compute(x) { for i in 0..M { var s = 0.0
        for j in 0..N: s += x[i, j]
        out[i] = s } } }
fn product(x: tensor[M, K], y: tensor[K, N]) { return compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0
        for k in 0..K: s += x[i, k] * y[k, j]
        out[i, j] = s } } }"""
    program = zynml.compile(text)
    x, y = (np.random.default_rng(seed).standard_normal((37, 37)) for seed in (1, 2))
    given = LAYOUTS[layout](x.astype(np.float32))
    assert np.allclose(program.rows(given), x.sum(1), atol=1e-4)
    assert np.allclose(program.product(given, LAYOUTS["columns"](y.astype(np.float32))), x @ y, atol=1e-4)
    assert np.allclose(program.product(LAYOUTS["columns"](y.astype(np.float32)), given), y @ x, atol=1e-4)


@pytest.mark.parametrize("dtype", ["u8", "i16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("shape", [(64, 64, 3), (65, 33, 2), (127, 16, 5), (131, 49, 2), (63, 100, 3), (16, 17, 16)])
@pytest.mark.parametrize("threads", [1, 2])
def test_squares_reach_back_over_those_before(dtype: str, shape: tuple[int, int, int], threads: int) -> None:
    """Extents that squares divide, that they leave something over of, and that are smaller than one."""
    a, b, c = shape
    kind = {"u8": np.uint8, "i16": np.int16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}[dtype]
    program = zynml.compile(f"""
def last(x: tensor[{c}, {a}, {b}, {dtype}]) {{ compute(x) {{ for n in 0..{c}, i in 0..{a}, j in 0..{b}: out[n, j, i] = x[n, i, j] }} }}
def ends(x: tensor[{a}, {c}, {b}, {dtype}]) {{ compute(x) {{ for i in 0..{a}, n in 0..{c}, j in 0..{b}: out[j, n, i] = x[i, n, j] }} }}
def added(x: tensor[{a}, {b}, {dtype}], y: tensor[{b}, {a}, {dtype}]) {{ compute(x, y) {{ for i in 0..{a}, j in 0..{b}: out[i, j] = x[i, j] + y[j, i] }} }}
""", threads=threads)
    random = np.random.default_rng(a)
    x, y, z, w = (random.integers(0, 50, s).astype(kind) for s in ((c, a, b), (a, c, b), (a, b), (b, a)))
    np.testing.assert_array_equal(np.asarray(program.last(x)), x.swapaxes(1, 2))
    np.testing.assert_array_equal(np.asarray(program.ends(y)), y.transpose(2, 1, 0))
    np.testing.assert_array_equal(np.asarray(program.added(z, w)), z + w.T)
