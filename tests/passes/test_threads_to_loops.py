"""Custom kernels on the CPU: what threads, barriers, shared memory, warps and atomics compute, against NumPy."""

import numpy as np
import pytest

import zynml


def run(text: str, *values, **options):
    return zynml.compile(text, **options).f(*values)


SIZES = [1, 31, 32, 33, 257, 1000]


@pytest.mark.parametrize("n", SIZES)
def test_each_thread_writes_its_own_element(n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    got = run(
        """
def f(x: tensor[N]): tensor {
    compute(x) -> tensor[N] @kernel(custom) @workgroup(64) {
        let i = global_idx().x
        if i < N:
            out[i] = x[i] * 2.0
    }
}
""",
        x,
    )
    np.testing.assert_array_equal(got, x * 2)


@pytest.mark.parametrize("n", SIZES)
def test_tree_reduction_through_shared_memory(n: int) -> None:
    x = np.arange(n, dtype=np.int32)
    got = run(
        """
def f(x: tensor[N, i32]): tensor {
    compute(x) -> tensor[1, i32] @kernel(custom) @workgroup(128) {
        shared var part[128, i32]
        let t = thread_idx().x
        var s = 0
        for p in global_idx().x..N step grid_dim().x * block_dim().x:
            s += x[p]
        part[t] = s
        barrier()
        var half = 64
        while half > 0:
            if t < half:
                part[t] += part[t + half]
            barrier()
            half = half / 2
        if t == 0:
            atomic_add(out[0], part[0])
    }
}
""",
        x,
    )
    assert got[0] == n * (n - 1) // 2


@pytest.mark.parametrize("mode", ["down", "xor"])
def test_warp_shuffles_sum_a_warp(mode: str) -> None:
    x = np.arange(64, dtype=np.float32)
    got = run(
        f"""
def f(x: tensor[N]): tensor {{
    compute(x) -> tensor[N] @kernel(custom) @workgroup(64) {{
        let i = thread_idx().x
        var s = x[i]
        s += warp_shuffle_{mode}(s, 16)
        s += warp_shuffle_{mode}(s, 8)
        s += warp_shuffle_{mode}(s, 4)
        s += warp_shuffle_{mode}(s, 2)
        s += warp_shuffle_{mode}(s, 1)
        out[i] = s
    }}
}}
""",
        x,
    )
    assert got[0] == sum(range(32)) and got[32] == sum(range(32, 64))
    if mode == "xor":
        np.testing.assert_array_equal(got, np.repeat([496.0, 1520.0], 32))


def test_votes_count_lanes() -> None:
    x = np.arange(64, dtype=np.int32)
    got = run(
        """
def f(x: tensor[N, i32]): tensor {
    compute(x) -> tensor[N, i32] @kernel(custom) @workgroup(64) {
        let i = thread_idx().x
        let b = warp_any(x[i] == 40)
        let a = warp_all(x[i] < 32)
        out[i] = (b ? 1 : 0) + (a ? 2 : 0)
    }
}
""",
        x,
    )
    np.testing.assert_array_equal(got, np.repeat([2, 1], 32))


def test_tiled_product_through_shared_memory() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((35, 50)), rng.standard_normal((50, 41))
    got = run(
        """
def f(a: tensor[M, K, f64], b: tensor[K, N, f64]): tensor {
    compute(a, b) -> tensor[M, N, f64] @kernel(custom) @workgroup(16, 16) {
        shared var ta[16, 16, f64]
        shared var tb[16, 16, f64]
        let x = thread_idx().x
        let y = thread_idx().y
        let i = block_idx().y * 16 + y
        let j = block_idx().x * 16 + x
        var s = 0.0
        for k in 0..K step 16:
            ta[y, x] = 0.0
            tb[y, x] = 0.0
            if i < M and k + x < K:
                ta[y, x] = a[i, k + x]
            if k + y < K and j < N:
                tb[y, x] = b[k + y, j]
            barrier()
            for q in 0..16:
                s += ta[y, q] * tb[q, x]
            barrier()
        if i < M and j < N:
            out[i, j] = s
    }
}
""",
        a,
        b,
    )
    np.testing.assert_allclose(got, a @ b, rtol=1e-12)


def test_a_barrier_that_some_threads_reach_is_a_fault() -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        run(
            """
def f(x: tensor[N, i32]): tensor {
    compute(x) -> tensor[N, i32] @kernel(custom) @workgroup(64) {
        let i = thread_idx().x
        if x[i] > 3:
            barrier()
        out[i] = 1
    }
}
""",
            np.arange(64, dtype=np.int32),
        )
    assert caught.value.codes == ("ZYN0411",)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("add", 10 + 2016), ("sub", 10 - 2016), ("min", 0), ("max", 63), ("xor", 10), ("or", 63), ("and", 0)],
)
def test_atomics_combine_all_threads(operation: str, expected: int) -> None:
    got = run(
        f"""
def f(x: tensor[N, i32]): tensor {{
    compute(x) -> tensor[1, i32] @kernel(custom) @workgroup(64) {{
        let i = thread_idx().x
        if i == 0:
            out[0] = 10
        barrier()
        atomic_{operation}(out[0], x[i])
    }}
}}
""",
        np.arange(64, dtype=np.int32),
    )
    assert got[0] == expected
