"""Arrays of fixed size in blocks, in registers and in memory of an iteration, against NumPy in float64 and against plain Python."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.fusion.program_kernels import kernels
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_90a")
_RANDOM = np.random.default_rng(7)

SELECTIVE_SCAN = """
def f(x: tensor[L, D], dt: tensor[L, D], A: tensor[D, 16], B: tensor[L, 16], C: tensor[L, 16]): tensor {
    compute(x, dt, A, B, C) -> tensor[L, D] {
        for d in 0..D:
            var s: [f32; 16] = [0.0; 16]
            for t in 0..L:
                var y = 0.0
                for n in 0..16:
                    s[n] = exp(dt[t, d] * A[d, n]) * s[n] + dt[t, d] * B[t, n] * x[t, d]
                    y += s[n] * C[t, n]
                out[t, d] = y
    }
}
"""
CHOLESKY = """
def f(A: tensor[B, 4, 4]): tensor {
    compute(A) -> tensor[B, 4, 4] {
        for b in 0..B:
            var l: [[f32; 4]; 4] = [[0.0; 4]; 4]
            for j in 0..4:
                var d = A[b, j, j]
                for k in 0..j: d -= l[j][k] * l[j][k]
                l[j][j] = sqrt(d)
                for i in j + 1..4:
                    var s = A[b, i, j]
                    for k in 0..j: s -= l[i][k] * l[j][k]
                    l[i][j] = s / l[j][j]
            for i in 0..4, j in 0..4: out[b, i, j] = l[i, j]
    }
}
"""
LARGEST = """
def f(x: tensor[R, N]) {
    compute(x) -> tensor[R, 4] {
        for r in 0..R:
            var best: [f32; 4] = [-inf; 4]
            for i in 0..N:
                let v = x[r, i]
                if v > best[3]:
                    var j = 3
                    while j > 0 and best[max(j - 1, 0)] < v:
                        best[j] = best[j - 1]
                        j -= 1
                    best[j] = v
            for k in 0..4: out[r, k] = best[k]
    }
}
"""
BINS = """
def f(x: tensor[R, N, i32]) {
    compute(x) -> tensor[R, BINS, i32] {
        for r in 0..R:
            var h = [0; BINS]
            for i in 0..N: h[x[r, i]] += 1
            for k in 0..BINS: out[r, k] = h[k]
    }
}
"""
FILTER = """
def f(x: tensor[R, N], w: tensor[5]) {
    compute(x, w) -> tensor[R, N] {
        for r in 0..R:
            var line = [0.0; 5]
            for i in 0..N:
                for k in 0..4: line[4 - k] = line[3 - k]
                line[0] = x[r, i]
                var y = 0.0
                for k in 0..5: y += w[k] * line[k]
                out[r, i] = y
    }
}
"""
DISTANCES = """
def f(a: tensor[R, M, i32], b: tensor[R, N, i32]) {
    compute(a, b) -> tensor[R, i32] {
        for r in 0..R:
            var row: [i32; N + 1] = [0; N + 1]
            for j in 0..N + 1: row[j] = j as i32
            for i in 0..M:
                var diagonal = row[0]
                row[0] = (i + 1) as i32
                for j in 0..N:
                    let above = row[j + 1]
                    row[j + 1] = min(min(above, row[j]) + 1, diagonal + (0i32 if a[r, i] == b[r, j] else 1i32))
                    diagonal = above
            out[r] = row[N]
    }
}
"""


def floats(*shape: int) -> Array:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def memories(text: str) -> int:
    """Arrays of the program's only block that stay memory."""
    return zynml.compile(text).emit("hir-after=dce").count("= alloc ")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("steps", "lines"), [(1, 3), (9, 40), (37, 33)])
def test_selective_scan(steps: int, lines: int, device: str) -> None:
    x, b, c = floats(steps, lines), floats(steps, 16), floats(steps, 16)
    dt, a = _RANDOM.uniform(0.01, 0.5, (steps, lines)).astype(np.float32), -_RANDOM.uniform(0.1, 4, (lines, 16)).astype(np.float32)
    state, expected = np.zeros((lines, 16)), np.zeros((steps, lines))
    for t in range(steps):
        state = np.exp(np.float64(dt[t, :, None]) * a) * state + np.float64(dt[t, :, None]) * b[t] * x[t, :, None]
        expected[t] = state @ np.float64(c[t])
    np.testing.assert_allclose(zynml.compile(SELECTIVE_SCAN, device=device).f(x, dt, a, b, c), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_cholesky(device: str) -> None:
    m = _RANDOM.standard_normal((37, 4, 4))
    a = (m @ m.transpose(0, 2, 1) + 4 * np.eye(4)).astype(np.float32)
    np.testing.assert_allclose(zynml.compile(CHOLESKY, device=device).f(a), np.linalg.cholesky(np.float64(a)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_the_largest_by_insertion(device: str) -> None:
    x = floats(5, 60)
    assert np.array_equal(zynml.compile(LARGEST, device=device).f(x), -np.sort(-x, axis=1)[:, :4])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bins", [8, 100])
def test_bins_that_data_name(bins: int, device: str) -> None:
    """Eight are chosen among in registers, a hundred are memory."""
    x = _RANDOM.integers(0, bins, (5, 40)).astype(np.int32)
    program = zynml.compile(BINS.replace("BINS", str(bins)), device=device)
    assert np.array_equal(program.f(x), [np.bincount(row, minlength=bins) for row in x])
    x[3, 7] = bins
    with pytest.raises(zynml.ZynMLError, match=f"index {bins} is out of range: axis 0 of `h` has {bins} elements"):
        program.f(x)


@pytest.mark.parametrize("device", DEVICES)
def test_a_delay_line(device: str) -> None:
    x, w = floats(3, 50), floats(5)
    expected = [np.convolve(np.float64(row), np.float64(w))[:50] for row in x]
    np.testing.assert_allclose(zynml.compile(FILTER, device=device).f(x, w), expected, rtol=1e-5, atol=1e-5)


def edit_distance(a: Array, b: Array) -> int:
    row = list(range(len(b) + 1))
    for i, own in enumerate(a):
        diagonal, row[0] = row[0], i + 1
        for j, other in enumerate(b):
            row[j + 1], diagonal = min(row[j + 1] + 1, row[j] + 1, diagonal + int(own != other)), row[j + 1]
    return row[-1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [0, 6, 90])
def test_an_extent_that_the_launch_knows(length: int, device: str) -> None:
    """The kernel is made for its number: in registers where that is small."""
    a, b = _RANDOM.integers(0, 4, (3, 7)).astype(np.int32), _RANDOM.integers(0, 4, (3, length)).astype(np.int32)
    assert zynml.compile(DISTANCES, device=device).f(a, b).tolist() == [edit_distance(x, y) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_are_values(device: str) -> None:
    """Assigned and bound arrays are copies, literals read all before they store, functions take and give arrays."""
    text = """
    def turned(a: [f32; 3]) -> [f32; 3] { [a[1], a[2], a[0]] }
    def f(x: tensor[N]) {
        compute(x) -> tensor[N, 9] {
            for i in 0..N:
                var a = [x[i], 2.0, 3.0]
                var b = a
                b[0] = 7.0
                let c = turned(b)
                if x[i] > 0.0: a = [a[2], a[0], a[1]]
                b = turned(turned(a))
                for k in 0..3:
                    out[i, k] = a[k]
                    out[i, k + 3] = b[k]
                    out[i, k + 6] = c[k]
        }
    }
    """
    result = zynml.compile(text, device=device).f(np.array([5, -5], np.float32))
    assert result.tolist() == [[3, 5, 2, 2, 3, 5, 2, 3, 7], [-5, 2, 3, 3, -5, 2, 2, 3, 7]]


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_are_chosen_swapped_compared_and_taken_apart(device: str) -> None:
    text = """
    def ordered(a: [f32; 2]) -> [f32; 2] {
        if a[0] > a[1] { return [a[1], a[0]] }
        a
    }
    def f(x: tensor[N]) {
        compute(x) -> tensor[N, 7] {
            for i in 0..N:
                var a = ordered([x[i], 2.0])
                var b = if x[i] > 4.0 { [1.0; 2] } else { a }
                (a, b) = (b, a)
                let [p, q] = b
                out[i, 0] = a[0]
                out[i, 1] = a[1]
                out[i, 2] = p
                out[i, 3] = q
                var s = 0.0
                for v in a:
                    a[1] = 100.0
                    s = 10.0 * s + v
                out[i, 4] = s
                out[i, 5] = 1.0 if b == [2.0, 5.0] else 0.0
                out[i, 6] = a.len * 1.0
        }
    }
    """
    result = zynml.compile(text, device=device).f(np.array([1, 5], np.float32))
    assert result.tolist() == [[1, 2, 1, 2, 12, 0, 2], [1, 1, 2, 5, 11, 1, 2]]


@pytest.mark.parametrize(("element", "dtype"), [("200u8", "u8"), ("x[i]", "i16"), ("0", "i64")])
def test_elements_have_the_type_that_is_written_or_flows_in(element: str, dtype: str) -> None:
    """Ints wrap in the type of typed elements; a literal takes what it meets."""
    text = f"""
    def f(x: tensor[N, i16], y: tensor[N, i64]) {{
        compute(x, y) {{
            for i in 0..N:
                var s = [{element}; 2]
                s[1] {"= y[i]" if dtype == "i64" else "+= 100" + ("u8" if dtype == "u8" else "i16")}
                out[i] = s[1]
        }}
    }}
    """
    result = zynml.compile(text, device="cpu").f(np.array([32700], np.int16), np.array([1 << 40]))
    assert (str(result.dtype), result.tolist()) == {"u8": ("uint8", [44]), "i16": ("int16", [-32736]), "i64": ("int64", [1 << 40])}[dtype]


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_of_threads_outlive_barriers(device: str) -> None:
    text = """
    def f(x: tensor[N]) {
        compute(x) -> tensor[64] @kernel(custom) @workgroup(32) @grid(2) {
            shared var last[1, f32]
            let i = global_idx().x
            var w = [0.0; 4]
            for k in 0..4: w[k] = x[i] * (k + 1)
            if thread_idx().x == 31: last[0] = w[3]
            barrier()
            out[i] = w[i % 4] + last[0]
        }
    }
    """
    x = np.arange(64, dtype=np.float32)
    expected = x * (np.arange(64) % 4 + 1) + np.repeat([4 * 31, 4 * 63], 32)
    assert np.array_equal(zynml.compile(text, device=device).f(x), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_before_the_loops(device: str) -> None:
    """Coefficients for all iterations, and a state that goes through them."""
    text = """
    def f(x: tensor[N]) {
        compute(x) -> tensor[N] {
            let w = [1.0, 10.0, 100.0]
            var before = [0.0; 2]
            for i in 0..N:
                out[i] = w[0] * x[i] + w[1] * before[0] + w[2] * before[1]
                before = [x[i], before[0]]
        }
    }
    """
    assert zynml.compile(text, device=device).f(np.array([1, 2, 3, 4], np.float32)).tolist() == [1, 12, 123, 234]


@pytest.mark.parametrize("device", DEVICES)
def test_chains_go_through_arrays(device: str) -> None:
    text = """
    def doubled(x: tensor[N]) -> tensor { compute(x) { for i in 0..N: out[i] = x[i] * 2.0 } }
    def powers(x: tensor[N]) -> tensor {
        compute(x) -> tensor[N] {
            for i in 0..N:
                var p = [1.0; 70]
                for k in 1..70: p[k] = x[i] if k < 3 else p[k - 1]
                out[i] = p[1] * p[2] + p[clamp(i, 0, 1)]
        }
    }
    pipeline f(x: tensor[N]) -> tensor { doubled(powers(doubled(x))) }
    """
    x = np.array([1, 2, 3, 4], np.float32)
    assert zynml.compile(text, device=device).f(x).tolist() == [10, 40, 84, 144]


def test_small_arrays_are_no_memory() -> None:
    assert [memories(text) for text in (SELECTIVE_SCAN, CHOLESKY, LARGEST, FILTER, BINS.replace("BINS", "8"))] == [0] * 5
    assert memories(BINS.replace("BINS", "100")) == 1


ROWS = """
def f(x: tensor[B, L, D], r: tensor[B, L, W, DTYPE], c: tensor[L, W]) {
    compute(x, r, c) -> tensor[B, L, D] {
        for b in 0..B, d in 0..D:
            var s = [1.0; STATES]
            for t in 0..L:
                var y = 0.0
                for n in 0..STATES:
                    s[n] = 0.5 * s[n] + x[b, t, d] * r[b, t, n]
                    y += s[n] * c[t, n + 1]
                out[b, t, d] = max(y, 0.0)
    }
}
"""


@pytest.mark.parametrize(
    ("states", "width", "dtype", "batch", "steps", "lines"),
    [(16, 20, "f32", 2, 40, 40), (9, 10, "f32", 1, 33, 5), (16, 18, "bf16", 3, 16, 32), (16, 18, "f16", 2, 25, 33), (12, 13, "f64", 1, 9, 3),
     (16, 20, "f32", 0, 40, 3), (16, 20, "f32", 2, 0, 3), (16, 20, "f32", 2, 40, 0), (16, 20, "f32", 1, 7, 40)],
)  # fmt: skip
def test_rows_that_lines_share_go_through_shared_memory(states: int, width: int, dtype: str, batch: int, steps: int, lines: int) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.dtype(f"f{int(dtype[1:]) // 8}")
    x, r, c = floats(batch, steps, lines), floats(batch, steps, width).astype(kind), floats(steps, width)
    state, expected = np.ones((batch, lines, states)), np.zeros((batch, steps, lines))
    for t in range(steps):
        state = 0.5 * state + np.float64(x[:, t, :, None]) * np.float64(r[:, t, None, :states])
        expected[:, t] = np.maximum(state @ np.float64(c[t, 1 : states + 1]), 0)
    text = ROWS.replace("DTYPE", dtype).replace("STATES", str(states))
    found = zynml.compile(text, device="emulator:sm_90a", sanitize=True).f(x, r, c)
    np.testing.assert_allclose(np.float64(found), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["sm_90a", "sm_80", "sm_75"])
def test_rows_that_lines_share_are_brought_once(target: str) -> None:
    ((_, kernel),) = kernels(zynml.compile(ROWS.replace("DTYPE", "f32").replace("STATES", "16"))._session)
    known = facts_of({"B": 2, "L": 64, "D": 512, "W": 20}, ("x", "r", "c", "out"), MACHINES[target])
    made = launches_for(kernel.nest, kernel.field, known)
    assert any("rows that lines share" in words for words in made.words)
    for launch in made.launches:
        verify(launch.function)


@pytest.mark.parametrize("device", DEVICES)
def test_choices_of_choices_are_looked_at_once(device: str) -> None:
    """Each of 40 choices adds to what the one before gave on either side: 40 values, not two to the power of that."""
    text = """
    def f(x: tensor[N, T, i32]) {
        compute(x) -> tensor[N, i32] {
            for i in 0..N:
                let w = [1, 3]
                var s: [i32; 2] = [0; 2]
                for t in 0..T:
                    for k in 0..40:
                        if x[i, t] > k: s[0] += w[k % 2]
                        else: s[0] += 100
                out[i] = s[0]
        }
    }
    """
    x = _RANDOM.integers(0, 40, (3, 4)).astype(np.int32)
    expected = [sum((1, 3)[k % 2] if number > k else 100 for number in row for k in range(40)) for row in x.tolist()]
    assert zynml.compile(text, device=device).f(x).tolist() == expected
