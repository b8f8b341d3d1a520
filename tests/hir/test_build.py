"""The builder: names are unique, equal pure instructions are one, what it makes is well formed and prints."""

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.core import MONOIDS
from compiler.hir.instruction import Effect, Region
from compiler.hir.instructions import INSTRUCTIONS
from compiler.hir.module import Form
from compiler.hir.text import print_function
from compiler.hir.types import F32, INDEX, Mem, Tile
from compiler.hir.verify import verify


def test_equal_pure_instructions_are_made_once() -> None:
    f = FunctionBuilder("f")
    a, b = f.parameter("a", F32), f.parameter("b", F32)
    assert f.body.add(a, b) is f.body.add(a, b)
    assert f.body.add(a, b) is not f.body.add(b, a)
    assert f.body.const(0.0) is not f.body.const(-0.0)
    assert f.body.const(1, "i1") is not f.body.const(True, "i1")
    with f.body.when(f.body.op("lt", a, b)) as inner:
        assert inner.add(a, b) is f.body.add(a, b)
        only_here = inner.mul(a, b)
    assert f.body.mul(a, b) is not only_here
    verify(f.finish())


def test_loads_and_slots_are_made_each_time() -> None:
    f = FunctionBuilder("f")
    x = f.parameter("x", Mem("f32", (4,)))
    assert f.body.load(x, [0]) is not f.body.load(x, [0])
    slot = f.body.slot(f.body.const(0.0))
    assert f.body.get(slot) is not f.body.get(slot)


def test_names_are_unique_among_values_and_axes() -> None:
    f = FunctionBuilder("f", Form.FIELD, axes={"i": 4})
    f.parameter("N", INDEX)
    assert f.parameter("i", INDEX).name != "i"
    assert f.axis("N", 3) != "N"
    with f.body.loop("k", 0, "N"), f.body.loop("k", 0, "N"):
        pass
    verify(f.finish())


def test_a_nest_built_prints_and_runs() -> None:
    f = FunctionBuilder("total")
    n, x, out = f.parameter("N", INDEX), f.parameter("x", Mem("f64", ["N"])), f.parameter("out", Mem("f64", (1,)))
    assert n.type == INDEX
    with f.body.loop("i", 0, "N", carried=[f.body.const(0.0, "f64")]) as (inner, loop):
        inner.yield_(inner.add(loop.carried[0], inner.load(x, ["i"])))
    f.body.store(out, loop.results[0], [0])
    function = f.finish()
    verify(function)
    result = np.zeros(1)
    interpret(function, [5, np.arange(5.0), result])
    assert result[0] == 10
    assert "%t3 = for i in 0..N carry(%t1 = %t0) {" in print_function(function).replace("t4", "t3")


def test_numbers_of_numpy_become_plain() -> None:
    f = FunctionBuilder("f")
    f.body.const(np.float32(1.5))
    f.body.const(np.float64(2.5), "f64")
    f.body.const(np.int64(3), "i64")
    assert [op.value for op in f.finish().body.body] == [1.5, 2.5, 3]
    assert "const 2.5 : f64" in print_function(f.finish())


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_each_instruction_says_what_it_means(name: str) -> None:
    cls = INSTRUCTIONS[name]
    assert cls.__doc__ and len(cls.__doc__) > 20
    assert isinstance(cls.effects, Effect)
    assert cls.result_types.__qualname__.startswith(cls.__name__), "each declares its result types"


def test_the_monoids_that_combine_pairs_come_last() -> None:
    assert MONOIDS[-2:] == ("argmin", "argmax")


def test_types_of_one_value_do_not_depend_on_the_order_of_axes() -> None:
    assert Tile("f32", (("i", 2), ("j", 3))) == Tile("f32", (("j", 3), ("i", 2)))


def test_the_position_moves_into_a_region_and_back() -> None:
    f = FunctionBuilder("f")
    b, region, apart = f.body, Region(), Region()
    one = b.const(1, "i64")
    with b.inside(region):
        assert b.const(1, "i64") is one, "made around"
        two = b.const(2, "i64")
    with pytest.raises(ValueError, match="left"), b.inside(apart, alone=True):
        assert b.const(1, "i64") is not one, "it may end up before"
        raise ValueError("left")
    assert b.const(2, "i64") is not two, "made where it may not be reached"
    assert [len(r.body) for r in (f.function.body, region, apart)] == [2, 1, 1]
