"""Python's functions inside of programs: what they raise reaches the caller as it was raised, with Python's own traceback."""

import threading
import traceback

import numpy as np
import pytest

import zynml
from runtime.tensor import Tensor

PROGRAM = """
def applied(g, x) { g(x) }
def mapped(g, xs: list[float]) { xs.map(g) }
def filtered(g, xs: list[float]) { xs.filter(g) }
def deep(g, x) { applied(def(y): applied(g, y), x) }
def with_block(g, x: tensor[N]) {
    let y = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
    g(y)
}
def after_future(g, x: tensor[N]) {
    let f = compute(x) @async { for i in 0..N: out[i] = x[i] * 2.0 }
    g(await f)
}
mut kept = def(x): x
def keep(g) { kept = g }
def use(x) { kept(x) }
def doubler(by: float) { def(x: float): x * by }
def divider(by: int) { def(x: int): x / by }
def named(g) { g(1, by=2) }
def number(x: int): int { x }
def waited(f: Future<f64>, g): f64 { g(await f) }
"""

ERRORS = [ValueError("mine"), TypeError("mine"), IndexError("mine"), RecursionError("mine"), MemoryError("mine"), OSError("mine"),
          KeyError("mine"), ZeroDivisionError("mine"), StopIteration("mine"), SystemExit(3), KeyboardInterrupt("mine"),
          GeneratorExit("mine")]  # fmt: skip


@pytest.fixture(scope="module")
def program():
    return zynml.compile(PROGRAM)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", ["applied", "mapped", "filtered", "deep", "with_block", "after_future"])
def test_what_a_function_raises_reaches_the_caller_as_it_is(program, name, error):
    def fails(x):
        raise error

    value = {"applied": 1.0, "deep": 1.0, "mapped": [1.0], "filtered": [1.0]}.get(name, np.ones(40, np.float32))
    with pytest.raises(type(error)) as caught:
        program.functions[name](fails, value)
    assert caught.value is error
    assert error.__cause__ is None and error.__context__ is None
    assert traceback.extract_tb(error.__traceback__)[-1].name == "fails"


def test_cause_and_context_stay(program):
    def fails(x):
        try:
            raise KeyError("before")
        except KeyError as first:
            if x:
                raise ValueError("then") from first
            raise ValueError("then")  # noqa: B904

    with pytest.raises(ValueError, match="then") as caught:
        program.applied(fails, True)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ValueError, match="then") as caught:
        program.applied(fails, False)
    assert isinstance(caught.value.__context__, KeyError) and caught.value.__cause__ is None


def test_a_function_that_was_kept_raises_in_a_later_call(program):
    def fails(x):
        raise LookupError("later")

    program.keep(fails)
    with pytest.raises(LookupError, match="later"):
        program.use(1.0)


def test_a_call_of_a_program_inside_of_a_call_raises_its_own_error(program):
    with pytest.raises(zynml.ZynMLError) as caught:
        program.applied(lambda x: program.number("text"), 1.0)
    assert str(caught.value).startswith("error[ZYN0807]: ") and "ZYN0901" not in str(caught.value)

    def fails(x):
        raise ValueError("inner")

    with pytest.raises(ValueError, match="inner"):
        program.applied(lambda x: program.applied(fails, x), 1.0)


def test_each_thread_gets_its_own_exception(program):
    met = threading.Barrier(4)
    caught = [None] * 4

    def fails(x):
        met.wait()
        raise ValueError(int(x))

    def call(number):
        try:
            program.deep(fails, number)
        except ValueError as error:
            caught[number] = error.args

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caught == [(number,) for number in range(4)]


def test_functions_take_and_give_what_calls_do(program):
    seen = []

    def turned(x):
        seen.append(x)
        return x[::-1]

    result = program.with_block(turned, np.arange(40, dtype=np.float32))
    assert [type(x) for x in seen] == [np.ndarray] and type(result) is np.ndarray
    np.testing.assert_array_equal(result, np.arange(40)[::-1] * 2.0)
    assert program.named(lambda x, by: x + by) == 3
    assert isinstance(program.applied(lambda x: Tensor(x), np.ones(3, np.float32)), np.ndarray)


def test_a_function_whose_value_programs_do_not_have_is_0807(program):
    with pytest.raises(zynml.ZynMLError) as caught:
        program.applied(lambda x: object(), 1.0)
    assert caught.value.codes == ("ZYN0807",)
    assert str(caught.value).startswith("error[ZYN0807]: a Python object has no counterpart\n --> <program>:2:21\n")


def test_a_function_goes_through_a_program_as_itself(program):
    assert program.applied(lambda x: x, len) is len


def test_a_function_that_a_program_gives_can_be_called(program):
    double = program.doubler(2.0)
    assert double(3.0) == 6.0
    assert program.mapped(double, [1.0, 2.0]) == [2.0, 4.0]
    with pytest.raises(zynml.ZynMLError) as caught:
        program.divider(0)(1)
    assert caught.value.codes == ("ZYN0806",)


def test_an_interruption_of_a_program_is_an_interruption(program, monkeypatch):
    from compiler.fusion import host_runtime

    def interrupted(self, site, values):
        raise KeyboardInterrupt

    monkeypatch.setattr(host_runtime.ProgramRuntime, "compute", interrupted)
    fresh = zynml.compile("def f(x: tensor[N]) { compute(x) { for i in 0..N: out[i] = x[i] } }")
    with pytest.raises(KeyboardInterrupt, match="ZYN0809"):
        fresh.f(np.ones(3, np.float32))
