"""Branches that choose between numbers, made selects: their text, and what stays a branch."""

import pytest

from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.passes.repeated_reads import reads_once
from compiler.passes.without_branches import without_branches

TEXT = """func @f(%x: mem<Nxf32, readonly>, %k: mem<Nxi32, readonly>, %out: mem<Nxf32>, %N: index) form=A {{
  %z = const 0.0 : f32
  %r = for i in 0..N carry(%c = %z) {{
    %v = load %x[i] : f32
    %g = gt %v, %c : i1
    {branch}
    store %out[i], %s
    yield %s
  }}
}}"""


def changed(branch: str) -> str:
    return print_function(without_branches(reads_once(parse_function(TEXT.format(branch=branch)))))


def test_both_sides_are_computed() -> None:
    text = changed("%s = if %g : f32 { %a = add %v, %c : f32  yield %a } else { yield %c }")
    assert "if" not in text.split()
    assert "select %g, %a, %c : f32" in text


def test_what_was_read_before_is_no_reason_for_a_branch() -> None:
    text = changed("%s = if %g : f32 { %w = load %x[i] : f32  yield %w } else { yield %c }")
    assert text.count("load") == 1 and "select %g, %v, %c" in text


def test_branches_in_branches() -> None:
    inner = "%h = lt %v, %z : i1  %b = if %h : f32 { yield %z } else { yield %v }  yield %b"
    assert changed(f"%s = if %g : f32 {{ {inner} }} else {{ yield %c }}").count("select") == 2


@pytest.mark.parametrize(
    "branch",
    [
        "%s = if %g : f32 { %w = load %x[i + 1] : f32  yield %w } else { yield %c }",
        "%s = if %g : f32 { %w = exp %v : f32  yield %w } else { yield %c }",
        "%s = if %g unlikely : f32 { yield %v } else { yield %c }",
        "%n = load %k[i] : i32  %q = if %g : i32 { %d = div %n, %n : i32  yield %d } else { yield %n }  %s = cast %q to=f32 : f32",
        "%s = if %g : f32 { store %out[0], %v  yield %v } else { yield %c }",
    ],
    ids=["may be outside", "takes long", "is nearly never", "stops the program", "stores"],
)
def test_what_stays_a_branch(branch: str) -> None:
    assert "if %g" in changed(branch)
