"""Annotations of loops on a GPU: what they do to launches and code, and that values stay what they are, on the emulator."""

import contextlib
import io
import re
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.assemble import can_assemble
from compiler.diagnostics import Diagnostic
from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from tests.schedule.test_loop_annotations import LOOP, MAP, PRODUCT, ROWS, until
from zynml.api import open_source

CASES = [
    ("@serial", ""),
    ("", "@serial"),
    ("", "@serial @unroll(3)"),
    ("@parallel", "@unroll(4)"),
    ("@parallel", "@vectorize(2) @unroll(2)"),
    ("@unroll(2)", "@parallel"),
    ("", "@unroll(64)"),
]


def compiled(text: str, outer: str = "", inner: str = "") -> Any:
    return zynml.compile(text.format(outer=outer, inner=inner), device="emulator:sm_90a")


@pytest.mark.parametrize(("outer", "inner"), CASES)
def test_values_are_those_of_the_loops_whatever_is_said_of_them(outer: str, inner: str) -> None:
    random = np.random.default_rng(11)
    programs = [compiled(text, outer, inner) for text in (MAP, ROWS, PRODUCT)]
    for shape in ((1, 1), (6, 36), (0, 4)):
        a, b = random.random(shape, np.float32), random.random((shape[1], 10), np.float32)
        wide, other = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_array_equal(programs[0].f(a), 2 * a + 1)
        np.testing.assert_allclose(programs[1].f(a), (wide * wide).sum(1), atol=1e-6 * max(1, shape[1]))
        np.testing.assert_allclose(programs[2].f(a, b), wide @ other, atol=1e-6 * max(1, shape[1]))
    if inner != "@parallel":
        a = random.random((5, 40), np.float32)
        np.testing.assert_allclose(compiled(LOOP, outer, inner).f(a), until(a), atol=4e-5)


def test_a_serial_sum_is_that_of_the_written_order() -> None:
    a = (np.random.default_rng(3).random((3, 300)) * 1e3).astype(np.float32)
    total = np.zeros(3, np.float32)
    for column in np.ascontiguousarray(a.T):
        total = total + column
    text = ROWS.replace("s += A[i, j] * A[i, j]", "s += A[i, j]")
    np.testing.assert_array_equal(compiled(text, inner="@serial").f(a), total)


def emitted(stage: str, text: str, outer: str = "", inner: str = "") -> str:
    return str(compiled(text, outer, inner).emit(stage, target="sm_90a"))


def test_a_serial_loop_is_a_loop_of_a_thread() -> None:
    text = MAP.replace("tensor[M, N]", "tensor[24, 32]").replace("0..M", "0..24").replace("0..N", "0..32")
    assert "32 iterations, one a thread" in emitted("schedule", text, outer="@serial")
    assert "24 iterations, one a thread" in emitted("schedule", text, inner="@serial")
    assert "1 iteration, one a thread" in emitted("schedule", text, "@serial", "@serial")


def test_a_loop_of_a_thread_is_written_out() -> None:
    text = PRODUCT.replace("var s = 0.0", "var s = 0.0 as f64")
    often, once = (_sums(emitted("ptx", text, inner=f"@serial @unroll({turns})")) for turns in (6, 1))
    assert (often >= 6, once) == (True, 1)
    assert "`@unroll(6)` of the loop over k is followed" in emitted("schedule", text, inner="@serial @unroll(6)")


def _sums(ptx: str) -> int:
    return len(re.findall(r"\bfma\.rn\.f64", ptx))


def test_a_thread_of_a_map_has_as_many_accesses_as_are_said() -> None:
    text = MAP.replace("tensor[M, N]", "tensor[8, 1024]").replace("0..M", "0..8").replace("0..N", "0..1024")
    once, often = (emitted("ptx", text, inner=f"@unroll({turns})").count("st.global") for turns in (1, 4))
    assert often == 4 * once


@pytest.mark.skipif(not can_assemble(), reason="the extra `compute` isn't installed")
def test_kernels_with_annotated_loops_are_assembled() -> None:
    for text, outer, inner in ((PRODUCT, "@parallel", "@serial @unroll(6)"), (MAP, "", "@unroll(4)"), (LOOP, "", "@unroll(3)")):
        assert compiled(text, outer, inner).emit("cubin", target="sm_90a").startswith(b"\x7fELF")


def test_warnings_name_the_machine_that_does_not_follow_and_say_why() -> None:
    text = ROWS.format(outer="@vectorize(2)", inner="@parallel @unroll(2)") + "println(f(ones(40, 8)))\n"
    source, said = Source("p.zynml", text), list[Diagnostic]()
    session = open_source(source, CompileOptions(device="emulator:sm_90a"), Sources(source), said.append)
    with contextlib.redirect_stdout(io.StringIO()):
        session.run()
    assert [(each.code, each.message) for each in said] == [
        (
            "0610",
            "`@vectorize` of the loop over `i` has no effect on `sm_90a`: a thread accesses at most 16 bytes at a time, and those where"
            " memory is contiguous and aligned",
        ),
        ("0610", "`@unroll` of the loop over `j` has no effect on `sm_90a`: no thread has a loop over it of one turn after the other"),
    ]


@pytest.mark.parametrize(("block", "said"), [("@workgroup(16, 4)", 64), ("@workgroup(128)", None), ("@workgroup(32, 4)", None), ("", None)])
def test_a_number_of_threads_that_the_schedule_does_not_have_is_told(block: str, said: int | None) -> None:
    text = f"let x = ones(40, 64)\nlet y = compute(x) {block} {{ for i in 0..M, j in 0..N: out[i, j] = x[i, j] * 2.0 }}\nprintln(y.sum())\n"
    source, warnings = Source("p.zynml", text), list[Diagnostic]()
    session = open_source(source, CompileOptions(device="emulator:sm_90a"), Sources(source), warnings.append)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        session.run()
    why = "its schedule is one of blocks of 128 threads, which share out its loops by themselves"
    assert [each.message for each in warnings] == ([f"`@workgroup` has no effect on `sm_90a`: {why}"] if said else [])
    assert output.getvalue() == "5120.0\n"
