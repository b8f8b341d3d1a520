"""Pairs of f32 that become one word of two 16-bit numbers are narrowed by one instruction."""

import pytest
from kernels import compiled

from compiler.hir.parse import parse_function

TEXT = """func @f(%x: mem<64x2xf32>, %y: mem<64xu32>) form=C axes=[e:2] {{
  %t = thread_idx x : index
  %v = load %x[t, e] : tile<e:2, f32>
  %n = cast %v to={dtype} : tile<e:2, {dtype}>
  %w = pack2 %n over=e : u32
  store %y[t], %w }}"""


@pytest.mark.parametrize(("dtype", "instruction"), [("bf16", "cvt.rn.bf16x2.f32"), ("f16", "cvt.rn.f16x2.f32")])
def test_pairs_are_narrowed_at_once(dtype: str, instruction: str) -> None:
    function = parse_function(TEXT.format(dtype=dtype))
    text = compiled(function).text
    assert text.count(instruction) == 1 and f"cvt.rn.{dtype}.f32" not in text
    assert instruction not in compiled(function, "sm_75").text
