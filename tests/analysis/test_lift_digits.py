"""Loops over tiles around loops inside of them: one axis, up to the edge."""

import itertools

import numpy as np
import pytest
from nests import nest

from compiler.analysis.lift import lift
from compiler.emulator.interpret import interpret
from compiler.hir.text import print_function

ROWS = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<Nxf32>"
PRODUCT = "M: index; N: index; K: index; A: mem<MxKxf32, readonly>; B: mem<KxNxf32, readonly>; out: mem<MxNxf32>"


def axes(text: str, parameters: str) -> dict[str, str]:
    return {name: str(extent) for name, extent in lift(nest(text, parameters), zeroed=frozenset({"out"})).axes.items()}


SUM = """for i in 0..N { %z = const 0.0 : f32  %s = for t in 0..HIGH carry(%a = %z) { %u = for r in 0..4 carry(%b = %a) {
    %x = load %X[i, INDEX] : f32  %c = add %b, %x reassoc  yield %c } yield %u } store %out[i], %s }"""


def test_whole_tiles_are_an_axis_of_their_elements() -> None:
    assert axes(SUM.replace("HIGH", "floor((M)/4)").replace("INDEX", "4*t+r"), ROWS) == {"i": "N", "r": "4*floor((M)/4)"}
    assert axes(SUM.replace("HIGH", "5").replace("INDEX", "4*t+r"), ROWS) == {"i": "N", "r": "20"}


@pytest.mark.parametrize("index", ["4*t+2*r", "5*t+r", "t+r", "4*r+t"])
def test_other_indices_are_no_digits(index: str) -> None:
    assert len(axes(SUM.replace("HIGH", "5").replace("INDEX", index), ROWS)) == 3


EDGE = """for i0 in 0..floor((M+3)/4) { for j0 in 0..floor((N+7)/8) { for i1 in 0..4 { for j1 in 0..8 {
    %m = index of=M : index  %n = index of=N : index  %i = index of=4*i0+i1 : index  %j = index of=8*j0+j1 : index
    %p = lt %i, %m : i1  %q = lt %j, %n : i1  %r = and %p, %q : i1
    if %r { %z = const 0.0 : f32  %s = for k in 0..K carry(%a = %z) { %x = load %A[4*i0+i1, k] : f32  %y = load %B[k, 8*j0+j1] : f32
        %v = mul %x, %y contract  %w = add %a, %v reassoc contract  yield %w }
      store %out[4*i0+i1, 8*j0+j1], %s } } } } }"""


def test_a_product_in_tiles_that_hang_over_the_edge_is_a_product() -> None:
    field = lift(nest(EDGE, PRODUCT), zeroed=frozenset({"out"}))
    assert sorted(map(str, field.axes.values())) == ["K", "M", "N"]
    assert "contract" in print_function(field) and "where" not in print_function(field)
    random = np.random.default_rng(0)
    for m, n, k in itertools.product((1, 4, 6), (3, 8, 9), (2,)):
        a, b, out = random.random((m, k), np.float32), random.random((k, n), np.float32), np.zeros((m, n), np.float32)
        known = {"M": m, "N": n, "K": k, "A": a, "B": b, "out": out}
        interpret(field, [known[one.name] for one in field.parameters])
        assert np.allclose(out, a @ b)


def test_what_counts_behind_the_edge_keeps_the_tiles_whole() -> None:
    """Without a guard the sum goes on behind the edge: the axis has all of the last tile."""
    text = SUM.replace("HIGH", "floor((M+3)/4)").replace("INDEX", "4*t+r").replace("%x = load", "%y = load").replace("yield %c", "yield %c")
    text = text.replace("%c = add", "%o = const 1.0 : f32  %x = add %o, %o  %c = add").replace("%y = load %X[i, 4*t+r] : f32", "")
    assert all(str(extent) in ("N", "4", "floor((M+3)/4)", "4*floor((M+3)/4)") for extent in axes(text, ROWS).values())


def test_tiles_counted_by_a_number_end_where_guards_say() -> None:
    """Three tiles of 8 rows over 20: the number of the tiles alone doesn't tell where the last one ends."""
    text = EDGE.replace("floor((M+3)/4)", "3").replace("floor((N+7)/8)", "3").replace("index of=M", "const 10").replace("index of=N", "const 17")
    parameters = PRODUCT.replace("MxK", "10xK").replace("KxN", "Kx17").replace("MxNxf32>", "10x17xf32>").replace("M: index; N: index; ", "")
    field = lift(nest(text, parameters), zeroed=frozenset({"out"}))
    assert sorted(map(str, field.axes.values())) == ["10", "17", "K"]
    assert "contract" in print_function(field) and "where" not in print_function(field)
    random = np.random.default_rng(0)
    a, b, out = random.random((10, 2), np.float32), random.random((2, 17), np.float32), np.zeros((10, 17), np.float32)
    interpret(field, [{"K": 2, "A": a, "B": b, "out": out}[one.name] for one in field.parameters])
    assert np.allclose(out, a @ b)
