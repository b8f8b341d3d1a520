"""What LLVM is told of loops: it unrolls those of numbers and of few turns, not those over vectors that are written out."""

import numpy as np
import pytest
from cpu_runs import run

from compiler.backends.cpu.compile import compile_function
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem


def vectors_and_numbers(times: int | str) -> HirFunction:
    """y = 2 x by vectors of 8, `times` over; z = 3 x by numbers."""
    f = FunctionBuilder("both", Form.TILE, {"simd": 8})
    x, y, z = (f.parameter(name, Mem("f32", ["N"])) for name in "xyz")
    f.parameter("N", INDEX)
    f.parameter("T", INDEX)
    with f.body.loop("t", 0, times) as (again, _):
        at = [Affine.of("t") * 8 + "simd"]
        value = again.load(x, at)
        again.store(y, again.add(value, value), at)
    with f.body.loop("i", 0, "N") as (body, _):
        number = body.load(x, ["i"])
        body.store(z, body.add(body.add(number, number), number), ["i"])
    return f.finish()


def test_a_loop_over_vectors_is_not_unrolled() -> None:
    text = compile_function(vectors_and_numbers("T")).llvm_unoptimised
    assert text.count("llvm.loop.unroll.disable") == 1
    x = np.arange(24, dtype=np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    assert run(vectors_and_numbers("T"), [x, y, z, 24, 3]) is None
    assert (y == 2 * x).all() and (z == 3 * x).all()


def test_a_few_turns_over_vectors_are_written_out_by_llvm() -> None:
    assert "llvm.loop.unroll.disable" not in compile_function(vectors_and_numbers(3)).llvm_unoptimised


def test_llvm_is_not_asked_for_vectors_of_what_branches() -> None:
    """It would say on standard error that it can't: a sine takes a branch where its angle is large."""
    for function, asked in ("sin", 0), ("sqrt", 1):
        f = FunctionBuilder("one", Form.NEST)
        x, y = (f.parameter(name, Mem("f32", ["N"])) for name in "xy")
        f.parameter("N", INDEX)
        with f.body.loop("i", 0, "N", place="simd") as (body, _):
            body.store(y, body.op(function, body.load(x, ["i"])), ["i"])
        assert compile_function(f.finish()).llvm_unoptimised.count("llvm.loop.vectorize.enable") == asked


def picked(dtype: str, summed: bool) -> HirFunction:
    """out[i] = t[k[i]], or s + 1 for the sum s of these."""
    f = FunctionBuilder("picked", Form.NEST)
    t, k, out = f.parameter("t", Mem(dtype, [9])), f.parameter("k", Mem("i32", ["N"])), f.parameter("out", Mem(dtype, ["N"]))
    f.parameter("N", INDEX)
    zero = f.body.const(0.0, dtype)
    with f.body.loop("i", 0, "N", carried=[zero] if summed else []) as (body, loop):
        place = body.cast(body.load(k, ["i"]), "index")
        element = body.load(t, [place.name])
        if summed:
            body.yield_(body.op("add", loop.carried[0], element))
        else:
            body.store(out, element, ["i"])
    if summed:
        f.body.store(out, loop.results[0], [0])
    return f.finish()


@pytest.mark.parametrize(("dtype", "summed", "one_by_one"), [
    ("f16", False, True), ("f32", False, True), ("f64", False, True), ("f16", True, True), ("f32", True, False),
])  # fmt: skip
def test_elements_at_indices_that_are_data_are_read_one_by_one_where_no_machine_gathers_them_faster(dtype: str, summed: bool, one_by_one: bool) -> None:
    text = compile_function(picked(dtype, summed)).llvm_unoptimised
    assert ('"llvm.loop.vectorize.width", i32 1' in text) == one_by_one


@pytest.mark.parametrize(("apart", "one_by_one"), [(True, True), (False, False)])
def test_elements_at_indices_that_are_data_are_read_one_by_one_beside_others_that_lie_apart(apart: bool, one_by_one: bool) -> None:
    """out[i] = t[k[i]] + y[i], with `y` dense or a column of a matrix."""
    f = FunctionBuilder("picked", Form.NEST)
    t, k, out = f.parameter("t", Mem("f16", [9])), f.parameter("k", Mem("i32", ["N"])), f.parameter("out", Mem("f16", ["N"]))
    y = f.parameter("y", Mem("f16", ["N"], [7] if apart else None))
    f.parameter("N", INDEX)
    with f.body.loop("i", 0, "N", place="simd") as (body, _):
        place = body.cast(body.load(k, ["i"]), "index")
        body.store(out, body.add(body.load(t, [place.name]), body.load(y, ["i"])), ["i"])
    assert ('"llvm.loop.vectorize.width", i32 1' in compile_function(f.finish()).llvm_unoptimised) == one_by_one


def test_only_of_what_loops_carry_llvm_is_told_by_name_that_an_extreme_is_one() -> None:
    """It knows how to join those in any order; others take three instructions where they are compared and chosen."""
    f = FunctionBuilder("extremes", Form.NEST)
    x, out = f.parameter("x", Mem("f32", ["N"])), f.parameter("out", Mem("f32", ["N"]))
    f.parameter("N", INDEX)
    with f.body.loop("i", 0, "N") as (body, _):
        body.store(out, body.op("max", body.load(out, ["i"]), body.load(x, ["i"])), ["i"])
    assert "maximum" not in compile_function(f.finish()).llvm_unoptimised
    with f.body.loop("i", 0, "N", carried=[f.body.const(0.0, "f32")]) as (body, loop):
        body.yield_(body.op("max", loop.carried[0], body.load(x, ["i"])))
    f.body.store(out, loop.results[0], [0])
    assert "maximum" in compile_function(f.finish()).llvm_unoptimised
