"""Quotients by roots in terms of sums."""

from collections.abc import Callable

import numpy as np
import pytest

import zynml
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.core import Binary, Unary
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.passes.terms import with_roots_of_terms


def field(term: Callable[[Builder, Value, Value], Value], flags: tuple[str, ...] = ("reassoc", "contract")) -> HirFunction:
    """A field that sums what is made of `x[i, j]` and its root."""
    f = FunctionBuilder("f", Form.FIELD, {"i": "M", "j": "N"})
    x, out = f.parameter("x", Mem("f32", ("M", "N"), readonly=True)), f.parameter("out", Mem("f32", ("M",)))
    f.parameter("M", INDEX)
    f.parameter("N", INDEX)
    one = f.body.load(x, ["i", "j"])
    (total,) = f.body.reduce("add", term(f.body, one, f.body.op("sqrt", one)), over=["j"], flags=flags)
    f.body.store(out, total, ["i"])
    return f.finish()


def operators(made: HirFunction) -> list[str]:
    return sorted(op.operator for op in made.body.body if isinstance(op, Unary | Binary))


@pytest.mark.parametrize("factor", [False, True])
def test_quotients_by_roots_become_products(factor: bool) -> None:
    made = with_roots_of_terms(field(lambda b, x, root: b.mul(x, b.op("div", x, root)) if factor else b.op("div", x, root)))
    assert operators(made) == ["mul"] * (1 + factor) + ["rsqrt"]
    assert [op.flags for op in made.body.body if isinstance(op, Unary)] == [("afn",)]


def test_what_shows_bits_stays() -> None:
    """Of a difference more bits are lost than of its terms; and a sum in order has its bits."""
    for whole in (
        field(lambda b, x, root: b.op("sub", b.op("div", x, root), x)),
        field(lambda b, x, root: b.select(b.op("lt", b.op("div", x, root), x), x, root)),
        field(lambda b, x, root: b.op("div", x, root), flags=()),
        field(lambda b, x, root: b.op("div", root, x)),
    ):
        assert with_roots_of_terms(whole) is whole


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_zeros_and_infinities(dtype: str) -> None:
    """A sum of one term each, of all pairs of numbers at the ends."""
    program = zynml.compile(
        f"""def f(x: tensor[M, {dtype}], y: tensor[N, {dtype}]) {{ compute(x, y) {{ for i in 0..M, j in 0..N {{
            var s = 0.0
            for k in j..j + 1: s += x[i] / sqrt(y[k])
            out[i, j] = s
        }} }} }}""",
        device="emulator:sm_90a",
    )
    ends = np.array([0.0, 1.0, -2.0, np.inf, np.nan, np.finfo(dtype.replace("f", "float")).tiny / 8], dtype.replace("f", "float"))
    with np.errstate(all="ignore"):
        want = ends.astype(np.float64)[:, None] / np.sqrt(ends.astype(np.float64))
    np.testing.assert_allclose(np.asarray(program.f(ends, ends)), want, rtol=1e-6)
