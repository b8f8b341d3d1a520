"""Rows that are added to rows which data name, `out[k[i], c] += v[i, c]`, where their numbers are sorted first. Against sums in float64,
or exact ones."""

from math import fsum
from typing import Any

import numpy as np
import pytest

import zynml

Array = np.ndarray[Any, Any]
DEVICE = "emulator:sm_90a"
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
RANDOM = np.random.default_rng(5)
SORTED = "rows are sorted by where they are added"


def text_of(dtype: str, loops: str = "for i in 0..N, c in 0..C", index: str = "k[i], c", term: str = "v[i, c]") -> str:
    return f"""def f(v: tensor[N, C, {dtype}], k: tensor[N, i32], M: int) {{
    compute(v, k) -> tensor[M, C, {dtype}] {{ {loops}: out[{index}] += {term} }}
}}"""


def words_of(text: str, like: str) -> str:
    launches = zynml.compile(text)._session.launches_like([like], DEVICE)[0].threads.launches
    return "; ".join(launches.words)


def exact(v: Array, k: Array, rows: int) -> Array:
    """In float64, each rounded once."""
    columns = range(v.shape[1])
    return np.array([[fsum(v[k == row, c].astype(np.float64)) for c in columns] for row in range(rows)]).reshape(rows, len(columns))


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize(
    ("count", "columns", "rows"), [(0, 5, 4000), (1, 5, 4000), (700, 7, 2999), (300, 33, 1001), (90, 131, 500), (1100, 4, 6000)]
)
def test_each_row_is_what_its_terms_are(count: int, columns: int, rows: int, dtype: str) -> None:
    """Rounded once, from terms of all sizes, whichever share of the sorted rows they are in."""
    text = text_of(dtype)
    assert SORTED in words_of(text, f"v={count or 1}x{columns}, k={count or 1}, M={rows}")
    program = zynml.compile(text, device=DEVICE)
    for k in (RANDOM.integers(0, rows, count), RANDOM.integers(0, 3, count) * (rows // 3), np.full(count, rows - 1)):
        v = (RANDOM.standard_normal((count, columns)) * 2.0 ** RANDOM.integers(-9, 3, (count, columns))).astype(NUMPY[dtype])
        result, expected = program.f(v, k.astype(np.int32), rows), exact(v, k, rows)
        assert np.all(np.abs(result.astype(np.float64) - expected) <= np.finfo(NUMPY[dtype]).eps * np.abs(expected) * 0.51 + 1e-13)
        assert np.array_equal(program.f(v, k.astype(np.int32), rows), result)


def test_few_results_are_put_together_in_shared_memory() -> None:
    assert SORTED not in words_of(text_of("f32"), "v=1000000x8, k=1000000, M=20")
    assert SORTED not in words_of(text_of("f32").replace("] {", "] @atomics(relaxed) {"), "v=1000000x8, k=1000000, M=100000")


def test_loops_may_stand_in_any_order() -> None:
    text = text_of("f32", loops="for c in 0..C, i in 0..N")
    assert SORTED in words_of(text, "v=400x9, k=400, M=3000")
    v, k = RANDOM.standard_normal((400, 9)).astype(np.float32), RANDOM.integers(0, 3000, 400).astype(np.int32)
    assert np.array_equal(zynml.compile(text, device=DEVICE).f(v, k, 3000), zynml.compile(text_of("f32"), device=DEVICE).f(v, k, 3000))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_infinities_nan_and_the_ends_of_floats(dtype: str) -> None:
    most = np.finfo(NUMPY[dtype]).max
    groups = [
        ([np.inf, 1.0], np.inf),
        ([-np.inf, most], -np.inf),
        ([np.inf, 2.0, -np.inf], np.nan),
        ([np.nan, 1.0], np.nan),
        ([most, -most, 3.0], 3.0),
        ([0.0, -0.0], 0.0),
        ([most, most], np.inf),
    ]
    v = np.array([value for values, _ in groups for value in values], NUMPY[dtype])
    k = np.repeat(np.arange(len(groups)), [len(values) for values, _ in groups]).astype(np.int32) * 900
    wide = np.repeat(v[:, None], 6, axis=1)
    wide[:, 1] = 1.0
    result = zynml.compile(text_of(dtype), device=DEVICE).f(wide, k, 900 * len(groups))
    assert np.array_equal(result[::900, 0], np.array([total for _, total in groups], NUMPY[dtype]), equal_nan=True)
    assert np.array_equal(result[::900, 1], [len(values) for values, _ in groups])
    assert np.count_nonzero(result[1::900]) == 0


def test_what_was_there_before_is_added_to() -> None:
    text = """def f(total: tensor[M, C], v: tensor[N, C], k: tensor[N, i32]) {
    compute(mut total, v, k) { for i in 0..N, c in 0..C: total[k[i], c] -= 2.0 * v[i, c] }
}"""
    assert SORTED in words_of(text, "total=3000x5, v=400x5, k=400")
    total, v = RANDOM.standard_normal((3000, 5)).astype(np.float32), RANDOM.standard_normal((400, 5)).astype(np.float32)
    k = RANDOM.integers(0, 100, 400).astype(np.int32)
    expected = total - 2 * exact(v, k, 3000)
    zynml.compile(text, device=DEVICE).f(total, v, k)
    np.testing.assert_allclose(total, expected, rtol=2**-22, atol=2**-22)


def test_several_dims_on_both_sides() -> None:
    """Rows of planes, at places that two indices say, from a column on, every second element."""
    text = """def f(v: tensor[N, C, D], k: tensor[N, i32], j: tensor[N, i64], A: int, B: int) {
    compute(v, k, j) -> tensor[A, C, B, 2 * D + 1] {
        for i in 3..N, c in 0..C, d in 1..D: out[k[i], c, j[i], 2 * d + 1] += v[i, c, d] * v[i - 3, c, 0]
    }
}"""
    count, c, d, a, b = 500, 3, 5, 40, 31
    assert SORTED in words_of(text, f"v={count}x{c}x{d}, k={count}, j={count}, A={a}, B={b}")
    v = RANDOM.integers(-9, 9, (count, c, d)).astype(np.float32)
    k, j = RANDOM.integers(0, a, count).astype(np.int32), RANDOM.integers(0, b, count)
    expected = np.zeros((a, c, b, 2 * d + 1))
    for i in range(3, count):
        expected[k[i], :, j[i], 3::2] += v[i, :, 1:] * v[i - 3, :, :1]
    assert np.array_equal(zynml.compile(text, device=DEVICE, sanitize=True).f(v, k, j, a, b), expected)


def test_messages_along_edges() -> None:
    """Each term is found by an index of its own; nothing is read where one is outside."""
    text = """def f(x: tensor[M, C], w: tensor[N], source: tensor[N, i32], to: tensor[N, i32]) {
    compute(x, w, source, to) -> tensor[M, C] { for e in 0..N, c in 0..C: out[to[e], c] += w[e] * x[source[e], c] }
}"""
    nodes, edges = 3000, 700
    assert SORTED in words_of(text, f"x={nodes}x5, w={edges}, source={edges}, to={edges}")
    x, w = RANDOM.standard_normal((nodes, 5)).astype(np.float32), RANDOM.standard_normal(edges).astype(np.float32)
    source, to = (RANDOM.integers(0, nodes, edges).astype(np.int32) for _ in range(2))
    expected = np.zeros((nodes, 5))
    np.add.at(expected, to, (w[:, None] * x[source]).astype(np.float64))
    np.testing.assert_allclose(zynml.compile(text, device=DEVICE, sanitize=True).f(x, w, source, to), expected, rtol=1e-5, atol=1e-6)
    for outside, name in ((source, "x"), (to, "out")):
        for wrong in (nodes, -1):
            kept, outside[500] = outside[500], wrong
            with pytest.raises(zynml.ZynMLError, match=f"index {wrong} is out of range: axis 0 of `{name}` has {nodes} elements"):
                zynml.compile(text, device=DEVICE).f(x, w, source, to)
            outside[500] = kept


def test_a_row_outside_is_told_of_and_nothing_else_is_written() -> None:
    text = """def f(total: tensor[M, C], v: tensor[N, C], k: tensor[N, i64]) {
    compute(mut total, v, k) { for i in 0..N, c in 0..C: total[k[i], c] += v[i, c] }
}"""
    total, v, k = np.zeros((5000, 8), np.float32), np.ones((40, 8), np.float32), np.arange(40)
    k[17] = 5000
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text, device=DEVICE).f(total, v, k)
    assert caught.value.codes == ("ZYN0801",)
    assert "index 5000 is out of range: axis 0 of `total` has 5000 elements" in str(caught.value)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_one_row_takes_all_terms_of_many_shares(dtype: str) -> None:
    """What shares leave of it is added up behind."""
    v, k = RANDOM.integers(-99, 99, (3000, 5)).astype(NUMPY[dtype]), np.full(3000, 1234, np.int32)
    k[:40], k[-300:] = 3, 1300
    assert np.array_equal(zynml.compile(text_of(dtype), device=DEVICE, sanitize=True).f(v, k, 2000), exact(v, k, 2000))


@pytest.mark.parametrize("fresh", [True, False])
def test_runs_of_all_lengths_beside_each_other(fresh: bool) -> None:
    """Of a share and less, of several, with and without what is left of a share at both ends; rows between them have none."""
    lengths = [1, 127, 128, 129, 255, 1, 256, 257, 383, 2, 384, 511, 3, 128, 640, 100]
    k = np.repeat(3 * np.arange(len(lengths)) + 1, lengths).astype(np.int32)
    v = RANDOM.integers(-99, 99, (len(k), 37)).astype(np.float32)
    order, rows = RANDOM.permutation(len(k)), 3 * len(lengths) + 2000
    if fresh:
        result = zynml.compile(text_of("f32"), device=DEVICE, sanitize=True).f(v, k[order], rows)
    else:
        text = "def f(t: tensor[M, C], v: tensor[N, C], k: tensor[N, i32]) { compute(mut t, v, k) { for i in 0..N, c in 0..C: t[k[i], c] += v[i, c] } }"
        zynml.compile(text, device=DEVICE, sanitize=True).f(result := np.zeros((rows, 37), np.float32), v, k[order])
    assert np.array_equal(result, exact(v, k[order], rows))


@pytest.mark.parametrize(("rows", "columns", "passes"), [(100, 40, 1), (30_000, 5, 2), (100_000, 5, 3), (1 << 25, 5, 4)])
def test_as_many_digits_are_sorted_as_numbers_of_rows_have(rows: int, columns: int, passes: int) -> None:
    text, count = text_of("f32"), 5000
    launches = zynml.compile(text)._session.launches_like([f"v={count}x{columns}, k={count}, M={rows}"], DEVICE)[0].threads.launches
    steps = launches.steps({"N": count, "C": columns, "M": rows})
    assert sum("digits" in launches.launches[number].function.name for number, _ in steps) == passes
    if rows <= 100_000:
        v, k = RANDOM.integers(-9, 9, (count, columns)).astype(np.float32), (RANDOM.integers(0, rows, count)).astype(np.int32)
        expected = np.zeros((rows, columns), np.float32)
        np.add.at(expected, k, v)
        assert np.array_equal(zynml.compile(text, device=DEVICE).f(v, k, rows), expected)


@pytest.mark.parametrize("groups", [0, 1, 6])
def test_each_term_is_a_sum_of_what_indices_say(groups: int) -> None:
    """The loop inside checks its indices where the term is added; nothing else is written where one is outside."""
    text = """def f(c: tensor[N, i32], u: tensor[N, G, i32], e: tensor[N, G], w: tensor[V, D]) {
    compute(c, u, e, w) -> tensor[V, D] {
        for n in 0..N, d in 0..D:
            var s = 0.0
            for g in 0..G: s += e[n, g] * w[u[n, g], d]
            out[c[n], d] += s
    }
}"""
    count, words, width = 300, 1000, 37
    assert SORTED in words_of(text, f"c={count}, u={count}x6, e={count}x6, w={words}x{width}")
    c, u = RANDOM.integers(0, words, count).astype(np.int32), RANDOM.integers(0, words, (count, groups)).astype(np.int32)
    e, w = RANDOM.integers(-9, 9, (count, groups)).astype(np.float32), RANDOM.integers(-9, 9, (words, width)).astype(np.float32)
    expected = np.zeros((words, width))
    np.add.at(expected, c, np.einsum("ng,ngd->nd", e, w[u]))
    program = zynml.compile(text, device=DEVICE, sanitize=True)
    assert np.array_equal(program.f(c, u, e, w), expected)
    for indices, name in ((c, "out"), *([(u, "w")] if groups else [])):
        kept, indices[-1, ...] = indices[-1].copy(), -3
        with pytest.raises(zynml.ZynMLError, match=f"index -3 is out of range: axis 0 of `{name}` has {words} elements"):
            program.f(c, u, e, w)
        indices[-1, ...] = kept
