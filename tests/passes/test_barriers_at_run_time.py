"""Barriers under conditions that only the data decides: fine when all threads of a block agree, a fault with the condition when not."""

from tests.errors.conftest import diagnose

PROGRAM = """
let x = ones(64)
let k = tensor([{first}, {second}])
let y = compute(x, k) -> tensor[64] @kernel(custom) @workgroup(64) {{
    let t = thread_idx().x
    var turns = k[t / 32]
    if turns > 3:
        barrier()
    out[t] = x[t]
}}
"""


def test_a_branch_that_no_thread_enters_may_hold_a_barrier() -> None:
    assert diagnose(PROGRAM.format(first=0, second=0), run=True) == ""


def test_a_branch_that_all_threads_enter_may_hold_a_barrier() -> None:
    assert diagnose(PROGRAM.format(first=4, second=5), run=True) == ""


def test_a_branch_that_some_threads_enter_may_not() -> None:
    print(diagnose(PROGRAM.format(first=4, second=0), run=True))
    assert "ZYN0411" in diagnose(PROGRAM.format(first=4, second=0), run=True)
