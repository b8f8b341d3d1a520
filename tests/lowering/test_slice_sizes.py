"""Sizes that slices alone give: the extents of inputs, whatever the rank, the step and the tile that hangs over."""

from typing import Any

import numpy as np
import pytest

import zynml

RNG = np.random.default_rng(11)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 5, 16, 17, 50])
@pytest.mark.parametrize("step", [4, 16])
def test_rows_of_a_batch(rows: int, step: int) -> None:
    program = zynml.compile(f"""
def f(x: tensor[?, ?, ?], y: tensor[?, ?, ?]): tensor {{
  compute(x, y) {{
    for b in 0..batch:
      for r in 0..rows step {step}:
        out[b, r:r+{step}] = x[b, r:r+{step}] + y[b, r:r+{step}] * 2.0
  }}
}}""")
    x, y = normal(3, rows, 7), normal(3, rows, 7)
    assert np.array_equal(program.f(x, y), x + 2 * y)


@pytest.mark.parametrize("shape", [(1, 1, 1), (9, 7, 5), (16, 10, 8), (20, 11, 9)])
def test_all_three_sizes_of_a_product(shape: tuple[int, int, int]) -> None:
    program = zynml.compile("""
def f(A: tensor[?, ?], B: tensor[?, ?]): tensor {
  compute(A, B) @kernel(matmul) {
    for r in 0..rows step 8, c in 0..cols step 4:
      var sum = zeros(8, 4)
      for k in 0..inner step 5: sum += A[r:r+8, k:k+5] @ B[k:k+5, c:c+4]
      out[r:r+8, c:c+4] = sum
  }
}""")
    m, k, n = shape
    a, b = normal(m, k), normal(k, n)
    # at most 11 products in f32
    assert np.allclose(program.f(a, b), a.astype(float) @ b, rtol=0, atol=1e-5)


def test_slices_that_begin_behind_their_loop() -> None:
    program = zynml.compile("""
def f(x: tensor[?], shift: i64): tensor {
  compute(x, shift) {
    for r in 0..rows step 8: out[r:r+8] = x[r+shift:r+shift+8]
  }
}""")
    x = normal(30)
    for shift in (0, 1, 8, 29):
        assert np.array_equal(program.f(x, shift), x[shift:])


def test_two_loops_of_one_name_go_along_extents_of_their_own() -> None:
    program = zynml.compile("""
def f(x: tensor[?], y: tensor[?]) {
  compute(x, y) -> (a: tensor[rows], b: tensor[others]) {
    for t in 0..rows step 8: a[t:t+8] = x[t:t+8] * 2.0
    for t in 0..others step 8: b[t:t+8] = y[t:t+8] * 3.0
  }
}""")
    x, y = normal(11), normal(18)
    a, b = program.f(x, y)
    assert np.array_equal(a, 2 * x)
    assert np.array_equal(b, 3 * y)


SUMMED = """
def f(x: tensor[?], y: tensor[?]): tensor {
  compute(x, y) {
    for r in 0..rows step 8: out[r:r+8] = x[r:r+8] + y[r:r+8]
  }
}"""


def test_extents_that_differ_are_told_at_launch() -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(SUMMED).f(np.ones(9, np.float32), np.ones(8, np.float32))
    assert (
        str(caught.value)
        == """error[ZYN0802]: size `rows` is 9 by `x[r:r + 8]`, but 8 by `y[r:r + 8]`
 --> <program>:4:54
  |
4 |     for r in 0..rows step 8: out[r:r+8] = x[r:r+8] + y[r:r+8]
  |                                           -------- `x[r:r + 8]` gives rows
  |                                                      ^^^^^^^^ `y[r:r + 8]` gives rows
hint: give the block tensors whose axes agree"""
    )


def test_known_extents_that_differ_are_told_when_compiled() -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(SUMMED.replace("x: tensor[?], y: tensor[?]", "x: tensor[9], y: tensor[8]"))
    assert (
        str(caught.value)
        == """error[ZYN0302]: size `rows` is bound to two values: 9 and 8
 --> <program>:4:54
  |
4 |     for r in 0..rows step 8: out[r:r+8] = x[r:r+8] + y[r:r+8]
  |                                           -------- `x[r:r + 8]` gives rows = 9
  |                                                      ^^^^^^^^ `y[r:r + 8]` gives rows = 8
hint: the two axes must be equal: check the indices, or use two loops"""
    )


ATTENTION = """
def attend(Q: tensor[{q}], K: tensor[{k}], V: tensor[{v}]): tensor {{
  compute(Q, K, V) {{
    @kernel flash_attention
    for b in 0..batch:
      for i in 0..length step 16:
        var top = -inf
        var sum = 0.0
        var mean = zeros(16, width)
        for j in 0..others step 8:
          let S = Q[b, i:i+16] @ transpose(K[b, j:j+8]) * 0.5
{updates}
        out[b, i:i+16] = mean / sum
  }}
}}"""

ORDERS = {
    "the mean last": """let larger = max(top, row_max(S))
sum = exp(top - larger) * sum + row_sum(exp(S - larger))
mean = exp(top - larger) * mean + exp(S - larger) @ V[b, j:j+8]
top = larger""",
    "the mean first, its new terms before the old": """let larger = max(row_max(S), top)
mean = exp(S - larger) @ V[b, j:j+8] + mean * exp(top - larger)
sum = row_sum(exp(S - larger)) + exp(top - larger) * sum
top = larger""",
    "the maximum in the middle": """let larger = max(top, row_max(S))
let keep = exp(top - larger)
let weights = exp(S - larger)
sum = sum * keep + row_sum(weights)
top = larger
mean = keep * mean + weights @ V[b, j:j+8]""",
    "the maximum first": """let before = top
top = max(before, row_max(S))
mean = mean * exp(before - top) + exp(S - top) @ V[b, j:j+8]
sum = exp(before - top) * sum + row_sum(exp(S - top))""",
    "in place": """let larger = max(top, row_max(S))
mean *= exp(top - larger)
sum *= exp(top - larger)
sum += row_sum(exp(S - larger))
mean += exp(S - larger) @ V[b, j:j+8]
top = larger""",
}


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q.astype(float) @ np.swapaxes(k, -1, -2).astype(float) * 0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize("order", list(ORDERS))
@pytest.mark.parametrize("known", [False, True])
def test_attention_in_any_order_of_updates(order: str, known: bool) -> None:
    """The promise `flash_attention` holds, with extents that the program states and with those of a launch; the last tiles hang over."""
    q, k, v = normal(2, 37, 5), normal(2, 21, 5), normal(2, 21, 3)
    dims = [", ".join(map(str, one.shape)) if known else "?, ?, ?" for one in (q, k, v)]
    updates = "\n".join(" " * 10 + line for line in ORDERS[order].splitlines())
    text = ATTENTION.format(q=dims[0], k=dims[1], v=dims[2], updates=updates)
    # weights add up to 1, values are below 4: a few roundings of f32
    assert np.allclose(zynml.compile(text).attend(q, k, v), attention(q, k, v), rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", [8, 13, 16, 40])
@pytest.mark.parametrize("order", list(ORDERS))
def test_attention_of_known_sizes_is_a_field_without_guards(length: int, order: str) -> None:
    updates = "\n".join(" " * 10 + line for line in ORDERS[order].splitlines())
    text = ATTENTION.format(q=f"2, {length}, 5", k=f"2, {length}, 5", v=f"2, {length}, 5", updates=updates)
    hir = zynml.compile(text).emit("hir-after=lift")
    assert "where=" not in hir
    assert hir.count("contract %") == 2
