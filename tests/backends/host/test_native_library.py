"""Functions of the library over numbers give natively what they give on Python: the same bits, the same messages."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from native_programs import Natively, native_of, opened, outcome

ONE = (
    *("sqrt", "rsqrt", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf"),
    *("sigmoid", "gelu", "silu", "abs", "sign", "relu", "floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite"),
)
TWO = ("atan2(a, b)", "min(a, b)", "max(a, b)", "clamp(a, b, 2)", "clip(a, 0, b)", "where(a > b, a, b)", "clamp(1, a, b)")
OF_INTS = ("bit_and(a, b)", "bit_or(a, 3)", "bit_xor(a, b)", "popcount(a)", "clz(a)", "b.ctz()")
OF_FLOATS = ("pow(a, b)", "a.pow(b)", "fma(a, b, a)")
TYPES = {"i8": np.int8, "i32": np.int32, "int": int, "u16": np.uint16, "u64": np.uint64, "f32": np.float32, "f64": float}


def values(type: str) -> list[Any]:
    if type[0] == "f":
        found = [0.0, -0.0, 1.5, -2.25, 0.7, -0.3, 2.5, -3.5, 88.0, 709.0, -800.0, 1e30, math.inf, -math.inf, math.nan, 1e-30]
        return [TYPES[type](value) for value in found]
    bits = 64 if type == "int" else int(type[1:])
    low, high = (0, (1 << bits) - 1) if type[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return [TYPES[type](value) for value in (low, low + 1, -1, 0, 1, 2, 7, high) if value >= low]


@pytest.mark.parametrize("type", TYPES)
def test_functions_give_the_same_both_ways(type: str) -> None:
    floats = type[0] == "f"
    two = [*TWO, *(OF_FLOATS if floats else OF_INTS)]
    text = "".join(f"fn one{n}(a: {type}) {{ {name}(a) }}\nfn own{n}(a: {type}) {{ a.{name}() }}\n" for n, name in enumerate(ONE))
    text += "".join(f"fn two{n}(a: {type}, b: {type}) {{ {called} }}\n" for n, called in enumerate(two))
    python, natively = opened(text, "none"), opened(text, "all")
    calls: list[tuple[str, tuple[Any, ...]]] = [(f"{kind}{n}", (v,)) for kind in ("one", "own") for n in range(len(ONE)) for v in values(type)]
    calls += [(f"two{n}", pair) for n in range(len(two)) for pair in itertools.product(values(type), repeat=2)]
    for name, arguments in calls:
        assert outcome(natively, name, arguments) == outcome(python, name, arguments), (name, arguments)
    native = native_of(natively)
    assert native is not None and set(native.python) == {name for name, _ in calls}


NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}


@pytest.mark.parametrize("name", ONE[2:16])
def test_functions_of_numbers_are_those_of_numpy(name: str) -> None:
    """Within some units in the last place, and exactly where there is no finite value."""
    natively = Natively(f"fn f(a: f64) -> f64 {{ {name}(a) }}\nfn g(a: f32) -> f32 {{ {name}(a) }}\n")
    function = getattr(np, NUMPY.get(name, name))
    with np.errstate(all="ignore"):
        for value in values("f64"):
            np.testing.assert_allclose(natively("f", value), function(np.float64(value)), rtol=1e-15)
            narrow = np.float32(value)
            np.testing.assert_allclose(natively("g", narrow), np.float32(function(np.float64(narrow))), rtol=1e-7)


def test_what_is_computed_by_formula() -> None:
    natively = Natively("".join(f"fn {name}_of(a: f64) -> f64 {{ {name}(a) }}\n" for name in ("erf", "sigmoid", "gelu", "silu", "rsqrt")))
    for x in (-3.0, -0.5, 0.0, 0.25, 4.0):
        assert natively("erf_of", x) == math.erf(x)
        assert natively("sigmoid_of", x) == pytest.approx(1 / (1 + math.exp(-x)), rel=1e-15)
        assert natively("gelu_of", x) == pytest.approx(x * (1 + math.erf(x / math.sqrt(2))) / 2, rel=1e-15)
        assert natively("silu_of", x) == pytest.approx(x / (1 + math.exp(-x)), rel=1e-15)
    assert natively("rsqrt_of", 4.0) == 0.5 and natively("rsqrt_of", 0.0) == math.inf and natively("rsqrt_of", -0.0) == -math.inf
    assert math.isnan(natively("rsqrt_of", -1.0))
    assert [natively("sigmoid_of", x) for x in (-math.inf, math.inf)] == [0.0, 1.0]


OPTIONALS = """fn taken(n: int?) -> int { n.unwrap() }
fn either(n: Result<int, f64>) -> int { n.unwrap() }
fn told(n: Result<int, bool>) -> int { n.unwrap() }
fn given(n: Result<(int, f64), int>) -> f64 { n.unwrap_or((1, 2.5)).1 }
fn asked(n: int?) -> (bool, bool, int) { (n.is_some(), n.is_none(), n.unwrap_or(7)) }
fn stopped(n: int) -> int {
    if n > 3 { panic("over {3}") }
    if n < 0 { panic("") }
    n
}
"""


def test_optionals_and_panics() -> None:
    import zynml

    python, natively = opened(OPTIONALS, "none"), opened(OPTIONALS, "all")
    calls: list[tuple[str, Any, str]] = [
        ("taken", 3, "3"), ("taken", None, "`unwrap` of nothing: the value is none"), ("either", zynml.Ok(4), "4"),
        ("either", zynml.Err(3.0), "`unwrap` of an error: 3.0"), ("told", zynml.Err(True), "`unwrap` of an error: true"),
        ("given", zynml.Ok((2, 0.5)), "0.5"), ("given", zynml.Err(1), "2.5"), ("asked", 2, "(True, False, 2)"),
        ("asked", None, "(False, True, 7)"), ("stopped", 3, "3"), ("stopped", 4, "over {3}"), ("stopped", -1, "panic"),
    ]  # fmt: skip
    for name, value, expected in calls:
        found = outcome(natively, name, (value,))
        assert found == outcome(python, name, (value,)), (name, value)
        assert found[1] == expected or f"error[ZYN0808]: {expected}\n" in found[1], (name, value)


def test_patterns_that_take_a_variable_apart() -> None:
    text = """struct Pair { first: int, rest: (f64, bool) }
fn sum(n: int) -> int {
    var (a, b) = (n, 0)
    while a > 0 {
        b += a
        a -= 1
    }
    b
}
fn gcd(a: int, b: int) -> int {
    var (x, y) = (a, b)
    while y != 0 { (x, y) = (y, x % y) }
    x
}
fn inside(p: Pair, o: int?) -> f64 {
    var Pair { first, rest: (scale, on) } = p
    for i in 0..first {
        scale += 1.5
        on = not on
        first = 9
    }
    if let Some(v) = o {
        var w = v
        w += 1
        scale += w
    }
    if on { scale } else { -scale }
}
fn matched(s: (int, int?)) -> int {
    match s {
        (n, None) => { var m = n
            m += 1
            m }
        (a, Some(b)) => { var (x, y) = (a, b)
            x *= y
            x }
    }
}
"""
    natively = Natively(text)
    assert not any(natively.reasons.values())
    assert natively("sum", 100) == 5050
    assert natively("gcd", 84, 36) == 12
    python, compiled = opened(text, "none"), opened(text, "all")
    calls: list[tuple[str, tuple[Any, ...]]] = [("inside", ({"first": n, "rest": (0.5, True)}, o)) for n in (0, 3) for o in (None, 4)]
    calls += [("matched", ((3, None),)), ("matched", ((3, 4),)), ("matched", ((2**62, 2),))]
    expected = ["0.5", "5.5", "-5.0", "-10.0", "4", "12"]
    for (name, arguments), wanted in zip(calls, [*expected, ""], strict=True):
        found = outcome(compiled, name, arguments)
        assert found == outcome(python, name, arguments) and (not wanted or found[1] == wanted), (name, arguments, found)


def test_numbers_in_messages() -> None:
    text = """fn f(n: int, x: f64, b: bool, k: u8) -> int {
    var i = 0
    while i < n { i += 1 }
    assert(x > 0.5, f"{{x}} of axis {x} after {i + 1} {b}, {k}")
    if n > 3 { panic(f"{n} {2.0 * x}") }
    assert(n < 3, "an index of axis {0}")
    i
}
"""
    python, natively = opened(text, "none"), opened(text, "all")
    native = native_of(natively)
    assert native is not None and set(native.python) == {"f"}
    for n, x, first in (
        (2, 1.0, "2"), (2, 1e-20, "assertion failed: {x} of axis 1e-20 after 3 true, 7"), (2, math.nan, "assertion failed: {x} of axis nan after 3 true, 7"),
        (4, 3.0, "4 6.0"), (3, 1.0, "assertion failed: an index of axis {0}"),
    ):  # fmt: skip
        found = outcome(natively, "f", (n, x, True, np.uint8(7)))
        assert found == outcome(python, "f", (n, x, True, np.uint8(7)))
        assert found == ("int", first) or found[1].startswith(f"error[ZYN0808]: {first}\n")
