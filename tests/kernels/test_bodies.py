"""What bodies may say around tensors: while and break, gathers, triangles, copies, updates in place, sizes solved from guards and
offsets, several results, calls; and checks as they run."""

import numpy as np
import pytest

from tests.kernels.checks import (
    DTYPES,
    FLOATS,
    INTS,
    LAYOUTS,
    NUMBERS,
    SIZES,
    Array,
    compiled,
    exactly,
    generator,
    holds,
    laid_out,
    launched,
    numbers,
    spread,
)
from zynml import ZynMLError

MANDELBROT = """def f(re, im) {
    compute(re, im) {
        for i in 0..H, j in 0..W:
            var x = 0.0
            var y = 0.0
            var n = 0
            while n < 50 and x * x + y * y <= 4.0:
                let t = x * x - y * y + re[j]
                y = 2.0 * x * y + im[i]
                x = t
                n += 1
            out[i, j] = n
    }
}
"""

BREAKING = MANDELBROT.replace("var n = 0\n            while n < 50 and x * x + y * y <= 4.0:", "var n = 0\n            while true:\n                if n >= 50 or x * x + y * y > 4.0: break")


def escapes(re: Array, im: Array) -> Array:
    counts = np.zeros((len(im), len(re)), np.int64)
    for i, b in enumerate(im):
        for j, a in enumerate(re):
            x = y = 0.0
            while counts[i, j] < 50 and x * x + y * y <= 4:
                x, y = x * x - y * y + a, 2.0 * x * y + b
                counts[i, j] += 1
    return counts


@pytest.mark.parametrize("text", (MANDELBROT, BREAKING))
def test_mandelbrot(text: str) -> None:
    for height, width in ((1, 1), (3, 31), (33, 40), (0, 5), (5, 0)):
        # Exact in binary: no step of the first iterations depends on how it is rounded; points near the border are left out below.
        re, im = np.linspace(-2, 0.75, width), np.linspace(-1.25, 1.25, height)
        got = launched(text, re, im)
        want = escapes(re, im)
        assert got.shape == want.shape
        assert (got == want).mean() > 0.999 if got.size else True


def test_newton_stops_when_it_has_converged() -> None:
    text = """def f(x) {
    compute(x) {
        for i in 0..N:
            var r = x[i] > 1.0 ? x[i] : 1.0
            for t in 0..60:
                let next = (r + x[i] / r) * 0.5
                if abs(next - r) <= 1e-15 * r: break
                r = next
            out[i] = r
    }
}
"""
    for size, layout in spread(SIZES, LAYOUTS):
        x = np.abs(numbers("f64", size)) * 100
        np.testing.assert_allclose(launched(text, laid_out(x, layout)), np.sqrt(x), rtol=1e-13)


def test_continue_skips_the_rest() -> None:
    text = """def f(x) {
    compute(x) {
        for i in 0..M:
            var s = 0.0
            for j in 0..N:
                if x[i, j] < 0.0: continue
                if x[i, j] > 2.0: break
                s += x[i, j]
            out[i] = s
    }
}
"""
    for shape in ((3, 5), (33, 257), (257, 3), (3, 0)):
        x = numbers("f32", shape)
        want = []
        for row in x.astype(float):
            stop = np.argmax(row > 2) if (row > 2).any() else len(row)
            want.append(row[:stop][row[:stop] >= 0].sum())
        holds(launched(text, x), np.array(want), np.abs(x).sum(1), shape[1])


@pytest.mark.parametrize("index", INTS)
@pytest.mark.parametrize("dtype", ("f32", "i8", "bf16"))
def test_gathers(dtype: str, index: str) -> None:
    text = "def f(x, q) {\n    compute(x, q) { for i in 0..N: out[i] = x[q[i]] }\n}\n"
    for size, layout in spread((0, 1, 3, 31, 33, 257, 1000), LAYOUTS):
        x = numbers(dtype, 100)
        q = generator(index, size).integers(0, 100, size).astype(DTYPES[index])
        exactly(launched(text, laid_out(x, layout), laid_out(q, layout)), x[q])


def test_gathers_of_rows() -> None:
    text = "def f(table, q) {\n    compute(table, q) { for i in 0..N, d in 0..D: out[i, d] = table[q[i], d] }\n}\n"
    for rows, width in ((3, 5), (257, 33), (33, 64), (1000, 1)):
        table = numbers("f32", (50, width))
        q = generator(rows).integers(0, 50, rows)
        exactly(launched(text, table, q), table[q])


@pytest.mark.parametrize("bad", (-1, 100, 2**40))
def test_an_index_from_data_outside_its_tensor_is_told_apart(bad: int) -> None:
    text = "def f(x, q) {\n    compute(x, q) { for i in 0..N: out[i] = x[q[i]] }\n}\n"
    q = np.arange(40)
    q[17] = bad
    with pytest.raises(ZynMLError) as raised:
        launched(text, numbers("f32", 100), q)
    assert raised.value.codes == ("ZYN0801",)
    assert f"{bad}" in str(raised.value)


def test_a_negative_neighbour_is_outside() -> None:
    text = "def f(x) {\n    compute(x) { for i in 0..N: out[i] = x[i] - x[i - 1] }\n}\n"
    with pytest.raises(ZynMLError) as raised:
        launched(text, numbers("f32", 10))
    assert set(raised.value.codes) <= {"ZYN0801", "ZYN0305"}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ("f32", "i16"))
def test_triangles(dtype: str, layout: str) -> None:
    lower = "def f(x) {\n    compute(x) -> tensor[N, N, " + dtype + "] { for i in 0..N, j in 0..i + 1: out[i, j] = x[i, j] }\n}\n"
    upper = "def f(x) {\n    compute(x) -> tensor[N, N, " + dtype + "] { for i in 0..N, j in i..N: out[i, j] = x[i, j] + x[j, i] }\n}\n"
    for size in (1, 3, 31, 33, 100):
        x = numbers(dtype, (size, size), small=True)
        exactly(launched(lower, laid_out(x, layout)), np.tril(x))
        exactly(launched(upper, laid_out(x, layout)), np.triu(x + x.T))


def test_row_sums_of_a_triangle() -> None:
    text = "def f(x) {\n    compute(x) { for i in 0..N {\n            var s = 0.0\n            for j in 0..i { s += x[i, j] }\n            out[i] = s\n        } }\n}\n"
    for size in (1, 3, 33, 257):
        x = numbers("f32", (size, size))
        below = np.tril(x, -1).astype(float)
        holds(launched(text, x), below.sum(1), np.abs(below).sum(1), size)


def test_forward_substitution_is_serial() -> None:
    text = """def f(L, b) {
    compute(L, b) {
        for i in 0..N:
            var s = b[i]
            for j in 0..i: s -= L[i, j] * out[j]
            out[i] = s / L[i, i]
    }
}
"""
    x = numbers("f64", (20, 20)) / 20 + 2 * np.eye(20)
    b = numbers("f64", 20)
    try:
        got = launched(text, x, b)
    except ZynMLError as error:
        assert error.codes == ("ZYN0405",)
    else:
        np.testing.assert_allclose(got, np.linalg.solve(np.tril(x), b), rtol=1e-12)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_writing_an_input_works_on_a_copy(dtype: str, layout: str) -> None:
    text = "def f(d) {\n    compute(d) { for i in 0..N: d[i] = d[i] + d[i] }\n}\n"
    for size in (0, 1, 33, 1000):
        d = laid_out(numbers(dtype, size, small=True), layout)
        before = d.copy()
        exactly(launched(text, d), before + before)
        exactly(d, before)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_mutable_input_is_updated_itself(dtype: str, layout: str) -> None:
    text = "def f(d, x) {\n    compute(mut d, x) { for i in 0..M, j in 0..N: d[i, j] += x[j] }\n}\n"
    for shape in ((3, 5), (33, 31), (1, 257), (0, 3)):
        d, x = laid_out(numbers(dtype, shape, small=True), layout), numbers(dtype, shape[1], 1, small=True)
        want = d + x
        launched(text, d, x)
        exactly(d, want)


def test_a_mutable_input_may_be_read_by_its_neighbours_in_order() -> None:
    text = "def f(d) {\n    compute(mut d) { for i in 1..N: d[i] = d[i] + d[i - 1] }\n}\n"
    d = np.arange(50, dtype=np.int64)
    try:
        compiled(text).f(d)
    except ZynMLError as error:
        assert error.codes == ("ZYN0405",)
    else:
        exactly(d, np.cumsum(np.arange(50)))


def test_a_fault_leaves_a_mutable_input_as_it_was() -> None:
    text = "def f(d, q) {\n    compute(mut d, q) { for i in 0..N: d[i] = d[i] / q[i] }\n}\n"
    d, q = np.arange(100), np.full(100, 2)
    q[70] = 0
    with pytest.raises(ZynMLError):
        launched(text, d, q)
    exactly(d, np.arange(100))


@pytest.mark.parametrize("dtype", FLOATS)
def test_several_results(dtype: str) -> None:
    text = f"""def f(x) {{
    compute(x) -> (y: tensor[N, {dtype}], k: tensor[N, i32]) {{
        for i in 0..N:
            y[i] = x[i] * x[i]
            k[i] = x[i] > 0.0 ? 1 : 0
    }}
}}
"""
    for size, layout in spread(SIZES, LAYOUTS):
        x = numbers(dtype, size)
        y, k = launched(text, laid_out(x, layout))
        assert y.dtype == DTYPES[dtype]
        w = x.astype(float)
        holds(y, w * w)
        exactly(k, (w > 0).astype(np.int32))


def test_sizes_come_from_guards_offsets_and_steps() -> None:
    guard = "def f(x) {\n    compute(x) -> tensor[64] { for i in 0..64: if i < W: out[i] = x[i] }\n}\n"
    offset = "def f(x, w) {\n    compute(x, w) { for o in 0..O {\n            var s = 0.0\n            for k in 0..K { s += x[o + k] * w[k] }\n            out[o] = s\n        } }\n}\n"
    pairs = "def f(x) {\n    compute(x) { for d in 0..H/2: out[d] = x[2 * d + 1] - x[2 * d] }\n}\n"
    for size in (6, 31, 64):
        x = numbers("f32", size)
        exactly(launched(guard, x), np.concatenate([x, np.zeros(64 - size, np.float32)]))
        w = numbers("f32", 5)
        holds(launched(offset, x, w), np.correlate(x.astype(float), w.astype(float), "valid"), np.correlate(np.abs(x).astype(float), np.abs(w), "valid"), 5)
        even = x[: size // 2 * 2]
        exactly(launched(pairs, even), even[1::2] - even[::2])


def test_sizes_that_disagree_are_a_conflict() -> None:
    text = "def f(x, y) {\n    compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] }\n}\n"
    with pytest.raises(ZynMLError) as raised:
        launched(text, numbers("f32", 3), numbers("f32", 4))
    assert raised.value.codes == ("ZYN0802",)


def test_writes_may_be_offset_strided_and_reversed() -> None:
    text = "def f(x) {\n    compute(x) -> tensor[2 * N + 1] { for i in 0..N: out[2 * i + 1] = x[i] }\n}\n"
    back = "def f(x) {\n    compute(x) { for i in 0..N: out[N - 1 - i] = x[i] }\n}\n"
    for size in SIZES:
        x = numbers("f32", size)
        want = np.zeros(2 * size + 1, np.float32)
        want[1::2] = x
        exactly(launched(text, x), want)
        exactly(launched(back, x), x[::-1])


def test_functions_and_tuples() -> None:
    text = """def split(v: f32): (f32, f32) {
    let whole = floor(v)
    (whole, v - whole)
}

def f(x, k: tensor[N, i32]) {
    compute(x, k) {
        for i in 0..N:
            let (whole, rest) = split(x[i])
            if k[i] == 0 { out[i] = whole }
            elif k[i] == 1 { out[i] = rest }
            else { out[i] = whole * rest }
    }
}
"""
    for size in (1, 33, 257):
        x, k = numbers("f32", size), generator(size).integers(0, 3, size).astype(np.int32)
        whole = np.floor(x)
        exactly(launched(text, x, k), np.choose(k, [whole, x - whole, whole * (x - whole)]))


def test_a_long_recurrence_along_one_axis() -> None:
    text = """def f(x) {
    compute(x) {
        for i in 0..M:
            var h = 0.0
            for t in 0..T:
                h = tanh(0.5 * h + x[i, t])
                out[i, t] = h
    }
}
"""
    for shape, layout in spread(((1, 5), (33, 31), (257, 3), (3, 257), (3, 0)), LAYOUTS):
        x = numbers("f32", shape)
        h, want = np.zeros(shape[0]), np.zeros(shape)
        for t in range(shape[1]):
            h = want[:, t] = np.tanh(0.5 * h + x[:, t].astype(float))
        holds(launched(text, laid_out(x, layout)), want, np.ones(shape), 4)


def test_int_masks_are_conditions() -> None:
    text = "def f(x, m) {\n    compute(x, m) { for i in 0..N: out[i] = m[i] ? x[i] : 0.0 }\n}\n"
    for dtype in ("u8", "i64", "bool"):
        x, m = numbers("f32", 100), numbers(dtype, 100, small=True)
        exactly(launched(text, x, m), np.where(m != 0, x, np.float32(0)))


def test_round_numbers_that_are_no_sizes() -> None:
    """Sizes are told apart by what divides them; a bool, or an i32, isn't counted with, even where it is 0 or 256."""
    text = """def f(x: tensor[N], flag: bool, n: i32) {
    compute(x, flag, n) { for i in 0..N: out[i] = if flag { x[i] } else { x[i] * (n as f32) } }
}
"""
    x = numbers("f32", 100)
    for device in ("cpu", "emulator"):
        program = compiled(text, device=device)
        for flag in (False, True):
            for n in (0, 3, 256, 4096):
                exactly(program.f(x, flag, np.int32(n)), x if flag else x * np.float32(n))


def test_remainders_and_quotients_as_indices() -> None:
    folded = "def f(x) {\n    compute(x) -> tensor[3, i64] { for i in 0..N: out[i % 3] += x[i] }\n}\n"
    split = "def f(x) {\n    compute(x) -> tensor[N, 3] { for i in 0..3 * N: out[i / 3, i % 3] = x[i] }\n}\n"
    last = "def f(x) {\n    compute(x) -> tensor[7, i64] { for i in 0..N: out[i / 150] = x[i] }\n}\n"
    for size in (1, 3, 31, 257, 1000):
        x = numbers("i64", size, small=True)
        exactly(launched(folded, x), np.array([x[k::3].sum() for k in range(3)]))
        try:
            exactly(launched(last, x), np.array([x[150 * k : 150 * k + 150][-1] if 150 * k < size else 0 for k in range(7)]))
        except ZynMLError as error:
            assert error.codes == ("ZYN0404",)
    for size in (3, 33, 999):
        x = numbers("f32", size)
        exactly(launched(split, x), x.reshape(-1, 3))


def test_broadcast_inputs_are_indexed_like_the_result() -> None:
    text = "def f(x, v) {\n    compute(x, v) @broadcast(v, axis=1) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] - v[i, j] }\n}\n"
    for shape, layout in spread(((1, 1), (3, 31), (33, 257), (0, 4), (4, 0)), LAYOUTS):
        x, v = numbers("f32", shape, 1), numbers("f32", shape[1], 2)
        exactly(launched(text, laid_out(x, layout), laid_out(v, layout)), x - v)


def test_extents_are_ints_in_the_body() -> None:
    text = "def f(x, y) {\n    compute(x, y) { for i in 0..len(x): out[i] = x[i] * (y.shape[1] as f32) + (y.shape[0] * 2) as f32 }\n}\n"
    for size in SIZES:
        x = numbers("f32", size)
        holds(launched(text, x, np.zeros((3, 7), np.float32)), x.astype(float) * 7 + 6, np.abs(x) * 7.0 + 6)


def test_outer_names_are_captured_and_expressions_have_names() -> None:
    text = "def f(x, y, k: int) {\n    let shift = 2.5\n    compute(a = x, y) { for i in 0..N: out[i] = a[i] * k + y[i] + shift }\n}\n"
    x, y = numbers("f64", 33, 1), numbers("f64", 33, 2)
    holds(launched(text, x, y, 3), x * 3 + y + 2.5, np.abs(x) * 3 + np.abs(y) + 2.5, 3)


def test_lists_become_tensors() -> None:
    text = "def f(x) {\n    compute(x) @kernel(reduce, +) { for i in 0..N: yield x[i] }\n}\n"
    assert launched(text, [1.0, 2.5, 3.0]) == 6.5
    assert launched(text, [1, 2, 3]) == 6


def test_scalars_of_every_type() -> None:
    for dtype in ("f32", "f64", "i32", "i64", "u8"):
        text = f"def f(x: tensor[N, {dtype}], a: {dtype}) {{\n    compute(x, a) {{ for i in 0..N: out[i] = x[i] + a }}\n}}\n"
        x = numbers(dtype, 33, small=True)
        exactly(launched(text, x, 3.0 if dtype in FLOATS else 3), x + DTYPES[dtype].type(3))


def test_a_step_of_a_row_at_a_time_and_backwards() -> None:
    text = "def f(x) {\n    compute(x) -> tensor[N] { for i in N - 1..=0 step -2: out[i] = x[i] }\n}\n"
    for size in SIZES[1:]:
        x = numbers("f32", size)
        want = np.zeros_like(x)
        want[size - 1 :: -2] = x[size - 1 :: -2]
        exactly(launched(text, x), want)


def test_large_launches_use_threads_and_stay_right() -> None:
    text = "def f(x, y) {\n    compute(x, y) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] * y[j] }\n}\n"
    x, y = numbers("f32", (1009, 1000), 1), numbers("f32", 1000, 2)
    exactly(compiled(text, threads=2).f(x, y), x * y)
    exactly(compiled(text, threads=1).f(x.T.copy().T, y), x * y)
