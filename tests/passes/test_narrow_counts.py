"""Sums of small whole numbers, so few that 32 bits hold them, are sums of i32 on a GPU."""

import numpy as np
import pytest

import zynml
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.passes.narrow_counts import narrow_counts

FIELD = """func @f(%x: mem<NxMx{element}>, %y: mem<Nxi64>, %N: index, %M: index) form=F axes=[i:N, j:M] {{
    %a = load %x[i, j] : tile<i:N, j:M, {element}>
    {term}
    %s = reduce add %t over=[j] : tile<i:N, i64>
    store %y[i], %s
}}"""
COUNTED = """%zero = const 0 : i64
    %one = const 1 : i64
    %c = eq %a, %a : tile<i:N, j:M, i1>
    %t = select %c, %one, %zero : tile<i:N, j:M, i64>"""
CAST = "%t = cast %a to=i64 : tile<i:N, j:M, i64>"
SQUARE = """%w = cast %a to=i64 : tile<i:N, j:M, i64>
    %t = mul %w, %w : tile<i:N, j:M, i64>"""


@pytest.mark.parametrize(
    ("element", "term", "most", "narrow"),
    [
        ("f32", COUNTED, (1 << 31) - 1, True),
        ("f32", COUNTED, 1 << 31, False),
        ("f32", COUNTED, None, False),
        ("u8", CAST, 1 << 20, True),
        ("u8", CAST, 1 << 24, False),
        ("i16", CAST, 1 << 15, True),
        ("u32", CAST, 1 << 10, False),
        ("u8", SQUARE, 4, False),
    ],
)
def test_sums_are_as_wide_as_their_terms_need(element: str, term: str, most: int | None, narrow: bool) -> None:
    field = parse_function(FIELD.format(element=element, term=term))
    made = narrow_counts(field, lambda dims: most)
    assert ("tile<i:N, i32>" in print_function(made)) is narrow
    assert narrow or made is field


@pytest.mark.parametrize("device", ["emulator:sm_90a", "emulator:sm_75", "cpu"])
@pytest.mark.parametrize("size", [1, 31, 100])
def test_pairs_in_and_against_order(device: str, size: int) -> None:
    text = """def f(x: tensor[N], y: tensor[N]) {
        compute(x, y) -> i64 {
            for i in 0..N, j in 0..N:
                let p = (x[i] - x[j]) * (y[i] - y[j])
                yield p > 0.0 ? 1 : (p < 0.0 ? -1 : 0)
        }
    }"""
    x, y = np.random.default_rng(size).integers(0, 9, (2, size)).astype(np.float32)
    wanted = np.sign((x[:, None] - x) * (y[:, None] - y)).sum()
    assert zynml.compile(text, device=device).f(x, y) == wanted
