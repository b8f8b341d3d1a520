"""Programs whose functions call each other in a long chain: nothing that looks at them nests as deep as the chain is long."""

import sys
from collections.abc import Iterator

import pytest

import zynml
from compiler.source import Source
from quantdsl.check.program import check_program
from quantdsl.parse import parse_source
from quantdsl.testing import run_tests

LONG = 400


@pytest.fixture(autouse=True)
def few_frames() -> Iterator[None]:
    """So few that a walk along the chain with ten frames a function would not end."""
    zynml.compile("let x = 1")  # imports set a limit
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(LONG * 8)
    yield
    sys.setrecursionlimit(before)


def chain(header: str, last: str, backwards: bool = False, length: int = LONG) -> str:
    """`step0` calls `step1` and adds 1, and so on."""
    functions = [header.format(number, f"step{number + 1}(x) + 1") for number in range(length)] + [header.format(length, last)]
    return "\n".join(functions[::-1] if backwards else functions)


@pytest.mark.parametrize("header", ["def step{}(x: int): int {{ {} }}", "def step{}(x) {{ {} }}"], ids=["typed", "untyped"])
@pytest.mark.parametrize("backwards", [False, True])
def test_functions_of_the_host(header: str, backwards: bool) -> None:
    text = chain(header, "x", backwards) + "\ndef whole(x: int): int { step0(x) }"
    assert zynml.compile(text).whole(5) == LONG + 5


def test_functions_that_call_each_other_in_a_circle_of_such_length() -> None:
    text = chain("def step{}(x: int): int {{ {} }}", "x <= 0 ? 0 : step0([x][0] - 1)")
    assert zynml.compile(text).step0(0) == LONG
    assert zynml.compile(text).step7(1) == 2 * LONG - 7


def test_native_functions() -> None:
    """More than may be being written at once."""
    text = chain("fn step{}(x: int) -> int {{ {} }}", "x", length=120) + "\ntest \"whole\" { assert(step0(5) == 125) }"
    assert run_tests(check_program(parse_source(Source("chain.qdsl", text)))) == [("whole", None)]


def test_a_fault_at_the_end_of_a_chain_is_told_once() -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(chain("def step{}(x: int): int {{ {} }}", "y") + "\nprintln(step0(1))")
    assert caught.value.codes == ("ZYN0201",)
