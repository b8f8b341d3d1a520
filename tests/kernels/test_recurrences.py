"""States that march along an axis, `h = a[t, c] * h + b[t, c]`, against the loop in NumPy, with every length beside the steps that are read
at once."""

from math import inf
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.fusion.program_kernels import kernels
from compiler.hir.control import For
from compiler.hir.core import Const
from compiler.hir.gpu import SyncThreads
from compiler.hir.memory import Load, Store
from compiler.hir.shared_memory import laid_out, shared_uses
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of
from compiler.schedule.gpu.marches import staged_march
from compiler.schedule.gpu.marches.march_work import work_of

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_90a")
_RANDOM = np.random.default_rng(5)

LINEAR = """
def f(a: tensor[B, T, C], b: tensor[B, T, C]): tensor {
    compute(a, b) {
        for n in 0..B, c in 0..C:
            var h = 0.0
            for t in 0..T:
                h = a[n, t, c] * h + b[n, t, c]
                out[n, t, c] = h
    }
}
"""


def floats(*shape: int) -> Array:
    return _RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("batch", "steps", "lines"),
    [(1, 0, 3), (0, 5, 5), (2, 5, 0), (2, 1, 33), (3, 31, 40), (1, 32, 31), (1, 33, 7), (2, 63, 64), (1, 64, 1), (1, 65, 5), (1, 257, 3), (2, 300, 33)],
)
def test_linear_recurrences(batch: int, steps: int, lines: int, device: str) -> None:
    a, b = _RANDOM.uniform(-1, 1, (batch, steps, lines)).astype(np.float32), floats(batch, steps, lines)
    state, expected = np.zeros((batch, lines)), np.zeros((batch, steps, lines))
    for t in range(steps):
        state = a[:, t] * state + b[:, t]
        expected[:, t] = state
    np.testing.assert_allclose(zynml.compile(LINEAR, device=device).f(a, b), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_strict_recurrences_have_the_bits_of_the_loop(device: str) -> None:
    a, b = floats(2, 83, 9), floats(2, 83, 9)
    state, expected = np.zeros((2, 9), np.float32), np.zeros((2, 83, 9), np.float32)
    for t in range(83):
        state = a[:, t] * state + b[:, t]
        expected[:, t] = state
    assert np.array_equal(zynml.compile(LINEAR, device=device, floats="strict").f(a, b), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("steps", [5, 70])
def test_two_states_and_data_of_several_types(steps: int, device: str) -> None:
    """Ints wrap; what is read at an index that data decide, and along the line's own axis, stands beside what marches."""
    text = """
    def f(x: tensor[T, C, i32], pick: tensor[T, C, u8], table: tensor[256, i64], own: tensor[C, i64]): tensor {
        compute(x, pick, table, own) -> tensor[T, C, i64] {
            for c in 0..C:
                var h: i64 = 1
                var g: i64 = 0
                for t in 0..T:
                    let old = h
                    h = h * 3 + (x[t, c] as i64) * own[c] + table[pick[t, c]]
                    g = g + (if h > old { h } else { old - g })
                    out[t, c] = g
        }
    }
    """
    x, pick = _RANDOM.integers(-99, 99, (steps, 37)).astype(np.int32), _RANDOM.integers(0, 256, (steps, 37)).astype(np.uint8)
    table, own = _RANDOM.integers(-9, 9, 256), _RANDOM.integers(-9, 9, 37)
    h, g, expected = np.ones(37, np.int64), np.zeros(37, np.int64), np.zeros((steps, 37), np.int64)
    for t in range(steps):
        old, h = h, h * 3 + x[t] * own + table[pick[t]]
        g = g + np.where(h > old, h, old - g)
        expected[t] = g
    assert np.array_equal(zynml.compile(text, device=device).f(x, pick, table, own), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_a_state_that_reads_what_it_wrote(device: str) -> None:
    """Nothing is read ahead of the memory that the loop writes."""
    text = """
    def f(x: tensor[T, C], b: tensor[T, C]): tensor {
        compute(mut x, b) {
            for c in 0..C:
                var h = 1.0
                for t in 3..T:
                    h = 0.5 * h + x[t - 3, c] + b[t, c]
                    x[t, c] = h
        }
        return x
    }
    """
    x, b = floats(77, 5), floats(77, 5)
    expected, h = x.astype(np.float64), np.ones(5)
    for t in range(3, 77):
        h = 0.5 * h + expected[t - 3] + b[t]
        expected[t] = h
    np.testing.assert_allclose(zynml.compile(text, device=device).f(x.copy(), b), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1, 40, 100])
def test_bounds_that_are_data(length: int, device: str) -> None:
    text = """
    def f(x: tensor[T, C], ends: tensor[C, i64]): tensor {
        compute(x, ends) -> tensor[C] {
            for c in 0..C:
                var h = 0.0
                for t in 0..ends[c]: h = 0.5 * h + x[t, c]
                out[c] = h
        }
    }
    """
    x, ends = floats(100, 35), _RANDOM.integers(0, length + 1, 35)
    expected = []
    for c, end in enumerate(ends):
        h = 0.0
        for t in range(end):
            h = 0.5 * h + x[t, c]
        expected.append(h)
    program = zynml.compile(text, device=device)
    np.testing.assert_allclose(program.f(x, ends), expected, rtol=1e-5, atol=1e-5)
    ends[7] = 1 << 40
    with pytest.raises(zynml.ZynMLError, match="index 100 is out of range: axis 0 of `x` has 100 elements"):
        program.f(x, ends)


@pytest.mark.parametrize("device", ["emulator:sm_75", "emulator:sm_90a"])
def test_f64_reads_ahead_too(device: str) -> None:
    a, b = _RANDOM.uniform(-1, 1, (1, 210, 5)), _RANDOM.standard_normal((1, 210, 5))
    state, expected = np.zeros((1, 5)), np.zeros((1, 210, 5))
    for t in range(210):
        state = a[:, t] * state + b[:, t]
        expected[:, t] = state
    np.testing.assert_allclose(zynml.compile(LINEAR.replace("C]", "C, f64]"), device=device).f(a, b), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("lines", [512, 1 << 20])
def test_lines_have_helpers_on_all_targets(target: str, lines: int) -> None:
    ((_, kernel),) = kernels(zynml.compile(LINEAR)._session)
    made = launches_for(kernel.nest, kernel.field, facts_of({"B": 1, "T": 4096, "C": lines}, ("a", "b", "out"), MACHINES[target]))
    ops = [op for launch in made.launches for top in launch.function.body.body for op in top.walk()]
    assert any(isinstance(op, SyncThreads) for op in ops)
    for launch in made.launches:
        verify(launch.function)


ALONG = """
def f(a: tensor[I, T, {dtype}], b: tensor[I, T, {dtype}], c: tensor[I, {dtype}]) {{
    compute(a, b, c) {{
        for i in 0..I:
            var h = c[i]
            for t in 0..T:
                h = a[i, t] * h + b[i, t]
                out[i, t] = 2.0 * h
    }}
}}
"""


def lines_along(lines: int, steps: int, dtype: str) -> tuple[Array, Array, Array, Array]:
    """What `ALONG` is given for lines of so many steps, and what comes out."""
    numpy = np.dtype(dtype.replace("f", "float"))
    a, b = (_RANDOM.uniform(-1, 1, (lines, steps)).astype(numpy) for _ in range(2))
    c = _RANDOM.uniform(-1, 1, lines).astype(numpy)
    state, expected = c.astype(np.float64), np.zeros((lines, steps))
    for t in range(steps):
        state = a[:, t] * state + b[:, t]
        expected[:, t] = 2 * state
    return a, b, c, expected


@pytest.mark.parametrize(
    ("lines", "steps", "dtype", "size", "target"),
    [
        (0, 40, "f32", 1, "sm_90a"),
        (3, 0, "f64", 2, "sm_90a"),
        (67, 96, "f32", 128, "sm_75"),
        (67, 96, "f64", 8, "sm_80"),
        (33, 151, "f16", 32, "sm_90a"),
        (33, 152, "f16", 16, "sm_75"),
        (40, 67, "f32", 64, "sm_90a"),
    ],
)
def test_blocks_of_any_size(
    lines: int, steps: int, dtype: str, size: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines along memory, that begin at multiples of 16 bytes and that don't; blocks of more lines than there are."""
    monkeypatch.setattr(staged_march, "LINES", (size,))
    a, b, c, expected = lines_along(lines, steps, dtype)
    program = zynml.compile(ALONG.format(dtype=dtype), device=f"emulator:{target}", sanitize=True)
    bound = 2e-2 if dtype == "f16" else 1e-5
    np.testing.assert_allclose(np.asarray(program.f(a, b, c), np.float64), expected, rtol=bound, atol=bound)


@pytest.mark.parametrize(("lines", "steps", "dtype"), [(0, 150, "f32"), (1, 128, "f64"), (9, 129, "f32"), (5, 40, "f32"), (9, 144, "f16")])
@pytest.mark.parametrize("text", [ALONG, ALONG.replace("I, T, {dtype}", "T, I, {dtype}").replace("[i, t]", "[t, i]")], ids=["along", "across"])
def test_few_lines_have_helpers(text: str, lines: int, steps: int, dtype: str) -> None:
    """Parts that end where lines do, or before; blocks with fewer lines than they could have."""
    a, b, c, expected = lines_along(lines, steps, dtype)
    if text is not ALONG:
        a, b, expected = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), expected.T
    program = zynml.compile(text.format(dtype=dtype), device="emulator:sm_90a", sanitize=True)
    bound = 2e-2 if dtype == "f16" else 1e-5  # the last few steps of a line each round to 11 bits
    np.testing.assert_allclose(np.asarray(program.f(a, b, c), np.float64), expected, rtol=bound, atol=bound)


def test_few_lines_of_any_length() -> None:
    """Where each line begins and ends elsewhere, nobody can copy ahead for all."""
    text = ALONG.format(dtype="f32").replace("for t in 0..T:", "for t in i..T - 2 * i:")
    a, b = (_RANDOM.uniform(-1, 1, (9, 150)).astype(np.float32) for _ in range(2))
    expected = np.zeros((9, 150))
    for i in range(9):
        state = 0.5
        for t in range(i, 150 - 2 * i):
            state = float(a[i, t]) * state + float(b[i, t])
            expected[i, t] = 2 * state
    program = zynml.compile(text.replace("(a, b, c) {", "(a, b, c) -> tensor[I, T] {", 1), device="emulator:sm_90a", sanitize=True)
    got = program.f(a, b, np.full(9, 0.5, np.float32))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [2, 7, 8])
def test_few_lines_that_read_much(count: int) -> None:
    """A part of so many elements of f64 has fewer steps: each helper still has an element of its own."""
    names = [f"x{number}" for number in range(count)]
    text = f"""
    def f({", ".join(f"{name}: tensor[T, I, f64]" for name in names)}) {{
        compute({", ".join(names)}) {{
            for i in 0..I:
                var h = 0.0 as f64
                for t in 0..T:
                    h = 0.5 * h + {" + ".join(f"{name}[t, i]" for name in names)}
                    out[t, i] = h
        }}
    }}
    """
    inputs = [_RANDOM.standard_normal((140, 5)) for _ in names]
    state, expected = np.zeros(5), np.zeros((140, 5))
    for t, row in enumerate(sum(inputs)):
        state = 0.5 * state + row
        expected[t] = state
    np.testing.assert_allclose(zynml.compile(text, device="emulator:sm_90a", sanitize=True).f(*inputs), expected, rtol=1e-10, atol=1e-10)


BESIDE = """
def f(a: tensor[{I}, {T}, {J}, {dtype}], b: tensor[{I}, {T}, {J}, {dtype}], c: tensor[{J}, {dtype}]) {{
    compute(a, b, c) {{
        for i in 0..{I}, j in 0..{J}:
            var h = 1.0 + c[j]
            for t in 0..{T}:
                h = a[i, t, j] * h + b[i, t, j]
                out[i, t, j] = h
    }}
}}
"""


@pytest.mark.parametrize(("planes", "steps", "lines", "named"), [(3, 67, 6, False), (2, 96, 2, False), (5, 32, 12, True), (2, 40, 7, True)])
def test_neighbouring_lines_of_short_elements_share_words(planes: int, steps: int, lines: int, named: bool) -> None:
    """Lines that fill no block, steps that are left over, lines without a neighbour, and names of which the launch says what divides them."""
    a, b = (_RANDOM.uniform(-1, 1, (planes, steps, lines)).astype(np.float16) for _ in range(2))
    c = _RANDOM.uniform(-1, 1, lines).astype(np.float16)
    state, expected = np.broadcast_to(1.0 + c.astype(np.float64), (planes, lines)), np.zeros((planes, steps, lines))
    for t in range(steps):
        state = a[:, t] * state + b[:, t]
        expected[:, t] = state
    sizes = {"I": "I", "T": "T", "J": "J"} if named else {"I": planes, "T": steps, "J": lines}
    program = zynml.compile(BESIDE.format(**sizes, dtype="f16"), device="emulator:sm_90a", sanitize=True)
    np.testing.assert_allclose(program.f(a, b, c), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("ahead", [0, 2, 8])
@pytest.mark.parametrize(
    ("planes", "steps", "lines", "dtype", "size"),
    [(2, 70, 41, "f16", 32), (2, 72, 48, "f16", 64), (3, 37, 33, "f32", 32), (1, 40, 129, "f64", 64), (1, 36, 31, "f16", 64), (1, 20, 1, "f32", 32)],
)
def test_neighbouring_lines_store_by_themselves(
    planes: int, steps: int, lines: int, dtype: str, size: int, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that begin at multiples of 16 bytes, and at any address: copied some parts ahead, or loaded as words; lines that aren't there."""
    monkeypatch.setattr(staged_march, "LINES", (size,))
    monkeypatch.setattr(staged_march, "AHEAD", (ahead,))
    monkeypatch.setattr(staged_march, "price_of_threads", lambda *_: inf)
    numpy = np.dtype(dtype.replace("f", "float"))
    a, b = (_RANDOM.uniform(-1, 1, (planes, steps, lines)).astype(numpy) for _ in range(2))
    c = _RANDOM.uniform(-1, 1, lines).astype(numpy)
    state, expected = np.broadcast_to(1.0 + c.astype(np.float64), (planes, lines)), np.zeros((planes, steps, lines))
    for t in range(steps):
        state = a[:, t] * state + b[:, t]
        expected[:, t] = state
    program = zynml.compile(BESIDE.format(I="I", T="T", J="J", dtype=dtype), device="emulator:sm_90a", sanitize=True)
    np.testing.assert_allclose(np.asarray(program.f(a, b, c), np.float64), expected, rtol=2e-3, atol=2e-3)


SHARED = """
def f(a: tensor[B, T, C, f16], x: tensor[B, T, C, f16], w: tensor[B, T, 7], v: tensor[T], own: tensor[C, f16]): tensor {
    compute(a, x, w, v, own) -> tensor[B, T, C, f16] {
        for n in 0..B, c in 0..C:
            var h = 0.5
            var g = 1.0
            for t in 0..T:
                h = a[n, t, c] * h + x[n, t, c] * own[c] + v[t]
                g = 0.5 * g + w[n, t, 1] * h - w[n, t, 5]
                out[n, t, c] = 2.0 * g
    }
}
"""


@pytest.mark.parametrize("size", [1, 16, 64])
@pytest.mark.parametrize(("batch", "steps", "lines"), [(2, 37, 40), (3, 300, 5), (1, 1, 1), (2, 0, 3)])
def test_rows_that_lines_share(batch: int, steps: int, lines: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some elements of a row of 7 for the lines of a plane, one element for all lines, and one of a line for all steps."""
    monkeypatch.setattr(staged_march, "LINES", (size,))
    a, x = (_RANDOM.uniform(-1, 1, (batch, steps, lines)).astype(np.float16) for _ in range(2))
    w, v, own = floats(batch, steps, 7), floats(steps), _RANDOM.uniform(-1, 1, lines).astype(np.float16)
    h, g, expected = np.full((batch, lines), 0.5), np.ones((batch, lines)), np.zeros((batch, steps, lines))
    for t in range(steps):
        h = a[:, t].astype(np.float64) * h + x[:, t].astype(np.float64) * own + v[t]
        g = 0.5 * g + w[:, t, 1, None] * h - w[:, t, 5, None]
        expected[:, t] = 2 * g
    program = zynml.compile(SHARED, device="emulator:sm_90a", sanitize=True)
    np.testing.assert_allclose(np.asarray(program.f(a, x, w, v, own), np.float64), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("step", "left", "own", "late"),
    [
        ("h = a[t, c] * h + x[t, c]", "h", {"mul", "add"}, {"cast"}),
        ("h = max(h + 2.0 * a[t, c], x[t, c])", "3.0 * h", {"add", "max"}, {"mul", "cast"}),
        ("h = h * a[t, c] + 1.0 / (1.0 + x[t, c] * x[t, c])", "h - a[t, c]", {"mul", "add", "sub"}, {"cast"}),
        ("h = 0.5 * h + a[t, c] * x[t, c]", "h * h", {"mul", "add"}, {"mul", "cast"}),
    ],
)
def test_lines_do_what_their_state_needs(step: str, left: str, own: set[str], late: set[str]) -> None:
    """Operations of what is read, and of what is stored, are those of helpers."""
    text = f"""
    def f(a: tensor[T, C, bf16], x: tensor[T, C, bf16]) {{
        compute(a, x) -> tensor[T, C, bf16] {{
            for c in 0..C:
                var h = 0.0
                for t in 0..T:
                    {step}
                    out[t, c] = {left}
        }}
    }}
    """
    ((_, kernel),) = kernels(zynml.compile(text, floats="strict")._session)
    (loop,) = [op for top in kernel.nest.body.body for op in top.walk() if isinstance(op, For) and op.carried]
    loads = [op for op in loop.body.body if isinstance(op, Load)]
    work = work_of(loop, loads, [op for op in loop.body.body if isinstance(op, Store)], ())
    assert {getattr(op, "operator", "cast") for op in work.own if not isinstance(op, Const)} == own
    assert {getattr(op, "operator", "cast") for op in work.late[0] if not isinstance(op, Const)} == late
    assert len(work.brought) <= len(loads)


def test_what_helpers_copy_fits_a_block() -> None:
    """Lines of 16 bits along memory, whose helpers copy to where lines read: nothing is put aside for copies besides."""
    text = """def f(x: tensor[I, T, bf16], a: tensor[I, T, bf16]) {
        compute(x, a) {
            for i in 0..I:
                var h = -inf
                for t in 0..T:
                    h = max(h + a[i, t], x[i, t])
                    out[i, t] = h
        }
    }"""
    ((_, kernel),) = kernels(zynml.compile(text)._session)
    made = launches_for(kernel.nest, kernel.field, facts_of({"I": 65984, "T": 3008}, ("x", "a", "out"), MACHINES["sm_90a"]))
    assert any("bring" in words for words in made.words)
    assert all(laid_out(shared_uses(launch.function)) <= MACHINES["sm_90a"].block_shared for launch in made.launches)


BEST_TWO = """def f(g: tensor[T, E]) {
    compute(g) -> (best: tensor[T, 2], place: tensor[T, i32]) {
        for t in 0..T {
            var a = -inf
            var b = -inf
            var at = 0
            for e in 0..E {
                if g[t, e] > a {
                    b = a
                    a = g[t, e]
                    at = e
                } elif g[t, e] > b: b = g[t, e]
            }
            best[t, 0] = a
            best[t, 1] = b
            place[t] = at as i32
        }
    }
}"""
LAST = """def f(x: tensor[T, E]) {
    compute(x) { for t in 0..T {
        var last = 0.0
        for e in 0..E {
            if x[t, e] == x[t, e]: last = x[t, e]
            out[t, e] = last
        }
    } }
}"""


@pytest.mark.parametrize("shape", [(70, 40), (1, 1), (33, 131), (5, 0)])
def test_branches_of_a_step_are_no_obstacle_to_helpers(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is read at the end alone, and elements that are kept where they are numbers."""
    monkeypatch.setattr(staged_march, "SURELY", float("inf"))
    x = _RANDOM.standard_normal(shape).astype(np.float32)
    if shape[1]:
        best, place = zynml.compile(BEST_TWO, device="emulator:sm_90a", sanitize=True).f(x)
        ordered = -np.sort(-np.pad(x, ((0, 0), (0, 1)), constant_values=-np.inf), axis=1)
        np.testing.assert_array_equal(best, ordered[:, :2])
        np.testing.assert_array_equal(place, x.argmax(1))
    x[_RANDOM.random(shape) < 0.4] = np.nan
    expected, last = np.zeros(shape), np.zeros(shape[0])
    for e in range(shape[1]):
        last = expected[:, e] = np.where(np.isnan(x[:, e]), last, x[:, e])
    program = zynml.compile(LAST, device="emulator:sm_90a", sanitize=True)
    np.testing.assert_array_equal(program.f(x), expected)
    (kernel,) = program._session.launches_like(["x=4096x16384"], "emulator:sm_90a")
    assert any("other threads bring" in word for word in kernel.threads.launches.words)
