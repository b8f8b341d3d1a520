"""Loops over sizes that the program made negative run not at all, as written; sizes past 64 bits are refused."""

import pytest

import zynml

PROGRAMS = {
    "a map": "def f(n: int): tensor { let x = ones(3)\n compute(x, n) { for i in 0..n: out[i] = x[0] } }",
    "a nest": "def f(n: int): tensor { let x = ones(3)\n compute(x, n) { for i in 0..n, j in 0..3: out[i, j] = x[j] } }",
    "backwards": "def f(n: int): tensor { let x = ones(3)\n compute(x, n) -> tensor[3] { for i in 2..n + 2: out[i] = x[i] } }",
}


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_to_a_negative_size_writes_nothing(name: str, device: str) -> None:
    program = zynml.compile(PROGRAMS[name], device=device)
    assert not program.f(-3).any()
    assert program.f(1).any()
    assert not program.f(-(1 << 40)).any()


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_a_sum_over_a_negative_size_is_zero(device: str) -> None:
    text = "def f(n: int) { let x = ones(3)\n compute(x, n) @kernel(reduce, +) { for i in 0..n: yield x[i] } }"
    program = zynml.compile(text, device=device)
    assert program.f(-3) == 0.0
    assert program.f(2) == 2.0


def test_a_loop_that_ends_beyond_64_bits_is_refused() -> None:
    program = zynml.compile("def f(n: int) { let x = ones(3)\n compute(x, n) { for i in n - 1..n + 1: out[i - n + 1] = x[0] } }")
    assert list(program.f(5)) == [1.0, 1.0]
    with pytest.raises(zynml.ZynMLError, match="this loop goes to 9223372036854775808, which doesn't fit in 64 bits") as caught:
        program.f((1 << 63) - 1)
    assert caught.value.codes == ("ZYN0804",)
