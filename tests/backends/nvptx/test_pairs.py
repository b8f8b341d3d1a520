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


ALONE = """func @f(%x: mem<64xf32>, %y: mem<64xf32>, %z: mem<64xbf16>) form=C {
  %t = thread_idx x : index
  %v = load %x[t] : f32
  %n = cast %v to=bf16 : bf16
  store %z[t], %n
  %w = cast %n to=f32 : f32
  store %y[t], %w }"""


def test_one_float_is_narrowed_as_a_pair_with_zero() -> None:
    """That takes a fourth of the time; what was rounded once is stored as it is."""
    text = compiled(parse_function(ALONE)).text
    assert text.count("cvt.rn.bf16x2.f32") == 1 and "cvt.rn.bf16.f32" not in text


CHAIN = """func @f(%x: mem<64xf32>, %y: mem<64xbf16>) form=C axes=[simd:{lanes}] {{
  %t = thread_idx x : index
  %v = load %x[{lanes}*t+simd] : tile<simd:{lanes}, f32>
  %n = cast %v to=bf16 : tile<simd:{lanes}, bf16>
  %w = cast %n to=f32 : tile<simd:{lanes}, f32>
  %a = add %w, %v : tile<simd:{lanes}, f32>
  %b = cast %a to=bf16 : tile<simd:{lanes}, bf16>
  store %y[{lanes}*t+simd], %b }}"""


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_vectors_that_are_rounded_on_the_way_are_pairs_with_zero(lanes: int) -> None:
    """One for each element; what is stored is rounded in full pairs."""
    text = compiled(parse_function(CHAIN.format(lanes=lanes))).text
    assert text.count("cvt.rn.bf16x2.f32") == lanes + lanes // 2
    assert "cvt.rn.bf16.f32" not in text and "cvt.f32.bf16" not in text


LINE = """func @f(%x: mem<64x{extent}x{dtype}>, %y: mem<64x{extent}x{dtype}>) form=C axes=[{axis}:{extent}] {{
  %t = thread_idx x : index
  %v = load %x[t, {axis}] : tile<{axis}:{extent}, {dtype}>
  %s = load %x[t, 0] : {dtype}
  %a = sub %v, %s : tile<{axis}:{extent}, {dtype}>
  %b = max %a, %v : tile<{axis}:{extent}, {dtype}>
  store %y[t, {axis}], %b }}"""


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("axis", ["e", "simd"])
def test_arithmetic_takes_two_numbers_of_16_bits_at_once(dtype: str, axis: str) -> None:
    """Nothing is computed in 32 bits, or rounded."""
    text = compiled(parse_function(LINE.format(dtype=dtype, axis=axis, extent=4))).text
    assert text.count(f"sub.rn.{dtype}x2") == 2 and text.count(f"max.NaN.{dtype}x2") == 2
    assert ".f32" not in text


ROWS = """func @f(%x: mem<64x2xf16>, %z: mem<64x3xf16>, %y: mem<64x2x3xf16>) form=C axes=[r:2, c:3] {
  %t = thread_idx x : index
  %v = load %x[t, r] : tile<r:2, f16>
  %s = load %z[t, c] : tile<c:3, f16>
  %a = sub %v, %s : tile<r:2, c:3, f16>
  store %y[t, r, c], %a }"""


def test_pairs_lie_along_any_axis_of_an_even_length() -> None:
    text = compiled(parse_function(ROWS)).text
    assert text.count("sub.rn.f16x2") == 3 and ".f32" not in text


def test_without_a_neighbour_numbers_of_16_bits_are_computed_in_32() -> None:
    assert "bf16x2 " not in compiled(parse_function(LINE.format(dtype="bf16", axis="e", extent=1))).text
