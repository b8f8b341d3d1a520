"""Axes that lie one inside the other in every memory are one, elsewhere they stay: against NumPy."""

import numpy as np
import pytest

import zynml
from compiler.hir.parse import parse_module
from compiler.passes.joined_axes import joined_axes

FIELD = """
module @m version=1 {{
  func @f(%x: mem<{x}xf32, readonly>, %y: mem<{y}xf32, readonly>, %out: mem<{out}xf32>, %H: index, %V: index, %W: index) form=F axes=[i:{i}, j:{j}] {{
    %a = load %x[{at_x}] : tile<i:{i}, j:{j}, f32>
    %b = load %y[{at_y}] : tile<{type_y}f32>
    %c = add %a, %b : tile<i:{i}, j:{j}, f32>
    store %out[{at_out}], %c
  }}
}}
"""


def field(x: str, y: str, out: str, i: str, j: str, at_x: str = "i, j", at_y: str = "i, j", at_out: str = "i, j") -> list[str]:
    axes = "".join(f"{name}:{extent}, " for name, extent in (("i", i), ("j", j)) if name in at_y)
    text = FIELD.format(x=x, y=y, out=out, i=i, j=j, at_x=at_x, at_y=at_y, at_out=at_out, type_y=axes)
    return list(joined_axes(parse_module(text).functions["f"])[0].axes)


@pytest.mark.parametrize(("case", "joined"), [
    (("Hx3", "Hx3", "Hx3", "H", "3"), True),
    (("7xW", "7xW", "7xW", "7", "W"), True),
    (("7x5", "7x5", "7x5", "7", "5"), True),
    (("HxW", "HxW", "HxW", "H", "W"), True),  # their product is a parameter
    (("HxW", "HxV", "HxW", "H", "W"), False),
    (("HxW", "W", "HxW", "H", "W", "i, j", "j"), False),
    (("Hx6", "Hx6", "Hx3", "H", "3", "i, 2*j", "i, 2*j+1"), True),
    (("Hx7", "Hx7", "Hx3", "H", "3", "i, 2*j", "i, 2*j+1"), False),
    (("Hx3", "3", "Hx3", "H", "3", "i, j", "j"), False),
    (("Hx3", "H", "Hx3", "H", "3", "i, j", "i"), False),
    (("Hx3", "Hx3", "3xH", "H", "3", "i, j", "i, j", "j, i"), False),
    (("3xH", "3xH", "3xH", "H", "3", "j, i", "j, i", "j, i"), True),
    (("Hx4", "Hx3", "Hx3", "H", "3"), False),
    (("Wx3", "Vx3", "Hx3", "H", "3", "i+2, j", "i+W, j"), True),
    (("WxV", "WxV", "WxV", "W", "V", "i+2, j", "i-1, j"), True),
    (("WxV", "WxV", "WxV", "W", "V", "i+H, j", "i, j"), False),  # no multiple of the row is known
])
def test_axes_are_joined_where_all_rows_follow_each_other(case: tuple[str, ...], joined: bool) -> None:
    assert len(field(*case)) == (1 if joined else 2)


SOURCE = """
def scaled(x: tensor[H, W, 3, {dtype}], y: tensor[H, W, 3, {dtype}]) {{
    compute(x, y) {{ for i in 0..H, j in 0..W, c in 0..3: out[i, j, c] = x[i, j, c] * 2 + y[i, j, c] }}
}}
def larger(x: tensor[A, B, C, {dtype}], y: tensor[A, B, C, {dtype}]) {{
    compute(x, y) {{ for i in 0..A, j in 0..B, k in 0..C: out[i, j, k] = x[i, j, k] if x[i, j, k] > y[i, j, k] else y[i, j, k] * 2 }}
}}
def pooled(x: tensor[H, 5, 6, {dtype}]) {{
    compute(x) {{
        for i in 0..H, j in 0..5, v in 0..3:
            var m = x[i, j, 2 * v]
            m = max(m, x[i, j, 2 * v + 1])
            out[i, j, v] = m
    }}
}}
def summed(x: tensor[H, 5, 6, {dtype}]) {{
    compute(x) {{
        for i in 0..H, j in 0..5:
            var s = 0 * x[i, j, 0]
            for k in 0..6: s += x[i, j, k]
            out[i, j] = s
    }}
}}
def shifted(x: tensor[H, 4, {dtype}], y: tensor[4, {dtype}]) {{
    compute(x, y) {{ for i in 0..H, j in 0..4: out[i, j] = x[i, j] + y[j] }}
}}
def numbered(x: tensor[H, 4, {dtype}]) {{
    compute(x) {{ for i in 0..H, j in 0..4: out[i, j] = x[i, j] + (j as {dtype}) }}
}}
def inside(x: tensor[H, 6, {dtype}]) {{
    compute(x) {{ for i in 0..H, j in 0..4: out[i, j] = x[i, j + 1] if j > 0 else x[i, 0] }}
}}
"""


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u8", "i32"])
@pytest.mark.parametrize("threads", [1, 2])
def test_maps_pools_and_rows_are_those_of_numpy(dtype: str, threads: int) -> None:
    program = zynml.compile(SOURCE.format(dtype=dtype), threads=threads)
    kind = np.dtype({"f": "float", "i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    random = np.random.default_rng(3)
    for h in (0, 1, 3, 31, 33):
        for w in (0, 1, 3, 31):
            x, y = (random.integers(0, 9, (h, w, 3)).astype(kind) for _ in range(2))
            np.testing.assert_array_equal(program.scaled(x, y), x * 2 + y)
            wide = np.repeat(x, 2, 1)[:, ::2]
            np.testing.assert_array_equal(program.scaled(wide, y[::-1]), x * 2 + y[::-1])
            u, v = (random.integers(0, 9, (h, w, 5)).astype(kind) for _ in range(2))
            np.testing.assert_array_equal(program.larger(u, v), np.where(u > v, u, v * 2))
        z = random.integers(0, 9, (h, 5, 6)).astype(kind)
        if dtype[0] == "f" and h:
            z[0, 1, 2], z[-1, 2, 3] = np.nan, np.inf
        for view in (z, z[::-1], np.asfortranarray(z), np.repeat(z, 2, 2)[:, :, ::2]):
            np.testing.assert_array_equal(program.pooled(view), np.maximum(view[..., ::2], view[..., 1::2]))
            np.testing.assert_array_equal(program.summed(view), view.sum(2, dtype=kind))
        flat, row = random.integers(0, 9, (h, 4)).astype(kind), random.integers(0, 9, 4).astype(kind)
        np.testing.assert_array_equal(program.shifted(flat, row), flat + row)
        np.testing.assert_array_equal(program.numbered(flat), flat + np.arange(4).astype(kind))
        border = random.integers(0, 9, (h, 6)).astype(kind)
        np.testing.assert_array_equal(program.inside(border), np.concatenate([border[:, :1], border[:, 2:5]], 1))
