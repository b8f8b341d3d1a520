"""A reduction of everything that a reduction of columns reads, along the same axis: launches of their own, whatever lies along the threads."""

import numpy as np
import pytest

import zynml

SOURCE = """
def f(X: tensor[N, M], y: tensor[N]) {
    compute(X, y) -> tensor[M] {
        for c in 0..M:
            var whole = START
            for v in 0..N { STEP }
            var column = 0.0
            for v in 0..N { column += TERM }
            out[c] = column
    }
}"""


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_75", "emulator:sm_90a"])
@pytest.mark.parametrize("shape", [(5, 8), (1, 1), (0, 3), (70, 33)], ids=str)
@pytest.mark.parametrize(
    ("start", "step", "term"),
    [("0.0", "whole += 1.0", "(X[v, c] - whole)"), ("-9.0", "whole = max(whole, y[v])", "max(X[v, c], whole)"), ("0.0", "whole += y[v]", "abs(X[v, c] - whole)")],
    ids=["count", "greatest", "sum"],
)  # fmt: skip
def test_columns_read_the_whole(device: str, shape: tuple[int, int], start: str, step: str, term: str) -> None:
    r = np.random.default_rng(1)
    x, y = (r.integers(-8, 9, size).astype(np.float32) for size in (shape, shape[0]))
    whole = {"whole += 1.0": len(y), "whole += y[v]": y.sum()}.get(step, max(-9.0, *y, -9.0))
    wanted = {"(": x - whole, "m": np.maximum(x, whole), "a": abs(x - whole)}[term[0]].sum(0)
    program = zynml.compile(SOURCE.replace("START", start).replace("STEP", step).replace("TERM", term), device=device)
    np.testing.assert_array_equal(program.f(x, y), wanted)


BOTH = """
def f(X: tensor[5, M], y: tensor[5]) {
    compute(X, y) -> tensor[M, 5] {
        for c in 0..M:
            var whole = -inf
            for v in 0..5 { whole = max(whole, y[v] * 2.0) }
            var first = -inf
            for v in 0..5 { first = max(first, X[v, c] * whole - y[v]) }
            var second = -inf
            for v in 0..5 { second = max(second, max(first, X[v, c]) - abs(y[v] - whole)) }
            for v in 0..5 { out[c, v] = second - X[v, c] }
    }
}"""


@pytest.mark.parametrize("device", ["emulator:sm_80", "emulator:sm_90a"])
@pytest.mark.parametrize("columns", [1, 40, 272])
def test_the_whole_is_made_twice_where_something_rests_in_the_block(device: str, columns: int) -> None:
    """`abs(y[v] - whole)` is computed for the block, `whole` before it where tiles are whole: two uses of shared memory, none of which waits
    until the other has read."""
    r = np.random.default_rng(2)
    x, y = (r.integers(-8, 9, size).astype(np.float32) for size in ((5, columns), 5))
    whole = 2 * y.max()
    first = (x * whole - y[:, None]).max(0)
    second = (np.maximum(first, x) - abs(y - whole)[:, None]).max(0)
    np.testing.assert_array_equal(zynml.compile(BOTH, device=device).f(x, y), (second - x).T)
