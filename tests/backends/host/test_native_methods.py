"""Methods of a program run natively like other functions: with the values, the classes and the messages of Python."""

from typing import Any

import pytest
from native_programs import Natively, native_of, opened, outcome

from compiler.backends.host.native_functions import NativeFunctions
from runtime.values import struct_class
from tests.core.dialects import Stopped, _plain, agrees, zynml_words
from tests.core.method_programs import METHOD_PROGRAMS
from tests.core.program import Program

LISTS = ("of elements", "an index is computed once", "in a loop", "elements with fields")
"""Programs whose `f` makes a list, and calls native methods from Python."""


def natively(text: str, calls: list[tuple[str, tuple[Any, ...]]]) -> NativeFunctions:
    """The program's native functions, after calls that agree with those of the same text on Python."""
    python, program = opened(text, "none"), opened(text, "all")
    for name, arguments in calls:
        assert outcome(program, name, arguments) == outcome(python, name, arguments), f"{name}{arguments}"
    native = native_of(program)
    assert native is not None and native.linked is not None
    return native


@pytest.mark.parametrize("program", METHOD_PROGRAMS, ids=lambda program: program.name)
def test_common_programs_give_what_is_expected_both_ways(program: Program) -> None:
    native = natively(zynml_words(program.text) + "\n", [("f", arguments) for arguments, _ in program.calls])
    assert native.found.functions["f"].is_static == (program.name not in LISTS)
    for arguments, expected in program.calls:
        found = Natively(zynml_words(program.text) + "\n")("f", *arguments) if program.name not in LISTS else expected
        if isinstance(expected, Stopped):
            assert found is expected or found.code == expected.code
        else:
            assert agrees(_plain(found), expected), f"f{arguments} gives {found!r}, not {expected!r}"


WALK = """struct Walk { x: f64, y: f64, steps: int }
impl Walk {
    fn start(x: f64) -> Walk { Walk { x: x, y: 0.0, steps: 0 } }
    fn step(mut self, dx: f64, dy: f64 = 0.5) -> f64 {
        self.x = self.x + dx
        self.y += dy
        self.steps += 1
        self.x * self.y
    }
    fn far(self) -> f64 { sqrt(self.x * self.x + self.y * self.y) }
    fn reset(mut self) {
        self.x = 0.0
        self.y = 0.0
    }
    fn many(mut self, n: int) -> f64 {
        var total = 0.0
        for i in 0..n { total += self.step(i as f64, dy = 0.25) }
        total
    }
    fn share(self, n: int) -> int { self.steps / n }
}
fn travel(n: int) -> f64 {
    var w = Walk::start(1.5)
    var total = 0.0
    for i in 0..n {
        total += w.step(i as f64) + w.far()
        if i % 7 == 6 { w.reset() }
    }
    total + w.x
}
fn shared(n: int, by: int) -> int {
    var w = Walk::start(1.0)
    var sum = 0
    for i in 0..n {
        let area = w.step(1.0)
        sum += w.share(by - i)
    }
    sum
}
var kept = Walk::start(3.0)
fn of_the_top(n: int) -> f64 {
    kept.reset()
    kept.many(n) + kept.x
}
fn of_a_list(n: int) -> int {
    var all = list([Walk::start(1.0), Walk::start(2.0)])
    let total = all[1].many(n)
    all[1].share(n - 5) + all[0].steps
}
fn of_ints(n: int) -> Walk {
    let shown = [n]
    var w = Walk { x: 1, y: 2, steps: 3 }
    let total = w.many(shown[0])
    w
}
"""


def _travelled(n: int) -> float:
    x, y, total = 1.5, 0.0, 0.0
    for i in range(n):
        x, y = x + i, y + 0.5
        total += x * y + (x * x + y * y) ** 0.5
        if i % 7 == 6:
            x = y = 0.0
    return total + x


def test_a_loop_that_calls_methods() -> None:
    program = opened(WALK)
    assert [program.travel(n) for n in (0, 1, 7, 40)] == [_travelled(n) for n in (0, 1, 7, 40)]
    native = native_of(program)
    assert native is not None and native.linked is not None
    assert {"travel", "shared", "Walk::many"} == set(native.python)


def test_a_native_method_changes_what_python_calls_it_on() -> None:
    program = opened(WALK)
    assert program.of_the_top(4) == (0 * 0.25 + 1 * 0.5 + 3 * 0.75 + 6 * 1.0) + 6.0
    walk = struct_class("Walk", ("x", "y", "steps"))
    assert program.of_ints(3) == walk((4.0, 2.75, 6))
    natively(WALK, [("of_the_top", (4,)), ("of_a_list", (9,)), ("of_ints", (0,)), ("of_ints", (7,)), ("travel", (9,))])


def test_a_failure_in_a_method_names_its_place_and_its_caller() -> None:
    calls: list[tuple[str, tuple[Any, ...]]] = [("shared", (5, 9)), ("shared", (5, 3)), ("of_a_list", (5,))]
    natively(WALK, calls)
    assert outcome(opened(WALK, "all"), "shared", (5, 3)) == (
        "error",
        "error[ZYN0806]: 4 / 0: division by zero\n"
        "  --> <program>:20:37\n"
        "   |\n"
        "20 |     fn share(self, n: int) -> int { self.steps / n }\n"
        "   |                                     ^^^^^^^^^^^^^^\n"
        "  ...\n"
        "36 |         sum += w.share(by - i)\n"
        "   |                --------------- called from here",
    )


def test_a_method_that_stops_leaves_what_it_is_called_on() -> None:
    text = """struct Sum { total: int }
impl Sum {
    fn add(mut self, n: int) {
        for i in 0..n {
            self.total += 1
            assert(self.total < 10)
        }
    }
}
var kept = Sum { total: 2 }
fn added(n: int) {
    kept.add(n)
}
fn shown() -> int { kept.total }
"""
    natively(text, [("added", (3,)), ("shown", ()), ("added", (9,)), ("shown", ()), ("added", (4,)), ("shown", ())])


def test_a_default_is_looked_at_like_the_body() -> None:
    text = """var base = 3
fn drawn() -> int {
    base += 1
    base
}
fn plain(n: int = base) -> int { n }
fn called(n: int = drawn()) -> int { n }
fn sum(n: int) -> int {
    var total = 0
    for i in 0..n { total += plain() + called() }
    total
}
fn small(n: int, by: int = 2 * 3) -> int { n * by }
fn product(n: int) -> int {
    var total = 0
    for i in 0..n { total += small(i) }
    total
}
"""
    native = natively(text, [("sum", (3,)), ("plain", ()), ("called", ()), ("product", (4,))])
    assert {own.name for own in native.found.static} == {"small", "product"}
    assert opened(text).product(4) == 36


def test_explain_names_methods_by_their_types() -> None:
    text = "struct P { x: int }\nimpl P {\n fn twice(self) -> int { 2 * self.x }\n fn shown(self) { print(self.x) }\n}\n"
    text += "fn sum(n: int) -> int {\n var t = 0\n for i in 0..n { t += P { x: i }.twice() }\n t\n}\n"
    assert opened(text)._session.native_explained() == (
        "P::twice  native where native functions call it; it has no loop, so Python runs it itself\n"
        "P::shown  runs on Python:\n"
        "            it calls `print`, which has no native code (<program>:4:19)\n"
        "sum       native\n"
    )
