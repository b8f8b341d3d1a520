"""Where types are known, generated code lets Python do what it does as the language means it; what the bounds of ints tell needs no check."""

import ast

import pytest

import compiler.backends.host.program as program
import zynml
from compiler.backends.host import intervals
from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from zynml.api import open_source


def generated(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The Python text of a program's code."""
    made: list[str] = []
    compiled = program._compiled

    def keep(module: ast.Module, *rest: object) -> object:
        made.append(ast.unparse(module))
        return compiled(module, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(program, "_compiled", keep)
    open_source(Source("p.zynml", text), CompileOptions(native="none"), Sources(), lambda warning: None).host  # noqa: B018
    return made[0]


@pytest.mark.parametrize(
    ("parameters", "body", "expected"),
    [
        ("xs: List<int>, i: int", "xs[i]", "xs[i]"),
        ("m: HashMap<String, int>, k: String", "m[k]", "m[k]"),
        ("m: HashMap<String, int>, k: String", "m.get_or(k, 0)", "m.get(k, 0)"),
        ("m: HashMap<String, int>, k: String", "k in m", "k in m"),
        ("m: HashMap<String, int>", "m.len() + 1", "·len!(m) + 1"),
        ("xs: List<String>, k: String", "xs.contains(k)", "k in xs"),
        ("s: String", 's.starts_with("a")', "s.startswith('a')"),
        ("a: int", "a % 7 + 1", "(a % 7 if a >= 0 else ·rem·i64(a, 7)) + 1"),
        ("xs: List<int>", "xs.len() / 2", "·len!(xs) // 2"),
        ("s: String, i: int", "s[i]", "s[i]"),
        ("s: String", 's.to_upper().split(",")', "s.upper().split(',')"),
        ("s: String", "s.lines()", "s.splitlines()"),
        ("xs: List<String>", 'xs.join("-")', "'-'.join(xs)"),
        ("xs: List<int>", "xs.sorted()", "·sorted!(xs)"),
        ("xs: List<int>", "xs.take(3)", "xs[:3]"),
        ("m: HashMap<String, int>", "m.items()", "·list!(m.items())"),
        ("a: int, b: int", "max(a, b)", "a if a >= b else b"),
    ],
)
def test_known_types_are_left_to_python(parameters: str, body: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"return {expected}\n" in generated(f"def f({parameters}) {{ {body} }}", monkeypatch)


@pytest.mark.parametrize(
    ("body", "helper"),
    [
        ("def f(xs: List<float>, x: float): bool { x in xs }", "·contains"),  # nan is in no list
        ("def f(xs, i) { xs[i] }", "·get"),
        ("def f(m: HashMap<(int, int), int>, k: (int, int)): int { m[k] }", "·get"),
        ("def f(a: int): int { a + 1 }", "·overflow"),
        ("def f(xs: List<float>) { xs.sorted() }", "·library·sorted"),  # nan comes last
        ("def f(a: float, b: float): float { max(a, b) }", "·library·max"),  # nan wins
        ('def f(s: String) { s.split("") }', "·library·split"),  # the characters
    ],
)
def test_what_python_means_otherwise_stays_with_helpers(body: str, helper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert helper in generated(body, monkeypatch)


def test_ints_of_loops_are_checked_only_where_they_may_leave_i64(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(n: int): int { mut s = 0\nfor i in 0..n { let k = i % 10\ns = i + 1\ns = k * k - 1 }\ns }"
    assert "·overflow" not in generated(text, monkeypatch)
    assert "·overflow" in generated(text.replace("i + 1", "i * i"), monkeypatch)
    assert "·overflow" in generated(text.replace("0..n", "n - 9..n").replace("i + 1", "i + 2"), monkeypatch)


@pytest.mark.parametrize("symbol", ["+", "-", "*"])
def test_bounds_of_results_hold_all_results(symbol: str) -> None:
    pairs = [(-3, 5), (0, 4), (-7, -2), (6, 6)]
    for left in pairs:
        for right in pairs:
            low, high = intervals.result(symbol, [left, right])
            found = [eval(f"a {symbol} b", {"a": a, "b": b}) for a in range(left[0], left[1] + 1) for b in range(right[0], right[1] + 1)]
            assert (low, high) == (min(found), max(found))


@pytest.mark.parametrize("symbol", ["/", "%"])
def test_bounds_of_quotients_hold_all_quotients(symbol: str) -> None:
    for left in [(-9, 5), (0, 14), (-7, -2), (6, 6), (3, 20)]:
        for right in [(3, 3), (1, 4), (-2, 5), (-4, -1)]:
            low, high = intervals.quotient(symbol, left, right)
            for a in range(left[0], left[1] + 1):
                for b in range(right[0], right[1] + 1):
                    if b:
                        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                        assert low <= (quotient if symbol == "/" else a - quotient * b) <= high


def test_a_lambda_stands_in_the_loop_that_its_method_is(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(xs: List<int>, k: int) { xs.filter(x => x > k).map(x => x % 3).any(x => x == 2) }"
    body = generated(text, monkeypatch).partition("def ·top")[0]
    assert "·library" not in body and "def ·" not in body


def test_lambdas_in_loops_give_what_pythons_give() -> None:
    text = """
def f(xs: List<int>, k: int) {
    let tripled = xs.map(x => x * 3)
    let closures = xs.map(x => (y => x + y))
    let kept = xs.filter(x => x > k)
    (tripled, kept, xs.any(x => x == 9), xs.all(x => x > 0), xs.count(x => x % 2 == 1), closures[1](100), (0..4).map(i => i * i))
}
"""
    xs, k = [5, 3, 9, 2], 3
    expected = ([15, 9, 27, 6], [5, 9], True, True, 3, 103, [0, 1, 4, 9])
    assert zynml.compile(text).f(xs, k) == expected


def test_a_list_that_goes_from_function_to_function_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
def sum(xs: List<int>, low: int, high: int): int {
    if high - low == 1 { return xs[low] }
    let middle = (low + high) / 2
    sum(xs, low, middle) + sum(xs, middle, high)
}
"""
    found = generated(text, monkeypatch)
    assert found.count("·trusting sum(xs,") == 3 and found.count("·convert(xs,") == 1
    sum_ = zynml.compile(text).sum
    assert sum_(list(range(1000)), 0, 1000) == 499_500
    with pytest.raises(zynml.ZynMLError, match="ZYN0807"):
        sum_([1, "a"], 0, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("xs.pop()", "`pop` of an empty list"),
        ("xs.first()", "index 0 is out of range: the list is empty"),
        ("s[5]", "index 5 is out of range: the text has 3, indices go from 0 to 2"),
        ("s.get(-4)", "index -4 is out of range: the text has 3, indices go from 0 to 2"),
        ("ys.get(2)", "index 2 is out of range: the list has 1, indices go from 0 to 0"),
        ("ys.map(y => y + 9223372036854775807)", "1 + 9223372036854775807 does not fit in i64"),
    ],
)
def test_what_isnt_there_is_said_as_the_library_says_it(call: str, message: str) -> None:
    program_ = zynml.compile(f'def f(mut xs: List<int>, ys: List<int>, s: String) {{ {call} }}')
    with pytest.raises(zynml.ZynMLError) as raised:
        program_.f([], [1], "abc")
    assert raised.value.diagnostics[0].message == message


def test_what_a_call_gives_may_go_unread() -> None:
    text = """
def f(): (int, bool, bool, List<int>) {
    mut s: HashSet<int> = {}
    mut m: HashMap<int, int> = {}
    s.add(1)
    s.add(2)
    s.remove(1)
    s.remove(7)
    m.insert(1, 10)
    m.insert(2, 20)
    m.remove(1)
    let again = s.add(2)
    (s.len(), again, s.add(3), m.keys())
}
"""
    assert zynml.compile(text).f() == (1, False, True, [2])
