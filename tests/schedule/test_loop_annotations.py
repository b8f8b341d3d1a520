"""Annotations of loops: what they do to the schedule and to the code on the CPU, and that values stay what they are."""

import re
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.hir.parse import parse_module
from compiler.hir.text import print_module

ROWS = """def f(A: tensor[M, N]): tensor {{
    compute(A) {{
        {outer}
        for i in 0..M:
            var s = 0.0
            {inner}
            for j in 0..N: s += A[i, j] * A[i, j]
            out[i] = s
    }}
}}
"""

MAP = """def f(A: tensor[M, N]): tensor {{
    compute(A) {{
        {outer}
        for i in 0..M:
            {inner}
            for j in 0..N: out[i, j] = 2.0 * A[i, j] + 1.0
    }}
}}
"""

PRODUCT = """def f(A: tensor[M, K], B: tensor[K, N]): tensor {{
    compute(A, B) {{
        {outer}
        for i in 0..M, j in 0..N:
            var s = 0.0
            {inner}
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }}
}}
"""

LOOP = """def f(A: tensor[M, N]): tensor {{
    compute(A) {{
        {outer}
        for i in 0..M:
            var s = 0.0
            {inner}
            for j in 0..N:
                if A[i, j] > 0.99: break
                s += A[i, j]
            out[i] = s
    }}
}}
"""

OUTER = ("", "@serial", "@parallel", "@unroll(2)", "@vectorize(4)", "@serial @unroll(3)")
INNER = ("", "@serial", "@parallel", "@unroll(4)", "@vectorize(4)", "@vectorize @unroll(2)", "@unroll(3) @serial", "@unroll(64)")


def compiled(text: str, outer: str = "", inner: str = "") -> Any:
    return zynml.compile(text.format(outer=outer, inner=inner), device="cpu")


def until(a: np.ndarray) -> np.ndarray:
    """Sums of rows up to the first element above 0.99."""
    stops = [np.argmax(row > np.float32(0.99)) if (row > np.float32(0.99)).any() else len(row) for row in a]
    return np.array([row[:stop].astype(np.float64).sum() for row, stop in zip(a, stops, strict=True)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_values_are_those_of_the_loops_whatever_is_said_of_them(outer: str, inner: str) -> None:
    random = np.random.default_rng(7)
    programs = [compiled(text, outer, inner) for text in (MAP, ROWS, PRODUCT)]
    stopping = compiled(LOOP, outer, inner) if inner != "@parallel" else None
    for shape in ((1, 1), (5, 33), (37, 200), (0, 4), (4, 0)):
        a = random.random(shape, np.float32)
        b = random.random((shape[1], 19), np.float32)
        wide, other = a.astype(np.float64), b.astype(np.float64)
        most = 1e-6 * max(1, shape[1])
        np.testing.assert_array_equal(programs[0].f(a), 2 * a + 1)
        np.testing.assert_allclose(programs[1].f(a), (wide * wide).sum(1), atol=most)
        np.testing.assert_allclose(programs[2].f(a, b), wide @ other, atol=most)
        if stopping is not None:
            np.testing.assert_allclose(stopping.f(a), until(a), atol=most)


def test_a_serial_sum_is_taken_in_the_written_order() -> None:
    a = (np.random.default_rng(3).random((9, 1000)) * 1e3).astype(np.float32)
    total = np.zeros(9, np.float32)
    for column in np.ascontiguousarray(a.T):
        total = total + column
    text = ROWS.replace("s += A[i, j] * A[i, j]", "s += A[i, j]")
    np.testing.assert_array_equal(compiled(text, inner="@serial").f(a), total)
    assert "reassoc" not in compiled(text, inner="@serial").hir
    assert "reassoc" in compiled(text, outer="@serial").hir


def test_a_serial_loop_is_one_loop_of_a_thread() -> None:
    assert re.search(r"^ *i: time$.*`@serial` of the loop over i is followed", compiled(MAP, outer="@serial").schedule, re.M | re.S)
    assert re.search(r"^ *j: time$", compiled(ROWS, inner="@serial").schedule, re.M)


def test_a_parallel_loop_is_shared_out_to_threads() -> None:
    assert re.search(r"^ *j: time,", compiled(MAP, outer="@parallel").schedule, re.M)
    assert re.search(r"^ *j: thread,", compiled(MAP, inner="@parallel").schedule, re.M)


def test_an_unrolled_loop_is_written_out() -> None:
    assert re.search(r"^ *j: time, registers 5, simd \d+$", compiled(MAP, inner="@unroll(5)").schedule, re.M)
    placed = str(compiled(PRODUCT, inner="@unroll(4)").emit("hir-after=place"))
    loops = re.findall(r"for k\d .*", placed)
    assert loops and all(" unroll=4 " in loop for loop in loops)
    once, often = (compiled(LOOP, inner=inner).llvm for inner in ("@unroll(1)", "@unroll(7)"))
    assert _stops(often) >= 7 * _stops(once)


def _stops(llvm: str) -> int:
    """Comparisons with 0.99."""
    return len(re.findall(r"fcmp \w+ float .*0x3FEFAE14", llvm))


def test_a_vector_has_the_lanes_that_are_said() -> None:
    for lanes in (2, 4, 8, 16, 32):
        assert re.search(rf"^ *j: time, registers 2, simd {lanes}$", compiled(MAP, inner=f"@vectorize({lanes})").schedule, re.M)
        assert f"<{lanes} x float>" in str(compiled(MAP, inner=f"@vectorize({lanes})").llvm)
    assert re.search(r"^ *j: time$", compiled(MAP, inner="@vectorize(1) @unroll(1)").schedule, re.M)


def test_annotations_of_loops_are_part_of_the_text_of_a_field() -> None:
    text = str(compiled(MAP, "@parallel", "@vectorize(8) @unroll(2)").emit("hir-after=lift"))
    assert "loops=[i:i parallel, j:j unroll=2 vectorize=8]" in text
    named = text.replace("@<program>", "@program")
    assert print_module(parse_module(named)) == named


RUNNING = """def f(A: tensor[M, N]): tensor {{
    compute(A) {{
        {outer}
        for i in 0..M:
            var s = 0.0
            {inner}
            for j in 0..N:
                s += A[i, j]
                out[i, j] = s
    }}
}}
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
@pytest.mark.parametrize(("outer", "inner"), [("", "@parallel"), ("@serial", "@serial"), ("@serial @unroll(4)", "@unroll(2)")])
def test_running_values_are_those_of_the_loops(outer: str, inner: str, device: str) -> None:
    a = np.random.default_rng(5).random((4, 70), np.float32)
    kernel = zynml.compile(RUNNING.format(outer=outer, inner=inner), device=device)
    np.testing.assert_allclose(kernel.f(a), np.cumsum(a, 1, dtype=np.float64), rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_turns_of_unknown_number_are_no_business_of_llvm(capfd: pytest.CaptureFixture[str]) -> None:
    text = LOOP.replace("if A[i, j] > 0.99: break", "while s > 1e9: s = s / 2.0")
    assert compiled(text, outer="@unroll", inner="@unroll(65)").f(np.ones((2, 3), np.float32)).tolist() == [3.0, 3.0]
    assert capfd.readouterr().err == ""
