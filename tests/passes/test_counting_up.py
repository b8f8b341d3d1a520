"""Loops that count down, made to count up: their text, and what recurrences from the last element to the first come to. Expected values from
NumPy."""

import numpy as np
import pytest

import zynml
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.passes.counting_up import counting_up


def test_the_variable_is_counted_from_the_other_end() -> None:
    function = parse_function(
        """func @f(%x: mem<Nxf32>, %N: index) form=A {
             %z = const 0.0 : f32
             %r = for i in N-1..-1 step -1 carry(%c = %z) {
               %v = load %x[2*i+1] : f32
               %s = add %c, %v : f32
               store %x[i], %s
               yield %s
             }
           }"""
    )
    text = print_function(counting_up(function))
    assert "for i in 0..N carry(" in text
    assert "load %x[2*N-2*i-1]" in text and "store %x[N-i-1]" in text


def test_loops_that_count_up_stay() -> None:
    function = parse_function("func @f(%x: mem<Nxf32>, %N: index) form=A { for i in 0..N { %v = load %x[i] : f32   store %x[i], %v } }")
    assert counting_up(function) is function


@pytest.mark.parametrize("target", ["emulator:sm_90a", "emulator:sm_80", "cpu"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (40, 3), (100, 70)])
def test_recurrences_from_the_last_row(target: str, rows: int, columns: int) -> None:
    text = """def f(x: tensor[H, W, f64]) {
        compute(x) { for q in 0..W {
            var s = 0.0
            for y in H - 1..-1 step -1 {
                if y % 2 == 0 { s = 0.5 * s + x[y, q] } else { s = x[y, q] - s }
                out[y, q] = s
            }
        } }
    }"""
    x = np.random.default_rng(rows).normal(size=(rows, columns))
    wanted, s = np.empty_like(x), np.zeros(columns)
    for y in reversed(range(rows)):
        s = 0.5 * s + x[y] if y % 2 == 0 else x[y] - s
        wanted[y] = s
    np.testing.assert_allclose(zynml.compile(text, device=target).f(x), wanted, rtol=1e-12)
