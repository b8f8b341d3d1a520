"""Which elements of arrays become slots, and which arrays stay memory."""

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.hir.core import Select
from compiler.hir.memory import Alloc, Load, MakeSlot, Store
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.verify import verify
from compiler.passes.arrays_to_slots import arrays_to_slots
from compiler.passes.dce import dce

HEAD = "func @f(%X: mem<Nxf32, readonly>, %I: mem<Nxi32, readonly>, %out: mem<Nxf32>, %N: index) form=A {\n"
REVERSED = """%z = const 0.0 : f32
    for m in 0..3 {{ store %s[m], %z }}
    for t in 0..N {{
      {inside}
      for n in 0..2 {{ %a = load %s[n+1] : f32 store %s[n], %a }}
      %x = load %X[t] : f32 store %s[2], %x
      %y = load %s[0] : f32 store %out[t], %y
    }}"""


def made(text: str, extent: int = 3) -> HirFunction:
    source = parse_function(f"{HEAD}%s = alloc array=true : mem<{extent}xf32, local>\n{text}\n}}")
    result = arrays_to_slots(source)
    verify(result)
    x, i = np.arange(1, 8, dtype=np.float32), np.array([2, 0, 1, 1, 2, 0, 2], np.int32)
    before, after = np.zeros(7, np.float32), np.zeros(7, np.float32)
    interpret(source, [x, i, before, 7])
    interpret(result, [x, i, after, 7])
    assert np.array_equal(before, after)
    return result


def count(function: HirFunction, kind: type) -> int:
    return sum(isinstance(op, kind) for top in function.body.body for op in top.walk())


def test_loops_that_count_elements_are_written_out() -> None:
    result = made(REVERSED.format(inside=""))
    assert (count(result, Alloc), count(result, MakeSlot), count(result, Load), count(result, Store)) == (0, 3, 1, 1)


def test_data_choose_among_few() -> None:
    inside = "%i = load %I[t] : i32 %k = cast %i to=index : index %e = load %s[k] : f32 store %s[k], %e"
    assert count(made(REVERSED.format(inside=inside)), Alloc) == 0
    assert count(made(REVERSED.format(inside=inside), extent=17), Alloc) == 1


def test_an_update_of_an_element_is_one_of_each() -> None:
    """`s[k] += x` adds to each element where it is the one; not where the element may have changed before."""
    read = "%i = load %I[t] : i32 %k = cast %i to=index : index %e = load %s[k] : f32 %f = load %X[t] : f32 %g = add %e, %f : f32"
    assert count(dce(made(REVERSED.format(inside=f"{read} store %s[k], %g"))), Select) == 3
    assert count(dce(made(REVERSED.format(inside=f"{read} store %s[1], %f store %s[k], %g"))), Select) == 5
    assert count(dce(made(REVERSED.format(inside=f"{read} %p = gt %e, %f : i1 if %p {{ store %s[k], %g }}"))), Select) == 5


def test_a_loop_that_may_be_left_chooses() -> None:
    inside = "for k in 0..3 { %e = load %s[k] : f32 %f = load %X[t] : f32 %p = gt %e, %f : i1 if %p { break } store %s[k], %f }"
    result = made(REVERSED.format(inside=inside))
    assert count(result, Alloc) == 0


@pytest.mark.parametrize(("extent", "slots"), [(64, 64), (65, 0)])
def test_many_elements_stay_memory(extent: int, slots: int) -> None:
    assert count(made(REVERSED.format(inside=""), extent), MakeSlot) == slots


def test_long_loops_stay_loops() -> None:
    """Turns of loops that would be thousands of instructions are not written out."""
    inside = "for p in 0..60 { for q in 0..60 { %e = load %s[0] : f32 %f = load %X[t] : f32 %g = add %e, %f : f32 store %s[p-p], %g } }"
    assert count(made(REVERSED.format(inside=inside)), Alloc) == 0
    inside = """for p in 0..60 { for q in 0..60 {
        %b = index of=p-2*floor((p)/2) : index %c = index of=q-2*floor((q)/2) : index
        %e = load %s[b] : f32 %f = load %X[t] : f32 %g = add %e, %f : f32 store %s[c], %g } }"""
    assert count(made(REVERSED.format(inside=inside)), Alloc) == 1
