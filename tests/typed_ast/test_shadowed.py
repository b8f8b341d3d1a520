"""Names of the library that a program takes for its own: which are warned of, and what they mean in host code and kernels."""

import numpy as np
import pytest

import zynml


def warned(text: str) -> list[str]:
    """The names in the messages."""
    return [found.message.split("`")[1] for found in zynml.compile(text).warnings if found.code == "0608"]


@pytest.mark.parametrize(
    "text",
    [
        "let sum = 3\nprintln(sum)",
        "mut total = 0\nfor max in 0..3: total += max",
        "let x = arange(0, 4)\nlet y = compute(x) {\n    var sum = 0.0\n    for i in 0..N: sum += x[i]\n    out[0] = sum\n}",
        "def f(len: int): int { len + 1 }\nprintln(len([1, 2]))",
        "println([abs + 1 for abs in [1, 2]])",
        "let x = arange(0, 4)\nlet y = compute(exp = x) { for i in 0..N: out[i] = exp[i] }\nprintln(exp(1.0))",
        "extern def string_concat(a: String, b: String): String",
        "def f(): int {\n    let abs = 2\n    abs\n}\nprintln(abs(-2))",
    ],
)
def test_names_that_mislead_nobody(text: str) -> None:
    assert warned(text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def max(a, b) { a }\ndef min(a, b) { b }", ["max", "min"]),
        ("let inf = 1.0", ["inf"]),
        ("def f(pi: float): float { pi }", ["pi"]),
        ("for nan in 0..3: println(nan)", ["nan"]),
        ("let exp = x => x + 1.0\nprintln(exp(1.0))", ["exp"]),
        ("def around(): float {\n    def abs(x: float): float { 7.0 }\n    abs(-1.0)\n}", ["abs"]),
        ("let x = arange(0, 4)\nlet y = compute(x) {\n    let pi = 3.0\n    for i in 0..N: out[i] = x[i] * pi\n}", ["pi"]),
    ],
)
def test_names_that_are_warned_of(text: str, names: list[str]) -> None:
    assert warned(text) == names


def test_a_function_of_the_program_is_meant_in_both_worlds() -> None:
    program = zynml.compile("""
def max(a: f32, b: f32): f32 { a + b }
def dot(a: f32, b: f32): f32 { a - b }
def host(a: f32, b: f32): f32 { max(a, b) + dot(a, b) }
def kernel(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = max(x[i], 1.0) + dot(x[i], 1.0) } }
def tiled(x: tensor[N]): tensor { compute(x) { for i in 0..N step 4: out[i:i+4] = max(x[i:i+4], 1.0) + dot(x[i:i+4], 1.0) } }
""")
    x = np.array([0.0, 0.5, 2.0, -3.0, 8.0], np.float32)
    assert [program.host(float(a), 1.0) for a in x] == (2 * x).tolist()
    assert np.array_equal(program.kernel(x), 2 * x)
    assert np.array_equal(program.tiled(x), 2 * x)


def test_a_constant_of_the_program_is_meant_in_both_worlds() -> None:
    program = zynml.compile("""
let pi = 2.0
def host(): float { pi }
def kernel(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * pi } }
""")
    assert program.host() == 2.0
    assert program.kernel(np.ones(2, np.float32)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("before", "inside"),
    [("let max = 3\n", ""), ("", "let max = 3.0"), ("let abs = zeros(4)\nlet max = abs\n", "")],
)
def test_a_value_is_not_called_in_a_kernel(before: str, inside: str) -> None:
    loop = f"    for i in 0..N:\n        {inside or 'let z = 1.0'}\n        out[i] = max(x[i], 1.0)\n"
    text = f"{before}let x = arange(0, 4)\nlet y = compute(x) {{\n{loop}}}\n"
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text)
    kind = "a tensor" if "zeros" in before else "a number"
    assert caught.value.codes == ("ZYN0203",)
    assert str(caught.value).startswith(f"error[ZYN0203]: only a function can be called, and `max` is {kind} here\n")


def test_strict_refuses_such_names() -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile("def max(a, b) { a }", strict=True)
    assert caught.value.codes == ("ZYN0608",)
