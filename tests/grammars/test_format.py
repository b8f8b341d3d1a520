"""The formatter: what it writes, and on every program of the repository that it changes no meaning and nothing twice."""

import random
import re
from itertools import pairwise
from typing import Any

import pytest

from compiler.source import Source
from grammars.faults import ParseFailure
from grammars.format import formatted, tidied
from tests.grammars.texts import GRAMMARS, parsed, texts

CASES = [
    ("operators", "let x=1+2*-y\nlet z = a<b and not c\n", "let x = 1 + 2 * -y\nlet z = a < b and not c\n"),
    ("calls", "f (a ,b)\nx [ 0 ]( 1 )\nprintln( (1 , ) )\n", "f(a, b)\nx[0](1)\nprintln((1,))\n"),
    ("named arguments", "f(x, axis = 1)\ndef g(k:int=3) { k }\n", "f(x, axis=1)\ndef g(k: int = 3) { k }\n"),
    ("slices", "a[ 1 : n , : , : :2 ]\n", "a[1:n, :, : :2]\n"),
    ("ranges", "for i in 0 .. n   step 2 : f( i )\n", "for i in 0..n step 2: f(i)\n"),
    ("types", "let x :List< int >=[ ]\nlet y: ?int = none\n", "let x: List<int> = []\nlet y: ?int = none\n"),
    ("braces", "let p=P{x:1,y:2}\nlet d={ 'a' :1 }\ntype R={x:int}\nif a {}\n", "let p = P { x: 1, y: 2 }\nlet d = {'a': 1}\ntype R = { x: int }\nif a { }\n"),
    ("questions", "let a=b?c:d\nlet e = f(x) ?\nlet g = h ?? 1\n", "let a = b ? c : d\nlet e = f(x)?\nlet g = h ?? 1\n"),
    ("annotations", "let y=compute( x )@kernel( matmul ) @device('cpu'){out[i]=x[i]@w}\n", "let y = compute(x) @kernel(matmul) @device('cpu') { out[i] = x[i] @ w }\n"),
    ("fields", "a . b . 0 . 1\nT :: f( )\n", "a.b.0.1\nT::f()\n"),
    ("pipes", "x|>f|>.g( )\n", "x |> f |> .g()\n"),
    ("blocks", "if a{\nb\nfor i in xs:\n    c\n    d\ne\n}\nelse:\n  f\n", "if a {\n    b\n    for i in xs:\n        c\n        d\n    e\n}\nelse:\n    f\n"),
    ("one line", "if a { b } else { c }\nif a : b\n", "if a { b } else { c }\nif a: b\n"),
    ("nested else", "if a:\n   if b:\n      c\n   else:\n      d\n", "if a:\n    if b:\n        c\n    else:\n        d\n"),
    ("outer else", "if a:\n   if b:\n      c\nelse:\n   d\n", "if a:\n    if b:\n        c\nelse:\n    d\n"),
    ("continuing", "let y=x\n |> f\n  .g()\nz\n", "let y = x\n    |> f\n    .g()\nz\n"),
    ("behind a block", "let y = compute(x):\n  for i in 0..n: out[i] = x[i]\n.sum()\n", "let y = compute(x):\n  for i in 0..n: out[i] = x[i]\n.sum()\n"),
    ("hanging brackets", "f(\na,\n   b +\n     c,\n)\n", "f(\n    a,\n    b +\n        c,\n)\n"),
    ("aligned brackets", "let y = foo(a,\n            b)\n", "let y = foo(a,\n            b)\n"),
    ("blocks in brackets", "xs.map(x=>{\nx + 1\n})\n", "xs.map(x => {\n    x + 1\n})\n"),
    ("header of lines", "def f(a: int,\n      b: int) {\na\n}\n", "def f(a: int,\n      b: int) {\n    a\n}\n"),
    ("arms", "match x {\na=>1,\nb=>{\n2\n}\n}\n", "match x {\n    a => 1,\n    b => {\n        2\n    }\n}\n"),
    ("members", "struct P{\nx:int,\ny:int}\n", "struct P {\n    x: int,\n    y: int }\n"),
    ("tabs", "if a:\n\tb\n\tif c:\n\t\td\n", "if a:\n    b\n    if c:\n        d\n"),
    ("two columns", "if a:\n  b\n  if c:\n      d\n", "if a:\n  b\n  if c:\n    d\n"),
    ("comments", "a// one\nbcd //two\n\n\n\n\n//three\nif a:\n   // four\n   b\n   // five\n// six\n", "a  // one\nbcd  //two\n\n\n//three\nif a:\n   // four\n".replace("   //", "    //") + "    b\n    // five\n// six\n"),
    ("comments in columns", "a        // one\nlonger   // two\n", "a       // one\nlonger  // two\n"),
    ("comments of many lines", "let x /* of\n two */ = 3\n/* a\n  b */ let y = 4\n", "let x /* of\n two */ = 3\n/* a\n  b */\nlet y = 4\n"),
    ("empty lines", "\n\nif a {\n\n\n  b\n\n\n  c\n\n}\n\n\n\n\nd\n\n", "if a {\n  b\n\n  c\n}\n\n\nd\n"),
    ("nothing", "\n\n  \n", ""),
    ("only comments", "  // one\n\n/* two */", "// one\n\n/* two */\n"),
    ("line ends", "a\r\nb // c\r\n", "a\nb  // c\n"),
    ("strings", 'let s = """a\n   b  \n"""\nf( f"{ a+b }" )\n', 'let s = """a\n   b  \n"""\nf(f"{ a+b }")\n'),
    ("semicolons", "a ;b;\nf([0 ;3])\n", "a; b;\nf([0; 3])\n"),
]  # fmt: skip

QUANTDSL = [
    ("clauses", "instrument ES:USD{tick 0.25 lot 1;multiplier 50}\n", "instrument ES : USD { tick 0.25  lot 1; multiplier 50 }\n"),
    ("columns of clauses", "risk D for ES {\n  max_loss 5 USD     rate 5 per 1s\n}\n", "risk D for ES {\n  max_loss 5 USD     rate 5 per 1s\n}\n"),
    ("named arguments", "fn f() { g(a=1) }\n", "fn f() { g(a = 1) }\n"),
]


@pytest.mark.parametrize(("text", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_zynml(text: str, wanted: str) -> None:
    assert formatted(text, GRAMMARS["zynml"]) == wanted
    assert formatted(wanted, GRAMMARS["zynml"]) == wanted


@pytest.mark.parametrize(("text", "wanted"), [case[1:] for case in QUANTDSL], ids=[case[0] for case in QUANTDSL])
def test_quantdsl(text: str, wanted: str) -> None:
    assert formatted(text, GRAMMARS["quantdsl"]) == wanted
    assert formatted(wanted, GRAMMARS["quantdsl"]) == wanted


def test_a_syntax_error_is_raised() -> None:
    with pytest.raises(ParseFailure):
        formatted("let = 3\n", GRAMMARS["zynml"])


def test_any_text_is_tidied() -> None:
    assert tidied('load "a"  as a \t\n\n\nblur a\n\n') == 'load "a"  as a\n\n\nblur a\n'
    assert tidied(" \n") == ""


def test_every_program_of_the_repository_keeps_its_tree() -> None:
    assert len(texts()) > 400
    for name, language, text in texts():
        once = formatted(text, GRAMMARS[language])
        assert formatted(once, GRAMMARS[language]) == once, name
        assert _tree(once, language) == _tree(text, language), name


def test_programs_with_mangled_white_space_keep_their_meaning() -> None:
    choose = random.Random(7)
    programs = [program for program in texts() if len(program[2]) < 6000]
    for _ in range(500):
        name, language, text = choose.choice(programs)
        mangled = _mangled(text, language, choose)
        once = formatted(mangled, GRAMMARS[language])  # Compares the tokens before and after.
        assert formatted(once, GRAMMARS[language]) == once, f"{name}\n{mangled}"
        assert set(_comments(once)) == set(_comments(mangled)), name


def _tree(text: str, language: str) -> Any:
    """The tree of a program without its positions; the codes of what its actions refuse."""
    from compiler.diagnostics import ZyntaxError

    try:
        if language == "quantdsl":
            from quantdsl.parse import parse_source as parse_quantdsl
            from quantdsl.tree_json import to_data as quantdsl_data

            return _without_positions(quantdsl_data(parse_quantdsl(Source("p", text))))
        from compiler.typed_ast.json import to_data
        from zynml.parse import parse_source

        return _without_positions(to_data(parse_source(Source("p", text))))
    except ZyntaxError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]


def _without_positions(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_positions(value) for key, value in data.items() if not key.endswith(("span", "spans"))}
    return [_without_positions(value) for value in data] if isinstance(data, list) else data


def _comments(text: str) -> list[str]:
    return [part.strip() for part in re.findall(r"//.*", text)]


def _mangled(text: str, language: str, choose: random.Random) -> str:
    """The program with other white space between its tokens, more comments and other indentation."""
    program = parsed(text, language)
    assert program is not None
    wanted = program.meaning
    factor = choose.choice((1, 2, 3))
    lines = [re.sub("^[ \t]*", lambda m: m[0] * factor, line) for line in text.split("\n")]
    wider = "\n".join(lines)
    text = wider if _same(wider, language, wanted) else text
    tokens = [token for token in recorded_tokens(text, language) if token.text]
    pieces, at = [], 0
    for before, after in pairwise(tokens):
        pieces.append(text[at : before.end])
        at = before.end
        gap = text[before.end : after.start]
        if choose.random() < 0.4 and "/" not in gap:
            new = _gap(gap, choose)
            pieces.append(new)
            at = after.start
    changed = "".join(pieces) + text[at:]
    if _same(changed, language, wanted):
        return changed
    # One change at a time, in a few places.
    for _ in range(6):
        number = choose.randrange(max(len(tokens) - 1, 1))
        if number + 1 >= len(tokens):
            break
        start, end = tokens[number].end, tokens[number + 1].start
        if "/" in text[start:end]:
            continue
        changed = text[:start] + _gap(text[start:end], choose) + text[end:]
        if _same(changed, language, wanted):
            text = changed
            tokens = [token for token in recorded_tokens(text, language) if token.text]
    return text


def _gap(gap: str, choose: random.Random) -> str:
    if "\n" in gap:
        indentation = gap[gap.rfind("\n") + 1 :]
        return choose.choice(["  ", "", " // note", "\r"]) + "\n" * choose.choice((1, 1, 2, 5)) + indentation
    return choose.choice(["", " ", "   ", "\t", " /* note */ ", " /* of\n lines */ ", gap])


def _same(text: str, language: str, wanted: Any) -> bool:
    program = parsed(text, language)
    return program is not None and program.meaning == wanted


def recorded_tokens(text: str, language: str) -> Any:
    program = parsed(text, language)
    assert program is not None
    return program.tokens
