"""The same mistake has the same code and words in both languages, at the same place."""

import pytest

from tests.core.dialects import Stopped, agrees, outcome

RENAME = "rename one of them"
COMPARE = "compare it, as in `n != 0`"
FROM_BOOL = "`b as i64` makes 0 or 1 of a bool"
AS_INT = "write `... as i64` if losing that is meant"
BRANCHES = "all branches give one type"
ENDS = "end the path with a value or a `return`"
POINT = "struct Point { x: int, y: int }\n"
U8 = "u8 holds 0 to 255"
I64 = "i64 holds -9223372036854775808 to 9223372036854775807"
REMAINDER = "`1 / 2` is 0: ints are divided without a remainder, and a float is wanted"
MISTAKES = [
    ("fn f() { }\nfn f() { }", Stopped("0210", "`f` is defined twice", RENAME, "f")),
    ("fn f(a: int, a: int) -> int { a }", Stopped("0210", "parameter `a` is defined twice", RENAME, "a: int")),
    ("type T = int\ntype T = f64\nfn f() { }", Stopped("0210", "type `T` is defined twice", RENAME, "type T = f64")),
    ("fn f() { break }", Stopped("0101", "`break` stands outside of a loop", "", "break")),
    ("fn f(n: int) { if n { } }", Stopped("0203", "the condition of `if` is `bool`, and this is `i64`", COMPARE, "n")),
    ("fn f(n: int) { while n { } }", Stopped("0203", "the condition of `while` is `bool`, and this is `i64`", COMPARE, "n")),
    ("fn f(n: int) { let x = 1 if n else 2 }", Stopped("0203", "the condition is `bool`, and this is `i64`", COMPARE, "n")),
    ("fn f() { let x: u8 = true }", Stopped("0203", "the variable is `u8`, and this is `bool`", FROM_BOOL, "true")),
    ("fn f(n: int) { let x: f32 = if n > 0 { 1.0 } else { 2.5f64 } }", Stopped("0207", "the variable is `f32`, and a `f64` may not fit it", "write `... as f32` if losing that is meant", "2.5f64")),
    ("fn f(n: int) { let x = if n > 0 { 1 } else { true } }", Stopped("0203", "the branches give `i64` and `bool`", BRANCHES, "true")),
    ("fn f(n: int) { let x = 1 if n > 0 else true }", Stopped("0203", "the branches give `i64` and `bool`", BRANCHES, "true")),
    ("fn g() { }\nfn f() { let x = g() }", Stopped("0203", "this gives no value", "", "g()")),
    ("fn f() { let (a, b) = (1, 2, 3) }", Stopped("0203", "this pattern has 2 parts, and what it takes apart is a `(i64, i64, i64)`", "`_` skips a part", "(a, b)")),
    ("fn f() { let (a, b) = 3 }", Stopped("0203", "this pattern has 2 parts, and what it takes apart is a `i64`", "`_` skips a part", "(a, b)")),
    ("fn f() { let x = 1\nx = 2 }", Stopped("0205", "`x` cannot be assigned: it is declared with `let`", "declare it `var x = ...`, if it is to change", "x")),
    ("fn f() { let t = (1, 2)\nt.0 = 2 }", Stopped("0205", "`t` cannot be changed: it is declared with `let`", "declare it `var t = ...`, if it is to change", "t.0")),
    ("fn f() { for i in 0..3 { i = 2 } }", Stopped("0205", "`i` cannot be assigned: it is a loop variable", "use a variable of its own: `var other = i`", "i")),
    ("fn g() { }\nfn f() { g = 2 }", Stopped("0205", "`g` is a function and cannot be assigned", "", "g")),
    ("fn f() { total = 2 }", Stopped("0201", "`total` is not defined", "declare it first: `var total = ...`", "total")),
    ("fn f() { if true { var total = 1 }\ntotal = 2 }", Stopped("0201", "`total` is not defined here", "declare `total` before the block", "total")),
    ("fn f() { var x = 1\nx = true }", Stopped("0203", "`x` is `i64`, and this is `bool`", FROM_BOOL, "true")),
    ("fn f() { var x = 1\nx += 2.5 }", Stopped("0207", "`x` is `i64`, and a `f64` may not fit it", AS_INT, "2.5")),
    ("fn f() { var t = (1, 2)\nt.1 = 2.5 }", Stopped("0207", "what is assigned to is `i64`, and a `f64` may not fit it", AS_INT, "2.5")),
    (f"{POINT}fn f(p: Point) {{ var q = p\nq.y = true }}", Stopped("0203", "what is assigned to is `i64`, and this is `bool`", FROM_BOOL, "true")),
    (f"{POINT}fn f(p: Point) {{ var q = p\nq.z = 1 }}", Stopped("0202", "a `Point` has no field `z`", "it has `x`, `y`", "q.z")),
    ("fn f() { var a: [int; 3] = [0; 3]\na[3] = 1 }", Stopped("0705", "the index 3 is outside of `[i64; 3]`", "indices go from 0 to 2", "3")),
    ("fn f() { var a: [int; 3] = [0; 3]\nfor i in 1..4 { a[i] += 1 } }", Stopped("0705", "the index 3 is outside of `[i64; 3]`", "indices go from 0 to 2", "i")),
    ("fn f() { var a = 1\nvar b = 2\n(a, b) = (1, 2, 3) }", Stopped("0203", "2 targets for a tuple of 3", "", "(a, b)")),
    ("fn f() { var a = 1\nvar b = 2\n(a, b) = 3 }", Stopped("0203", "`i64` doesn't come apart into 2 values", "", "3")),
    ("fn f() { for x in true { } }", Stopped("0203", "nothing to loop over: this is bool", "loop over a range: `for i in 0..n`", "true")),
    ("fn f() { for a, b in 0..3 { } }", Stopped("0203", "2 names for one value: each step hands out i64", at="0..3")),
    ("fn f() -> int { return }", Stopped("0209", "`f` returns i64, but this `return` has no value", "", "return")),
    ("fn f() -> int { return true }", Stopped("0203", "the result is `i64`, and this is `bool`", FROM_BOOL, "true")),
    ("fn f(n: int) -> int { if n > 0 { 1 } else { true } }", Stopped("0203", "the result is `i64`, and this is `bool`", FROM_BOOL, "true")),
    ("fn f(n: int) -> int { if n > 0 { return 1 } }", Stopped("0209", "`f` returns i64, but a path ends without a value", ENDS, "if n > 0 { return 1 }")),
    ("fn f(n: int) -> int { if n > 0 { 1 } else { let m = n } }", Stopped("0209", "`f` returns i64, but a path ends without a value", ENDS, "let m = n")),
    ("fn f() { yield 1 }", Stopped("0408", "`yield` stands outside of a compute block", "a function gives its value with `return`", "yield 1")),
    ("fn f() { shared var t[4, f32] }", Stopped("0413", "`shared var` stands outside of a compute block", "declare an ordinary variable with `var`", "shared var t[4, f32]")),
    ("fn f(n: int = true) -> int { n }", Stopped("0203", "the parameter `n` is `i64`, and this is `bool`", FROM_BOOL, "true")),
    # literals
    ("fn f() -> u8 { 300 }", Stopped("0705", "300 does not fit u8", U8, "300")),
    ("fn f() -> u8 { 200 + 100 }", Stopped("0705", "300 does not fit u8", U8, "200 + 100")),
    ("fn f() -> u8 { 300u8 }", Stopped("0705", "300 does not fit u8", U8, "300u8")),
    ("fn f() -> int { 9223372036854775807 + 1 }", Stopped("0705", "9223372036854775808 does not fit i64", I64, "9223372036854775807 + 1")),
    ("fn f(n: int) -> bool { n == 18446744073709551615 }", Stopped("0705", "18446744073709551615 does not fit i64", I64, "18446744073709551615")),
    ("fn f() -> f64 { 1.0 + 1 / 2 }", Stopped("0705", REMAINDER, "write `1.0 / 2`", "1 / 2")),
    ("fn f(x: f64) -> bool { x > 1 / 2 }", Stopped("0705", REMAINDER, "write `1.0 / 2`", "1 / 2")),
    # operators
    ("fn f(n: int) -> int { n + true }", Stopped("0208", "operator `+` is not defined for i64 and bool", "`b as i64` makes 0 or 1 of a bool", "+")),
    ("fn f(x: f64) -> f64 { x << 2 }", Stopped("0208", "operator `<<` is not defined for f64 and i64", "", "<<")),
    ("fn f(b: bool) -> bool { -b }", Stopped("0208", "operator `-` is not defined for bool", "", "-b")),
    ("fn f(n: int) -> bool { (n, 1) < (n, 2) }", Stopped("0208", "operator `<` is not defined for (i64, i64) and (i64, i64)", "", "<")),
    ("fn f(n: int) -> u64 { 1u64 + n }", Stopped("0207", "`u64` and `i64` have no common type", "convert one: `... as u64`", "1u64 + n")),
    ("fn f(n: int) -> int { n % (3 - 3) }", Stopped("0705", "this divides by zero", "", "n % (3 - 3)")),
    ("fn f(n: int) -> bool { not n }", Stopped("0203", "the operand of `not` is `bool`, and this is `i64`", COMPARE, "n")),
    ("fn f(n: int) -> bool { n and true }", Stopped("0203", "the left side of `and` is `bool`, and this is `i64`", COMPARE, "n")),
    ("fn f(k: int) -> bool { k > 3 or k }", Stopped("0203", "the right side of `or` is `bool`, and this is `i64`", COMPARE, "k")),
    # conversions
    ("fn f(x: f64) { for i in 0..x { } }", Stopped("0207", "a bound of the range is `i64`, and a `f64` may not fit it", "write `... as i64` if losing that is meant", "x")),
    ("fn f(n: int) -> i32 { n }", Stopped("0207", "the result is `i32`, and a `i64` may not fit it", "write `... as i32` if losing that is meant", "n")),
    ("fn f() -> int { let x: int = 2.5\n x }", Stopped("0207", "the variable is `i64`, and a `f64` may not fit it", "write `... as i64` if losing that is meant", "2.5")),
    ("fn f(n: int) -> bool { let x: bool = n\n x }", Stopped("0203", "the variable is `bool`, and this is `i64`", COMPARE, "n")),
    ("fn f(n: int) -> int { n as (int, int) }", Stopped("0203", "`as` doesn't turn a `i64` into a `(i64, i64)`", "", "n as (int, int)")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), MISTAKES, ids=[text for text, _ in MISTAKES])
@pytest.mark.parametrize("dialect", ["Z", "H", "N"])
def test_a_mistake_has_the_same_words(dialect: str, text: str, expected: Stopped) -> None:
    found = outcome(dialect, text + "\n", ())
    assert agrees(found, expected), found
