"""`await` with futures from Python, which are ready when the test says so: timeouts, the first of several, values that don't fit; and
futures that programs hand to Python."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zynml
from zynml.compiled import CompiledProgram, ZynMLError

PROGRAM = """
def value(f: Future<i64>): i64 { await f }
def within(f: Future<i64>): i64 { await f timeout 0ms else -1 }
def strictly(f: Future<i64>): i64 { await f timeout 1500us }
def lazily(f: Future<i64>, n: i64): i64 { await f timeout 0s else 1 / n }
def every(fs: List<Future<i64>>): List<i64> { await all(fs) }
def pair(f: Future<i64>, g: Future<f64>) { await all(f, g) }
def every_within(fs: List<Future<i64>>): List<i64> { await all(fs) timeout 0ms else [] }
def first(fs: List<Future<i64>>) { await any(fs) }
def either(f: Future<i64>, g: Future<i64>) { await any(f, g) timeout 0ms else (-1, 0) }
def total(f: Future<tensor[N]>): f32 { (await f).sum() }
def unknown(f) { await f }
def unknown_all(fs) { await all(fs) }
def late(f, d) { await f timeout 1ns else d }
def show(f) { println(f) }
def text(f) { f"{f}" }
def listed(fs) { println(fs) }

def start(x: tensor[N]): Future<tensor[N]> { compute(x) @async { for i in 0..N: out[i] = x[i] + 1.0 } }
def several(x: tensor[N]) { ([start(x), start(x)], 3) }
def gather(x: tensor[N], k: tensor[M, i64]) { compute(x, k) @async { for i in 0..M: out[i] = x[k[i]] } }
def dropped(x: tensor[N], k: tensor[M, i64]): i64 {
    gather(x, k)
    3
}
def updated(x: tensor[N]) { compute(mut x) @async { for i in 0..N: x[i] = x[i] * 2.0 } }
"""


@pytest.fixture(scope="module")
def program() -> CompiledProgram:
    return zynml.compile(PROGRAM)


def ready(value: Any) -> "concurrent.futures.Future[Any]":
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_result(value)
    return future


def never() -> "concurrent.futures.Future[Any]":
    return concurrent.futures.Future()


def message(function: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(ZynMLError) as raised:
        function(*arguments)
    return str(raised.value).splitlines()[0]


# ---- waiting ------------------------------------------------------------------------------------------------------------


def test_a_value_that_is_there(program: CompiledProgram) -> None:
    assert program.value(ready(7)) == program.within(ready(7)) == program.strictly(ready(7)) == program.unknown(ready(7)) == 7


def test_a_value_that_comes(program: CompiledProgram) -> None:
    future = never()
    threading.Thread(target=future.set_result, args=(8,)).start()
    assert program.value(future) == 8


def test_a_value_that_is_late(program: CompiledProgram) -> None:
    future = never()
    assert program.within(future) == -1
    assert message(program.strictly, future) == "error[ZYN0810]: not ready after 1500us"
    assert program.late(future, "d") == "d"
    future.set_result(9)
    assert program.within(future) == program.strictly(future) == 9


def test_else_is_evaluated_when_it_is_needed(program: CompiledProgram) -> None:
    assert program.lazily(ready(5), 0) == 5
    assert message(program.lazily, never(), 0).startswith("error[ZYN0806]")


def test_all(program: CompiledProgram) -> None:
    assert program.every([ready(1), ready(2), ready(3)]) == [1, 2, 3]
    assert program.every([]) == []
    assert program.pair(ready(1), ready(0.5)) == (1, 0.5)
    assert program.unknown_all((ready(1), ready("a"))) == (1, "a")
    assert program.every_within([ready(1), never()]) == []
    assert program.every_within([ready(1)]) == [1]


def test_any(program: CompiledProgram) -> None:
    future = never()
    assert program.first([never(), ready(4), ready(5)]) == (1, 4)
    assert program.either(future, never()) == (-1, 0)
    threading.Thread(target=future.set_result, args=(6,)).start()
    assert program.first([never(), never(), future]) == (2, 6)
    assert program.either(never(), future) == (1, 6)
    assert message(program.first, []) == "error[ZYN0808]: `await any` of no futures has no value"


def test_tensors_cross(program: CompiledProgram) -> None:
    assert program.total(ready(np.arange(4, dtype=np.float32))) == 6
    assert program.total(ready([1.0, 2.5])) == 3.5


def test_a_quick_block_overtakes_a_slow_one(program: CompiledProgram) -> None:
    """The slow one takes some tenths of a second, and the quick one has been compiled before."""
    program = zynml.compile("""
def slow(x: tensor[N]): Future<f32> {
    compute(x) @async @kernel(reduce, +) {
        for i in 0..N:
            var s = x[i]
            for k in 0..100_000_000:
                s = s * s + 0.25
            yield s
    }
}
def quick(x: tensor[N]): Future<f32> { compute(x) @async @kernel(reduce, +) { for i in 0..N: yield x[i] } }
def overtake(x: tensor[N]): (i64, f32) {
    await quick(x)
    await any(slow(x), quick(x))
}
""")
    assert program.overtake(np.full(1, 0.5, np.float32)) == (1, 0.5)


# ---- what is wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        ("value", (3,), "error[ZYN0807]: expected a future, found i64"),
        ("value", (ready("a"),), "error[ZYN0807]: expected i64, found String"),
        ("value", (ready(0.5),), "error[ZYN0807]: expected i64, found f64"),
        ("unknown", (3,), "error[ZYN0807]: `await` takes a future, not i64"),
        ("unknown", ([ready(1)],), "error[ZYN0807]: `await` takes a future, not list"),
        ("unknown_all", (ready(1),), "error[ZYN0807]: `await all` takes a list of futures, or several, not future"),
        ("unknown_all", ([1],), "error[ZYN0807]: `await all` takes a future, not i64"),
        ("every", ([ready(1), 2],), "error[ZYN0807]: expected a future, found i64"),
        ("show", (ready(1),), "error[ZYN0807]: a future can't be shown: its value may not be there yet"),
        ("text", (ready(1),), "error[ZYN0807]: a future can't be shown: its value may not be there yet"),
        ("listed", ([ready(1)],), "error[ZYN0807]: a future can't be shown: its value may not be there yet"),
    ],
)
def test_what_is_no_future_or_no_value(function: str, arguments: tuple[Any, ...], text: str, program: CompiledProgram) -> None:
    assert message(getattr(program, function), *arguments) == text


def test_a_future_that_fails_in_python(program: CompiledProgram) -> None:
    failed, cancelled = never(), never()
    failed.set_exception(KeyError("where"))
    cancelled.cancel()
    assert message(program.value, failed) == "error[ZYN0807]: the future from Python has no value: KeyError: 'where'"
    assert message(program.within, cancelled) == "error[ZYN0807]: the future from Python has no value: CancelledError"


# ---- futures that come out ---------------------------------------------------------------------------------------------------


def test_a_block_that_is_under_way_comes_out_as_a_future(program: CompiledProgram) -> None:
    future = program.start(np.arange(3, dtype=np.float32))
    assert isinstance(future, zynml.Future)
    assert future.result().tolist() == [1, 2, 3]
    assert future.done() and repr(future) == "<zynml.Future, done>"
    assert future.result() is future.result()


def test_futures_inside_of_other_values(program: CompiledProgram) -> None:
    (one, two), three = program.several(np.zeros(2, np.float32))
    assert (one.result().tolist(), two.result(timeout=200).tolist(), three) == ([1, 1], [1, 1], 3)


def test_a_future_goes_back_in(program: CompiledProgram) -> None:
    future = program.start(np.ones(3, np.float32))
    assert program.total(future) == 6
    assert program.unknown(future).tolist() == [2, 2, 2]


def test_python_waits_as_long_as_it_wants() -> None:
    with pytest.raises(TimeoutError, match="not ready after 0 s"):
        zynml.compile("def same(f) { f }").same(never()).result(timeout=0)


def test_faults_show_where_the_value_is_asked_for(program: CompiledProgram) -> None:
    future = program.gather(np.ones(3, np.float32), np.array([0, 3]))
    for _ in range(2):
        with pytest.raises(ZynMLError, match="index 3 is out of range: axis 0 of `x` has 3 elements"):
            future.result()
    assert program.value(ready(1)) == 1  # told once, it isn't told again


def test_faults_of_a_future_that_is_dropped_show_when_the_function_ends(program: CompiledProgram) -> None:
    assert program.dropped(np.ones(3, np.float32), np.array([0, 2])) == 3
    assert message(program.dropped, np.ones(3, np.float32), np.array([0, 3])).startswith("error[ZYN0801]: index 3 is out of range")
    assert program.dropped(np.ones(3, np.float32), np.array([0, 2])) == 3


def test_the_callers_array_is_updated(program: CompiledProgram) -> None:
    x = np.ones(3, np.float32)
    future = program.updated(x)
    assert x.tolist() == future.result().tolist() == [2, 2, 2]
