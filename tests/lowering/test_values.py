"""Kernels through lowering and the interpreter against NumPy in float64: every construct of bodies, the dtypes, and awkward sizes.
Tolerances: f32 sums of K terms to 1e-6 * sqrt(K) of the sum of absolute values; f16 and bf16 one rounding of the result more."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import lower_block, run_block, run_lowered

SIZES = (0, 1, 3, 31, 33, 257)
RNG = np.random.default_rng(7)
EPSILON = {"f4": 2.0**-23, "f8": 2.0**-52, "f2": 2.0**-10, "bf16": 2.0**-7}


def random(*shape: int, dtype: Any = "f4") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def assert_close(got: Any, want: Any, terms: int = 1, scale: Any = None, epsilon: float = 2.0**-23) -> None:
    want = np.asarray(want, np.float64)
    got = np.asarray(got)
    assert got.shape == want.shape
    bound = np.abs(want) if scale is None else scale
    assert np.all(np.abs(got.astype(np.float64) - want) <= 4 * epsilon * max(1.0, terms) ** 0.5 * (bound + 1e-30))


MATMUL = """let C = compute(A, B) @kernel(matmul) {
    @workgroup(16, 16)
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K:
            sum += A[i, k] * B[k, j]
        out[i, j] = sum
}
"""


@pytest.mark.parametrize("size", (0, 1, 3, 17))
@pytest.mark.parametrize("dtype", ("f4", "f8", "f2", ml_dtypes.bfloat16))
def test_matmul_of_every_float_type(size: int, dtype: Any) -> None:
    a, b = random(size, 5, dtype=dtype), random(5, size + 2, dtype=dtype)
    got = run_block(MATMUL, A=a, B=b)
    assert got.dtype == a.dtype
    wide_a, wide_b = a.astype(float), b.astype(float)
    epsilon = EPSILON.get(np.dtype(dtype).str[1:], EPSILON["bf16"])
    assert_close(got, wide_a @ wide_b, 5, np.abs(wide_a) @ np.abs(wide_b), epsilon)


def test_matmul_of_small_ints_sums_in_i32() -> None:
    a, b = np.full((2, 300), 100, "i1"), np.full((300, 2), 100, "i1")
    got = run_block(MATMUL.replace("0.0", "0"), A=a, B=b)
    assert got.dtype == np.int32
    assert (got == 300 * 100 * 100).all()
    assert (run_block(MATMUL, A=a, B=b) == 300.0 * 100 * 100).all()


@pytest.mark.parametrize("view", (lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a[1:, 2:]))
def test_inputs_of_any_layout(view: Any) -> None:
    a = view(random(9, 11))
    got = run_block("let y = compute(a) { for i in 0..N, j in 0..M: out[i, j] = a[i, j] * 2.0 }", a=a)
    assert np.array_equal(got, a * 2)


@pytest.mark.parametrize("size", SIZES)
def test_saxpy_and_whole_sum(size: int) -> None:
    x, y = random(size), random(size)
    got = run_block("let z = compute(x, y, a) { for i in 0..N: out[i] = a * x[i] + y[i] }", x=x, y=y, a=2.5)
    assert got.dtype == np.float32
    assert_close(got, 2.5 * x.astype(float) + y, 1, np.abs(2.5 * x) + np.abs(y))
    total = run_block("let s = compute(x) @kernel(reduce) { for i in 0..N: yield x[i] }", x=x)
    assert_close(total, x.astype(float).sum(), size, np.abs(x).sum())


OPERATORS = {
    "+": np.sum,
    "*": np.prod,
    "min": np.min,
    "max": np.max,
    "mean": np.mean,
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("axis", ("0", "1", "-1", "(0, 2)", "(0, 1, 2)"))
@pytest.mark.parametrize("keepdims", (False, True))
def test_reductions_along_axes(operator: str, axis: str, keepdims: bool) -> None:
    a = random(3, 4, 5, dtype="f8")
    options = f"axis={axis}" + (", keepdims=true" if keepdims else "")
    got = run_block(
        f"let r = compute(a) @kernel(reduce, {operator}, {options}) {{ for i in 0..N, j in 0..M, k in 0..K: yield a[i, j, k] }}", a=a
    )
    axes = tuple(int(n) for n in axis.strip("()").split(","))
    want = OPERATORS[operator](a, axis=axes, keepdims=keepdims)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert np.shape(got) == np.shape(want)


@pytest.mark.parametrize(
    ("operator", "want"),
    (("any", [True, True, False]), ("all", [True, False, False]), ("and", [True, False, False]), ("or", [True, True, False])),
)
def test_reductions_of_truth(operator: str, want: list[bool]) -> None:
    a = np.array([[1, 2], [0, 3], [0, 0]], "i4")
    got = run_block(f"let r = compute(a) @kernel(reduce, {operator}, axis=1) {{ for i in 0..N, j in 0..M: yield a[i, j] > 0 }}", a=a)
    assert got.tolist() == want and got.dtype == bool


def test_bitwise_reduction_of_ints() -> None:
    a = np.array([0b1110, 0b0111, 0b1111], "i4")
    assert run_block("let r = compute(a) @kernel(reduce, and) { for i in 0..N: yield a[i] }", a=a) == 0b0110


def test_arg_reductions_give_the_lowest_index_of_ties_and_nan_wins() -> None:
    a = np.array([[1.0, 5.0, 5.0], [np.nan, 7.0, np.nan]], "f4")
    text = "let r = compute(a) @kernel(reduce, argmax, axis=1) { for i in 0..N, j in 0..M: yield (a[i, j], j) }"
    value, index = run_block(text, a=a)
    assert index.tolist() == [1, 0]
    assert value[0] == 5.0 and np.isnan(value[1])


def test_an_index_tuple_comes_back_as_a_tuple() -> None:
    a = random(4, 6)
    text = "let w = compute(a) { @kernel reduce(argmin)\n for i in 0..N, j in 0..M: yield (a[i, j], (i, j)) }"
    value, index = run_block(text, a=a)
    assert value == a.min() and index == np.unravel_index(a.argmin(), a.shape)


def test_several_numbers_are_reduced_each() -> None:
    x = random(10)
    low, high = run_block("let r = compute(x) @kernel(reduce, max) { for i in 0..N: yield (-x[i], x[i]) }", x=x)
    assert low == -x.min() and high == x.max()


@pytest.mark.parametrize("axis", (0, 1))
@pytest.mark.parametrize("exclusive", (False, True))
@pytest.mark.parametrize("reverse", (False, True))
def test_scans(axis: int, exclusive: bool, reverse: bool) -> None:
    a = RNG.integers(-9, 9, (4, 5))
    options = f"axis={axis}, exclusive={str(exclusive).lower()}, reverse={str(reverse).lower()}"
    got = run_block(f"let r = compute(a) @kernel(scan, +, {options}) {{ for i in 0..N, j in 0..M: yield a[i, j] }}", a=a)
    turned = np.flip(a, axis) if reverse else a
    want = np.cumsum(turned, axis) - (turned if exclusive else 0)
    assert np.array_equal(got, np.flip(want, axis) if reverse else want)


def test_a_scan_whose_loop_has_statements_before_it() -> None:
    a = random(3, 7)
    got = run_block("let r = compute(a) @kernel(scan, max) { for i in 0..N { let t = 2.0\n for j in 0..M: yield a[i, j] * t } }", a=a)
    assert np.array_equal(got, np.maximum.accumulate(a * 2, axis=1))


@pytest.mark.parametrize("descending", (False, True))
def test_a_stable_sort_moves_its_payload_along(descending: bool) -> None:
    keys = RNG.integers(0, 4, (3, 20)).astype("i4")
    options = f"axis=1, descending={str(descending).lower()}"
    k, p = run_block(f"let r = compute(keys) @kernel(sort, {options}) {{ for i in 0..N, j in 0..M: yield (keys[i, j], j) }}", keys=keys)
    order = np.argsort(-keys if descending else keys, axis=1, kind="stable")
    assert np.array_equal(p, order)
    assert np.array_equal(k, np.take_along_axis(keys, order, 1))


CONV = """let y = compute(X, W) @kernel(conv2d{options}) {{
    for n in 0..N, o in 0..F, y in 0..OH, x in 0..OW:
        var s = 0.0
        for c in 0..C, r in 0..R, q in 0..S:
            let iy = y * stride + r * dilation - padding
            let ix = x * stride + q * dilation - padding
            if iy >= 0 and iy < IH and ix >= 0 and ix < IW:
                s += X[n, c, iy, ix] * W[o, c, r, q]
        out[n, o, y, x] = s
}}
"""


@pytest.mark.parametrize(("stride", "padding", "dilation"), ((1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 1, 2)))
def test_convolution_sizes_follow_the_usual_formula(stride: int, padding: int, dilation: int) -> None:
    x, w = random(2, 3, 9, 8), random(4, 3, 3, 2)
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows = (9 + 2 * padding - dilation * 2 - 1) // stride + 1
    columns = (8 + 2 * padding - dilation - 1) // stride + 1
    want = np.zeros((2, 4, rows, columns))
    for r in range(3):
        for q in range(2):
            part = padded[:, :, r * dilation :, q * dilation :][:, :, ::stride, ::stride][:, :, :rows, :columns]
            want += np.einsum("ncyx,oc->noyx", part, w[:, :, r, q].astype(float))
    got = run_block(CONV.format(options=f", stride={stride}, padding={padding}, dilation={dilation}"), X=x, W=w)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_one_index_runs_over_tensors_of_any_rank() -> None:
    a, b = random(4, 5, 6), random(4, 5, 6)
    got = run_block("let y = compute(a, b) @kernel(elementwise) { for i in 0..N: out[i] = a[i] + b[i] }", a=a, b=b)
    assert np.array_equal(got, a + b)
    turned = run_block("let y = compute(a, b) { for i in 0..N: out[i] = a[i] - b[i] }", a=a.T, b=b.T)
    assert np.array_equal(turned, (a - b).T)


def test_whole_tensor_lines_of_fused() -> None:
    a = random(5, 9)
    text = """let y = compute(a) @kernel(fused) {
        let m = reduce(max, a, axis=1, keepdims=true)
        let e = exp(a - m)
        out = e / reduce(+, e, axis=-1, keepdims=true)
    }"""
    e = np.exp(a.astype(float) - a.max(1, keepdims=True))
    np.testing.assert_allclose(run_block(text, a=a), e / e.sum(1, keepdims=True), rtol=1e-5)


def test_shared_memory_of_fused_is_scratch() -> None:
    a = random(5, 9)
    text = """let y = compute(a) @kernel(fused) {
        for r in 0..N {
            shared var buf[M]
            for j in 0..M { buf[j] = a[r, j] * 2.0 }
            barrier()
            for j in 0..M { out[r, j] = buf[M - 1 - j] }
        }
    }"""
    assert np.array_equal(run_block(text, a=a), 2 * a[:, ::-1])


def test_a_broadcast_input_is_indexed_like_the_result() -> None:
    a, x = random(4, 6), random(6)
    got = run_block("let y = compute(a, x) @broadcast(x, axis=1) { for i in 0..N, j in 0..M: out[i, j] = a[i, j] + x[i, j] }", a=a, x=x)
    assert np.array_equal(got, a + x)


@pytest.mark.parametrize(
    ("axes", "shape", "index"),
    [("1", (5,), "j"), ("2", (6,), "k"), ("-1", (6,), "k"), ("(1, 2)", (5, 6), "j, k"), ("(0, 2)", (4, 6), "i, k"), ("(0, 1, 2)", (4, 5, 6), "i, j, k")],
)
def test_a_broadcast_input_is_indexed_by_its_own_axes(axes: str, shape: tuple[int, ...], index: str) -> None:
    a, v = random(4, 5, 6), random(*shape)
    text = f"let y = compute(a, v) @broadcast(v, axis={axes}) {{ for i in 0..L, j in 0..M, k in 0..N: out[i, j, k] = a[i, j, k] * v[{index}] }}"
    along = {"j": v[:, None] if v.ndim == 1 else v, "i, k": v[:, None] if v.ndim == 2 else v}.get(index, v)
    assert np.array_equal(run_block(text, a=a, v=v), a * along)


def test_an_input_written_without_out_is_copied_and_a_mutable_one_updated() -> None:
    x = random(8)
    kept = x.copy()
    got = run_block("let y = compute(x) { for i in 0..N: x[i] = x[i] * 2.0 }", x=x)
    assert np.array_equal(got, kept * 2) and np.array_equal(x, kept)
    run_block("let y = compute(mut x) { for i in 0..N: x[i] += 1.0 }", x=x)
    assert np.array_equal(x, kept + 1)


def test_several_results_have_their_names_and_types() -> None:
    x = random(6)
    lowered = lower_block("let r = compute(x) -> (y: tensor[N], k: tensor[N, i32]) { for i in 0..N { y[i] = x[i]\n k[i] = i } }", x=x)
    assert [(r.name, r.dtype.value) for r in lowered.plan.results] == [("y", "f32"), ("k", "i32")]
    y, k = run_lowered(lowered, x=x)
    assert np.array_equal(y, x) and k.tolist() == [0, 1, 2, 3, 4, 5]


def test_functions_are_written_out_in_place() -> None:
    text = """def clip(v: f32, top: f32 = 1.0): f32 {
        if v > top { return top }
        if v < -top { return -top }
        v
    }
    def half(v: f32): f32 { clip(v) / 2.0 }
    let y = compute(x) { for i in 0..N: out[i] = half(x[i]) }"""
    x = np.array([-3, -0.5, 0.25, 9], "f4")
    assert run_block(text, x=x).tolist() == [-0.5, -0.25, 0.125, 0.5]


def test_short_circuits_guard_what_stands_behind_them() -> None:
    x = random(9)
    text = "let y = compute(x, q) { for i in 0..N { if q[i] > 0 and x[q[i] - 1] > 0.0 { out[i] = 1.0 } else { out[i] = x[i] } } }"
    q = np.array([0, 1, 2, 3, 4, 5, 0, 8, 9], "i4")
    want = [1.0 if q[i] > 0 and x[q[i] - 1] > 0 else x[i] for i in range(9)]
    assert np.array_equal(run_block(text, x=x, q=q), np.array(want, "f4"))


def test_while_break_and_continue() -> None:
    x = np.array([1.0, 3.0, 5.0, 100.0], "f4")
    text = """let y = compute(x) {
        for i in 0..N {
            var v = x[i]
            var k = 0
            while v > 1.0 { v = v / 2.0; k += 1 }
            for j in 0..10 {
                if j % 2 == 0 { continue }
                if j > k { break }
                v += j
            }
            out[i] = v
        }
    }"""

    def one(v: float) -> float:
        k = 0
        while v > 1:
            v, k = v / 2, k + 1
        return v + sum(j for j in range(1, 10, 2) if j <= k)

    assert np.allclose(run_block(text, x=x), [one(float(v)) for v in x])


def test_ints_divide_toward_zero_and_remainders_have_the_dividends_sign() -> None:
    q = np.array([-7, 7, -8, 8], "i4")
    got = run_block(
        "let y = compute(q, d) -> (a: tensor[N, i32], b: tensor[N, i32]) { for i in 0..N { a[i] = q[i] / d[i]\n b[i] = q[i] % d[i] } }",
        q=q,
        d=np.array([2, -2, 3, 3], "i4"),
    )
    assert got[0].tolist() == [-3, -3, -2, 2] and got[1].tolist() == [-1, 1, -2, 2]


def test_loops_go_down_skip_and_include_their_end() -> None:
    x = random(10)
    text = "let y = compute(x) -> tensor[10] { for i in 9..=0 step -3 { out[i] = x[i] }\n for i in 1..=7 step 3 { out[i] = -x[i] } }"
    want = np.zeros(10, "f4")
    want[[9, 6, 3, 0]] = x[[9, 6, 3, 0]]
    want[[1, 4, 7]] = -x[[1, 4, 7]]
    assert np.array_equal(run_block(text, x=x), want)


def test_custom_kernels_run_every_thread() -> None:
    image = RNG.integers(0, 256, (12, 17)).astype("u1")
    text = """let h = compute(img) -> tensor[256, i32] @kernel(custom) @workgroup(64) {
        shared var bins[256, i32]
        let t = thread_idx().x
        for b in t..256 step block_dim().x: bins[b] = 0
        barrier()
        for p in global_idx().x..img.numel() step grid_dim().x * block_dim().x:
            atomic_add(bins[img[p] as i32], 1)
        barrier()
        for b in t..256 step block_dim().x:
            atomic_add(out[b], bins[b])
    }"""
    lowered = lower_block(text, img=image)
    assert np.array_equal(run_lowered(lowered, grid=(2, 1, 1), img=image), np.bincount(image.ravel(), minlength=256))


@pytest.mark.parametrize("threads", (64, 48))
def test_block_sums_reach_every_thread(threads: int) -> None:
    x = RNG.integers(0, 99, threads).astype("i4")
    text = f"let s = compute(x) -> tensor[{threads}, i32] @kernel(custom) @workgroup({threads}) {{ out[thread_idx()] = block_sum(x[thread_idx()]) }}"
    assert (run_lowered(lower_block(text, x=x), grid=(1, 1, 1), x=x) == x.sum()).all()


def test_declared_results_of_a_reduction() -> None:
    a = random(3, 5)
    text = "let r = compute(a) -> (v: tensor[N, f64], k: tensor[N, i32]) @kernel(reduce, argmax, axis=1) { for i in 0..N, j in 0..M: yield (a[i, j], j) }"
    value, index = run_block(text, a=a)
    assert value.dtype == np.float64 and index.dtype == np.int32
    assert np.array_equal(index, a.argmax(1)) and np.array_equal(value, a.max(1).astype(float))
    total = run_block("let s = compute(a) -> f64 @kernel(reduce) { for i in 0..N, j in 0..M: yield a[i, j] }", a=a)
    assert total.dtype == np.float64


def test_an_input_may_be_a_path() -> None:
    text = "let y = compute(w.proj, x) { for i in 0..N { for j in 0..M { out[i] += w.proj[i, j] * x[j] } } }"
    w, x = random(4, 5), random(5)
    np.testing.assert_allclose(run_block(text, **{"w.proj": w, "x": x}), w.astype(float) @ x, rtol=1e-5)


def test_the_accumulator_of_a_sum_can_be_chosen() -> None:
    lowered = lower_block("let s = compute(a) @kernel(reduce) @precision(acc=f64) { for i in 0..N: yield a[i] }", a=random(9))
    slots = [op.results[0].type for op in lowered.function.body.body if op.name == "slot"]
    assert [str(slot) for slot in slots] == ["slot<f64>"]
