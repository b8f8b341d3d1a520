"""Methods, found by the type of what they are called on and their name; those that change it, in all places where that shows."""

from tests.core.dialects import Stopped
from tests.core.program import Program

_NEXT = "fn next(mut self: int) -> int { let before = self\n self = self + 1\n before }\n"
_ADD = "fn add(mut self: int, by: int = 1) -> int { self = self + by\n self }\n"
_DIGITS = "fn digits(a: int, b: int, c: int) -> int { a * 10000 + b * 100 + c }\n"
_COUNTED = "struct Counted { sum: int, times: int }\nimpl Counted {\n fn note(mut self, x: int) { self.sum = self.sum + x\n self.times = self.times + 1 }\n fn mean(self) -> int { self.sum / self.times }\n fn start() -> Counted { Counted { sum: 0, times: 0 } }\n}\n"

SCALAR_METHODS = tuple(
    Program(name, text, calls)
    for name, text, calls in (
        ("a method of ints", "fn twice(self: int) -> int { self * 2 }\nfn f(n: int) -> int { n.twice().twice() }", [((4,), 16)]),
        ("methods of one name", "fn code(self: int) -> int { 1 }\nfn code(self: f64) -> int { 2 }\nfn code(self: bool) -> int { 3 }\nfn f(n: int) -> int { n.code() * 100 + (n as f64).code() * 10 + (n > 0).code() }", [((4,), 123)]),
        ("methods of one name by that name", "fn code(self: int) -> int { 1 }\nfn code(self: bool) -> int { 3 }\nfn f(n: int) -> int { code(n) * 10 + code(n > 0) }", [((4,), 13)]),
        ("the very type comes first", "fn code(self: f64) -> int { 2 }\nfn code(self: int) -> int { 1 }\nfn f(n: int) -> int { n.code() * 10 + (n as i32).code() }", [((4,), 12)]),
        ("a type by another name", "type Meters = int\nfn half(self: Meters) -> int { self / 2 }\nfn f(n: int) -> int { n.half() }", [((8,), 4)]),
        ("an impl of a number", "impl int {\n fn twice(self) -> int { self * 2 }\n fn zero() -> int { 0 }\n}\nfn f(n: int) -> int { n.twice() + int::zero() }", [((4,), 8)]),
        ("a receiver that changes", _ADD + "fn f(n: int) -> int { var k = n\n let a = k.add()\n let b = k.add(by = 10)\n a * 10000 + b * 100 + k }", [((1,), 21212)]),
        ("in arguments", _NEXT + _DIGITS + "fn f(n: int) -> int { var k = n\n digits(k, k.next(), k) + digits(k.next(), k, k.next()) * 1000000 }", [((1,), 20303010102)]),
        ("in a tuple", _NEXT + "fn f(n: int) -> int { var k = n\n let t = (k, k.next(), k, k.next(), k)\n t.0 * 10000 + t.1 * 1000 + t.2 * 100 + t.3 * 10 + t.4 }", [((1,), 11223)]),
        ("in operands", _NEXT + "fn f(n: int) -> int { var k = n\n k * 100 + k.next() * 10 + k }", [((1,), 112)]),
        ("of elements", _NEXT + "fn f(n: int) -> int { var a = [n, 5]\n let b = [a[0], a[0].next(), a[0], a[1]]\n b[0] * 1000 + b[1] * 100 + b[2] * 10 + b[3] }", [((1,), 1125)]),
        ("an index is computed once", _NEXT + "fn f(n: int) -> int { var i = 0\n var a = [n, 5]\n let b = a[i.next()].next()\n a[0] * 100 + b * 10 + i }", [((1,), 211)]),
        ("read with the arguments, written behind", _ADD + "fn f(n: int) -> int { var k = n\n let s = k.add(k.add(10))\n s * 100 + k }", [((1,), 1212)]),
        ("an argument changes the receiver", "fn next(mut self: int) -> int { self = self + 1\n self }\nfn with(self: int, a: int, b: int) -> int { self * 100 + a * 10 + b }\nfn f(n: int) -> int { var k = n\n k.with(k.next(), k) }", [((1,), 122)]),
        ("a copy is changed", _NEXT + "fn g(mut k: int) -> int { let a = k.next()\n k * 10 + a }\nfn f(n: int) -> int { var k = n\n g(k) * 10 + k }", [((1,), 211)]),
        ("left by return", "fn down(mut self: int, by: int) -> int { if by > self { return -1 }\n self = self - by\n self }\nfn f(n: int) -> int { var k = n\n let a = k.down(3)\n let b = k.down(3)\n a * 100 + b * 10 + k }", [((5,), 192)]),
        ("in a loop", _ADD + "fn f(n: int) -> int { var k = 0\n var t = 0\n let xs = [1, 2, 3, 4]\n while k < 4 { t += xs[k]\n let m = k.add(2) }\n t * 10 + k }", [((0,), 44)]),
        ("not after a failure", "fn next(mut self: int, by: int) -> int { self = self + 1\n self / by }\nfn f(n: int) -> int { var k = n\n k.next(0) }", [((1,), Stopped("0806"))]),
    )
)  # fmt: skip
RECORD_METHODS = tuple(
    Program(name, text, calls)
    for name, text, calls in (
        ("an impl of a struct", _COUNTED + "fn f(n: int) -> int { var c = Counted::start()\n c.note(n)\n c.note(8)\n let d = c\n c.note(3)\n c.mean() * 100 + d.mean() * 10 + d.times }", [((4,), 562)]),
        ("a field that changes", _COUNTED + _NEXT + "fn f(n: int) -> int { var c = Counted { sum: n, times: 1 }\n let t = (c.sum, c.sum.next(), c.sum)\n t.0 * 100 + t.1 * 10 + t.2 }", [((4,), 445)]),
        ("a struct in arguments", _COUNTED + "fn sums(a: Counted, b: int, c: Counted) -> int { a.sum * 10000 + b * 100 + c.sum }\nimpl Counted { fn more(mut self) -> int { self.sum = self.sum + 1\n self.sum } }\nfn f(n: int) -> int { var c = Counted { sum: n, times: 1 }\n sums(c, c.more(), c) }", [((4,), 40505)]),
        ("elements with fields", _COUNTED + "fn f(n: int) -> int { var a = [Counted { sum: n, times: 1 }, Counted { sum: 5, times: 1 }]\n a[1].note(n)\n let b = [a[0].sum, a[1].sum, a[1].times]\n b[0] * 100 + b[1] * 10 + b[2] }", [((4,), 492)]),
        ("a method of optionals", "fn or_zero(self: int?) -> int { self ?? 0 }\nfn half(n: int) -> int? { if n % 2 == 0 { some(n / 2) } else { none } }\nfn f(n: int) -> int { half(n).or_zero() }", [((8,), 4), ((7,), 0)]),
    )
)  # fmt: skip
METHOD_PROGRAMS = (*SCALAR_METHODS, *RECORD_METHODS)
