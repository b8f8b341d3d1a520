"""Which functions may be the hardware's: those that only show in 16 bits."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.hir.build import FunctionBuilder
from compiler.hir.core import Binary, Unary
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.schedule.gpu.rewrites.narrow import loosen


def field(body: Callable[[FunctionBuilder, Value], list[tuple[Value, str]]]) -> HirFunction:
    """A field over `x[i]` in f32, with a result for each value and its type."""
    f = FunctionBuilder("f", Form.FIELD, {"i": "N"})
    x = f.parameter("x", Mem("f32", ("N",), readonly=True))
    outs = [f.parameter(f"out{number}", Mem(dtype, ("N",))) for number, dtype in enumerate(("bf16", "f32"))]
    f.parameter("N", INDEX)
    for value, dtype in body(f, f.body.load(x, ["i"])):
        f.body.store(outs[dtype == "f32"], f.body.cast(value, dtype), ["i"])
    made = f.finish()
    loosen(made)
    return made


def loosened(made: HirFunction) -> set[str]:
    return {op.operator for op in made.body.body if isinstance(op, Unary | Binary) and "afn" in op.flags}


def test_where_all_that_reads_them_is_rounded() -> None:
    assert loosened(field(lambda f, x: [(f.body.op("div", x, f.body.op("exp", x)), "bf16")])) == {"div", "exp"}
    assert loosened(field(lambda f, x: [(f.body.op("max", f.body.op("tanh", x), x), "bf16")])) == {"tanh"}


def test_not_where_one_reader_sees_all_bits() -> None:
    def both(f: FunctionBuilder, x: Value) -> list[tuple[Value, str]]:
        weight = f.body.op("exp", x)
        return [(weight, "bf16"), (f.body.op("sqrt", weight), "f32")]

    assert loosened(field(both)) == set()

    def compared(f: FunctionBuilder, x: Value) -> list[tuple[Value, str]]:
        weight = f.body.op("exp", x)
        return [(f.body.select(f.body.op("lt", weight, x), weight, f.body.op("exp2", x)), "bf16")]

    assert loosened(field(compared)) == {"exp2"}


def test_logarithms_never() -> None:
    assert loosened(field(lambda f, x: [(f.body.op("log", x), "bf16")])) == set()


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_softmax_of_16_bits(dtype: str) -> None:
    """In the emulator functions are exact: what is computed stays what it was."""
    p = zynml.compile(
        f"""def f(x: tensor[M, N, {dtype}]) {{ compute(x) -> tensor[M, N, {dtype}] {{ for i in 0..M {{
            var m = -inf
            for j in 0..N: m = max(m, x[i, j])
            var s = 0.0
            for j in 0..N: s += exp(x[i, j] - m)
            for j in 0..N: out[i, j] = exp(x[i, j] - m) / s
        }} }} }}""",
        device="emulator",
    )
    numbers = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[dtype]
    x = np.random.default_rng(4).standard_normal((3, 200)).astype(numbers)
    wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True).astype(np.float64))
    np.testing.assert_allclose(np.asarray(p.f(x)).astype(np.float64), wide / wide.sum(1, keepdims=True), rtol=6e-3)
