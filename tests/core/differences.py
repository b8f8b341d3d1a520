"""The 26 differences between the dialects: for each a text with a function `f`, and what it was decided to give. A text is given to
each dialect that takes it; a kernel body has a text of its own."""

from typing import Any

import numpy as np

from runtime.records import frozen
from tests.core.dialects import Near, Outcome, Stopped

FOUR = (4,)
LARGE = 3 * (2**63 - 1) % 2**64
"""Three times the largest int, wrapped: it is below 2^63."""


@frozen
class Difference:
    """`decided` is one outcome, or one a dialect where a setting says so."""

    name: str
    text: str
    decided: Outcome
    dialects: str = "ZHN"
    arguments: tuple[Any, ...] = FOUR

    def wanted(self, dialect: str) -> Outcome:
        return self.decided[dialect] if isinstance(self.decided, dict) else self.decided


def _kernel(result: str, body: str, before: str = "") -> str:
    return f"{before}fn f(n: int) -> {result} {{ compute(n) @kernel(reduce, +) {{ for i in 0..1 {{ {body} }} }} }}"


def _function(result: str, body: str, before: str = "") -> str:
    return f"{before}fn f(n: int) -> {result} {{ {body} }}"


def _in_order(value: float, times: int) -> float:
    """One addition after the other, each rounded."""
    total = 0.0
    for _ in range(times):
        total += value
    return total


_THREE = "let a = [10, 20, 30]\n "
_POINT = "struct Point { x: int, y: int }\n"
_SHAPE = "enum Shape { Circle(int), Empty }\n"
_NOTHING = "fn g() { }\n"
_TIMES = "fn g(n: int) -> int { n * 9223372036854775807 }\n"
_DEEP = "fn r(n: int) -> int { if n < 0 { 1 } else { r(n + 1) % 7 * n } }\n"

DIFFERENCES = (
    # literals take the type of their place, not the operators around them
    Difference("D1 half", _function("f64", "1 / 2"), Stopped("0705", at="1 / 2")),
    Difference("D1 whole", _function("f64", "4 / 2"), 2.0),
    Difference("D1 of a variable", _function("f64", "n / 3"), 1.0),
    Difference("D1 among ints", _function("f64", "(n + 1 / 2) * 1.5"), 6.0),
    Difference("D1 in a branch", _function("f64", "if n > 0 { 1 } else { 2 }"), 1.0),
    Difference("D2", _function("f32", "let y: f32 = 16777216.0 + 1.0 + 1.0\n y"), 16777218.0),
    Difference("D3 inside", _function("u8", "let y: u8 = 200 + 100 - 100\n y"), 200),
    Difference("D3 outside", _function("u8", "let y: u8 = 300\n y"), Stopped("0705", at="300")),
    Difference("D3 of a branch", _function("u8", "let y: u8 = (if n > 0 { 200 } else { 1 }) + 100\n y"), Stopped("0806")),
    # operators on numbers
    Difference("D4", _function("int", "n ** 2"), 16),
    Difference("D4 overflows", _function("int", "n ** 40"), Stopped("0806", "4 ** 40 does not fit in i64", "i64 holds -9223372036854775808 to 9223372036854775807")),
    Difference("D4 below zero", _function("int", "2 ** -1"), Stopped("0806", "2 ** -1: a negative power of an int", "raise a float instead: `x as f64`")),
    Difference("D4 at the limit", _function("int", "(0 - n) ** 31 * 2 + n ** 0"), 1 - 2**63),
    Difference("D4 of a variable", _function("int", "(n - 7) ** (n + 35)"), 3**39 * -1),
    Difference("D4 of small ints", _function("u8", "(n as u8) ** 4"), Stopped("0806", "4 ** 4 does not fit in u8", "u8 holds 0 to 255")),
    Difference("D4 of floats", _function("f64", "2.0 ** -1.0"), 0.5),
    Difference("D4 of f32", _function("f32", "let x = n as f32 / 40\n x ** 2"), float(np.float32(float(np.float32(0.1)) ** 2))),
    Difference("D4 in a kernel", _kernel("int", "yield n ** 2"), 16, dialects="K"),
    # literals keep their exact value until they have a place
    Difference("D5 above i64", _function("u64", "18446744073709551615 as u64 - (18446744073709551615 - 4)"), 4),
    Difference("D5 of a sum", _function("u8", "let a: u8 = n as u8\n (20 + 30) * a"), 200),
    Difference("D5", _function("i16", "200u8 + (-100i8)"), 100),
    Difference("D5 of variables", _function("int", "let a: i8 = n as i8\n let b: u32 = 4000000000u32\n a + b"), 4000000004),
    Difference("D5 in a kernel", _kernel("int", "yield ((n as u8) + (-100i8)) as int"), -96, dialects="K"),
    Difference(
        "D6",
        _function("f64", "let a = 1.5f32\n (a + n) as f64"),
        {"Z": 16777218.0, "H": 16777218.5, "N": 16777218.5},
        arguments=(16777217,),
    ),
    Difference("D7", _function("bool", "18446744073709551615u64 > n"), True),
    Difference("D7 equal", _function("bool", "(n as u64) == n"), True),
    Difference("D8", _function("bool", "n as bool"), True),
    Difference("D8 of zero", _function("bool", "n as bool"), False, arguments=(0,)),
    # variables and order
    Difference("D9", _function("int", "var x: int\n x"), {"Z": Stopped("0808", at="x"), "H": Stopped("0808", at="x"), "N": Stopped("0212", at="x")}),
    Difference("D9 on one path", _function("int", "var x: int\n if n > 9 { x = 3 }\n x"), {"Z": Stopped("0808"), "H": Stopped("0808"), "N": Stopped("0212")}),
    Difference("D9 on both", _function("int", "var x: int\n if n > 9 { x = 3 } else { x = n }\n x"), 4),
    Difference(
        "D10",
        _function("int", "var a = [10, 20, 30]\n var i = 0\n a[i] = if true { i = 2\n 7 } else { 0 }\n a[0] * 100 + a[2]"),
        730,
    ),
    # lists and arrays
    Difference("D11", _function("int", _THREE + "a[-1]"), {"Z": 30, "H": Stopped("0705"), "N": Stopped("0705")}),
    Difference("D11 of a variable", _function("int", _THREE + "a[n - 5]"), {"Z": 30, "H": Stopped("0801"), "N": Stopped("0801")}),
    Difference("D12", _function("int", _THREE + "var b = a\n b[0] = 9\n a[0]"), {"Z": 9, "H": 10, "N": 10}),
    Difference("D12 gone over", _function("int", "var a = [1, 2, 3]\n var t = 0\n for x in a { a[2] = 50\n t += x }\n t"), {"Z": 53, "H": 6, "N": 6}),
    # comparisons and parts
    Difference("D13 tuples", _function("bool", "(n, 2) == (4, 2)"), True),
    Difference("D13 tuples that differ", _function("bool", "(n, 2) != (4, 2)"), False),
    Difference("D13 structs", _function("bool", "Point { x: n, y: 2 } == Point { x: 4, y: 2 }", _POINT), True),
    Difference("D13 enums", _function("bool", "Circle(n) == Circle(4)", _SHAPE), True),
    Difference("D13 optionals", _function("bool", "let o: int? = some(n)\n o == none"), False, dialects="HN"),
    Difference("D13 arrays", _function("bool", "let a = [n, 2]\n a == [4, 2] and a != [4, 3]"), True),
    Difference("D13 nested", _function("bool", "let a = (n, [n, 2])\n a == (4, [4, 2])"), True),
    Difference("D13 ordered", _function("bool", "(n, 2) < (4, 3)"), Stopped("0208")),
    Difference("D14", _function("int", "var t = (n, 2)\n t.0 = 9\n t.0 + t.1"), 11),
    # functions
    Difference("D15", _function("f64", "min(n, 2.5)"), 2.5),
    Difference("D15 of two ints", _function("int", "max(n as u32, n as i32 - 5)"), 4),
    Difference("D15 of literals", _function("f32", "let x = n as f32 / 10\n min(1, x) + max(0, x)"), float(np.float32(0.4) + np.float32(0.4))),
    Difference("D15 of literals alone", _function("f64", "min(1, 2.5)"), 1.0),
    Difference("D15 in a kernel", _kernel("f64", "yield min(n, 2.5)"), 2.5, dialects="K"),
    Difference("D16", _function("int", "n = n + 1\n n"), {"Z": 5, "H": Stopped("0205"), "N": Stopped("0205")}),
    Difference("D16 in a kernel", _kernel("int", "n = n + 1\n yield n"), Stopped("0205"), dialects="K"),
    Difference("D17 result", "fn f(n: int) { n + 1 }", {"Z": 5, "H": (), "N": ()}),
    Difference("D17 parameter", "fn f(n) -> int { n }", {"Z": 4, "H": Stopped("0203"), "N": Stopped("0203")}),
    Difference("D18", _function("int", "n.twice()", "fn twice(self: int) -> int { self * 2 }\n"), 8),
    # the mode of a body
    Difference("D19 callee", _kernel("int", "yield g(n)", _TIMES), LARGE, dialects="ZHNK", arguments=(3,)),
    Difference("D19 callee outside", _function("int", "g(n)", _TIMES), Stopped("0806"), arguments=(3,)),
    Difference("D19 cast", _kernel("int", "yield (n as u8) as int"), 44, dialects="ZHNK", arguments=(300,)),
    Difference("D19 shift", _kernel("int", "yield 1 << n"), 1, dialects="ZHNK", arguments=(64,)),
    Difference("D19 negative", _kernel("int", "yield -n"), -(2**63), dialects="ZHNK", arguments=(-(2**63),)),
    # any int is a bound or an index
    Difference("D20 bound", _function("int", "let k = n as u64\n var t = 0\n for i in 0..k { t += 10 }\n t"), 40),
    Difference("D20 index", _function("int", _THREE + "let k = (n - 2) as u64\n a[k]"), 30),
    Difference("D20 elements", _function("f64", "let a = [1, 2.5]\n a[0] + a[1]"), 3.5),
    Difference(
        "D21",
        "fn f(n: int) -> f64 { compute(n) @kernel(reduce, +) { for i in 0..n { yield 0.1 } } }",
        {"Z": Near(1000.7, 1e-9), "H": Near(1000.7, 1e-9), "N": _in_order(0.1, 10_007), "K": Near(1000.7, 1e-9)},
        dialects="ZHNK",
        arguments=(10_007,),
    ),
    Difference("D22", _function("int", "r(n)", _DEEP), Stopped("0808", at="r(n + 1)")),
    # control
    Difference("D23 return", _function("int", "while true { if n > 0 { return 3 } }"), 3),
    Difference("D23 break", _function("int", "break\n n"), Stopped("0101", "`break` stands outside of a loop", at="break")),
    Difference("D23 continue", _function("int", "continue\n n"), Stopped("0101", "`continue` stands outside of a loop", at="continue")),
    Difference("D23 nothing", _function("int", "let x = g()\n n", _NOTHING), Stopped("0203", at="g()")),
    Difference("D24", _function("int", "match n { Tow => 1\n _ => 2 }"), Stopped("0201", at="Tow")),
    Difference("D24 binds", _function("int", "match n { tow => tow + 1 }"), 5),
    # words
    Difference(
        "D25",
        _function("int", "9223372036854775807 + n"),
        Stopped("0806", "9223372036854775807 + 4 does not fit in i64", "i64 holds -9223372036854775808 to 9223372036854775807"),
    ),
    Difference("D25 in a kernel", _kernel("int", "yield 9223372036854775807 + n"), 3 - 2**63, dialects="K"),
    Difference("D26 division", _function("int", "n / 0"), Stopped("0705")),
    Difference("D26 index", _function("int", _THREE + "a[3]"), {"Z": Stopped("0801"), "H": Stopped("0705"), "N": Stopped("0705")}),
    Difference("D26 operator", _function("int", "n + true"), Stopped("0208")),
    Difference("D26 in a kernel", _kernel("int", "yield n / (n - 4)"), Stopped("0806"), dialects="K"),
)  # fmt: skip
