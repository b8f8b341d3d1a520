"""Fields made by hand, with what they compute in NumPy: the cases that schedules are tested on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem

Array = Any


@frozen
class Example:
    """`shapes`: of inputs then result, from the sizes; `expected`: the result in float64."""

    name: str
    make: Callable[[], HirFunction]
    sizes: tuple[str, ...]
    shapes: Callable[..., list[tuple[int, ...]]]
    expected: Callable[..., Array]


def _start(name: str, axes: dict[str, str], memories: dict[str, list[str]], sizes: str) -> tuple[FunctionBuilder, list[Any]]:
    f = FunctionBuilder(name, Form.FIELD, axes)  # type: ignore[arg-type]
    values = [f.parameter(n, Mem("f32", tuple(d))) for n, d in memories.items()]  # type: ignore[arg-type]
    for size in sizes:
        f.parameter(size, INDEX)
    return f, values


def matmul() -> HirFunction:
    f, (a, b, c) = _start("matmul", {"i": "M", "j": "N", "k": "K"}, {"A": ["M", "K"], "B": ["K", "N"], "C": ["M", "N"]}, "MNK")
    e = f.body
    e.store(c, e.contract(e.load(a, ["i", "k"]), e.load(b, ["k", "j"]), over=["k"], to="f32"), ["i", "j"])
    return f.finish()


def matmul_of_transposed() -> HirFunction:
    """Both operands contiguous along the sum."""
    f, (a, b, c) = _start("nt", {"i": "M", "j": "N", "k": "K"}, {"A": ["M", "K"], "B": ["N", "K"], "C": ["M", "N"]}, "MNK")
    e = f.body
    e.store(c, e.contract(e.load(a, ["i", "k"]), e.load(b, ["j", "k"]), over=["k"], to="f32"), ["i", "j"])
    return f.finish()


def softmax() -> HirFunction:
    f, (x, y) = _start("softmax", {"i": "M", "j": "N"}, {"X": ["M", "N"], "Y": ["M", "N"]}, "MN")
    e = f.body
    value = e.load(x, ["i", "j"])
    (top,) = e.reduce("max", value, over=["j"])
    weight = e.op("exp", e.sub(value, top))
    (total,) = e.reduce("add", weight, over=["j"], flags=("reassoc",))
    e.store(y, e.op("div", weight, total), ["i", "j"])
    return f.finish()


def sums(over: list[str]) -> Callable[[], HirFunction]:
    def make() -> HirFunction:
        kept = [d for a, d in (("i", "M"), ("j", "N")) if a not in over]
        f, (x, y) = _start("sums", {"i": "M", "j": "N"}, {"X": ["M", "N"], "Y": kept}, "MN")
        e = f.body
        (total,) = e.reduce("add", e.load(x, ["i", "j"]), over=over, flags=("reassoc",))
        e.store(y, total, [a for a in ("i", "j") if a not in over])
        return f.finish()

    return make


def transpose() -> HirFunction:
    f, (x, y) = _start("transpose", {"i": "N", "j": "M"}, {"X": ["M", "N"], "Y": ["N", "M"]}, "MN")
    e = f.body
    e.store(y, e.load(x, ["j", "i"]), ["i", "j"])
    return f.finish()


def guarded_window() -> HirFunction:
    """A sum over a window that hangs over both ends and counts only what is inside."""
    f, (x, w, y) = _start("window", {"i": "M", "r": "K"}, {"X": ["M"], "W": ["K"], "Y": ["M"]}, "MK")
    e = f.body
    inside = e.inbounds("i", "M")
    from compiler.hir.affine import Affine

    at = Affine.of("i") + "r" - 1
    inside = e.inbounds(at, "M")
    product = e.mul(e.load(x, [at], where=inside), e.load(w, ["r"]))
    (total,) = e.reduce("add", e.select(inside, product, e.const(0.0)), over=["r"], flags=("reassoc",))
    e.store(y, total, ["i"])
    return f.finish()


def attention() -> HirFunction:
    f, (q, k, v, o) = _start(
        "attention",
        {"h": "H", "i": "M", "j": "N", "d": "D", "c": "D"},
        {"Q": ["H", "M", "D"], "K": ["H", "N", "D"], "V": ["H", "N", "D"], "O": ["H", "M", "D"]},
        "HMND",
    )
    e = f.body
    score = e.mul(e.contract(e.load(q, ["h", "i", "d"]), e.load(k, ["h", "j", "d"]), over=["d"], to="f32"), e.const(0.125))
    (top,) = e.reduce("max", score, over=["j"])
    weight = e.op("exp", e.sub(score, top))
    (total,) = e.reduce("add", weight, over=["j"], flags=("reassoc",))
    result = e.contract(weight, e.load(v, ["h", "j", "c"]), over=["j"], to="f32")
    e.store(o, e.op("div", result, total), ["h", "i", "c"])
    return f.finish()


def _softmax(x: Array) -> Array:
    weight = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return weight / weight.sum(-1, keepdims=True)


def _window(x: Array, w: Array) -> Array:
    out = np.zeros(len(x))
    for i in range(len(x)):
        for r in range(len(w)):
            if 0 <= i + r - 1 < len(x):
                out[i] += x[i + r - 1] * w[r]
    return out


EXAMPLES = [
    Example("matmul", matmul, ("M", "N", "K"), lambda M, N, K: [(M, K), (K, N), (M, N)], lambda a, b: a @ b),
    Example("matmul of transposed", matmul_of_transposed, ("M", "N", "K"), lambda M, N, K: [(M, K), (N, K), (M, N)], lambda a, b: a @ b.T),
    Example("softmax", softmax, ("M", "N"), lambda M, N: [(M, N), (M, N)], _softmax),
    Example("row sums", sums(["j"]), ("M", "N"), lambda M, N: [(M, N), (M,)], lambda x: x.sum(1)),
    Example("column sums", sums(["i"]), ("M", "N"), lambda M, N: [(M, N), (N,)], lambda x: x.sum(0)),
    Example("whole sum", sums(["i", "j"]), ("M", "N"), lambda M, N: [(M, N), ()], lambda x: x.sum()),
    Example("transpose", transpose, ("M", "N"), lambda M, N: [(M, N), (N, M)], lambda x: x.T),
    Example("guarded window", guarded_window, ("M", "K"), lambda M, K: [(M,), (K,), (M,)], _window),
    Example(
        "attention",
        attention,
        ("H", "M", "N", "D"),
        lambda H, M, N, D: [(H, M, D), (H, N, D), (H, N, D), (H, M, D)],
        lambda q, k, v: _softmax(np.einsum("hid,hjd->hij", q, k) * 0.125) @ v,
    ),
]
