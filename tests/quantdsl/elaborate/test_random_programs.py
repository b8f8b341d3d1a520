"""Random functions of ints of all widths, truths and doubles: what they give, and whether they stop, against Python's exact arithmetic."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.quantdsl.elaborate.running import Failed, Functions

INTS = {f"i{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)} | {
    f"u{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)
}
Run = Callable[[dict[str, Any]], Any]
"""What an expression gives for values of the variables."""


class Stops(Exception):
    pass


def held(value: int, dtype: str) -> int:
    low, high = INTS[dtype]
    if not low <= value <= high:
        raise Stops
    return value


def wrapped(value: int, dtype: str) -> int:
    low, high = INTS[dtype]
    return (value - low) % (high - low + 1) + low


def divided(a: int, b: int) -> int:
    if b == 0:
        raise Stops
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class Writer:
    """Writes one function, and how to run it in Python."""

    def __init__(self, seed: int) -> None:
        self.made = random.Random(seed)
        self.variables: dict[str, str] = {}

    def literal(self, dtype: str) -> tuple[str, Run]:
        if dtype == "bool":
            value: Any = self.made.random() < 0.5
            return str(value).lower(), lambda v: value
        if dtype == "f64":
            value = self.made.choice([0.0, 0.5, -1.25, 3.0, 1e300, self.made.uniform(-100, 100)])
            return (repr(value) if value >= 0 else f"({value!r})"), lambda v: value
        low, high = INTS[dtype][0], min(INTS[dtype][1], 2**63 - 1)  # A literal is an i64 where its place says nothing.
        value = self.made.choice([0, 1, 2, 3, 7, low, high, self.made.randint(low, high), min(high, 100)])
        return (str(value) if value >= 0 else f"({value})"), lambda v: value

    def atom(self, dtype: str) -> tuple[str, Run]:
        names = [name for name, held_as in self.variables.items() if held_as == dtype]
        if names and self.made.random() < 0.8:
            name = self.made.choice(names)
            return name, lambda v: v[name]
        return self.literal(dtype)

    def expression(self, dtype: str, depth: int) -> tuple[str, Run]:
        if depth == 0 or self.made.random() < 0.15:
            return self.atom(dtype)
        if self.made.random() < 0.15:
            test, check = self.expression("bool", depth - 1)
            (a, one), (b, other) = (self.expression(dtype, depth - 1) for _ in range(2))
            return f"(if {test} {{ {a} }} else {{ {b} }})", lambda v: one(v) if check(v) else other(v)
        if dtype == "bool":
            return self.truth(depth - 1)
        if dtype == "f64":
            return self.double(depth - 1)
        return self.integer(dtype, depth - 1)

    def named(self, dtype: str, depth: int) -> tuple[str, Run]:
        """An expression whose type doesn't come from its place: one that holds a variable."""
        name = next(name for name, held_as in self.variables.items() if held_as == dtype)
        text, run = self.expression(dtype, depth)
        return (text, run) if any(other in text for other, as_ in self.variables.items() if as_ == dtype) else (name, lambda v: v[name])

    def truth(self, depth: int) -> tuple[str, Run]:
        kind = self.made.randrange(4)
        if kind == 0:
            a, run = self.expression("bool", depth)
            return f"(not {a})", lambda v: not run(v)
        if kind == 1:
            (a, one), (b, other) = (self.expression("bool", depth) for _ in range(2))
            if self.made.random() < 0.5:
                return f"({a} and {b})", lambda v: one(v) and other(v)
            return f"({a} or {b})", lambda v: one(v) or other(v)
        operator = self.made.choice(["<", "<=", ">", ">=", "==", "!="])
        first = self.made.choice(list(INTS))
        second = first if kind == 2 else self.made.choice(list(INTS))
        (a, one), (b, other) = self.named(first, depth), self.named(second, depth)
        compare = {
            "<": lambda x, y: x < y,
            "<=": lambda x, y: x <= y,
            ">": lambda x, y: x > y,
            ">=": lambda x, y: x >= y,
            "==": lambda x, y: x == y,
            "!=": lambda x, y: x != y,
        }[operator]
        return f"({a} {operator} {b})", lambda v: compare(one(v), other(v))

    def double(self, depth: int) -> tuple[str, Run]:
        kind = self.made.randrange(3)
        if kind == 0:
            a, run = self.named(self.made.choice(list(INTS)), depth)
            return f"({a} as f64)", lambda v: float(run(v))
        if kind == 1:
            a, run = self.named("f64", depth)
            return f"abs({a})", lambda v: abs(run(v))
        operator = self.made.choice("+-*/")
        (a, one), (b, other) = self.named("f64", depth), self.named("f64", depth)
        return f"({a} {operator} {b})", lambda v: ieee(operator, one(v), other(v))

    def integer(self, dtype: str, depth: int) -> tuple[str, Run]:
        kind = self.made.randrange(10)
        if kind == 0:
            source = self.made.choice([*INTS, "f64"])
            a, run = self.named(source, depth)
            return f"({a} as {dtype})", lambda v: cast(run(v), dtype)
        if kind == 1:
            name = self.made.choice(["min", "max"])
            (a, one), (b, other) = (self.named(dtype, depth) for _ in range(2))
            pick = min if name == "min" else max
            return f"{name}({a}, {b})", lambda v: pick(one(v), other(v))
        if kind == 2:
            a, run = self.named(dtype, depth)
            return f"(-{a})", lambda v: held(-run(v), dtype)
        (a, one), (b, other) = (self.named(dtype, depth) for _ in range(2))
        operator = self.made.choice(["+", "-", "*", "/", "%", "+|", "-|", "*|", "+%", "-%", "*%"])
        return f"({a} {operator} {b})", lambda v: operate(operator, one(v), other(v), dtype)

    def function(self, name: str) -> tuple[str, Run, list[str]]:
        parameters = [*INTS, "f64", "bool"]
        self.made.shuffle(parameters)
        self.variables = {f"p{n}": dtype for n, dtype in enumerate(parameters)}
        head = ", ".join(f"{p}: {dtype}" for p, dtype in self.variables.items())
        lines: list[str] = []
        steps: list[tuple[str, Run]] = []
        for number in range(3):
            dtype = self.made.choice(parameters)
            text, run = self.expression(dtype, 3)
            lines.append(f"  let x{number}: {dtype} = {text}")
            steps.append((f"x{number}", run))
            self.variables[f"x{number}"] = dtype
        result = self.made.choice(parameters)
        text, run = self.expression(result, 4)
        body = "\n".join(lines)

        def whole(values: dict[str, Any]) -> Any:
            values = dict(values)
            for variable, step in steps:
                values[variable] = step(values)
            return run(values)

        return f"fn {name}({head}) -> {result} {{\n{body}\n  let r: {result} = {text}\n  r\n}}", whole, parameters


def ieee(operator: str, a: float, b: float) -> float:
    if operator == "/" and b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else 0.0}[operator]


def cast(value: Any, dtype: str) -> int:
    if isinstance(value, float) and not math.isfinite(value):
        raise Stops
    return held(int(value), dtype)


def operate(operator: str, a: int, b: int, dtype: str) -> int:
    match operator[0]:
        case "+":
            exact = a + b
        case "-":
            exact = a - b
        case "*":
            exact = a * b
        case "/":
            exact = divided(a, b)
        case _:
            exact = a - b * divided(a, b)
    if operator.endswith("|"):
        return min(max(exact, INTS[dtype][0]), INTS[dtype][1])
    return wrapped(exact, dtype) if len(operator) == 2 else held(exact, dtype)


def argument(made: random.Random, dtype: str) -> Any:
    if dtype == "bool":
        return made.random() < 0.5
    if dtype == "f64":
        return made.choice([0.0, 1.5, -2.0, math.inf, math.nan, 1e18, made.uniform(-300, 300)])
    low, high = INTS[dtype]
    return made.choice([0, 1, 2, high, low, made.randint(low, high), made.randint(max(low, -9), 9)])


@pytest.mark.parametrize("seed", range(4))
def test_random_functions(seed: int) -> None:
    written = [(f"g{number}", Writer(seed * 1000 + number)) for number in range(25)]
    made = [(name, *writer.function(name)) for name, writer in written]
    functions = Functions("\n".join(text for _, text, _, _ in made))
    inputs = random.Random(seed)
    stopped = 0
    for name, text, run, parameters in made:
        for _ in range(8):
            values = [argument(inputs, dtype) for dtype in parameters]
            try:
                expected: Any = run({f"p{n}": value for n, value in enumerate(values)})
            except Stops:
                expected = None
            found = getattr(functions, name)(*values)
            if expected is None:
                stopped += 1
                assert isinstance(found, Failed) and found.code == "0806", (text, values, found)
            else:
                assert repr(found) == repr(expected), (text, values)
    assert 10 < stopped < 180
