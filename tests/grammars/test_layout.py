"""The layout filter: blocks from lines and braces, and the kinds of words and signs, seen as the tokens it lets through."""

import re

import pytest

from grammars.layout import Layout
from grammars.loader import load
from grammars.scan import mask
from zynml.grammar import GRAMMAR


def kinds(text: str) -> str:
    """The kinds of all tokens; the lexer is the one of the tables."""
    masked, _ = mask(text)
    layout = Layout(masked, GRAMMAR.words)
    tables = load(GRAMMAR)
    out = []
    position = 0
    while position < len(masked):
        found = tables.scanner.match(masked, position)
        assert found is not None and found.lastindex is not None
        kind = found.lastgroup or tables.signs[found[found.lastindex]]
        if kind != "WHITESPACE":
            out += layout.push(kind, position, found.end(found.lastindex))
        position = found.end()
    return " ".join(token.kind for token in [*out, *layout.finish()])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a:\n    b\nc", "IF NAME COLON INDENT NAME DEDENT NL NAME NL"),
        ("if a:\n    b\nelse:\n    c", "IF NAME COLON INDENT NAME DEDENT ELSE COLON INDENT NAME DEDENT NL"),
        ("if a {\n  if b:\n    c\n}", "IF NAME LBRACE IF NAME COLON INDENT NAME DEDENT RBRACE NL"),
        ("if a {\n    b\n} else:\n    c\nd", "IF NAME LBRACE NAME NL RBRACE ELSE COLON INDENT NAME DEDENT NL NAME NL"),
        ("f(a,\n  b\n)", "NAME LPAR NAME COMMA NAME RPAR NL"),
        ("a +\n b\n|> c\n.d()", "NAME PLUS NAME PIPE NAME DOT NAME LPAR RPAR NL"),
        ("a\n-b\n(c)\n[d]\n@e", "NAME NL MINUS NAME NL LPAR NAME RPAR NL LSQB NAME RSQB NL AT NAME NL"),
        ("if a:\n    b\n|> c", "IF NAME COLON INDENT NAME DEDENT PIPE NAME NL"),
        ("for i in x: for j in y:\n    z", "FOR NAME IN NAME COLON FOR NAME IN NAME COLON INDENT NAME DEDENT NL"),
        ("a\n\n\n// c\n\nb", "NAME NL NAME NL"),
        ("while a {\n\n}", "WHILE NAME LBRACE RBRACE NL"),
        ("compute(x)\n    @kernel a\n    -> b\n{ }", "COMPUTE LPAR NAME RPAR AT KERNEL_AT NAME ARROW NAME LBRACE RBRACE NL"),
        ("if a\n{ b }", "IF NAME LBRACE NAME RBRACE NL"),
        ("from m import *\na", "FROM NAME IMPORT STAR NL NAME NL"),
    ],
)
def test_lines_and_blocks(text: str, expected: str) -> None:
    assert kinds(text).replace("NL RBRACE", "RBRACE") == expected.replace("NL RBRACE", "RBRACE")


@pytest.mark.parametrize(
    ("text", "brace"),
    [
        ("if x { y: 1 }", "LBRACE"),
        ("let a = { y: 1 }", "LITBRACE"),
        ('let a = {"y": 1}', "LITBRACE"),
        ("let a = {}", "LITBRACE"),
        ("let a = {k: v for k, v in p}", "LITBRACE"),
        ("let a = { f() }", "LBRACE"),
        ("let a = P { x: 1 }", "STRUCTBRACE"),
        ("let a = P { x, y }", "STRUCTBRACE"),
        ("let a = List<i32> { x: 1 }", "STRUCTBRACE"),
        ("struct P { x: f32 }", "LBRACE"),
        ("impl A for P { }", "LBRACE"),
        ("def f(): P { x }", "LBRACE"),
        ("def f() -> P { x }", "LBRACE"),
        ("match x { }", "LBRACE"),
        ("x => { y }", "LBRACE"),
        ("render e { title: 1 }", "LBRACE"),
        ("type P = { x: f32 }", "LITBRACE"),
    ],
)
def test_kinds_of_braces(text: str, brace: str) -> None:
    assert re.findall(r"\w*BRACE", kinds(text))[0] == brace


def test_a_brace_in_a_case_is_a_pattern_when_the_body_follows_it() -> None:
    assert "PATTERNBRACE" in kinds("match a { case P { x: 0 }: b }")
    assert "PATTERNBRACE" in kinds("match a { P { x: 0 } => b }")
    assert "PATTERNBRACE" in kinds("match a { case Some(P { x: 0 }) { b } }")
    assert "PATTERNBRACE" in kinds("match a { Some(P { x: 0 }) => b }")
    assert "PATTERNBRACE" not in kinds("match a { case P { x } }")
    assert "PATTERNBRACE" not in kinds("match a { case b if f(P { x: 1 }) { x } }")
    assert "PATTERNBRACE" not in kinds("f(P { x: 1 }) |> g")
    assert "PATTERNBRACE" not in kinds("let p = P { x: 1 }\nif a.any(x => x) { b }")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a < b", "LT"),
        ("a<b", "LT"),
        ("a<b and c>(d)", "LT"),
        ("a<b>(c)", "GEN_LT"),
        ("List<List<i32>>::new", "GEN_LT"),
        ("impl<T> A", "GEN_LT"),
        ("x? + 1", "QPOST"),
        ("f(x?)", "QPOST"),
        ("a ? b : c", "QTERN"),
        ("a?b:c", "QTERN"),
        ("let x: ?i32 = 1", "QPRE"),
        ("a if b else c", "IFX"),
        ("[a for a in b]", "FORX"),
        ("var x = 1", "VAR"),
        ("0..n step 2", "STEP"),
        ("x as f32", "AS"),
        ("yield x", "YIELD"),
        ("compute (x) { }", "COMPUTE"),
    ],
)
def test_kinds_of_words_and_signs(text: str, kind: str) -> None:
    assert kind in kinds(text).split()


@pytest.mark.parametrize(
    "text", ["var = 1", "var += 1", "step = 2", "type.x", "yield = 1", "compute = 1", "render = 2", "a.if.for", "test(x)", "config = 1"]
)
def test_words_are_names_elsewhere(text: str) -> None:
    assert not set(kinds(text).split()) & {"VAR", "STEP", "TYPE", "YIELD", "COMPUTE", "RENDER", "IF", "IFX", "FOR", "TEST", "CONFIG"}
