"""Scalars in tier 0: literals, promotion, integer faults, casts."""

import math

import numpy as np
import pytest
from host_programs import lines, message


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("1 + 2 * 3", "7"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("7 / -2", "-3"),
        ("7 % 3", "1"),
        ("-7 % 3", "-1"),
        ("7 % -3", "1"),
        ("2 ** 10", "1024"),
        ("2 ^ 3 ^ 2", "512"),
        ("1 << 62", "4611686018427387904"),
        ("-8 >> 1", "-4"),
        ("6 & 3", "2"),
        ("7.0 / 2", "3.5"),
        ("1.0 / 0.0", "inf"),
        ("-1.0 / 0.0", "-inf"),
        ("0.0 / 0.0", "nan"),
        ("-7.5 % 2.0", "-1.5"),
        ("7.0 % 0.0", "nan"),
        ("2.0 ** 0.5", repr(math.sqrt(2))),
        ("(0.0 - 8.0) ** (1.0 / 3.0)", "nan"),
        ("10.0 ** 400.0", "inf"),
        ("1e308 * 10.0", "inf"),
        ("3 * 0.5", "1.5"),
        ("1.5f32 + 1", "2.5"),
        ("0.1f32 + 0.2", str(np.float32(0.1) + np.float32(0.2))),
        ("0.1f32 == 0.1", "true"),
        ("0.1f32 == 0.1f64", "false"),
        ("200u8 / 3", "66"),
        ("1i8 + 300i16", "301"),
        ("3 == 3.0", "true"),
        ("not true or 1 < 2", "true"),
        ("\"a\" + 'b'", "ab"),
        ('"ab" < "b"', "true"),
        ('"b" in "abc"', "true"),
        ("3 in [1, 2, 3]", "true"),
        ("[1, 2] == [1, 2]", "true"),
        ("(1, 2.5) == (1, 2.5)", "true"),
        ("[1, 2] != [1, 3]", "true"),
        ("0xff + 0b10 + 0o7 + 1_000", "1264"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("inf", "inf"),
        ("1.0f32 * inf", "inf"),
        ("5 if 1 > 2 else 6", "6"),
        ("1 > 2 ? 5 : 6", "6"),
        ("(1, 2).1", "2"),
    ],
)
def test_expression_has_its_value(expression: str, shown: str) -> None:
    assert lines(f"println({expression})") == [shown]


def test_variables_of_weak_literals_are_i64_and_f64() -> None:
    assert lines("let x = 0.1\nlet y = 0.1f32\nprintln(x == y)\nprintln(y == 0.1)") == ["false", "true"]


def test_ints_become_floats_where_they_are_declared_so() -> None:
    assert lines("let x: f64 = 3\nprintln(x)\nlet y: f32 = 3\nprintln(y)\nlet i = 4\nlet z: f32 = i\nprintln(z)") == ["3.0", "3.0", "4.0"]


def test_an_op_assignment_keeps_the_type_of_its_variable() -> None:
    program = "mut x = 1.5f32\nx += 1\nx *= 2.0\nprintln(x)\nvar n = 7\nn /= 2\nn -= 1\nprintln(n)\nn %= 2\nprintln(n)"
    assert lines(program) == ["5.0", "2", "0"]


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("3.99 as i64", "3"),
        ("-3.99 as i32", "-3"),
        ("300 as f32", "300.0"),
        ("1e40 as f32", "inf"),
        ("0.1 as f32 as f64", "0.10000000149011612"),
        ("255 as u8", "255"),
        ("2 as bool", "true"),
        ("true as i64", "1"),
    ],
)
def test_cast_has_its_value(expression: str, shown: str) -> None:
    assert lines(f"println({expression})") == [shown]


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("let a = 9223372036854775807\nprintln(a + 1)", "9223372036854775807 + 1 does not fit in i64"),
        ("let a = 9223372036854775807\nprintln(a * a)", "9223372036854775807 * 9223372036854775807 does not fit in i64"),
        ("let a = -9223372036854775808\nprintln(-a)", "-(-9223372036854775808) does not fit in i64"),
        ("let a = 1\nlet b = 0\nprintln(a / b)", "1 / 0: division by zero"),
        ("let a = 1\nprintln(a % (a - 1))", "1 % 0: division by zero"),
        ("let a = 3\nprintln(a ** 50)", "3 ** 50 does not fit in i64"),
        ("let a = 3\nprintln(a ** -1)", "3 ** -1: a negative power of an int"),
        ("let a = 1\nprintln(a << 64)", "1 << 64: the count is outside 0..64"),
        ("let a = 200u8\nprintln(a + 100)", "200 + 100 does not fit in u8"),
        ("let a = 300\nprintln(a as u8)", "300 as u8 does not fit in u8"),
        ("let a = 1e30\nprintln(a as i64)", "1e+30 as i64 does not fit in i64"),
        ("let a = nan\nprintln(a as i64)", "nan as i64 does not fit in i64"),
    ],
)
def test_integer_fault_shows_the_operands(program: str, said: str) -> None:
    for typed in (True, False):
        assert message(program, typed).splitlines()[0] == f"error[ZYN0806]: {said}"


def test_a_float_chain_of_thousands_of_terms_is_evaluated_from_the_left() -> None:
    expression = " + ".join(["1.0"] * 1500) + " - 0.5"
    assert lines(f"let x = {expression}\nprintln(x)") == ["1499.5"]


def test_a_chain_of_checked_ints_is_exact() -> None:
    assert lines("let n = 3\nlet x = " + " + ".join(["n"] * 1500) + "\nprintln(x)") == ["4500"]
