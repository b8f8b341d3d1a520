"""Short loops inside of recurrences are written out on a GPU."""

import numpy as np
import pytest

import zynml
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.passes.short_turns import without_short_turns

DECIMATED = """def f(x: tensor[C, N, i32], R: int) {
    compute(x, R) -> tensor[C, N / R, i32] {
        for c in 0..C:
            var a = 0i32
            var b = 0i32
            var p = 0i32
            for m in 0..N / R:
                for j in 0..R:
                    a += x[c, m * R + j]
                    b += a
                out[c, m] = b - p
                p = b
    }
}"""


@pytest.mark.parametrize("device", ["emulator:sm_90a", "emulator:sm_75", "cpu"])
@pytest.mark.parametrize(("lines", "length", "rate"), [(3, 50, 5), (1, 1, 1), (2, 7, 8), (40, 129, 16), (5, 100, 17)])
def test_sums_of_sums_at_every_few_steps(device: str, lines: int, length: int, rate: int) -> None:
    x = np.random.default_rng(length).integers(-100, 100, (lines, length)).astype(np.int32)
    twice = np.cumsum(np.cumsum(x, 1), 1)[:, rate - 1 :: rate][:, : length // rate]
    assert np.array_equal(np.asarray(zynml.compile(DECIMATED, device=device).f(x, rate)), np.diff(twice, axis=1, prepend=0))


def test_lines_are_read_ahead() -> None:
    (kernel,) = zynml.compile(DECIMATED)._session.launches_like(["x=8192x8192:i32", "R=8"], "emulator:sm_90a")
    assert "whose other threads bring" in " ".join(kernel.threads.launches.words)


def _nest(high: str, marks: str = "") -> str:
    return f"""func @f(%x: mem<Nxf32>, %y: mem<Nxf32>, %N: index) form=A {{
        %s = const 0.0 : f32
        %t = for i in 0..N carry(%a = %s) {{
            %u = for j in 0..{high} {marks} carry(%b = %a) {{
                %v = load %x[i+j] : f32
                %c = add %b, %v : f32
                %d = mul %c, %v : f32
                yield %d
            }}
            store %y[i], %u
            yield %u
        }}
    }}"""


def test_turns_follow_each_other() -> None:
    text = print_function(without_short_turns(parse_function(_nest("3"))))
    assert text.count("for ") == 1 and "load %x[i]" in text and "load %x[i+2]" in text


@pytest.mark.parametrize("high", ["17", "N"])
def test_long_loops_stay(high: str) -> None:
    function = parse_function(_nest(high))
    assert without_short_turns(function) is function
