"""Native functions give what the same functions give on Python: values, their classes, and whole messages."""

import _thread
import itertools
import math
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from native_programs import Natively, native_of, opened, outcome

import zynml
from compiler.backends.native.stopping import under_way
from compiler.hir.parse import parse_module
from compiler.typed_ast.check import checker_of
from compiler.typed_ast.effects import effects
from compiler.typed_ast.native_calls import has_native_code
from runtime.values import NONE, Err, Ok, Some, case_classes, struct_class
from tests.core.dialects import Stopped, _plain, agrees, zynml_words
from tests.core.program import Program
from tests.core.record_programs import RECORD_PROGRAMS
from tests.core.scalar_programs import SCALAR_PROGRAMS

TYPES = ("i8", "i16", "i32", "int", "u8", "u16", "u32", "u64", "f32", "f64")
OPERATORS = ("+", "-", "*", "/", "%", "**", "<<", ">>", "&", "==", "<", ">=")
OF_ONE = (
    *("-a", "abs(a)", "a.abs()", "floor(a)", "a.ceil()", "a + 1", "2 * a", "a > 0.1", "a < 1", "1 - a", "a == 0.1", "max(a, 0)"),
    *("isnan(a)", "sqrt(a)", "(a, 1) == (a, 1)"),
)


def numbers(name: str) -> list[Any]:
    """The values of a type that are most likely to go wrong."""
    if name[0] == "f":
        found: list[Any] = [0.0, -0.0, 1.5, -2.25, 3.0, 1e30, math.inf, -math.inf, math.nan, 0.1]
        return found if name == "f64" else [np.float32(value) for value in found]
    bits = 64 if name == "int" else int(name[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if name[0] == "i" else (0, (1 << bits) - 1)
    whole = sorted({v for v in (low, low + 1, high, high - 1, 0, 1, 2, 3, 7, -1, -2, bits - 1, bits) if low <= v <= high})
    return whole if name == "int" else [getattr(np, f"{'u' * (name[0] == 'u')}int{bits}")(value) for value in whole]


def both_ways(text: str, calls: list[tuple[str, tuple[Any, ...]]]) -> set[str]:
    """The names of those that are native; fails where a call differs."""
    python, natively = opened(text, "none"), opened(text, "all")
    for name, arguments in calls:
        expected, found = outcome(python, name, arguments), outcome(natively, name, arguments)
        assert found == expected, f"{name}{arguments}"
    native = native_of(natively)
    return {own.name for own in native.found.static} if native is not None else set()


@pytest.mark.parametrize("type", TYPES)
def test_operators_give_the_same_both_ways(type: str) -> None:
    """Of two numbers of a type, and of a number and a literal, with the limits of the type."""
    texts, calls = [], []
    accepted = [operator for operator in OPERATORS if type[0] != "f" or operator not in ("<<", ">>", "&")]
    for number, operator in enumerate(accepted):
        texts.append(f"fn two{number}(a: {type}, b: {type}) {{ a {operator} b }}")
        calls += [(f"two{number}", pair) for pair in itertools.product(numbers(type), repeat=2)]
    for number, expression in enumerate(OF_ONE):
        texts.append(f"fn one{number}(a: {type}) {{ {expression} }}")
        calls += [(f"one{number}", (value,)) for value in numbers(type)]
    native = both_ways("\n".join(texts) + "\n", calls)
    assert {f"two{number}" for number in range(len(accepted))} <= native


@pytest.mark.parametrize("type", TYPES)
def test_conversions_give_the_same_both_ways(type: str) -> None:
    targets = [*TYPES, "bool"]
    text = "".join(f"fn to_{target}(a: {type}) {{ a as {target} }}\n" for target in targets)
    native = both_ways(text, [(f"to_{target}", (value,)) for target in targets for value in numbers(type)])
    assert native == {f"to_{target}" for target in targets}


@pytest.mark.parametrize("program", (*SCALAR_PROGRAMS, *RECORD_PROGRAMS), ids=lambda program: program.name)
def test_common_programs_give_the_same_both_ways(program: Program) -> None:
    both_ways(zynml_words(program.text) + "\n", [("f", arguments) for arguments, _ in program.calls])


OF_LISTS = {"an array read in a loop", "an array sorted in place"}
"""Programs whose `[1, 2, 3]` is a list in ZynML, so that they stay on Python."""
OF_SHIFTS = {"a shift gives the type that is shifted"}
"""Programs that shift by an int of another type, which do, too."""


def test_of_the_common_programs_only_those_with_lists_or_such_shifts_stay_on_python() -> None:
    programs = (*SCALAR_PROGRAMS, *RECORD_PROGRAMS)
    reasons = {program.name: Natively(zynml_words(program.text) + "\n").reasons for program in programs}
    assert {name for name, found in reasons.items() if "f" not in found or found["f"]} == OF_LISTS | OF_SHIFTS


@pytest.mark.parametrize(
    "program", [one for one in (*SCALAR_PROGRAMS, *RECORD_PROGRAMS) if one.name not in OF_LISTS | OF_SHIFTS], ids=lambda program: program.name
)
def test_common_programs_give_what_is_expected_natively(program: Program) -> None:
    natively = Natively(zynml_words(program.text) + "\n")
    for arguments, expected in program.calls:
        found = natively("f", *arguments)
        if isinstance(expected, Stopped):
            assert found.code == expected.code
        else:
            assert agrees(_plain(found), expected), f"f{arguments} gives {found!r}, not {expected!r}"


# ---- values --------------------------------------------------------------------------------------------------------------------------

COLLATZ = """fn steps(n: int) -> int {
    var x = n
    var count = 0
    while x != 1 {
        x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 }
        count += 1
    }
    count
}
fn longest(limit: int) -> int {
    var best = 0
    for n in 1..limit { best = max(best, steps(n)) }
    best
}
"""


def _steps(n: int) -> int:
    count = 0
    while n != 1:
        n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
    return count


def test_loops_over_ints() -> None:
    program = opened(COLLATZ)
    assert program.longest(1001) == max(_steps(n) for n in range(1, 1001))
    assert program.longest(1) == 0
    native = native_of(program)
    assert native is not None and native.linked is not None


def test_an_array_inside_of_a_function() -> None:
    text = """fn primes() -> int {
    var composite: [bool; 8000] = [false; 8000]
    var count = 0
    for i in 2..8000 {
        if not composite[i] {
            count += 1
            var j = i * 2
            while j < 8000 {
                composite[j] = true
                j += i
            }
        }
    }
    count
}
fn outside(n: int) -> int {
    var cells: [int; 7] = [5; 7]
    for i in 0..n { cells[i] = i * i }
    cells[6]
}
"""
    natively = Natively(text)
    assert natively("primes") == sum(all(n % d for d in range(2, math.isqrt(n) + 1)) for n in range(2, 8000))
    assert [natively("outside", n) for n in (0, 6, 7)] == [5, 5, 36]
    stopped = natively("outside", 8)
    assert (stopped.code, stopped.message) == ("0801", "index 7 is out of range: the array has 7, indices go from 0 to 6")


def test_floats_follow_ieee() -> None:
    text = """fn escape(x: f64, y: f64, limit: int) -> int {
    var a = 0.0
    var b = 0.0
    var n = 0
    while n < limit and a * a + b * b <= 4.0 {
        let next = a * a - b * b + x
        b = 2.0 * a * b + y
        a = next
        n += 1
    }
    n
}
fn sum(n: int, step: f32) -> f32 {
    var total = 0.0f32
    for i in 0..n { total += step }
    total
}
"""
    program = opened(text)

    def escape(x: float, y: float, limit: int) -> int:
        z, n = 0j, 0
        while n < limit and z.real * z.real + z.imag * z.imag <= 4.0:
            z, n = complex(z.real * z.real - z.imag * z.imag + x, 2.0 * z.real * z.imag + y), n + 1
        return n

    for x, y in ((0.3, 0.5), (-0.75, 0.1), (2.0, 2.0), (0.25, 0.0)):
        assert program.escape(x, y, 300) == escape(x, y, 300)
    assert program.escape(math.nan, 0.0, 300) == program.escape(math.inf, 0.0, 300) == 1
    expected = np.float32(0)
    for _ in range(1003):
        expected = np.float32(expected + np.float32(0.1))
    found = program.sum(1003, np.float32(0.1))
    assert type(found) is np.float32 and found == expected


RECORDS = """struct Point { x: f64, y: f64 }
struct Pair { first: Point, count: i16, on: bool }
enum Side { Buy, Sell }
enum Shape { Circle(f64), Box { width: int, height: int }, Empty }
fn mirrored(p: Point) -> Point { Point { x: p.y, y: p.x } }
fn counted(p: Pair) -> Pair { Pair { first: mirrored(p.first), count: p.count + 1, on: not p.on } }
fn other(s: Side) -> Side { match s { Buy => Sell, Sell => Buy } }
fn twice(s: Shape) -> Shape {
    match s {
        Circle(r) => Circle(2.0 * r)
        Box { width: w, height: h } => Box { width: 2 * w, height: 2 * h }
        Empty => Empty
    }
}
fn half(n: int) -> int? { if n % 2 == 0 { Some(n / 2) } else { None } }
fn halved(n: int?) -> int? { half(n?) }
fn divided(a: int, b: int) -> Result<int, bool> { if b == 0 { Err(a > 0) } else { Ok(a / b) } }
fn pair(t: (int, (bool, f32))) -> ((f32, bool), int) { ((t.1.1, t.1.0), t.0) }
"""


def test_values_with_parts_cross() -> None:
    natively = Natively(RECORDS)
    assert not any(natively.reasons.values()), natively.reasons
    point, pair = struct_class("Point", ("x", "y")), struct_class("Pair", ("first", "count", "on"))
    buy, sell = case_classes("Side", (("Buy", ()), ("Sell", ())))
    circle, box, empty = case_classes("Shape", (("Circle", ("0",)), ("Box", ("width", "height")), ("Empty", ())))
    own = natively.functions
    expected_of = [
        ("mirrored", point((1.5, -0.0)), point((-0.0, 1.5))),
        ("counted", pair((point((1.0, 2.0)), np.int16(-5), True)), pair((point((2.0, 1.0)), np.int16(-4), False))),
        ("other", buy(()), sell(())),
        ("other", sell(()), buy(())),
        ("twice", circle((1.25,)), circle((2.5,))),
        ("twice", box((3, -4)), box((6, -8))),
        ("twice", empty(()), empty(())),
        ("half", 12, Some((6,))),
        ("half", 13, NONE),
        ("halved", Some((24,)), Some((12,))),
        ("halved", NONE, NONE),
        ("pair", (7, (True, np.float32(0.5))), ((np.float32(0.5), True), 7)),
    ]
    for name, given, expected in expected_of:
        found = own[name](given)
        assert found == expected and type(found) is type(expected), name
    assert own["divided"](7, 2) == Ok((3,))
    assert own["divided"](7, 0) == Err((True,))
    stopped = natively("twice", box((2**62, 0)))
    assert (stopped.code, stopped.message) == ("0806", "2 * 4611686018427387904 does not fit in i64")


# ---- failures ------------------------------------------------------------------------------------------------------------------------

FAILING = """fn grow(n: int) -> int {
    var x = n
    while x > 0 { x = x * 1000000007 }
    x
}
fn caller(n: int) -> int { grow(n) + 1 }
fn listed(n: int) -> int {
    let all = [n]
    caller(all[0])
}
fn claimed(n: int) -> int {
    var i = 0
    while i < n { i += 1 }
    assert(i < 5, "at {most} 5")
    i
}
fn endless(n: int) -> int { endless(n + 1) + 1 }
fn deep(n: int) -> int { if n == 0 { 0 } else { deep(n - 1) + 1 } }
"""


def test_a_failure_names_its_place_and_its_caller() -> None:
    program = opened(FAILING)
    with pytest.raises(zynml.ZynMLError) as direct:
        program.grow(3)
    assert str(direct.value) == (
        "error[ZYN0806]: 3000000021 * 1000000007 does not fit in i64\n"
        " --> <program>:3:23\n"
        "  |\n"
        "3 |     while x > 0 { x = x * 1000000007 }\n"
        "  |                       ^^^^^^^^^^^^^^\n"
        "hint: i64 holds -9223372036854775808 to 9223372036854775807"
    ).replace("3000000021 *", f"{_last(3)} *")
    expected = {name: outcome(opened(FAILING, "none"), name, (3,)) for name in ("grow", "caller", "listed")}
    for name, message in expected.items():
        assert message[0] == "error" and outcome(program, name, (3,)) == message
    assert "called from here" in expected["caller"][1] and "called from here" in expected["listed"][1]


def _last(x: int) -> int:
    """The last value that still fits."""
    while x * 1000000007 < 2**63:
        x *= 1000000007
    return x


def test_an_assertion_that_does_not_hold() -> None:
    program = opened(FAILING)
    assert program.claimed(4) == 4
    assert outcome(program, "claimed", (5,)) == outcome(opened(FAILING, "none"), "claimed", (5,))
    assert "assertion failed: at {most} 5" in outcome(program, "claimed", (5,))[1]


def test_recursion_without_an_end_has_its_place() -> None:
    program = opened(FAILING)
    assert program.deep(20_000) == 20_000
    with pytest.raises(zynml.ZynMLError) as stopped:
        program.endless(1)
    assert str(stopped.value) == (
        "error[ZYN0808]: functions call each other too deep\n"
        "  --> <program>:17:29\n"
        "   |\n"
        "17 | fn endless(n: int) -> int { endless(n + 1) + 1 }\n"
        "   |                             ^^^^^^^^^^^^^^\n"
        "hint: check that the recursion ends, or use a loop"
    )
    assert program.deep(7) == 7


@pytest.mark.parametrize("value", [2.5, True, 2**63, -(2**63) - 1, np.int64(7), np.int8(7), np.uint64(7), np.float64(2), None, "7", [7], (7,)])
def test_other_arguments_are_taken_or_refused_as_on_python(value: Any) -> None:
    assert outcome(opened(COLLATZ), "steps", (value,)) == outcome(opened(COLLATZ, "none"), "steps", (value,))


def test_defaults_and_names_of_parameters() -> None:
    text = "let base = 3\nfn sum(n: int, global: int = 2, del: int = base + 1) -> int { var t = del * global\n for i in 0..n { t += 1 }\n t }\n"
    for native in ("paying", "none"):
        program = opened(text, native)
        assert program.sum(2) == 10
        assert program.sum(2, 3) == 14
        assert program.sum(n=2, **{"del": 1, "global": 5}) == 7
        with pytest.raises(zynml.ZynMLError, match="ZYN0204"):
            program.sum()


# ---- threads and Ctrl-C ----------------------------------------------------------------------------------------------------------------


def test_threads_run_the_same_functions_at_the_same_time() -> None:
    program = opened(COLLATZ + FAILING)
    found: list[Any] = []

    def work(n: int) -> None:
        found.append((n, program.steps(n), program.deep(100 * n), outcome(program, "grow", (n,))[0]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [(n, _steps(n), 100 * n, "error") for n in range(1, 17)]


def test_control_c_ends_a_loop_without_an_end() -> None:
    program = opened("fn spin(n: int) -> int {\n    var x = n\n    while x != -1 { x = (x * 7 + 1) % 1000003 }\n    x\n}\n" + COLLATZ)
    assert program.steps(27) == 111
    under_way.clear()

    def stop() -> None:
        while threading.main_thread().ident not in under_way:
            pass
        _thread.interrupt_main()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        program.spin(5)
    stopper.join()
    assert program.steps(27) == 111


# ---- which functions are native --------------------------------------------------------------------------------------------------------


def test_functions_without_a_loop_stay_on_python() -> None:
    program = opened("fn square(n: int) -> int { n * n }\nfn sum(n: int) -> int { var t = 0\n for i in 0..n { t += square(i) }\n t }\n")
    assert program.square(3) == 9
    native = native_of(program)
    assert native is not None and native.linked is None and set(native.python) == {"sum"}
    assert program.sum(4) == 14 and native.linked is not None


def test_a_program_that_calls_no_native_function_never_loads_the_compiler() -> None:
    code = (
        "import sys, zynml\n"
        f"program = zynml.compile({(COLLATZ + 'fn hello() { print(1) }')!r})\n"
        "program.hello()\n"
        "assert not any(name.startswith(('llvmlite', 'compiler.lowering.native', 'compiler.backends.native.compile')) for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


REASONS = {
    "fn f(n) -> int { n }": ["`n` has no type"],
    "fn f(n: int) -> int { let g = def(x): x\n n }": ["it has a function without a name"],
    'fn f(n: int) -> int { print(n)\n n }': ["it calls `print`, which has no native code"],
    "fn f(n: int) -> int { [n].len() }": ["it uses a list", "it makes a list"],
    "var m = 3\nfn f(n: int) -> int { n + m }": ["it reads `m`, whose value isn't known when it is compiled"],
    "let m = 3\nfn f(n: int) -> int { n + m }": [],
    "fn f(n: String) -> int { 1 }": ["`n` is text"],
    "fn f(n: f16) -> f16 { n }": ["`n`: f16 is no native number", "its result: f16 is no native number"],
    "fn f(n: int) -> int { var x = 1\n x = n as i32\n x }": ["`x` takes values of other types"],
    "fn f(n: int) -> f64 { uniform(n, 1) }": ["it calls `uniform`, which has no native code"],
    "fn f(n: int) -> int { assert(n > 0, f\"{n:>3}\")\n n }": ["it makes text", "it calls `assert`, which has no native code"],
    "fn g(n: int) -> int { print(n)\n n }\nfn f(n: int) -> int { g(n) }": ["it calls `g`, which isn't native"],
    "fn f(n: int) -> int { var x: int\n if n > 0 { x = 1 }\n x }": ["`x` may be read before it has a value"],
    "fn f(n: int) -> int { var x: int\n if n > 0 { x = 1 } else { x = 2 }\n x }": [],
    "fn f(n: int) -> int { fn g(m: int) -> int { m }\n g(n) }": ["it has a function inside"],
}


@pytest.mark.parametrize("text", REASONS)
def test_a_function_that_is_not_native_has_a_reason(text: str) -> None:
    session = opened(text + "\n", "none")._session
    found = effects(checker_of(session.check(), session.language.library), session.check(), has_native_code)
    wanted = REASONS[text]
    assert [reason.words for reason in found.functions["f"].reasons][: len(wanted) or None] == wanted


def test_explain_tells_which_functions_are_native() -> None:
    text = COLLATZ + "fn half(n: int) -> int { n / 2 }\nfn shown(n: int) -> int { print(n)\n steps(n) }\n"
    assert opened(text)._session.native_explained() == (
        "steps    native\n"
        "longest  native\n"
        "half     could be native, but has no loop, and a call costs more than it does\n"
        "shown    runs on Python:\n"
        "           it calls `print`, which has no native code (<program>:16:27)\n"
    )


def test_stages_show_the_native_functions() -> None:
    session = opened(COLLATZ + "fn shown(n: int) -> int { print(n)\n steps(n) }\n")._session
    module = parse_module(session.emit("native-hir"))
    assert set(module.functions) == {"fn.steps", "fn.longest"}
    assert "@fn.steps" in session.emit("native-llvm") and "fn.longest:" in session.emit("native-asm")
    assert not parse_module(opened("println(1)\n")._session.emit("native-hir")).functions
