"""Lines of a program in the PTX of its kernels: each instruction that does something stands under the line that wants it."""

import re

import pytest

from compiler.backends.nvptx.target import gpu_target
from compiler.driver import CompileOptions
from compiler.emit import gpu_programs
from compiler.source import Source, Sources
from zynml.api import open_source

BLOCK_LINE = 2
"""Of the block in each program."""

PRODUCT = """def product(A: tensor[M, K], B: tensor[K, N]): tensor {
    compute(A, B) {
        for i in 0..M, j in 0..N:
            var total = 0.0
            for k in 0..K:
                total += A[i, k] * B[k, j]
            out[i, j] = total
    }
}
"""
CHAIN = """def rows(x: tensor[R, C]): tensor {
    compute(x) {
        for i in 0..R:
            var worst = 0.0
            for j in 0..C:
                worst = max(worst, abs(x[i, j]))
            for j in 0..C:
                out[i, j] = sqrt(x[i, j]) / worst
    }
}
"""
RUNNING = """def steps(x: tensor[N]): tensor {
    compute(x) {
        for i in 0..N:
            var n = x[i]
            var count = 0.0
            while n > 1.0:
                n = n / 2.0
                count += 1.0
            out[i] = count
    }
}
"""
CUSTOM = """let x = arange(0, 100)
let y = compute(x) -> tensor[1] @kernel(custom) @workgroup(64) @grid(2) {
    let i = global_idx().x
    if i < N: atomic_add(out[0], x[i])
}
"""


def lines_of(text: str, pattern: str) -> set[int]:
    """The lines of the program that instructions come from which the pattern matches: less 0, which LLVM gives to what it has made of
    equal instructions of several places, and less the block's own, where what a schedule adds stands."""
    source = Source("p.zynml", text)
    session = open_source(source, CompileOptions(), Sources(source), warn=lambda warning: None)
    ptx = gpu_programs(session, gpu_target("sm_80"))[0].ptx.text
    assert re.search(r'^\s*\.file\s+1 "p\.zynml"$', ptx, re.MULTILINE)
    found, line = set(), 0
    for row in ptx.splitlines():
        place = re.match(r"\s*\.loc\s+1 (\d+) ", row)
        if place is not None:
            line = int(place.group(1))
        elif re.search(pattern, row):
            found.add(line)
    return found - {0, BLOCK_LINE}


@pytest.mark.parametrize(
    ("program", "pattern", "expected"),
    [
        (PRODUCT, r"\bfma\.rn\.f32", {6}),
        (PRODUCT, r"\bcp\.async\.c[ag]", {6}),
        (PRODUCT, r"\bst\.global", {7}),
        (CHAIN, r"\babs\.f32", {6, 8}),
        (CHAIN, r"\bmax\.(NaN\.)?f32", {6}),
        (CHAIN, r"\bsqrt\.rn\.f32", {8}),
        (CHAIN, r"\bdiv\.rn\.f32", {8}),
        (CHAIN, r"\bst\.global", {8}),
        (RUNNING, r"\bmul\.rn?\.f32|\bmul\.f32|\bdiv\.rn\.f32", {7}),
        (RUNNING, r"\bst\.global", {9}),
        (CUSTOM, r"\b(atom|red)\b.*add", {4}),
    ],
)
def test_instructions_stand_under_their_line(program: str, pattern: str, expected: set[int]) -> None:
    assert lines_of(program, pattern) == expected
