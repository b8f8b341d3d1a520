"""Tiles are split in roles wherever loops say so: what is copied runs ahead of what is computed, and nothing else changes."""

import numpy as np
import pytest

import compiler.hir.instructions  # noqa: F401  (all are declared)
from compiler.emulator.interpret import interpret
from compiler.hir.module import Form
from compiler.hir.parse import parse_function
from compiler.hir.ring import RingMake, RunRole
from compiler.hir.verify import verify
from compiler.passes.split_roles import Inseparable, puts_ahead, split_roles

TWO_LOOPS = """func @f(%x: mem<6x4xf64>, %y: mem<6x4xf64>, %p: mem<6xindex>, %out: mem<4xf64>) form=B axes=[j:4] {
  %z = const 0.0 : tile<j:4, f64>
  %s = for t in 0..6 carry(%a = %z) pipeline=2 {
    %at = load %p[t] : index %u = load %x[at, j] : tile<j:4, f64> %v = convert %u place=shared : tile<j:4, f64, in shared>
    %c = add %a, %v : tile<j:4, f64> yield %c }
  %e = for q in 0..3 carry(%b = %s) pipeline=3 {
    %f = load %y[2*q, j] : tile<j:4, f64> %g = convert %f place=shared : tile<j:4, f64, in shared>
    %h = load %y[2*q+1, j] : tile<j:4, f64> %k = convert %h place=shared : tile<j:4, f64, in shared>
    %l = mul %g, %k : tile<j:4, f64> %m = add %b, %l : tile<j:4, f64> yield %m }
  store %out[j], %e }"""


def test_each_loop_has_a_ring_of_what_it_reads() -> None:
    """In two roles, or in one that puts ahead. The loop says how many stages; places that are read from memory are for who copies. A loop may
    begin with what another came to."""
    tiles = parse_function(TWO_LOOPS)
    roles = split_roles(tiles)
    verify(roles)
    assert roles.form is Form.ROLES
    rings = [str(op.type) for op in roles.body.body if isinstance(op, RingMake)]
    one = "tile<j:4, f64, in shared>"
    assert rings == [f"ring<2 x ({one})>", f"ring<3 x ({one}, {one})>"]
    copying, computing = (op for op in roles.body.body if isinstance(op, RunRole))
    assert [sum(op.name == "load" for op in role.walk()) for role in (copying, computing)] == [4, 0]
    assert not any(getattr(op, "carried", ()) for op in copying.walk())
    random = np.random.default_rng(2)
    x, y, p = random.normal(size=(6, 4)), random.normal(size=(6, 4)), random.permutation(6)
    ahead = puts_ahead(tiles)
    verify(ahead)
    assert not any(isinstance(op, RunRole) for op in ahead.body.body)
    for function in tiles, roles, ahead:
        out = np.zeros(4)
        interpret(function, [x, y, p, out])
        np.testing.assert_allclose(out, x[p].sum(0) + (y[::2] * y[1::2]).sum(0), rtol=1e-14)


CARRIED = """%i = index of=t : index %s = for r in 0..6 carry(%a = %i) pipeline=2 {
  %u = load %x[a, j] : tile<j:4, f64> %v = convert %u place=shared : tile<j:4, f64, in shared>
  store %out[j], %v %n = index of=a+1 : index yield %n }"""
COMPUTED = """%z = const 0 : index %s = for r in 0..6 carry(%a = %z) { %n = index of=a+r : index yield %n }
for w in 0..6 pipeline=2 { %u = load %x[s, j] : tile<j:4, f64> %v = convert %u place=shared : tile<j:4, f64, in shared> store %out[j], %v }"""
OUTSIDE = """%u = load %x[t, j] : tile<j:4, f64> %v = convert %u place=shared : tile<j:4, f64, in shared> store %out[j], %v"""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (CARRIED, "%a, which the loop over r carries, is needed to copy"),
        (COMPUTED, "%s, which the loop over r carries, is needed to copy"),
        (OUTSIDE, "%v lies in shared memory, outside of a loop with `pipeline`"),
        ("%p = inbounds of=t below=3 : i1 if %p { " + OUTSIDE + " }", "`if` is neither copied nor computed alone"),
    ],
)
def test_what_is_inseparable_is_refused(body: str, why: str) -> None:
    function = parse_function(f"func @f(%x: mem<6x4xf64>, %out: mem<4xf64>) form=B axes=[j:4] {{ for t in 0..6 {{ {body} }} }}")
    verify(function)
    with pytest.raises(Inseparable, match=f"^{why}$"):
        split_roles(function)
