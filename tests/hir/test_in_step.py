"""Threads in step give what threads one after the other give, and leave to those what they can't do, memories as they were."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from compiler.emulator.execute import prepare
from compiler.emulator.interpret import interpret
from compiler.emulator.threads_in_step import run_in_step
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function

BLOCK = 48
"""A warp and a half."""


def in_step(function: HirFunction, arguments: Sequence[Any], blocks: int = 2) -> bool:
    indices = [(x, 0, 0) for x in range(blocks)]
    return run_in_step(function, prepare(function, arguments), None, indices, (BLOCK, 1, 1), (blocks, 1, 1), 0)


def kernel(body: str) -> HirFunction:
    return parse_function(
        f"""func @f(%x: mem<96xi32, readonly>, %out: mem<96xi32>) form=C axes=[r:2] {{
            %t = thread_idx x : index
            %b = block_idx x : index
            %v = load %x[48*b+t] : i32
            %zero = const 0 : i32
            %one = const 1 : i32
            {body}
        }}"""
    )


X = (np.arange(96, dtype=np.int32) * 37 % 11 - 5).astype(np.int32)

BRANCH = """%p = lt %v, %zero : i1
%r = if %p : i32 { %n = neg %v : i32  yield %n } else { %d = rem %one, %v : i32  yield %d }
store %out[48*b+t], %r"""
LOOP = """%s = for k in 0..t carry(%c = %zero) { %w = load %x[k] : i32  %n = add %c, %w : i32  yield %n }
store %out[48*b+t], %s"""
WHILE = """%s = while carry(%c = %v) { %go = lt %c, %one : i1  condition %go } do { %n = add %c, %one : i32  %m = add %n, %one : i32  yield %m }
store %out[48*b+t], %s"""
MIRRORED = """%s = shared_alloc : mem<48xi32, shared>
store %s[t], %v
sync_threads
%m = load %s[47-t] : i32
store %out[48*b+t], %m"""
COUNTED = """%old = atomic add %out[0], %v order=relaxed scope=device : i32"""


def running(count: int) -> np.ndarray[Any, Any]:
    return np.array([X[: n % BLOCK].sum() for n in range(count)], np.int32)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LOOP, running(96)),
        (WHILE, np.array([v if v >= 1 else (1 if v % 2 else 2) for v in X.tolist()], np.int32)),
        (MIRRORED, X.reshape(2, 48)[:, ::-1].reshape(-1)),
        (COUNTED, np.array([X.sum(), *[0] * 95], np.int32)),
    ],
    ids=["loop", "while", "mirrored", "counted"],
)
def test_threads_in_step_are_threads(body: str, expected: np.ndarray[Any, Any]) -> None:
    out = np.zeros(96, np.int32)
    assert in_step(kernel(body), [X, out])
    np.testing.assert_array_equal(out, expected)


def test_who_takes_no_part_does_no_harm() -> None:
    """The division by zero of the side that is not taken."""
    positive = np.where(X == 0, 3, X).astype(np.int32)
    out = np.zeros(96, np.int32)
    body = BRANCH.replace("%p = lt %v, %zero", "%p = lt %v, %one")
    assert in_step(kernel(body), [positive, out])
    np.testing.assert_array_equal(out, [-v if v < 1 else 1 % v for v in positive.tolist()])
    again = np.where(X > 0, X, 0).astype(np.int32)
    assert in_step(kernel(body), [again, out])
    np.testing.assert_array_equal(out, [0 if v < 1 else 1 % v for v in again.tolist()])


@pytest.mark.parametrize(
    "body",
    [
        MIRRORED.replace("sync_threads\n", ""),
        MIRRORED.replace("store %s[t], %v\n", ""),
        "store %out[48*b+2*t], %v",
        "%p = lt %v, %zero : i1\nif %p { sync_threads }",
        "store %out[48*b+t], %v\n%s = shared_alloc : mem<48xi32, shared>\nstore %s[0], %v",
    ],
    ids=["race", "unwritten", "outside", "barrier", "one element"],
)
def test_what_goes_wrong_is_left_to_others(body: str) -> None:
    out = np.full(96, 7, np.int32)
    assert not in_step(kernel(body), [X, out])
    assert (out == 7).all()


def test_the_interpreter_gives_the_same_either_way() -> None:
    for body in (LOOP, WHILE, MIRRORED, COUNTED):
        results = []
        for seed in (None, 1):
            out = np.zeros(96, np.int32)
            interpret(kernel(body), [X, out], grid=(2, 1, 1), block=(BLOCK, 1, 1), seed=seed)
            results.append(out)
        np.testing.assert_array_equal(results[0], results[1])
