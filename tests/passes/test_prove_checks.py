"""Checks that can't fail are taken away, others stay; what functions do is the same."""

import random

import pytest

from compiler.hir.layout import new_memory
from compiler.hir.parse import parse_function, parse_module
from compiler.hir.text import print_function, print_module
from compiler.hir.verify import verify
from compiler.passes.prove_checks import prove_checks
from tests.native.both import Both
from tests.native.test_random import LEVELS, STATE, random_program

HEAD = 'func @f(%x: i64, %b: u8, %c: i8, %o: ptr<array<256 x i64>>) form=A { site 0806 "s" %w = cast %b to=i64 : i64 %v = cast %c to=i64 : i64 '


@pytest.mark.parametrize(
    "line,kept",
    [
        ("%r = checked add %w, %w site=0 : i64", False),
        ("%r = checked add %x, %w site=0 : i64", True),
        ("%r = checked mul %w, %v site=0 : i64", False),
        ("%r = checked add %b, %b site=0 : u8", True),
        ("%k = const 7 : i64 %r = checked div %x, %k site=0 : i64", False),
        ("%k = const -1 : i64 %r = checked div %x, %k site=0 : i64", True),
        ("%k = const -1 : i64 %r = checked div %w, %k site=0 : i64", False),
        ("%r = checked div %x, %w site=0 : i64", True),
        ("%k = const 1 : i64 %n = max %w, %k : i64 %r = checked rem %x, %n site=0 : i64", False),
        ("%r = checked rem %x, %v site=0 : i64", True),
        ("%k = const 63 : i64 %n = min %w, %k : i64 %r = checked shr %x, %n site=0 : i64", False),
        ("%r = checked shr %x, %w site=0 : i64", True),
        ("%k = const 50 : i64 %r = checked shl %v, %k site=0 : i64", False),
        ("%k = const 57 : i64 %r = checked shl %v, %k site=0 : i64", True),
        ("%k = const 56 : i64 %r = checked shl %v, %k site=0 : i64", False),
        ("%r = narrow %w to=u8 site=0 : u8", False),
        ("%r = narrow %w to=i8 site=0 : i8", True),
        ("%r = narrow %v to=u64 site=0 : u64", True),
        ("%f = cast %w to=f64 : f64 %r = narrow %f to=i64 site=0 : i64", True),
        ("%r = element %o, %b site=0 : ptr<i64>", False),
        ("%r = element %o, %c site=0 : ptr<i64>", True),
        ("%k = const 1 : i64 %n = checked add %w, %k site=0 : i64 %r = element %o, %n site=0 : ptr<i64>", True),
        ("%k = const 3 : i64 %r = quotient %x, %k rounding=floor site=0 : i64", False),
        ("%r = quotient %x, %w rounding=floor site=0 : i64", True),
    ],
)
def test_what_ranges_prove(line: str, kept: bool) -> None:
    function = parse_function(HEAD + line + " }")
    assert prove_checks(function)[-1].kept is kept
    verify(function)
    assert prove_checks(parse_function(print_function(function)))[-1:] == (prove_checks(function)[-1:] if kept else [])


def test_indices_of_loops_need_no_check() -> None:
    function = parse_function(
        HEAD + "for i in 0..256 { %e = element %o, %i site=0 : ptr<i64> } for j in 0..257 { %g = element %o, %j site=0 : ptr<i64> } }"
    )
    assert [proof.kept for proof in prove_checks(function)] == [False, True]


@pytest.mark.parametrize("seed", range(12))
def test_programs_do_the_same_without_them(seed: int) -> None:
    text = print_module(random_program(seed).module)
    before, changed = Both(parse_module(text), LEVELS[-1:]), parse_module(text)
    proofs = [proof for function in changed.functions.values() for proof in prove_checks(function)]
    assert any(not proof.kept for proof in proofs)
    after, chooser = Both(changed, LEVELS[-1:]), random.Random(seed)
    for _ in range(8):
        first, second = new_memory(STATE), new_memory(STATE)
        first["cells"] = second["cells"] = [chooser.choice([0, 1, -1, 5, 2**63 - 1, 1000]) for _ in range(5)]
        arguments = (chooser.choice([0, 1, -1, 100, -(2**63)]), chooser.choice([0, 1, 255]), chooser.choice([0.0, 1.0, -3.5]))
        assert repr(before("f2", first, *arguments)) == repr(after("f2", second, *arguments))
        assert first.tobytes() == second.tobytes()
