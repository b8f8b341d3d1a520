"""Barriers that some threads miss, shared memory without one: reported when certain, and only then."""

import pytest
from nests import words

from compiler.analysis.barriers import check_barriers
from compiler.diagnostics import Diagnostic
from compiler.hir.parse import parse_function
from compiler.lowering.kernel import LaunchPlan, LoweredKernel
from compiler.typed_ast.kernel import KernelMetadata, KernelType

HEAD = """func @k(%X: mem<Nxf32, readonly>, %out: mem<Nxf32>, %N: index) form=C kernel=[entry=true, kind=custom, workgroup=[128, 1, 1]] {
    %s = shared_alloc : mem<256xf32, shared>  %t = thread_idx x : index  %w = block_idx x : index  %z = const 0.0 : f32
"""


def check(text: str) -> tuple[Diagnostic, ...]:
    function = parse_function(HEAD + text + "}")
    return check_barriers(LoweredKernel(function, LaunchPlan(), KernelType.CUSTOM, KernelMetadata()))


def guard(condition: str) -> str:
    return f"%i = index of=t : index  %c = const {condition.split()[1]} : index  %p = {condition.split()[0]} %i, %c : i1\n"


def test_a_barrier_under_a_condition_of_the_thread_is_missed() -> None:
    (found,) = check(guard("lt 64") + "if %p { sync_threads }")
    assert words(found) == [
        "ZYN0411: `barrier()` is reached by some threads of a block only",
        "this condition differs between the threads of a block",
        "hint: move the barrier out, and leave only the work under the condition",
    ]


def test_a_barrier_in_a_loop_that_runs_differently_often_is_missed() -> None:
    (found,) = check("for b in t..100 step 1 { sync_threads }")
    assert found.label == "how often this loop runs differs between the threads of a block"


@pytest.mark.parametrize(
    "text",
    [
        guard("lt 128") + "if %p { sync_threads }",
        "%i = index of=w : index %c = const 3 : index %p = lt %i, %c : i1 if %p { sync_threads }",
        "for b in t..256 step 128 { %x = const 1.0 : f32 store %s[b], %x } sync_threads",
        "for b in 0..N { sync_threads }",
        "for b in t..N step 128 { sync_threads }",
        "%i = index of=t : index %c = index of=N : index %p = lt %i, %c : i1 if %p { sync_threads }",
        "%x = load %X[w] : f32 %p = gt %x, %z : i1 if %p { sync_threads }",
    ],
)
def test_a_barrier_that_all_threads_may_reach_is_fine(text: str) -> None:
    assert check(text) == ()


def test_reading_a_neighbours_element_needs_a_barrier() -> None:
    touch = "%x = load %X[t] : f32 store %s[t], %x {0} %y = load %s[127-t] : f32 store %out[t], %y"
    (found,) = check(touch.format(""))
    assert words(found) == [
        "ZYN0412: threads meet on shared memory `s` without a barrier",
        "thread 0 reads s[127], which thread 127 writes in another warp",
        "hint: put `barrier()` between the two",
    ]
    assert check(touch.format("sync_threads")) == ()


def test_a_thread_may_read_its_own_element() -> None:
    assert check("%x = load %X[t] : f32 store %s[t], %x %y = load %s[t] : f32 store %out[t], %y") == ()


def test_two_warps_that_write_one_element_race() -> None:
    (found,) = check("%x = load %X[t] : f32 store %s[0], %x sync_threads %y = load %s[0] : f32 store %out[t], %y")
    assert found.label == "thread 32 writes s[0], which thread 0 writes in another warp"


def test_all_threads_may_write_one_number() -> None:
    assert check("store %s[0], %z sync_threads %y = load %s[0] : f32 store %out[t], %y") == ()


def test_shared_memory_read_before_any_write_is_found() -> None:
    (found,) = check("%y = load %s[t] : f32 store %out[t], %y")
    assert words(found) == [
        "ZYN0412: shared memory `s` is read before anything is written to it",
        "read here",
        "hint: fill `s` first, then `barrier()`",
    ]
