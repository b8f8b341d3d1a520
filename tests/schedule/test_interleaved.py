"""Pictures whose channels come last to such whose channels come first, and back: against NumPy."""

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
