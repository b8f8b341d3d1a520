"""What passed a function's checks once passes at once; what differs in any way is looked at, each time."""

import numpy as np
import pytest

import zynml

PROGRAM = """
def same(x: tensor[N], y: tensor[N]): int { N }
def twice(x: tensor[N], y: tensor[2*N]): int { N }
def three(x: tensor[3, N]): int { N }
def scaled(x: tensor[N], by: f32): f32 { by * 2.0 }
"""


@pytest.fixture(scope="module")
def program():
    return zynml.compile(PROGRAM)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def test_sizes_are_those_of_the_call(program):
    for count in (3, 4, 3, 0, 4, 3):
        assert program.same(zeros(count), zeros(count)) == count
        assert program.twice(zeros(count), zeros(2 * count)) == count
        assert program.three(zeros(3, count)) == count
    assert program.same([1.0], [2.0]) == 1
    assert [program.scaled(zeros(2), by) for by in (1.5, 2, np.float32(0.25), 1.5)] == [3.0, 4.0, 0.5, 3.0]


@pytest.mark.parametrize(
    ("function", "values", "code"),
    [
        ("same", (zeros(3), zeros(4)), "ZYN0802"),
        ("same", (zeros(2, 2), zeros(2)), "ZYN0807"),
        ("same", (3, zeros(3)), "ZYN0807"),
        ("same", (zeros(3), np.zeros(3)), "ZYN0807"),
        ("same", ([1.0, 2.0], [3.0]), "ZYN0802"),
        ("twice", (zeros(3), zeros(5)), "ZYN0802"),
        ("three", (zeros(2, 2),), "ZYN0807"),
        ("same", (zeros(3),), "ZYN0204"),
    ],
)
def test_what_does_not_fit_is_an_error_each_time(program, function, values, code):
    call = getattr(program, function)
    program.same(zeros(3), zeros(3))
    for _ in range(3):
        with pytest.raises(zynml.ZynMLError) as caught:
            call(*values)
        assert caught.value.codes == (code,)
