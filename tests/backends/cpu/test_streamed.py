"""Large results go past the caches where loops fill whole lines: the same elements as ever, whatever their number, order and layout."""

import re
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.backends.cpu import streamed
from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.machines.cpu import CPUS

PROGRAM = """
def scaled(x: tensor[N, {dtype}]) {{ compute(x) {{ for i in 0..N: out[i] = x[i] + x[i] }} }}
def joined(x: tensor[A, {columns}, {dtype}], v: tensor[{columns}, {dtype}]) {{
    compute(x, v) {{ for i in 0..A, j in 0..{columns}: out[i, j] = x[i, j] + v[j] }}
}}
def turned(x: tensor[{columns}, {columns}, {dtype}]) {{
    compute(x) {{ for i in 0..{columns}, j in 0..{columns}: out[j, i] = x[i, j] }}
}}
def crossed(x: tensor[A, B, C, {dtype}]) {{ compute(x) {{ for i in 0..A, j in 0..B, k in 0..C: out[k, j, i] = x[i, j, k] }} }}
def sums(x: tensor[A, {columns}, {dtype}]) {{
    compute(x) {{
        for i in 0..A:
            var s: {dtype} = 0
            for j in 0..{columns}: s += x[i, j]
            for j in 0..{columns}: out[i, j] = s + x[i, j]
    }}
}}
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("columns", [16, 31, 64, 100, 131])
@pytest.mark.parametrize("dtype", ["u8", "i16", "f32", "f64"])
def test_elements_are_those_of_small_results(dtype: str, columns: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "STREAMED", 1000)
    monkeypatch.setattr(streamed, "LEAST_ROW", 64)
    program = zynml.compile(PROGRAM.format(dtype=dtype, columns=columns), threads=threads)
    kind = {"u8": np.uint8, "i16": np.int16, "f32": np.float32, "f64": np.float64}[dtype]
    random = np.random.default_rng(columns)
    for rows in 0, 1, 7, 33, 1009:
        x = random.integers(0, 50, (rows, columns)).astype(kind)
        wide = random.integers(0, 50, (rows, columns + 8)).astype(kind)[:, 3 : columns + 3]
        v = random.integers(0, 50, columns).astype(kind)
        np.testing.assert_array_equal(program.scaled(x.reshape(-1)), 2 * x.reshape(-1))
        for each in x, wide:
            np.testing.assert_array_equal(program.joined(each, v), each + v)
            np.testing.assert_array_equal(program.sums(each), each.sum(1, dtype=kind)[:, None] + each)
    for rows in 48, 64, 67, 128:
        x = random.integers(0, 50, (rows, 3, columns)).astype(kind)
        np.testing.assert_array_equal(program.crossed(x), x.transpose(2, 1, 0))
    square = random.integers(0, 50, (columns, columns)).astype(kind)
    np.testing.assert_array_equal(program.turned(square), square.T)


def stored(offset: int = 0, function: str = "neg", noalias: bool = True, read: bool = False) -> HirFunction:
    """out[16 i + offset + simd] = function(x), of 16 elements."""
    f = FunctionBuilder("stored", Form.TILE, {"simd": 16})
    x, out = f.parameter("x", Mem("f32", ["N"], readonly=True)), f.parameter("out", Mem("f32", ["N"], noalias=noalias))
    f.parameter("N", INDEX)
    with f.body.loop("i", 0, Affine.of("N").floordiv(16)) as (body, _):
        at = [Affine.of("i") * 16 + offset + "simd"]
        body.store(out, body.op(function, body.load(out if read else x, at)), at)
    return f.finish()


def crossed(columns: int | str) -> HirFunction:
    """out[16 j + simd, 16 i + row] = x[16 i + row, 16 j + simd]."""
    f = FunctionBuilder("crossed", Form.TILE, {"simd": 16, "row": 16})
    x, out = f.parameter("x", Mem("f32", [columns, "N"], readonly=True)), f.parameter("out", Mem("f32", ["N", columns], noalias=True))
    f.parameter("N", INDEX)
    if isinstance(columns, str):
        f.parameter(columns, INDEX)
    with f.body.loop("j", 0, Affine.of("N").floordiv(16)) as (body, _):
        i, j = Affine.of("row"), Affine.of("j") * 16 + "simd"
        body.store(out, body.load(x, [i, j]), [j, i])
    return f.finish()


def text_of(function: HirFunction, target: str = "x86-64-v4") -> Any:
    machine = CPUS[target]
    return compile_function(function, CpuOptions(triple=machine.triple, cpu=machine.cpu, features=machine.features)).llvm_unoptimised


def test_only_whole_lines_of_memory_that_nothing_reads_go_past_the_caches() -> None:
    assert "!nontemporal" in text_of(stored())
    for other in stored(offset=4), stored(function="exp"), stored(noalias=False), stored(read=True):
        assert "!nontemporal" not in text_of(other)
    assert "!nontemporal" not in text_of(stored(), "x86-64-v3"), "two vectors fill a line there"


def test_rows_of_lengths_that_a_launch_knows_are_whole_lines_there() -> None:
    """Rows of any length: the code asks for that at once with the size of the result. Rows of 40 bytes never are."""
    assert "!nontemporal" in text_of(crossed("M"))
    assert "!nontemporal" in text_of(crossed(48))
    assert "!nontemporal" not in text_of(crossed(10))


def test_squares_whose_rows_lie_pages_apart_go_past_the_caches_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = f"icmp sge i64 %t[0-9]+, {streamed.FAR_ROWS}"
    assert re.search(asked, text_of(crossed("M"))) and re.search(asked, text_of(crossed(1024)))
    assert not re.search(asked, text_of(crossed(48))), "rows of 192 bytes"
    assert not re.search(asked, text_of(stored())), "no square"
    monkeypatch.setattr(streamed, "FAR_ROWS", 1000)
    program = zynml.compile(PROGRAM.format(dtype="f32", columns=16), threads=1)
    for rows in 1024, 1040:
        x = np.random.default_rng(rows).random((rows, 1, 24), np.float32)
        np.testing.assert_array_equal(program.crossed(x), x.transpose(2, 1, 0))


def rows(summed: bool) -> HirFunction:
    """out[i, 16 j + simd] = x[i, 16 j + simd], behind the sum of each row, if it is `summed`."""
    f = FunctionBuilder("rows", Form.TILE, {"simd": 16})
    x, out = f.parameter("x", Mem("f32", ["M", "N"], readonly=True)), f.parameter("out", Mem("f32", ["M", "N"], noalias=True))
    f.parameter("M", INDEX)
    f.parameter("N", INDEX)
    at = [Affine.of("i"), Affine.of("j") * 16 + "simd"]
    with f.body.loop("i", 0, "M") as (row, _):
        if summed:
            with row.loop("k", 0, "N", carried=[row.const(0.0)]) as (body, loop):
                body.yield_(body.add(loop.carried[0], body.load(x, [Affine.of("i"), Affine.of("k")])))
        with row.loop("j", 0, Affine.of("N").floordiv(16)) as (body, _):
            value = body.load(x, at)
            body.store(out, body.add(value, loop.results[0]) if summed else value, at)
    return f.finish()


def test_short_rows_behind_sums_stay_in_the_caches() -> None:
    """Each begins anew to fill lines: the code asks for their length."""
    asked = f"icmp sge i64 %t[0-9]+, {streamed.LEAST_ROW}"
    assert "!nontemporal" in text_of(rows(summed=True)) and re.search(asked, text_of(rows(summed=True)))
    assert "!nontemporal" in text_of(rows(summed=False)) and not re.search(asked, text_of(rows(summed=False)))
