"""Lanes that part and join: each gives what its thread alone would give, in any order of the warps and for warps of any width."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.emulator.interpret import KernelFault, interpret
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function

BLOCK = 48
"""A warp and a half."""

X = (np.arange(96, dtype=np.int32) * 37 % 11 - 5).astype(np.int32)


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


def run(body: str, x: np.ndarray[Any, Any] = X, **launch: Any) -> list[int]:
    out = np.zeros(96, np.int32)
    interpret(kernel(body), [x, out], grid=(2, 1, 1), block=(BLOCK, 1, 1), **launch)
    return out.tolist()


BRANCH = """%p = lt %v, %one : i1
%r = if %p : i32 { %n = neg %v : i32  yield %n } else { %d = rem %one, %v : i32  yield %d }
store %out[48*b+t], %r"""
LOOP = """%s = for k in 0..t carry(%c = %zero) { %w = load %x[k] : i32  %n = add %c, %w : i32  yield %n }
store %out[48*b+t], %s"""
DOWN = """%s = for k in t..-1 step -1 carry(%c = %zero) { %w = load %x[k] : i32  %n = add %c, %w : i32  yield %n }
store %out[48*b+t], %s"""
WHILE = """%s = while carry(%c = %v) { %go = lt %c, %one : i1  condition %go } do { %n = add %c, %one : i32  %m = add %n, %one : i32  yield %m }
store %out[48*b+t], %s"""
SLOT = """%s = slot %zero : slot<i32>
for k in 0..5 { %p = lt %v, %zero : i1  %go = get %s : i32  %i = add %go, %one : i32  set %s, %i  if %p { break } }
%n = get %s : i32  store %out[48*b+t], %n"""
CONTINUE = """%s = slot %zero : slot<i32>
for k in 0..7 { %odd = index of=k-2*floor((k)/2)+t-2*floor((t)/2) : index  %i1 = const 1 : index  %p = eq %odd, %i1 : i1  if %p { continue }
  %go = get %s : i32  %i = add %go, %one : i32  set %s, %i }
%n = get %s : i32  store %out[48*b+t], %n"""
LEFT = """store %out[48*b+t], %one  %p = lt %v, %zero : i1  if %p { return }  store %out[48*b+t], %v"""
MIRRORED = """%s = shared_alloc : mem<48xi32, shared>
store %s[t], %v
sync_threads
%m = load %s[47-t] : i32
store %out[48*b+t], %m"""
COUNTED = """%old = atomic add %out[0], %v order=relaxed scope=device : i32"""
OWN = """%a = alloc : mem<3xi32, local>  for k in 0..3 { store %a[k], %v }
%p = lt %v, %zero : i1  if %p { store %a[1], %one }  %w = load %a[1] : i32  store %out[48*b+t], %w"""

CASES: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "branch": (BRANCH, lambda t, v: -v if v < 1 else 1 % v),
    "loop": (LOOP, lambda t, v: int(X[:t].sum())),
    "down": (DOWN, lambda t, v: int(X[: t + 1].sum())),
    "while": (WHILE, lambda t, v: v if v >= 1 else (1 if v % 2 else 2)),
    "slot and break": (SLOT, lambda t, v: 1 if v < 0 else 5),
    "continue": (CONTINUE, lambda t, v: sum((k + t) % 2 == 0 or (k % 2 and t % 2) for k in range(7))),
    "return": (LEFT, lambda t, v: 1 if v < 0 else v),
    "own memory": (OWN, lambda t, v: 1 if v < 0 else v),
}
LAUNCHES = [{}, {"seed": 1}, {"seed": 2}, {"lanes": 16}, {"lanes": 16, "seed": 3}, {"lanes": 7}]


@pytest.mark.parametrize("launch", LAUNCHES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_lanes_give_what_threads_give(name: str, launch: dict[str, int]) -> None:
    body, expected = CASES[name]
    assert run(body, **launch) == [expected(n % BLOCK, v) for n, v in enumerate(X.tolist())]


@pytest.mark.parametrize("launch", LAUNCHES, ids=str)
def test_threads_of_a_block_exchange_what_they_have(launch: dict[str, int]) -> None:
    assert run(MIRRORED, **launch) == X.reshape(2, BLOCK)[:, ::-1].reshape(-1).tolist()
    assert run(COUNTED, **launch) == [int(X.sum()), *[0] * 95]


@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_warps_are_as_wide_as_the_launch_says(lanes: int) -> None:
    """The block's last warp has fewer lanes where its width is no divisor."""
    thread = np.arange(96) % BLOCK
    lane = "%l = lane : index  %w = warp : index  %i = index of=100*w+l : index  %n = cast %i to=i32 : i32  store %out[48*b+t], %n"
    assert run(lane, lanes=lanes) == (100 * (thread // lanes) + thread % lanes).tolist()
    total = "%n = redux add %v : i32  store %out[48*b+t], %n"
    sums = [int(X[n - n % BLOCK + start : min(n - n % BLOCK + start + lanes, n - n % BLOCK + BLOCK)].sum())
            for n in range(96) for start in [n % BLOCK // lanes * lanes]]  # fmt: skip
    assert run(total, lanes=lanes) == sums
    down = "%two = const 2 : i32  %n = shuffle down %v, %two : i32  store %out[48*b+t], %n"
    last = [min(n % BLOCK // lanes * lanes + lanes, BLOCK) for n in range(96)]
    assert run(down, lanes=lanes) == [int(X[n + 2] if n % BLOCK + 2 < end else X[n]) for n, end in enumerate(last)]


@pytest.mark.parametrize("launch", LAUNCHES, ids=str)
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (MIRRORED.replace("sync_threads\n", ""), "0412"),
        (MIRRORED.replace("store %s[t], %v\n", ""), "0412"),
        ("%p = lt %v, %zero : i1\nif %p { sync_threads }", "0411"),
        ("%p = lt %v, %zero : i1\nif %p { %n = redux add %v : i32 }", "0415"),
        ("%s = shared_alloc : mem<48xi32, shared>\nstore %s[0], %v", "0412"),
    ],
    ids=["race", "unwritten", "barrier", "warp", "one element"],
)
def test_what_goes_wrong_is_told_for_any_order(body: str, code: str, launch: dict[str, int]) -> None:
    with pytest.raises(KernelFault) as caught:
        run(body, **launch)
    assert caught.value.code == code


LOCK = """%z = const 0 : index  %u = const 1 : u32  %zu = const 0 : u32
while { %was = atomic cas %lock[0], %u compare=%zu : u32  %taken = ne %was, %zu : i1  condition %taken } do { }
%c = load %n[0] : i32  %one = const 1 : i32  %d = add %c, %one : i32  store %n[0], %d
%free = atomic exchange %lock[0], %zu : u32"""


@pytest.mark.parametrize("seed", [None, 0])
def test_a_lock_that_one_lane_holds_is_given_back_while_others_try(seed: int | None) -> None:
    function = parse_function(f"func @f(%lock: mem<1xu32>, %n: mem<1xi32>) form=C {{ {LOCK} }}")
    lock, count = np.zeros(1, np.uint32), np.zeros(1, np.int32)
    interpret(function, [lock, count], grid=(2,), block=(BLOCK,), seed=seed)
    assert (lock[0], count[0]) == (0, 2 * BLOCK)
