"""Checks that a function's writer vouches for: left out, told one by one, and those that must stay."""

import numpy as np

from compiler.backends.native.compile import compile_module
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import I64
from compiler.hir.types import Array, Pointer
from compiler.hir.verify import verify
from compiler.passes.unchecked import leave_checks_out
from compiler.source import Span

HERE, THERE = Span("p", 1, 2), Span("p", 3, 4)


def test_what_is_left_out_and_what_stays() -> None:
    program = ModuleBuilder("m")
    with program.function("f", {"p": Pointer(Array(I64, 4)), "x": I64, "y": I64}, [I64, I64]) as b:
        p, x, y = b.parameters
        with b.place(HERE):
            total = x * x + p[y]
        with b.place(THERE), b.when(y > 0):
            b.ret(total / y, total.narrow("i8").cast("i64"))
        b.ret(total, 0)
    found = leave_checks_out(program.module.functions["f"])
    verify(program.module)
    assert [(p.instruction, p.span, p.kept) for p in found] == [
        ("checked", HERE, False),
        ("element", HERE, False),
        ("checked", HERE, False),
        ("checked", THERE, True),
        ("narrow", THERE, False),
    ]
    made = compile_module(program.module)
    cells = np.array([1, 2, 3, 4], np.int64)
    assert made["f"].run([cells, 2**62, 0]).results == (1, 0), "the product wraps to 0"
    assert made["f"].run([cells, 20, 3]).results == (404 // 3, 404 - 512), "the cast keeps the low bits"
