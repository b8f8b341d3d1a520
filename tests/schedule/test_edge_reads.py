"""Windows that stop at a picture's edges by `clamp`, and by the ways to write the same, or go on at the other end by `%`: inside they are
read as if there were no edge. Expected values from NumPy, of whole numbers that every sum holds exactly."""

import re

import numpy as np
import pytest

import zynml

BOX = """def f(x: tensor[H, W, {type}]) {{
    compute(x) -> tensor[H, W, i32] {{
        for y in 0..H, q in 0..W:
            var s: i32 = 0
            for a in 0..3, b in 0..5:
                {index}
                s += (x[u, v] as i32) * ((a + 2 * b + 1) as i32)
            out[y, q] = s
    }}
}}"""

INDICES = {
    "clamp": "let u = clamp(y + a - 1, 0, H - 1)\n                let v = clamp(q + b - 2, 0, W - 1)",
    "min and max": "let u = min(max(y + a - 1, 0), H - 1)\n                let v = max(min(W - 1, q + b - 2), 0)",
    "choices": "let r = y + a - 1\n                let u = if r < 0 { 0 } else { if r >= H { H - 1 } else { r } }\n"
    "                let v = if q + b < 2 { 0 } else { min(q + b - 2, W - 1) }",
}


def boxes(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x.astype(np.int64), ((1, 1), (2, 2)), mode="edge")
    high, wide = x.shape
    return sum((a + 2 * b + 1) * padded[a : a + high, b : b + wide] for a in range(3) for b in range(5))


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
def test_windows_stop_at_the_edges(device: str, index: str) -> None:
    program = zynml.compile(BOX.format(type="u8", index=index), device=device)
    for shape in [(1, 1), (2, 3), (5, 33), (3, 300)]:
        x = np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8)
        assert np.array_equal(program.f(x), boxes(x)), shape


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_80"])
@pytest.mark.parametrize("type", ["f32", "f16", "i16"])
def test_of_every_width(device: str, type: str) -> None:
    program = zynml.compile(BOX.format(type=type, index=INDICES["clamp"]), device=device)
    x = np.random.default_rng(3).integers(0, 100, (7, 64)).astype({"f32": np.float32, "f16": np.float16, "i16": np.int16}[type])
    assert np.array_equal(program.f(x), boxes(x))


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
def test_neighbours_of_a_row(device: str) -> None:
    text = """def f(x: tensor[N, f64]) {
        compute(x) { for i in 0..N: out[i] = x[max(i - 1, 0)] + 4.0 * x[i] + x[min(i + 3, N - 1)] }
    }"""
    program = zynml.compile(text, device=device)
    for count in (1, 2, 31, 1000):
        x = np.arange(count, dtype=np.float64) ** 2
        at = np.arange(count)
        assert np.array_equal(program.f(x), x[np.maximum(at - 1, 0)] + 4 * x + x[np.minimum(at + 3, count - 1)])


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
def test_steps_of_two_and_other_bounds(device: str) -> None:
    """An index with bounds that aren't those of the memory is the number that it says."""
    text = """def f(x: tensor[N, i32]) {
        compute(x) -> tensor[N / 2, i32] {
            for i in 0..N / 2: out[i] = x[clamp(2 * i - 3, 0, N - 1)] + 1000 * x[clamp(i - 1, 1, N - 2)] + 1000000 * x[clamp(2 * i + 1, 0, N - 1)]
        }
    }"""
    x = np.arange(1, 91, dtype=np.int32)
    at = np.arange(45)
    wanted = x[np.clip(2 * at - 3, 0, 89)] + 1000 * x[np.clip(at - 1, 1, 88)] + 1000000 * x[2 * at + 1]
    assert np.array_equal(zynml.compile(text, device=device).f(x), wanted)


def test_inside_nothing_is_gathered() -> None:
    """The loads of the table that the CPU runs in most tiles have affine indices."""
    text = str(zynml.compile(BOX.format(type="u8", index=INDICES["clamp"])).emit("hir-after=place"))
    assert re.search(r"load %x\[\w*\+?a0\S*, \S*simd\S*\] :", text), text


TORUS = """def f(x: tensor[H, W, {type}]) {{
    compute(x) -> tensor[H, W, i32] {{
        for y in 0..H, q in 0..W:
            var s: i32 = 0
            for a in 0..3, b in 0..5: s += (x[(y + a + H - 1) % H, (q + b - 2 + 2 * W) % W] as i32) * ((a + 2 * b + 1) as i32)
            out[y, q] = s
    }}
}}"""


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
@pytest.mark.parametrize("type", ["u8", "f32"])
def test_windows_go_on_at_the_other_end(device: str, type: str) -> None:
    program = zynml.compile(TORUS.format(type=type), device=device)
    for shape in [(1, 1), (2, 3), (5, 33), (6, 64), (3, 320)]:
        x = np.random.default_rng(sum(shape)).integers(0, 100, shape).astype({"u8": np.uint8, "f32": np.float32}[type])
        shifted = (np.roll(x.astype(np.int64), (1 - a, 2 - b), (0, 1)) * (a + 2 * b + 1) for a in range(3) for b in range(5))
        assert np.array_equal(program.f(x), sum(shifted)), shape


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
def test_many_turns_around(device: str) -> None:
    """An index that passes the end several times, of a row shorter than the window."""
    text = """def f(x: tensor[N, i32]) {
        compute(x) { for i in 0..N {
            var s: i32 = 0
            for k in 0..9: s += x[(i + k) % N] * ((k + 1) as i32)
            out[i] = s
        } }
    }"""
    program = zynml.compile(text, device=device)
    for count in (1, 2, 3, 8, 100):
        x = np.arange(3, 3 + count, dtype=np.int32)
        assert np.array_equal(program.f(x), sum(np.roll(x, -k) * (k + 1) for k in range(9)))


TURNS = {
    "abs and a choice": ("reflect", "let c = abs(q + b - 2)\n                let v = if c >= W { 2 * W - 2 - c } else { c }"),
    "smaller and larger": ("reflect", "let c = q + b - 2\n                let v = max(min(c, 2 * W - 2 - c), 2 - q - b)"),
    "twice abs": ("reflect", "let v = W - 1 - abs(W - 1 - abs(q + b - 2))"),
    "edges twice": (
        "symmetric",
        "let c = if q + b < 2 { 1 - q - b } else { q + b - 2 }\n                let v = if c > W - 1 { 2 * W - 1 - c } else { c }",
    ),
}


@pytest.mark.parametrize("type", ["f16", "f32"])
@pytest.mark.parametrize("mode, index", TURNS.values(), ids=TURNS)
def test_windows_turn_back_at_the_edges(mode: str, index: str, type: str) -> None:
    program = zynml.compile(BOX.format(type=type, index=f"let u = clamp(y + a - 1, 0, H - 1)\n                {index}"), device="cpu")
    emulated = zynml.compile(BOX.format(type=type, index=f"let u = y\n                {index}"), device="emulator:sm_90a")
    for shape in [(1, 3), (5, 33), (4, 64), (3, 328)]:
        x = np.random.default_rng(sum(shape)).integers(0, 100, shape).astype({"f16": np.float16, "f32": np.float32}[type])
        padded = np.pad(x.astype(np.int64), ((0, 0), (2, 2)), mode=mode)
        padded = np.pad(padded, ((1, 1), (0, 0)), mode="edge")
        terms = {(a, b): (a + 2 * b + 1) * padded[:, b : b + shape[1]] for a in range(3) for b in range(5)}
        assert np.array_equal(program.f(x), sum(term[a : a + shape[0]] for (a, _), term in terms.items())), shape
        assert np.array_equal(emulated.f(x), sum(term[1:-1] for term in terms.values())), shape


def test_pictures_turned_back_at_all_edges_are_read_in_vectors() -> None:
    """A thread's vector at an edge has the lanes of the one inside in the opposite order; no launch checks an index that can't be outside."""
    text = """def f(x: tensor[H, W, f32]) {
        compute(x) -> tensor[H + 2, W, f32] {
            for y in 0..H + 2, q in 0..W {
                let u = abs(y - 1)
                let r = if u >= H { 2 * H - 2 - u } else { u }
                let c = abs(q - 1)
                let d = W - 1 - abs(W - 2 - q)
                out[y, q] = x[r, c] + 3.0 * x[r, d]
            }
        }
    }"""
    program = zynml.compile(text, device="emulator:sm_90a")
    for shape in [(2, 2), (5, 64), (7, 33)]:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        padded = np.pad(x, 1, mode="reflect")
        assert np.array_equal(program.f(x), padded[:, :-2] + 3 * padded[:, 2:]), shape
    ptx = str(zynml.compile(text)._session.emit("ptx", "sm_90a", ["x=4096x4096"]))
    assert ptx.count(".entry") == 1 and "ld.global.nc.v4.b32" in ptx and "trap" not in ptx


def test_an_index_that_passes_both_edges_faults() -> None:
    """Of a row that is shorter than the window is wide, an index is outside even where it has turned back."""
    text = "def f(x: tensor[N]) { compute(x) { for i in 0..N: out[i] = x[abs(i - 3)] } }"
    program = zynml.compile(text, device="emulator:sm_90a")
    x = np.arange(9, dtype=np.float32)
    assert np.array_equal(program.f(x), x[np.abs(np.arange(9) - 3)])
    with pytest.raises(zynml.ZynMLError, match="out of range"):
        program.f(x[:2])
