"""An operation goes beside the next turn wherever its operands can be carried, or brought a turn later, and nothing else changes."""

import numpy as np
import pytest

import compiler.hir.instructions  # noqa: F401  (all are declared)
from compiler.emulator.interpret import interpret
from compiler.hir.control import For
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.ring import RingMake
from compiler.hir.text import print_function
from compiler.hir.verify import verify
from compiler.passes.rotate import NotRotatable, rotate
from compiler.passes.split_roles import Inseparable, split_roles

WALK = """func @f(%x: mem<Nx4xf64>, %y: mem<Nx4xf64>, %out: mem<4xf64>, %most: mem<1xf64>, %N: index) form=B axes=[j:4] {
  %z = const 0.0 : tile<j:4, f64> %n = const -inf : f64 %u = const 1.0 : f64
  %m, %s = for t in LOOP carry(%a = %n, %c = %z) pipeline=2 {
    %d = load %x[t, j] : tile<j:4, f64> %e = convert %d place=shared ring=first : tile<j:4, f64, in shared>
    %f = reduce max %e over=[j] : f64 %g = max %a, %f : f64 %h = sub %g, %u : f64
    %i = index of=t+j : tile<j:4, index> %k = cast %i to=f64 : tile<j:4, f64>
    %l = load %y[t, j] : tile<j:4, f64> %v = convert %l place=shared ring=second : tile<j:4, f64, in shared>
    %w = mul %v, %k : tile<j:4, f64> %o = mul %c, %h : tile<j:4, f64> %p = fma %w, %g, %o : tile<j:4, f64>
    yield %g, %p }
  store %out[j], %s store %most[0], %m }"""
UP, DOWN = "0..N", "N-1..-1 step -1"


def named(function: HirFunction, name: str) -> Instruction:
    every = (op for top in function.body.body for op in top.walk())
    return next(op for op in every if any(result.name == name for result in op.results))


def rotated(text: str, op: str, beside: str) -> HirFunction:
    function = parse_function(text)
    verify(function)
    return rotate(function, named(function, op), named(function, beside))


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
@pytest.mark.parametrize("loop", [UP, DOWN])
def test_a_sum_goes_beside_the_next_turn(loop: str, turns: int) -> None:
    """What it multiplies is carried, what it reads in shared memory comes a turn later, what the turn's number makes is made again."""
    function = rotated(WALK.replace("LOOP", loop), "p", "f")
    verify(function)
    assert print_function(parse_function(print_function(function))) == print_function(function)
    first, middle, last = (op for op in function.body.body if isinstance(op, For))
    assert [op.mark("rotated") for op in (first, middle, last)] == ["first", "middle", "last"]
    assert [[op.name for op in each.body.body].count("fma") for each in (first, middle, last)] == [0, 1, 1]
    order = [op.name for op in middle.body.body]
    assert order.index("fma") < order.index("max") and [op.ring for op in middle.body.body if op.name == "convert"] == ["first", "second"]  # type: ignore[attr-defined]
    assert [len(each.carried) for each in (first, middle, last)] == [3, 3, 1]
    random = np.random.default_rng(turns)
    x, y = random.normal(size=(turns, 4)), random.normal(size=(turns, 4))
    most, sums = -np.inf, np.zeros(4)
    for t in range(turns) if loop == UP else reversed(range(turns)):
        most = max(most, x[t].max(initial=-np.inf))
        sums = sums * (most - 1) + y[t] * (t + np.arange(4)) * most
    roles = split_roles(function)
    verify(roles)
    assert [str(op.type).count("ring<2") for op in roles.body.body if isinstance(op, RingMake)] == [1, 1]
    for form in function, roles:
        out, found = np.zeros(4), np.zeros(1)
        interpret(form, [x, y, out, found, turns])
        np.testing.assert_allclose(out, sums, rtol=1e-13)
        assert found[0] == most


def test_a_number_of_turns_that_is_known_needs_no_end() -> None:
    function = rotated(WALK.replace("LOOP", "2..7"), "p", "f")
    ends = [(op.low.value, op.high.value) for op in function.body.body if isinstance(op, For)]
    assert ends == [(2, 3), (3, 7), (6, 7)]


BODY = """%d = load %x[t, j] : tile<j:4, f64> %v = convert %d place=shared : tile<j:4, f64, in shared>
  %f = reduce max %v over=[j] : f64 %g = max %a, %f : f64"""
SUM = f"{BODY} %p = fma %c, %u, %g : tile<j:4, f64>"
SHARED = f"{BODY} %p = fma %c, %g, %v : tile<j:4, f64>"
LATE = """%h = convert %d place=shared : tile<j:4, f64, in shared> %k = mul %h, %u : tile<j:4, f64> %p = add %c, %k : tile<j:4, f64>"""


@pytest.mark.parametrize(
    ("body", "op", "beside", "why"),
    [
        (f"{SUM} yield %g, %c", "p", "f", "%p isn't carried to the next turn"),
        (f"{SUM} store %out[j], %p yield %g, %p", "p", "f", "%p is read in the turn that makes it"),
        (f"{SUM} yield %g, %p", "p", "p", "what the operation goes beside isn't in it"),
        (f"{SUM} yield %g, %p", "p", "z", "what the operation goes beside isn't in it"),
        (f"{SUM} %q = sub %c, %z : tile<j:4, f64> yield %g, %p", "p", "q", "`sub` needs %c before the operation is beside `sub`"),
        (f"{SHARED} yield %g, %p", "p", "f", "%v: tile<j:4, f64, in shared> can't be carried"),
        (
            f"{BODY} {LATE} store %out[j], %z yield %g, %p",
            "p",
            "f",
            "it writes memory, and what the operation reads there would be read a turn later",
        ),
    ],
)
def test_what_can_not_be_rotated_is_refused(body: str, op: str, beside: str, why: str) -> None:
    text = f"""func @f(%x: mem<6x4xf64>, %out: mem<4xf64>) form=B axes=[j:4] {{
      %z = const 0.0 : tile<j:4, f64> %u = const 1.0 : f64 %m, %s = for t in 0..6 carry(%a = %u, %c = %z) pipeline=2 {{ {body} }}
      store %out[j], %s }}"""
    with pytest.raises(NotRotatable) as refused:
        rotated(text, op, beside)
    assert str(refused.value) == f"the loop over t: {why}"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("LOOP", "0..N step 2", "its step is 2"),
        ("%l = load %y[t, j]", "%b = cast %a to=index : index %l = load %y[b, j]", "%a, which it carries, is needed to copy"),
    ],
)
def test_what_comes_a_turn_later_is_known_then(old: str, new: str, why: str) -> None:
    with pytest.raises(NotRotatable) as refused:
        rotated(WALK.replace(old, new).replace("LOOP", UP), "p", "f")
    assert str(refused.value) == f"the loop over t: {why}"


def test_a_tile_in_shared_memory_is_not_carried_between_roles() -> None:
    text = WALK.replace("LOOP", UP).replace("yield %g, %p", "yield %g, %v")
    with pytest.raises(Inseparable, match=r"^%v, which lies in shared memory, is carried$"):
        split_roles(parse_function(text))


def test_loops_that_share_a_ring_have_the_same_in_it() -> None:
    other = "%b = load %x[q, j] : tile<j:4, f64> %q0 = convert %b place=shared ring=second : tile<j:4, f64, in shared> store %out[j], %q0"
    text = WALK.replace("LOOP", UP).replace("store %most", f"for q in 0..N pipeline=3 {{ {other} }} store %most")
    with pytest.raises(Inseparable, match=r"^the ring `second` is a ring<2 x .*> and a ring<3 x .*>$"):
        split_roles(parse_function(text))
