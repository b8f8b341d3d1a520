"""Where types are known, generated code lets Python do what it does as the language means it; what the bounds of ints tell needs no check."""

import ast

import pytest

import compiler.backends.host.program as program
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
    ],
)
def test_what_python_means_otherwise_stays_with_helpers(body: str, helper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert helper in generated(body, monkeypatch)


def test_ints_of_loops_are_checked_only_where_they_may_leave_i64(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(n: int): int { mut s = 0\nfor i in 0..n { let k = i % 10\ns = i + 1\ns = k * k - 1 }\ns }"
    assert "·overflow" not in generated(text, monkeypatch)
    assert "·overflow" in generated(text.replace("i + 1", "i + 2"), monkeypatch)
    assert "·overflow" in generated(text.replace("i + 1", "i * i"), monkeypatch)


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
