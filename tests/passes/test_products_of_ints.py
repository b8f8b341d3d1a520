"""Products of whole numbers that go into a sum of floats, or of 8 bits: the same to the bit in another type, at the ends of each type."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.hir.parse import parse_function
from compiler.passes.products_of_ints import products_of_ints

FLOAT = """
def f(a: tensor[M, K, {0}], b: tensor[K, N, {1}]) {{
    compute(a, b) {{
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += a[i, k] * b[k, j]
            out[i, j] = s
    }}
}}
"""

BYTE = """
def f(a: tensor[M, K, {0}], b: tensor[K, N, {0}]): tensor[M, N, {0}] {{
    compute(a, b) {{
        for i in 0..M, j in 0..N:
            var s: {0} = 0
            for k in 0..K: s += a[i, k] * b[k, j]
            out[i, j] = s
    }}
}}
"""


def extremes(dtype: str, shape: tuple[int, int], seed: int) -> Any:
    kind = np.dtype(f"{'u' if dtype[0] == 'u' else ''}int{dtype[1:]}")
    info = np.iinfo(kind)
    return np.random.default_rng(seed).choice(np.array([info.min, info.max, info.max // 3, 1, 0], kind), shape)


@pytest.mark.parametrize(("left", "right"), [("i32", "i32"), ("u32", "u32"), ("i8", "u8"), ("i16", "i32")])
def test_floats_multiply_what_they_hold(left: str, right: str) -> None:
    a, b = extremes(left, (19, 33), 1), extremes(right, (33, 21), 2)
    result = zynml.compile(FLOAT.format(left, right)).f(a, b)
    exact = a.astype(object) @ b.astype(object)
    magnitude = abs(a.astype(object)) @ abs(b.astype(object))
    assert np.all(abs(np.asarray(result).astype(object) - exact) <= magnitude * float(np.finfo(result.dtype).eps) * 33)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("shape", [(3, 5, 2), (19, 67, 37)])
def test_sums_of_bytes_wrap(dtype: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = extremes(dtype, (m, k), 3), extremes(dtype, (k, n), 4)
    assert np.array_equal(zynml.compile(BYTE.format(dtype)).f(a, b), (a.astype(int) @ b.astype(int)).astype(a.dtype))


FIELD = """func @f(%a: mem<MxKx{dtype}, readonly>, %out: mem<Mxf32>, %M: index, %K: index) form=F axes=[i:M, k:K] {{
  %t1 = load %a[i, k] : tile<i:M, k:K, {dtype}>
  %t2 = cast %t1 to={wide} : tile<i:M, k:K, {wide}>
  %t3 = mul %t2, %t2 : tile<i:M, k:K, {wide}>
  %t4 = cast %t3 to=f32 : tile<i:M, k:K, f32>
  %t5 = reduce add %t4 over=[k] reassoc contract : tile<i:M, f32>
  store %out[i], %t5
}}
"""


@pytest.mark.parametrize(
    ("dtype", "wide", "changes"),
    [("i16", "i32", True), ("u16", "u32", True), ("u16", "i32", False), ("i32", "i64", False), ("i16", "u32", False), ("u8", "i32", True)],
)
def test_only_exact_products_become_floats(dtype: str, wide: str, changes: bool) -> None:
    """Of two u16 an i32 overflows, f32 doesn't hold an i32, and a u32 no negative number."""
    field = parse_function(FIELD.format(dtype=dtype, wide=wide))
    assert (products_of_ints(field) is not field) == changes
