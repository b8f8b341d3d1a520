"""What LLVM is told of loops: it unrolls those of numbers and of few turns, not those over vectors that are written out."""

import numpy as np
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
