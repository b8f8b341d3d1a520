"""Chains of blocks as one kernel: the values of random chains against NumPy in float64, what stays apart and why, what programs see."""

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.fusion import chains, plan
from compiler.fusion.merge import Stage
from compiler.fusion.shown import Shown
from compiler.launch.kernels import BuiltKernel

HERE = [None, "emulator"]
STEPS = {
    "OUT = IN * 2.0": lambda v, x, y: v * 2,
    "OUT = IN + Y": lambda v, x, y: v + y,
    "OUT = X - IN": lambda v, x, y: x - v,
    "OUT = max(IN, X * 0.5)": lambda v, x, y: np.maximum(v, x * 0.5),
    "OUT = tanh(IN) * Y": lambda v, x, y: np.tanh(v) * y,
    "OUT = if IN > 0.0 { IN } else { X }": lambda v, x, y: np.where(v > 0, v, x),
}


def joined(program: zynml.CompiledProgram) -> list[list[int]]:
    """How many blocks each kernel of each chain has."""
    found = Shown.of(program._session)
    return [[len(group.members) for group in chain.plan.groups] for chain in found.chains]


def reasons(program: zynml.CompiledProgram) -> str:
    return str(program.emit("fusion"))


@pytest.mark.parametrize("device", HERE)
@pytest.mark.parametrize("seed", range(6))
def test_random_chains(device: str | None, seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = [list(STEPS)[k] for k in random.integers(0, len(STEPS), random.integers(2, 6))]
    rank = int(random.integers(1, 3))
    lines, last = [], "x"
    for number, step in enumerate(steps):
        names = [f"{name}{number}" for name in "ij"[:rank]]
        index = f"[{', '.join(names)}]"
        loops = ", ".join(f"{name} in 0..{size}{number}" for name, size in zip(names, "RC", strict=False))
        body = step.replace("OUT", f"out{index}").replace("IN", f"{last}{index}").replace("X", f"x{index}").replace("Y", f"y{index}")
        inputs = ", ".join(dict.fromkeys([last, "x", "y"]))
        block = f"compute({inputs}) {{ for {loops}: {body} }}"
        lines.append(block if number == len(steps) - 1 else f"let v{number} = {block}")
        last = f"v{number}"
    dims = ["M", "M, N"][rank - 1]
    program = zynml.compile(f"def f(x: tensor[{dims}], y: tensor[{dims}]): tensor {{\n" + "\n".join(lines) + "\n}", device=device)
    assert joined(program) == [[len(steps)]]
    for shape in [(0, 3), (1, 1), (31, 33), (7, 5)]:
        x, y = (random.standard_normal(shape[:rank]).astype(np.float32) for _ in range(2))
        want = x.astype(np.float64)
        for step in steps:
            want = STEPS[step](want, x.astype(np.float64), y.astype(np.float64))
        assert np.allclose(program.f(x, y), want, rtol=1e-5, atol=1e-5)


PRODUCT = """
def f(A: tensor[M, K], B: tensor[K, N], bias: tensor[N], more: tensor[M, N]): tensor {
    let p = compute(A, B) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }
    let q = compute(p, bias) { for r in 0..R, c in 0..C: out[r, c] = max(p[r, c] + bias[c], 0.0) }
    compute(q, more) { for i in 0..M, j in 0..N: out[i, j] = q[i, j] + more[i, j] }
}"""


@pytest.mark.parametrize("device", HERE)
@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 17, 20), (4, 0, 3)], ids=str)
def test_what_follows_a_product(device: str | None, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    random = np.random.default_rng(1)
    a, b, bias, more = (random.standard_normal(s).astype(np.float32) for s in [(m, k), (k, n), (n,), (m, n)])
    program = zynml.compile(PRODUCT, device=device)
    assert joined(program) == [[3]]
    want = np.maximum(a.astype(np.float64) @ b + bias, 0) + more
    assert np.allclose(program.f(a, b, bias, more), want, rtol=1e-5, atol=1e-5)


ROWS = """
def f(x: tensor[R, C]): tensor {
    let top = compute(x) @kernel(reduce, max, axis=1) { for i in 0..R, j in 0..C: yield x[i, j] }
    let e = compute(x, top) { for i in 0..R, j in 0..C: out[i, j] = exp(x[i, j] - top[i]) }
    compute(e) {
        for i in 0..R:
            var total = 0.0
            for j in 0..C: total += e[i, j]
            for j in 0..C: out[i, j] = e[i, j] / total
    }
}"""


@pytest.mark.parametrize("device", HERE)
def test_one_index_over_all_elements(device: str | None) -> None:
    program = zynml.compile(
        """
def f(x: tensor[?, ?], y: tensor[?, ?]): tensor {
    let t = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
    compute(t, y) { for i in 0..N: out[i] = t[i] + y[i] }
}
def g(x: tensor[?, ?]): tensor {
    let t = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
    compute(t) { for i in 0..M, j in 0..N: out[i, j] = t[i, j] + 1.0 }
}""",
        device=device,
    )
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 3), np.float32).T
    assert np.array_equal(program.f(x, y), x * 2 + y)
    assert np.array_equal(program.g(x), x * 2 + 1)


@pytest.mark.parametrize(
    ("setting", "block", "groups", "why"),
    (
        ("tf32", "", [[2]], ""),
        (None, "@precision(products=tf32)", [[1, 1]], "they multiply factors of f32 in different ways"),
        ("tf32", "@precision(products=tf32)", [[2]], ""),
    ),
)
def test_how_factors_are_multiplied_is_one_rule_of_a_kernel(setting: str | None, block: str, groups: list[list[int]], why: str) -> None:
    text = """
def f(a: tensor[M, K], b: tensor[K, N]): tensor {
    let c = compute(a, b) BLOCK {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += a[i, k] * b[k, j]
            out[i, j] = s
    }
    compute(c) { for i in 0..M, j in 0..N: out[i, j] = max(c[i, j], 0.0) }
}"""
    program = zynml.compile(text.replace("BLOCK", block), products=setting)
    assert joined(program) == groups
    assert why in reasons(program)
    a, b = (np.random.default_rng(seed).standard_normal((33, 33)).astype(np.float32) for seed in (1, 2))
    assert np.allclose(program.f(a, b), np.maximum(a.astype(np.float64) @ b, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", HERE)
def test_rows(device: str | None) -> None:
    program = zynml.compile(ROWS, device=device)
    assert joined(program) == [[3]]
    x = np.random.default_rng(2).standard_normal((7, 65)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.allclose(program.f(x), e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("device", HERE)
def test_what_is_handed_on_is_rounded(device: str | None) -> None:
    """The sum of a bf16 is of the bf16, as if it had been in memory; and no product is joined with the sum behind it."""
    program = zynml.compile(
        """
def narrow(x: tensor[N]): tensor {
    let half = compute(x) -> tensor[N, bf16] { for i in 0..N: out[i] = x[i] * 1.001 as bf16 }
    compute(half) -> tensor[N] { for i in 0..N: out[i] = (half[i] as f32) - 1.0 }
}
def wide(x: tensor[N], y: tensor[N]): tensor {
    let square = compute(x) { for i in 0..N: out[i] = x[i] * x[i] }
    compute(square, y) { for i in 0..N: out[i] = square[i] - y[i] }
}""".replace("x[i] * 1.001 as bf16", "(x[i] * 1.001) as bf16"),
        device=device,
    )
    assert joined(program) == [[2], [2]]
    x = np.random.default_rng(3).standard_normal(100).astype(np.float32)
    assert np.array_equal(program.narrow(x), (x * np.float32(1.001)).astype(ml_dtypes.bfloat16).astype(np.float32) - np.float32(1))
    assert np.array_equal(program.wide(x, x * x), np.zeros(100, np.float32))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("let t = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }\n(compute(t) { for i in 0..N: out[i] = t[i] }, t)", None),
        ("let t = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }\nprintln(t)\ncompute(t) { for i in 0..N: out[i] = t[i] }", "2 times"),
        (
            "let t = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }\nx[0] = 7.0\ncompute(t) { for i in 0..N: out[i] = t[i] }",
            "what may change what they read",
        ),
        (
            "let t = compute(x) { for i in 0..N: out[i] = exp(x[i]) }\n"
            "compute(t) { for i in 0..N - 1: out[i] = t[i] + t[i + 1] }",
            "computed more than once",
        ),
        (
            "let t = compute(x) @kernel(scan, +) { for i in 0..N: yield x[i] }\ncompute(t) { for i in 0..N: out[i] = t[i] * 2.0 }",
            "a running value",
        ),
        (
            "let t = compute(x) { for i in 0..N: out[i] = exp(x[i]) }\n"
            "compute(t, x) { for i in 0..N, j in 0..N: out[i, j] = t[i] * x[j] }",
            "cost much",
        ),
        (
            "let t = compute(x) @workgroup(64) { for i in 0..N: out[i] = x[i] + 1.0 }\ncompute(t) { for i in 0..N: out[i] = t[i] }",
            "says how it is launched",
        ),
    ],
)
def test_what_stays_apart(body: str, words: str | None) -> None:
    source = "def f(mut x: tensor[N]) {\n" + body + "\n}"
    if "x[0]" not in body:
        source = source.replace("mut x", "x")
    program = zynml.compile(source)
    assert [group for chain in joined(program) for group in chain if group != 1] == []
    assert words is None or words in reasons(program)


def test_values_of_what_stays_apart() -> None:
    program = zynml.compile(
        """
def f(x: tensor[N]): tensor {
    let t = compute(x) { for i in 0..N: out[i] = exp(x[i]) }
    compute(t) { for i in 0..N - 1: out[i] = t[i] + t[i + 1] }
}"""
    )
    x = np.linspace(-1, 1, 9, dtype=np.float32)
    e = np.exp(x.astype(np.float64))
    assert np.allclose(program.f(x), e[:-1] + e[1:], rtol=1e-6)


@pytest.mark.parametrize("device", HERE)
def test_a_fault_is_that_of_its_block(device: str | None) -> None:
    program = zynml.compile(
        """
def f(x: tensor[?], y: tensor[?]): tensor {
    let t = compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] }
    compute(t) { for i in 0..N: out[i] = t[i] * 2.0 }
}""",
        device=device,
    )
    with pytest.raises(zynml.ZynMLError, match="ZYN0802") as found:
        program.f(np.zeros(3, np.float32), np.zeros(4, np.float32))
    assert ":3:" in str(found.value)
    assert program.f(np.ones(2, np.float32), np.ones(2, np.float32)).tolist() == [4.0, 4.0]


def test_the_same_tensor_twice() -> None:
    """One tensor under two names is read once; two tensors under one name are not one."""
    program = zynml.compile(
        """
def f(x: tensor[N], y: tensor[N]): tensor {
    let t = compute(a = x, y) { for i in 0..N: out[i] = a[i] * y[i] }
    compute(t, a = y) { for i in 0..N: out[i] = t[i] - a[i] }
}"""
    )
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    assert program.f(x, y).tolist() == (x * y - y).tolist()
    assert program.f(x, x).tolist() == (x * x - x).tolist()


def test_a_fault_of_the_compiler_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(groups: object, blocks: object) -> None:
        raise ZyntaxError(Diagnostic("0901", "internal fault"))

    program = zynml.compile(
        "def f(x: tensor[N]): tensor {\n"
        "    let y = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }\n"
        "    compute(y) { for i in 0..N: out[i] = y[i] * 2.0 }\n"
        "}"
    )
    monkeypatch.setattr(chains, "_run", refused)
    with pytest.raises(zynml.ZynMLError) as raised:
        program.f(np.ones(3, np.float32))
    assert raised.value.codes == ("ZYN0901",)


@pytest.mark.parametrize("device", HERE)
def test_two_numbers_of_one_name_stay_two(device: str | None) -> None:
    program = zynml.compile(
        """def f(x: tensor[N]): tensor {
    let k = 2
    let y = compute(x, k) { for i in 0..N: out[i] = x[i] + k as f32 }
    let k = 3
    compute(y, k) { for i in 0..N: out[i] = y[i] * k as f32 }
}
""",
        device=device,
    )
    assert joined(program) == [[2]]
    assert np.array_equal(program.f(np.arange(40, dtype=np.float32)), (np.arange(40) + 2) * 3)


@pytest.mark.parametrize("count", [1, 2, 7, 23])
def test_a_chain_of_n_blocks_is_merged_in_log_n_rounds(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    merged: list[int] = []
    original = plan.joined

    def counted(stages: Sequence[Stage], *others: Any) -> BuiltKernel:
        merged.append(len(stages))
        return original(stages, *others)

    monkeypatch.setattr(plan, "joined", counted)
    steps = [f"let v{n + 1} = compute(v{n}) {{ for i in 0..N: out[i] = v{n}[i] * 0.5 + {n}.0 }}" for n in range(count)]
    program = zynml.compile("def f(v0: tensor[N]): tensor {\n" + "\n".join(steps) + f"\nv{count}\n}}")
    assert joined(program) == ([[count]] if count > 1 else [])
    assert sum(merged) <= count * math.ceil(math.log2(count) + 1)
    x = np.linspace(-1, 1, 33, dtype=np.float32)
    want = x.astype(np.float64)
    for n in range(count):
        want = want * 0.5 + n
    assert np.allclose(program.f(x), want, rtol=1e-6)


def test_what_cannot_be_joined_within_a_long_chain_parts_it_there() -> None:
    """A running sum, a kernel of its own, after 9 blocks: those before it and the 12 behind it are joined."""
    steps = [f"let v{n + 1} = compute(v{n}) {{ for i in 0..N: out[i] = v{n}[i] * 0.5 + {n}.0 }}" for n in range(22)]
    steps[9] = "let v10 = compute(v9) { var s = 0.0\nfor i in 0..N { s += v9[i]\nout[i] = s } }"
    program = zynml.compile("def f(v0: tensor[N]): tensor {\n" + "\n".join(steps) + "\nv22\n}")
    assert joined(program) == [[9, 1, 12]]
    assert "a running value is a kernel of its own" in reasons(program)
