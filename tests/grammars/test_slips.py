"""Hints for what people write who come from elsewhere: typed in as they stand, they give a program without a fault."""

import re

import pytest

from grammars.comments import suspected
from tests.errors.conftest import diagnose

CASES = [
    # (a program, the same with the hint typed in)
    ('println("hello)', 'println("hello")'),
    ("println('hello)", "println('hello')"),
    ("let f = lambda x: x + 1\nprintln(f(2))", "let f = x => x + 1\nprintln(f(2))"),
    ("let f = lambda x, y: x + y\nprintln(f(2, 3))", "let f = def(x, y): x + y\nprintln(f(2, 3))"),
    ("println([1, 2].map(lambda x: x + 1))", "println([1, 2].map(x => x + 1))"),
    ("for (int i = 0; i < 10; i++) { println(i) }", "for i in 0..10 { println(i) }"),
    ("for (int i = 0; i <= 9; i += 3) { println(i) }", "for i in 0..=9 step 3 { println(i) }"),
    ("for (i = 9; i >= 0; i--) { println(i) }", "for i in 9..=0 step -1 { println(i) }"),
    ("let xs = [1]\nfor (auto x : xs) { println(x) }", "let xs = [1]\nfor x in xs { println(x) }"),
    ("if 1 > 2 { } else 3 > 2 { println(3) }", "if 1 > 2 { } elif 3 > 2 { println(3) }"),
    ("if (3 > 2) println(1)", "if (3 > 2): println(1)"),
    ("for i in range(3) println(i)", "for i in range(3): println(i)"),
    ("if 3 > 2 then println(1)", "if 3 > 2 : println(1)"),
    ("let a = 1\nif a is 1: println(a)", "let a = 1\nif a == 1: println(a)"),
    ("let a = 1\nif a is not 1: println(a)", "let a = 1\nif a != 1: println(a)"),
    ("println(1 === 2)", "println(1 == 2)"),
    ("println(1 !== 2)", "println(1 != 2)"),
    ("println(1 <> 2)", "println(1 != 2)"),
    ("int x = 3;", "let x = 3;"),
    ("unsigned int x;", "mut x: u32 = 0;"),
    ("double x[10];", "mut x = zeros(10, dtype=f64);"),
    ("int f(int x, double y) { x }", "def f(x: int, y: f64): int { x }"),
    ("def f(float x) { x }", "def f(x: f32) { x }"),
    ("let x := 3", "let x = 3"),
    ("let a, b = 1, 2", "let (a, b) = (1, 2)"),
    ("mut i = 0\ni++", "mut i = 0\ni += 1"),
    ("mut i = 0\n--i\ni--", "mut i = 0\n--i\ni -= 1"),
    ("println(3 | 4)", "println(bit_or(3, 4))"),
    ("println(true | false)", "println(true or false)"),
    ("mut x = 3\nx |= 4", "mut x = 3\nx = bit_or(x, 4)"),
    ("mut x = 3\nx <<= 4", "mut x = 3\nx = x << 4"),
    ("println((double) 3)", "println(3 as f64)"),
    ("println(.5)", "println(0.5)"),
    ("let x = 5.", "let x = 5.0"),
    ('println "a"', 'println("a")'),
    ('assert 1 == 1, "equal"', 'assert(1 == 1, "equal")'),
    ("def f(x: int): int = x + 1", "def f(x: int): int { x + 1 }"),
    ("let x = 3 # three", "let x = 3 // three"),
    ("#define N 10", "let N = 10"),
    ("println(\u201chello\u201d)", 'println("hello")'),
    ("println(`hello`)", 'println("hello")'),
    ("println(2 \u00d7 3)", "println(2 * 3)"),
    ("println(~3)", "println(-3 - 1)"),
    ("let n = 8\nprintln(n // 2)", "let n = 8\nprintln(n / 2)"),
    ("let n = 8\nlet m = n // 2", "let n = 8\nlet m = n / 2"),
    ("let n = 8\nlet m = (n + 1) // 2 + 1", "let n = 8\nlet m = (n + 1) / 2 + 1"),
    ("mut n = 8\nn //= 2", "mut n = 8\nn /= 2"),
]


@pytest.mark.parametrize(("wrong", "right"), CASES, ids=[wrong.replace("\n", "; ") for wrong, _ in CASES])
def test_the_hint_typed_in_gives_a_program_without_a_fault(wrong: str, right: str) -> None:
    messages = diagnose(wrong)
    assert messages.count("hint: ") == messages.count("[ZYN") == 1, messages
    hint = messages[messages.index("hint: ") :]
    written = re.search(r"`([^`]+)`", hint)
    assert written is not None and written[1] in right, hint
    assert diagnose(right) == ""


@pytest.mark.parametrize(
    "line", ["println((" + "a | " * 3000 + "b // 2))", "let x = " + "(" * 100 + "a, " * 3000 + "b // 2", "for (" * 3000]
)
def test_long_lines_are_answered_without_a_pattern(line: str) -> None:
    assert "ZYN0" in diagnose(line)


COMMENTS = [
    "let half = 8 // two thirds of the rows",
    "let half = n // rows",
    "let half = n // 2 of them",
    "let half = n  // 2",
    "let area = square(2) // 4",
    "println(square(2)) // 4",
    "let sum = a + b // 11",
    "f(x) // 3",
    "// let half = n // 2",
    'let path = "a // 2"',
    "let n = 8 /* n // 2 */",
    "let n = 8 // 1",
    "x[2] // 2",
]


@pytest.mark.parametrize("line", COMMENTS)
def test_a_comment_is_no_division(line: str) -> None:
    assert suspected(line + "\n") == []


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("let x = 7//2", "7 / 2"),
        ("    return n // 2", "n / 2"),
        ("x = y[i] // 2 ", "y[i] / 2"),
        ("let m = lo + (hi - lo) // 2", "(hi - lo) / 2"),
        ("let m = x.numel() // 32 * 4", "x.numel() / 32"),
        ("if a { x = 7 // 2", "7 / 2"),
        ("n //= k", "n /= k"),
    ],
)
def test_a_division_is_suspected(line: str, meant: str) -> None:
    assert [division.meant for division in suspected(line + "\n")] == [meant]
