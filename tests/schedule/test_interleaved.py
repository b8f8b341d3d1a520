"""Pictures whose channels come last to such whose channels come first, and back: against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import zynml

SOURCE = """
def first(x: tensor[H, W, {count}, {dtype}]) {{
    compute(x) {{ for k in 0..{count}, i in 0..H, j in 0..W: out[k, i, j] = x[i, j, k] }}
}}
def last(x: tensor[{count}, H, W, {dtype}]) {{
    compute(x) {{ for i in 0..H, j in 0..W, k in 0..{count}: out[i, j, k] = x[k, i, j] }}
}}
def scaled(x: tensor[{count}, H, W, {dtype}], s: tensor[{count}, {dtype}]) {{
    compute(x, s) {{ for i in 0..H, j in 0..W, k in 0..{count}: out[i, j, k] = x[k, i, j] * s[k] }}
}}
def border(x: tensor[{count}, H, W, {dtype}]) {{
    compute(x) {{
        for i in 0..H, j in 0..W, k in 0..{count}:
            out[i, j, k] = x[k, i, j - 1] if j > 0 else 0
    }}
}}
def complete(z: tensor[N, 2, {dtype}]) {{
    compute(z) {{ for k in 0..2, i in 0..N: out[k, i] = z[i, k] }}
}}
"""


@pytest.mark.parametrize("dtype", ["u8", "i16", "f16", "f32", "f64"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_channels_first_and_last(dtype: str, count: int) -> None:
    program = zynml.compile(SOURCE.format(dtype=dtype, count=count), threads=2)
    kind = np.dtype({"f": "float", "i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    random = np.random.default_rng(4)
    for h, w in ((0, 3), (3, 0), (1, 1), (2, 31), (3, 33), (1, 131)):
        x = random.integers(0, 15, (h, w, count)).astype(kind)
        if dtype[0] == "f" and x.size:
            x[0, 0, 0], x[-1, -1, -1] = np.nan, np.inf
        for view in (x, x[::-1], np.repeat(x, 2, 1)[:, ::2], np.repeat(x, 2, 2)[:, :, ::2]):
            np.testing.assert_array_equal(program.first(view), view.transpose(2, 0, 1))
        planes, s = np.ascontiguousarray(x.transpose(2, 0, 1)), np.arange(1, count + 1).astype(kind)
        for view in (planes, planes[:, ::-1], x.transpose(2, 0, 1)):
            np.testing.assert_array_equal(program.last(view), view.transpose(1, 2, 0))
        np.testing.assert_array_equal(program.scaled(planes, s), x * s)
        shifted = np.zeros_like(x)
        shifted[:, 1:] = x[:, :-1]
        np.testing.assert_array_equal(program.border(planes), shifted)
    z = random.integers(0, 15, (77, 2)).astype(kind)
    np.testing.assert_array_equal(program.complete(z), z.T)


PIXELS = """
def powers(x: tensor[H, W, {count}, {dtype}], m: tensor[{count}, {dtype}]) {{
    compute(x, m) {{ for i in 0..H, j in 0..W, c in 0..{count}: out[i, j, c] = exp(x[i, j, c] * m[c]) }}
}}
def blend(x: tensor[H, W, {count}, {dtype}], y: tensor[H, W, {count}, {dtype}], a: tensor[H, W, {dtype}]) {{
    compute(x, y, a) {{
        for c in 0..{count}, j in 0..W, i in 0..H:
            out[i, j, c] = x[i, j, c] * a[i, j] + y[i, j, {count} - 1 - c] if j > c else y[i, j, c]
    }}
}}
def shares(x: tensor[H, W, {count}, {dtype}]) {{
    compute(x) {{
        for i in 0..H, j in 0..W:
            var s = 0.0
            for c in 0..{count}: s += x[i, j, c]
            for c in 0..{count}: out[i, j, c] = x[i, j, c] / s
    }}
}}
def mixed(x: tensor[H, W, {count}, {dtype}], m: tensor[{count}, {count}, {dtype}]) {{
    compute(x, m) {{
        for i in 0..H, j in 0..W, d in 0..{count}:
            var s = 0.0
            for c in 0..{count}: s += x[i, j, c] * m[d, c]
            out[i, j, d] = s
    }}
}}
def window(x: tensor[H, W, {count}, {dtype}]) {{
    compute(x) {{
        for i in 0..H, j in 0..W - 2, c in 0..{count}:
            var s = 0.0
            for b in 0..3: s += x[i, j + b, c]
            out[i, j, c] = s
    }}
}}
"""


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f64"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_functions_of_channels_that_lie_last(dtype: str, count: int) -> None:
    program = zynml.compile(PIXELS.format(dtype=dtype, count=count), threads=2)
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.dtype(f"float{dtype[1:]}")
    tolerance = {"bf16": 2**-7, "f32": 1e-5, "f64": 1e-12}[dtype]  # results are rounded to the dtype
    random = np.random.default_rng(6)
    for h, w in ((0, 3), (1, 2), (3, 0), (1, 1), (2, 31), (3, 33), (1, 131)):
        x, y = (random.integers(1, 9, (h, w, count)).astype(kind) for _ in range(2))
        a, m = random.integers(1, 9, (h, w)).astype(kind), (np.arange(1, count + 1) / 8).astype(kind)
        j, c = np.arange(w)[:, None], np.arange(count)
        for view in (x, x[::-1], np.repeat(x, 2, 1)[:, ::2]):
            seen = view.astype("f8")
            assert_near(program.powers(view, m), np.exp(seen * m.astype("f8")), tolerance)
            blended = np.where(j > c, seen * a.astype("f8")[..., None] + y.astype("f8")[..., ::-1], y.astype("f8"))
            assert_near(program.blend(view, y, a), blended, tolerance)
            assert_near(program.shares(view), seen / seen.sum(-1, keepdims=True), tolerance)
            weights = random.integers(1, 9, (count, count)).astype(kind)
            assert_near(program.mixed(view, weights), seen @ weights.astype("f8").T, tolerance)
            if w > 2:
                assert_near(program.window(view), seen[:, :-2] + seen[:, 1:-1] + seen[:, 2:], tolerance)
        if h and w > 2:
            x[0, 1, 0] = np.nan
            wide = x.astype("f8")
            assert_near(program.powers(x, m), np.exp(wide * m.astype("f8")), tolerance)
            assert_near(program.window(x), wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:], tolerance)


def assert_near(result: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(np.asarray(result).astype("f8"), wanted, tolerance)
