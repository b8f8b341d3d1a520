"""Functions over structs, enums, `match` and optionals, whose text both languages read."""

from tests.core.dialects import Stopped
from tests.core.program import Program

_OVERFLOW = Stopped("0806")
_POINT = "struct Point { x: int, y: int }\n"
_SHAPE = "enum Shape { Circle(int), Box { w: int, h: int }, Empty }\n"
_AREA = "fn area(s: Shape) -> int { match s { Circle(r) => 3 * r * r\n Box { w, h } => w * h\n Empty => 0 } }\n"


def _power(n: int) -> int:
    """Fibonacci's numbers in closed form, by exact ints."""
    x = 1 << 80
    return int(pow(x, n + 1) // (x * x - x - 1)) % x


RECORD_PROGRAMS = tuple(
    Program(name, text, calls)
    for name, text, calls in (
        ("fields of a struct", _POINT + "fn f(n: int) -> int { let p = Point { x: n, y: 2 }\n p.x * 10 + p.y }", [((4,), 42)]),
        ("a struct is copied", _POINT + "fn f(n: int) -> int { var p = Point { x: n, y: 2 }\n var q = p\n q.x = 9\n p.x * 10 + q.x }", [((4,), 49)]),
        ("a struct is passed and given", _POINT + "fn swap(p: Point) -> Point { Point { x: p.y, y: p.x } }\nfn f(n: int) -> int { let p = swap(Point { x: n, y: 7 })\n p.x * 10 + p.y }", [((4,), 74)]),
        (
            "matrix exponent by structs",
            "struct M { a: int, b: int, c: int, d: int }\n"
            "fn times(p: M, q: M) -> M { M { a: p.a * q.a + p.b * q.c, b: p.a * q.b + p.b * q.d, c: p.c * q.a + p.d * q.c, d: p.c * q.b + p.d * q.d } }\n"
            "fn f(n: int) -> int { var r = M { a: 1, b: 0, c: 0, d: 1 }\n for i in 0..n { r = times(r, M { a: 1, b: 1, c: 1, d: 0 }) }\n r.b }",
            [*(((n,), _power(n)) for n in (0, 1, 10, 60)), ((93,), _OVERFLOW)],
        ),
        ("cases of an enum", _SHAPE + _AREA + "fn f(n: int) -> int { area(Circle(n)) + area(Box { w: n, h: 5 }) + area(Empty) }", [((4,), 68), ((0,), 0)]),
        ("a case chosen when it runs", _SHAPE + _AREA + "fn f(n: int) -> int { let s = if n > 3 { Circle(n) } else { Box { w: n, h: n } }\n area(s) }", [((4,), 48), ((3,), 9)]),
        ("a guard", _SHAPE + "fn f(n: int) -> int { match Circle(n) { Circle(r) if r > 5 => r\n Circle(r) => -r\n _ => 0 } }", [((6,), 6), ((5,), -5)]),
        ("patterns of ints", "fn f(n: int) -> int { match n { 0 => 10\n 1 | 2 => 20\n x if x < 0 => -x\n _ => 30 } }", [((0,), 10), ((2,), 20), ((-7,), 7), ((3,), 30)]),
        ("an optional matched", "fn half(n: int) -> int? { if n % 2 == 0 { some(n / 2) } else { none } }\nfn f(n: int) -> int { match half(n) { some(v) => v\n none => -1 } }", [((8,), 4), ((7,), -1)]),
    )
)  # fmt: skip
