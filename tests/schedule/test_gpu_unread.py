"""Where the loads of a field are needed: behind choices, conditions of stores, reductions and scans."""

import pytest

from compiler.hir.affine import Affine
from compiler.hir.memory import Load
from compiler.hir.parse import parse_function
from compiler.schedule.gpu.tiles.unread import needed_where

I, J = Affine.of("i"), Affine.of("j")
FIELD = """func @f(%x: mem<MxNxf32, readonly>, %y: mem<Nxf32, readonly>, %out: mem<MxNxf32>, %M: index, %N: index) form=F axes=[i:M, j:N] {{
  %z = const 0.0 : f32
  %low = inbounds of=j below=i+1 : tile<i:M, j:N, i1>
  %a = index of=i : tile<i:M, index>
  %b = index of=j : tile<j:N, index>
  %le = le %b, %a : tile<i:M, j:N, i1>
  %v = load %x[i, j] : tile<i:M, j:N, f32>
  %u = load %y[j] : tile<j:N, f32>
  {body}
}}"""
CASES = {
    "a choice": ("%s = select %le, %v, %z : tile<i:M, j:N, f32>\n store %out[i, j], %s", {I - J}),
    "the other side of one": ("%s = select %le, %z, %v : tile<i:M, j:N, f32>\n store %out[i, j], %s", {J - I - 1}),
    "both sides": ("%s = select %le, %v, %v : tile<i:M, j:N, f32>\n store %out[i, j], %s", set()),
    "the condition of a store": ("store %out[i, j], %v where=%le", {I - J}),
    "one of two stores": ("store %out[i, j], %v where=%le\n store %out[i, j], %v", set()),
    "what is computed of it": (
        "%e = exp %v : tile<i:M, j:N, f32>\n %s = select %low, %e, %z : tile<i:M, j:N, f32>\n store %out[i, j], %s",
        {I - J},
    ),
    "a guarded sum and a choice": (
        "%g = select %low, %v, %z : tile<i:M, j:N, f32>\n %r = reduce add %g over=[j] : tile<i:M, f32>\n %d = sub %v, %r : tile<i:M, j:N, f32>\n"
        " %s = select %le, %d, %z : tile<i:M, j:N, f32>\n store %out[i, j], %s",
        {I - J},
    ),
    "a sum without a guard": (
        "%r = reduce add %v over=[j] : tile<i:M, f32>\n %s = select %le, %r, %z : tile<i:M, j:N, f32>\n store %out[i, j], %s",
        set(),
    ),
    "a running sum, of which later elements are chosen": (
        "%r = scan add %v over=[j] : tile<i:M, j:N, f32>\n %s = select %le, %z, %r : tile<i:M, j:N, f32>\n store %out[i, j], %s",
        set(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_that_are_needed(name: str) -> None:
    body, expected = CASES[name]
    field = parse_function(FIELD.format(body=body))
    needed = needed_where(field)
    x, y = (op.result for op in field.body.body if isinstance(op, Load))
    assert needed.get(x, frozenset()) == expected
    assert y not in needed


def test_what_is_read_for_several_rows_is_needed_for_all_of_them() -> None:
    """A condition of the row says nothing of an element that all rows share."""
    body = "%s = select %le, %u, %z : tile<i:M, j:N, f32>\n store %out[i, j], %s"
    assert needed_where(parse_function(FIELD.format(body=body))) == {}
