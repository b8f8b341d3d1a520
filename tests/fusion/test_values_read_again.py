"""Values that several blocks of a function read, or that something else looks at afterwards: one kernel with several results, or one that
keeps them in registers. Against NumPy in float64."""

from collections.abc import Callable

import numpy as np
import pytest

import zynml
from compiler.fusion.shown import Shown

HERE = [None, "emulator"]

MAPS: dict[str, Callable[..., np.ndarray]] = {
    "P[i, j] * 0.5 + Q[i, j]": lambda p, q: p * 0.5 + q,
    "max(P[i, j], Q[i, j])": np.maximum,
    "P[i, j] - Q[i, j] * Q[i, j]": lambda p, q: p - q * q,
    "tanh(P[i, j]) + Q[i, j]": lambda p, q: np.tanh(p) + q,
}
ROWS = "var s = 0.0\n            for j in 0..C: s += P[i, j] * P[i, j]\n            for j in 0..C: out[i, j] = P[i, j] * rsqrt(s + 1.0) + Q[i, j]"


def rows(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return p / np.sqrt((p * p).sum(1, keepdims=True) + 1) + q


def groups(program: zynml.CompiledProgram) -> list[list[int]]:
    return [[len(group.members) for group in chain.plan.groups] for chain in Shown.of(program._session).chains]


@pytest.mark.parametrize("device", HERE)
@pytest.mark.parametrize("seed", range(8))
def test_random_graphs(device: str | None, seed: int) -> None:
    """Each block reads two of the values before it, whichever; some values are results of the function."""
    random = np.random.default_rng(seed)
    names, lines, steps = ["x", "y"], [], []
    for number in range(int(random.integers(3, 7))):
        p, q = (names[k] for k in random.integers(0, len(names), 2))
        kind = random.integers(0, 5)
        if kind < 4 or p == q:
            text, meaning = list(MAPS.items())[kind % 4]
            loops = "for i in 0..R, j in 0..C: out[i, j] = " + text
        else:
            loops, meaning = "for i in 0..R:\n            " + ROWS, rows
        body = loops.replace("P[", f"{p}[").replace("Q[", f"{q}[")
        lines.append(f"    let v{number} = compute({', '.join(dict.fromkeys((p, q)))}) {{\n        {body}\n    }}")
        steps.append((p, q, meaning))
        names.append(f"v{number}")
    wanted = sorted({names[-1], *(names[k] for k in random.integers(2, len(names), 2))})
    value = wanted[0] if len(wanted) == 1 else f"({', '.join(wanted)})"
    program = zynml.compile("def f(x: tensor[R, C], y: tensor[R, C]) {\n" + "\n".join(lines) + f"\n    {value}\n}}", device=device)
    for shape in [(1, 1), (5, 33), (0, 4)]:
        known = dict(zip("xy", (random.standard_normal(shape).astype(np.float32).astype(np.float64) for _ in "xy"), strict=True))
        found = program.f(*(known[name].astype(np.float32) for name in "xy"))
        for name, (p, q, meaning) in zip(names[2:], steps, strict=True):
            known[name] = meaning(known[p], known[q])
        for name, one in zip(wanted, found if len(wanted) > 1 else (found,), strict=True):
            np.testing.assert_allclose(one, known[name], rtol=2e-4, atol=2e-4)


RESIDUAL = """
def f(x: tensor[R, C], a: tensor[R, C], gain: tensor[C]) {
    let y = compute(x, a) { for i in 0..R, j in 0..C: out[i, j] = x[i, j] + a[i, j] }
    let n = compute(y, gain) {
        for i in 0..R:
            var s = 0.0
            for j in 0..C: s += y[i, j] * y[i, j]
            for j in 0..C: out[i, j] = y[i, j] * rsqrt(s / (C as f32) + 0.001) * gain[j]
    }
    (n, y)
}"""


@pytest.mark.parametrize("device", HERE)
def test_what_is_added_and_its_norm_are_one_kernel(device: str | None) -> None:
    program = zynml.compile(RESIDUAL, device=device)
    assert groups(program) == [[2]]
    assert "lines 3 and 4: one kernel, which stores what line 3 makes, too" in str(program.emit("fusion"))
    x, a, gain = (np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k, shape in enumerate([(7, 65), (7, 65), (65,)]))
    n, y = program.f(x, a, gain)
    want = x.astype(np.float64) + a
    np.testing.assert_array_equal(y, x + a)
    np.testing.assert_allclose(n, want / np.sqrt((want**2).mean(1, keepdims=True) + 0.001) * gain, rtol=1e-5, atol=1e-6)


def test_what_all_readers_take_into_their_kernel_is_never_stored() -> None:
    program = zynml.compile(
        """
def f(x: tensor[R, C]): tensor {
    let y = compute(x) { for i in 0..R, j in 0..C: out[i, j] = x[i, j] * 2.0 }
    let m = compute(y) @kernel(reduce, +, axis=1) { for i in 0..R, j in 0..C: yield y[i, j] }
    compute(y, m) { for i in 0..R, j in 0..C: out[i, j] = y[i, j] - m[i] / (C as f32) }
}"""
    )
    (chain,) = Shown.of(program._session).chains
    assert [(group.members, group.results) for group in chain.plan.groups] == [((0, 1, 2), (2,))]
    x = np.random.default_rng(1).standard_normal((4, 9)).astype(np.float32)
    np.testing.assert_allclose(program.f(x), 2 * x - 2 * x.astype(np.float64).mean(1, keepdims=True), atol=1e-6)


def test_the_order_of_what_runs() -> None:
    """`a` and `c` can't be one kernel: `b`, which stays a kernel of its own, reads the one and is read by the other."""
    program = zynml.compile(
        """
def f(x: tensor[N]) {
    let a = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
    let b = compute(a) @kernel(scan, +) { for i in 0..N: yield a[i] }
    compute(a, b) { for i in 0..N: out[i] = a[i] + b[i] }
}"""
    )
    assert "another block between them reads it" in str(program.emit("fusion"))
    x = np.arange(5, dtype=np.float32)
    assert np.array_equal(program.f(x), 2 * x + np.cumsum(2 * x))


USES = {
    "println(y)\n    z": lambda x: 2 * x + 1,
    "let rest = y[1:]\n    compute(rest) { for i in 0..K: out[i] = rest[i] }": lambda x: 2 * x[1:],
    "let look = def(k): y[k]\n    compute(z, first = look(0)) { for i in 0..N: out[i] = z[i] + first }": lambda x: 2 * x + 1 + 2 * x[0],
    "for k in 0..2 { println(y.shape()) }\n    y": lambda x: 2 * x,
    "let w = compute(y, y2 = y) { for i in 0..N: out[i] = y[i] * y2[i] }\n    compute(w, z) { for i in 0..N: out[i] = w[i] - z[i] }": lambda x: 4 * x * x - 2 * x - 1,
}


@pytest.mark.parametrize("use", list(USES), ids=range(len(USES)))
def test_what_else_looks_at_a_value(use: str) -> None:
    program = zynml.compile(
        f"""
def f(x: tensor[N], flag: bool) {{
    let y = compute(x) {{ for i in 0..N: out[i] = x[i] * 2.0 }}
    let z = compute(y) {{ for i in 0..N: out[i] = y[i] + 1.0 }}
    {use}
}}"""
    )
    x = np.float32([1, 2, 3])
    for flag in (True, False):
        assert np.array_equal(program.f(x, flag), USES[use](x))


def test_values_change_after_they_were_read() -> None:
    program = zynml.compile(
        """
def f(mut x: tensor[N]) {
    let y = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
    let z = compute(y) { for i in 0..N: out[i] = y[i] + 1.0 }
    x[0] = 100.0
    let w = compute(y, z) { for i in 0..N: out[i] = y[i] + z[i] }
    w
}"""
    )
    assert np.array_equal(program.f(np.float32([1, 2])), [5, 9])


def test_sanitized_blocks_run_one_by_one() -> None:
    program = zynml.compile(RESIDUAL, sanitize=True)
    x = np.ones((2, 3), np.float32)
    n, y = program.f(x, x, x[0])
    assert np.array_equal(y, 2 * x) and np.allclose(n, 2 / np.sqrt(4.001))


NUMBERS = """
def scaled(x: tensor[M, N]): tensor {
    let s = compute(x) @kernel(reduce, +) { for i in 0..M, j in 0..N: yield x[i, j] }
    compute(x, s) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] / s }
}
def standard(x: tensor[M, N], count: f32): tensor {
    let s = compute(x) @kernel(reduce, +) { for i in 0..M, j in 0..N: yield x[i, j] }
    let v = compute(x, s, count) @kernel(reduce, +) { for i in 0..M, j in 0..N: yield (x[i, j] - s / count) * (x[i, j] - s / count) }
    compute(x, s, v, count) { for i in 0..M, j in 0..N: out[i, j] = (x[i, j] - s / count) * rsqrt(v / count) }
}
def shown(x: tensor[N]) {
    let top = compute(x) @kernel(reduce, max) { for i in 0..N: yield x[i] }
    let y = compute(x, top) { for i in 0..N: out[i] = x[i] - top }
    (y, top)
}
def counted(x: tensor[N, i64]): tensor[?, i64] {
    let s = compute(x) @kernel(reduce, +) { for i in 0..N: yield x[i] }
    compute(x, s) { for i in 0..N: out[i] = x[i] * s }
}
"""


@pytest.mark.parametrize("device", HERE)
def test_numbers_that_only_blocks_read_stay_on_the_device(device: str | None) -> None:
    program = zynml.compile(NUMBERS, device=device)
    assert groups(program) == [[2], [3], [1, 1], [1, 1]]
    random = np.random.default_rng(4)
    for shape in [(1, 1), (3, 7), (33, 65)]:
        x = (random.random(shape) + 0.5).astype(np.float32)
        wide = x.astype(np.float64)
        np.testing.assert_allclose(program.scaled(x), wide / wide.sum(), rtol=1e-5)
        if x.size > 1:
            want = (wide - wide.mean()) / wide.std()
            np.testing.assert_allclose(program.standard(x, float(x.size)), want, rtol=1e-3, atol=1e-4)
    y, top = program.shown(np.float32([1, 5, 2]))
    assert y.tolist() == [-4, 0, -3] and top == 5
    assert program.counted(np.int64([1, 2, 3])).tolist() == [6, 12, 18]


TURNED = """
def f(d: tensor[T, H, E], y: tensor[H, T, E]) {
    let above = compute(d) -> tensor[H, T, E] { for h in 0..H, t in 0..T, e in 0..E: out[h, t, e] = d[t, h, e] }
    let p = compute(above, y) -> tensor[H, T, T] {
        for h in 0..H, i in 0..T, j in 0..T:
            var s = 0.0
            for e in 0..E: s += above[h, i, e] * y[h, j, e]
            out[h, i, j] = s
    }
    (p, above)
}"""


@pytest.mark.parametrize("device", HERE)
def test_an_operand_of_a_product_that_others_read_goes_through_memory(device: str | None) -> None:
    program = zynml.compile(TURNED, device=device)
    assert groups(program) == [[1, 1]]
    d, y = (np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k, shape in enumerate([(9, 2, 5), (2, 9, 5)]))
    p, above = program.f(d, y)
    np.testing.assert_array_equal(above, d.transpose(1, 0, 2))
    np.testing.assert_allclose(p, d.transpose(1, 0, 2).astype(float) @ y.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)
