"""Quotients by numbers that a launch knows: the field that they make possible, the faults that they don't hide."""

import numpy as np
import pytest

import zynml
from compiler.analysis.lift import Refused, lift
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.passes.known_divisors import divisors_of, number_of, with_divisors

NEST = """func @f(%X: mem<Gxf32, readonly>, %out: mem<Hxf32>, %H: index, %G: index) form=A {
  %n = index of=H : index  %n64 = cast %n to=i64 : i64  %g = index of=G : index  %g64 = cast %g to=i64 : i64  %zero = const 0 : i64
  for h in 0..H {
    %i = index of=h : index  %i64 = cast %i to=i64 : i64
    %some = ne %g64, %zero : i1  check %some code=0806
    %each = div %n64, %g64 : i64
    %more = ne %each, %zero : i1  check %more code=0806
    %q = OPERATOR %i64, %each : i64  %at = cast %q to=index : index  %x = load %X[at] : f32  store %out[h], %x
  } }"""


def test_the_quotient_is_an_affine_index() -> None:
    nest = parse_function(NEST.replace("OPERATOR", "div"))
    with pytest.raises(Refused):
        lift(nest)
    (divisor,) = divisors_of(nest)
    assert number_of(divisor, {"H": 12, "G": 4}) == 3
    assert number_of(divisor, {"H": 12, "G": 0}) is None
    assert "load %X[floor((h)/3)]" in print_function(lift(with_divisors(nest, {divisor: 3})))


def test_the_remainder_too() -> None:
    nest = parse_function(NEST.replace("OPERATOR", "rem"))
    (divisor,) = divisors_of(nest)
    assert "load %X[-3*floor((h)/3)+h]" in print_function(lift(with_divisors(nest, {divisor: 3})))


SOURCE = """def f(x: tensor[H, N], y: tensor[G, N], group: int) {
  compute(x, y, group) { for h in 0..H, i in 0..N: out[h, i] = x[h, i] * y[h / GROUP, i] }
}"""


@pytest.mark.parametrize("group", ["group", "(H / G)"])
def test_programs_with_such_indices(group: str) -> None:
    program = zynml.compile(SOURCE.replace("GROUP", group), device="emulator")
    x, y = np.arange(18.0).reshape(6, 3), np.arange(6.0).reshape(2, 3)
    for each, heads in ((3, 6), (2, 4), (3, 5)):
        wanted = x[:heads] * y[np.arange(heads) // (each if group == "group" else heads // 2)] if heads != 5 or group == "group" else None
        if wanted is not None:
            assert np.array_equal(program.f(x[:heads].astype(np.float32), y.astype(np.float32), each), wanted)


@pytest.mark.parametrize(("group", "code"), [(0, "ZYN0806"), (1, "ZYN0801"), (-3, "ZYN0801")])
def test_faults_stay_what_they_are(group: int, code: str) -> None:
    program = zynml.compile(SOURCE.replace("GROUP", "group"), device="emulator")
    with pytest.raises(zynml.ZynMLError) as found:
        program.f(np.ones((6, 3), np.float32), np.ones((2, 3), np.float32), group)
    assert code in str(found.value)
