"""Functions of C that a program declares: called as they are, and told when they aren't there. The interpreter has none."""

import math

import pytest

from compiler.backends.native.compile import compile_module
from compiler.diagnostics import ZyntaxError
from tests.quantdsl.elaborate.running import elaborated

PROGRAM = """extern fn ldexp(x: f64, n: i32) -> f64 effects(none)
extern fn llabs(x: i64) -> i64 effects(none)
extern fn fmaf(x: f32, y: f32, z: f32) -> f32 effects(none)
extern fn srandom(seed: u32) effects(io)
extern fn missing(x: f64) -> f64 effects(alloc, io)
@critical_path
fn scaled(x: f64, n: i32) -> f64 { ldexp(x, n) + ldexp(x, n) }
fn size(x: int) -> int { llabs(x) }
fn joined(x: f32) -> f32 { fmaf(x, x, x) }
fn seed(n: u32) -> int { srandom(n); 1 }
"""


def test_they_are_called() -> None:
    made = elaborated(PROGRAM)
    native = compile_module(made.module)
    assert native[made.functions["scaled"]].run([0.75, -3]).results == (2 * math.ldexp(0.75, -3),)
    assert native[made.functions["size"]].run([-(2**62)]).results == (2**62,)
    assert native[made.functions["joined"]].run([1.5]).results == (3.75,)
    assert native[made.functions["seed"]].run([4]).results == (1,)
    assert native.facts.declared == {"ldexp", "llabs", "fmaf", "srandom"}, "what isn't called isn't needed"


def test_one_that_is_not_there() -> None:
    made = elaborated(PROGRAM + "fn asks(x: f64) -> f64 { missing(x) }\n")
    with pytest.raises(ZyntaxError) as error:
        compile_module(made.module)[made.functions["asks"]]
    (told,) = error.value.diagnostics
    assert (told.code, told.message) == ("0201", "no function `missing` of C is loaded in this process")
