"""What docs/zynml.md lists as not supported yet is refused with ZYN0109 and a hint."""

import pytest

from tests.docs.examples import outcome

KERNEL = "let A = zeros(4)\nlet y = compute(A) {} {{ for i in 0..M: out[i] = {} }}\n"

REFUSED = {
    "a slice of a result backwards": "let A = zeros(8)\nlet y = compute(A) { for i in 0..1: out[::-1] = A }",
    "effect": "effect E { def f(): int }",
    "`@parallel(model)`": KERNEL.format('@device(["cuda:0", "cuda:1"]) @parallel(model)', "A[i]"),
    "i128": "let x: i128 = 1",
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_the_message_says_so(name: str) -> None:
    first = outcome(REFUSED[name] + "\n").splitlines()[0]
    assert first.startswith("error[ZYN0109]: "), first
    assert first.endswith(("not supported yet", "supported yet in a kernel")), first
