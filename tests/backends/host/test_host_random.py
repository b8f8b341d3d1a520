"""Random expressions against an oracle of exact integers and NumPy's f64: the same value or the same fault."""

import ast
import random
from fractions import Fraction

import numpy as np
from host_programs import message, output

from compiler.diagnostics import ZyntaxError

I64 = range(-(2**63), 2**63)
VARIABLES: dict[str, int | float] = {"a": 7, "b": -3, "c": 0, "big": 2**62, "x": 2.5, "y": -0.5, "z": 0.0}


class Fault(Exception):
    pass


def expression(random_: random.Random, depth: int) -> tuple[str, bool]:
    """A text and whether it is a float."""
    if depth == 0 or random_.random() < 0.2:
        name = random_.choice([*VARIABLES, "3", "1.5", "1"])
        return name, isinstance(VARIABLES.get(name, float(name) if "." in name else 1), float)
    left, left_float = expression(random_, depth - 1)
    right, right_float = expression(random_, depth - 1)
    if random_.random() < 0.15:
        return f"({left} if {right} > {left} else {left})", left_float
    if random_.random() < 0.1:
        return f"(-{left})", left_float
    return f"({left} {random_.choice('+-*/%')} {right})", left_float or right_float


def require_exact(one: ast.expr, other: ast.expr) -> None:
    """Ints that are written out beside a float are that float, so that they divide without a remainder."""
    for whole, beside in ((one, other), (other, one)):
        if any(isinstance(part, ast.Name | ast.IfExp) for part in ast.walk(whole)) or not isinstance(oracle(beside), float):
            continue
        divisions = [part for part in ast.walk(whole) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div)]
        if isinstance(oracle(whole), int) and any(oracle(part.left) % oracle(part.right) for part in divisions):
            raise Fault


def oracle(tree: object) -> int | float:
    match tree:
        case ast.Constant(value=value):
            assert isinstance(value, (int, float))
            return value
        case ast.Name(id=name):
            return VARIABLES[name]
        case ast.UnaryOp(operand=operand):
            return checked(-oracle(operand))
        case ast.IfExp(test=ast.Compare(left=left, comparators=[right]), body=body, orelse=otherwise):
            require_exact(left, right)
            return oracle(body) if oracle(left) > oracle(right) else oracle(otherwise)
        case ast.BinOp(left=left, op=op, right=right):
            require_exact(left, right)
            return operate(type(op).__name__, oracle(left), oracle(right))
    raise AssertionError(tree)


def operate(operator: str, left: int | float, right: int | float) -> int | float:
    if isinstance(left, float) or isinstance(right, float):
        function = {"Add": np.add, "Sub": np.subtract, "Mult": np.multiply, "Div": np.divide, "Mod": np.fmod}[operator]
        with np.errstate(all="ignore"):
            return float(function(np.float64(left), np.float64(right)))
    if operator in ("Div", "Mod") and right == 0:
        raise Fault
    quotient = int(Fraction(left, right)) if operator in ("Div", "Mod") else 0
    results = {"Add": left + right, "Sub": left - right, "Mult": left * right, "Div": quotient, "Mod": left - quotient * right}
    return checked(results[operator])


def checked(value: int | float) -> int | float:
    if isinstance(value, int) and value not in I64:
        raise Fault
    return value


def test_random_expressions_have_the_oracles_value() -> None:
    random_ = random.Random(7)
    lets = "".join(f"let {name} = {value}\n" for name, value in VARIABLES.items())
    good: list[tuple[str, str]] = []
    bad: list[str] = []
    while len(good) < 400:
        text, _ = expression(random_, 4)
        try:
            value = oracle(ast.parse(text, mode="eval").body)
        except Fault:
            bad.append(text)
        else:
            good.append((text, repr(value)))
    program = lets + "".join(f"println({text})\n" for text, _ in good)
    wanted = [value for _, value in good]
    for typed in (True, False):
        found = output(program, typed).splitlines()
        assert list(zip([t for t, _ in good], found, strict=True)) == list(zip([t for t, _ in good], wanted, strict=True))
    for text in bad[:40]:
        assert message(lets + f"println({text})").startswith(("error[ZYN0806]", "error[ZYN0705]")), text


def test_random_expressions_never_leave_a_traceback() -> None:
    random_ = random.Random(8)
    for _ in range(60):
        text, _ = expression(random_, 3)
        program = f"def f(a, b, c, big, x, y, z) {{ {text} }}\nprintln(f(1u8, 2i32, -1, 3u64, 0.5f32, 1.5f16, true))"
        try:
            output(program, typed=False)
        except ZyntaxError as error:
            assert {d.code for d in error.diagnostics} <= {"0806", "0807", "0207", "0208"}, text
