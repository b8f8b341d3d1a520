"""Sums whose terms are sums and products of several factors: what becomes of them, and what they come to, against NumPy's einsum in
float64 and exact ints."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attrs import frozen

import zynml
from compiler.analysis.normal_forms import with_better_orders
from compiler.hir.core import Contract
from compiler.hir.text import print_function
from tests.schedule.test_gpu_convolutions import built

Array = np.ndarray[Any, Any]
DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
PRODUCT = "contract"


@frozen
class Nest:
    """A term, the axes that are summed (of the inputs', which `einsum` says), and what the sum becomes."""

    inputs: str
    term: str
    result: str
    over: str
    ops: list[str]
    value: Callable[..., Array]

    def program(self, dtype: str, sums: str, before: str = "") -> str:
        names = "abcd"[: len(self.inputs.split())]
        given = ", ".join(f"{n}: tensor[{', '.join(axes.upper())}, {dtype}]" for n, axes in zip(names, self.inputs.split(), strict=True))
        loops, inner = (", ".join(f"{axis} in 0..{axis.upper()}" for axis in axes) for axes in (self.result, self.over))
        dims = ", ".join(self.result.upper())
        return f"""
def f({given}) {{
    compute({", ".join(names)}) {before} -> tensor[{dims}, {sums}] {{
        for {loops}:
            var s: {sums} = {0 if sums.startswith("i") else 0.0}
            for {inner}: s += {self.term}
            out[{", ".join(self.result)}] = s
    }}
}}"""


NESTS = {
    "bilinear": Nest(
        "mk kl ml", "a[m, k] * b[k, l] * c[m, l]", "m", "kl", [PRODUCT, "mul", "reduce"], lambda a, b, c: np.einsum("mk,kl,ml->m", a, b, c)
    ),
    "chain": Nest(
        "mk kl ln", "a[m, k] * b[k, l] * c[l, n]", "mn", "kl", [PRODUCT, PRODUCT], lambda a, b, c: np.einsum("mk,kl,ln->mn", a, b, c)
    ),
    "four": Nest(
        "mk kl lq qn",
        "a[m, k] * b[k, l] * c[l, q] * d[q, n]",
        "mn",
        "klq",
        [PRODUCT, PRODUCT, PRODUCT],
        lambda a, b, c, d: a @ b @ c @ d,
    ),
    "two axes": Nest("mkl kln", "a[m, k, l] * b[k, l, n]", "mn", "kl", [PRODUCT], lambda a, b: np.einsum("mkl,kln->mn", a, b)),
    "batched": Nest(
        "qmk kl qln",
        "a[q, m, k] * b[k, l] * c[q, l, n]",
        "qmn",
        "kl",
        [PRODUCT, PRODUCT],
        lambda a, b, c: np.einsum("qmk,kl,qln->qmn", a, b, c),
    ),
    "weighted": Nest("mk nk k", "a[m, k] * b[n, k] * c[k]", "mn", "k", ["mul", PRODUCT], lambda a, b, c: np.einsum("mk,nk,k->mn", a, b, c)),
    "scaled": Nest("mk m kn", "a[m, k] * b[m] * c[k, n]", "mn", "k", [PRODUCT, "mul"], lambda a, b, c: b[:, None] * (a @ c)),
    "an axis of one factor": Nest("mk kl", "a[m, k] * b[k, l]", "m", "kl", ["reduce", "mul", "reduce"], lambda a, b: a @ b.sum(1)),
    "distances": Nest(
        "mk nk",
        "a[m, k] * a[m, k] + b[n, k] * b[n, k] - 2 * a[m, k] * b[n, k]",
        "mn",
        "k",
        ["mul", "mul", "reduce", "reduce", PRODUCT, "mul", "add", "sub"],
        lambda a, b: (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T,
    ),
    "rows and columns": Nest(
        "mk nk", "a[m, k] - b[n, k]", "mn", "k", ["reduce", "reduce", "sub"], lambda a, b: a.sum(1)[:, None] - b.sum(1)
    ),
    "differences": Nest(
        "mk nk mk nk",
        "a[m, k] * b[n, k] - c[m, k] * d[n, k]",
        "mn",
        "k",
        ["mul", "mul", "sub", "reduce"],
        lambda a, b, c, d: a @ b.T - c @ d.T,
    ),
    "of one row": Nest("mk k", "a[m, k] - b[k]", "m", "k", ["sub", "reduce"], lambda a, b: (a - b).sum(1)),
}
SIZES = {"m": 19, "n": 21, "k": 33, "l": 23, "q": 5}


def arrays(nest: Nest, dtype: str) -> list[Array]:
    r, shapes = np.random.default_rng(len(nest.term)), [[SIZES[axis] for axis in axes] for axes in nest.inputs.split()]
    made = [r.integers(-7, 8, shape) if dtype.startswith("i") else r.normal(size=shape) for shape in shapes]
    return [array.astype(DTYPES[dtype]) for array in made]


def operations(field: Any) -> list[str]:
    lines = [line.split(" = ")[-1].strip() for line in print_function(field).strip().split("\n")[1:-1]]
    return [word for line in lines if (word := line.split()[0]) not in ("load", "cast", "const", "store")]


@pytest.mark.parametrize("name", NESTS)
def test_what_a_sum_becomes(name: str) -> None:
    assert operations(built(NESTS[name].program("f32", "f32")).field) == NESTS[name].ops


def held(nest: Nest, dtype: str, device: str) -> None:
    sums = "f64" if dtype == "f64" else "i32" if dtype.startswith("i") else "f32"
    given = arrays(nest, dtype)
    got = np.asarray(zynml.compile(nest.program(dtype, sums), device=device).f(*given))
    wide = [array.astype(np.float64) for array in given]
    want = nest.value(*wide)
    if sums == "i32":
        np.testing.assert_array_equal(got, want)
        return
    # the absolute values of all terms, which a negative factor makes of differences
    signed = [np.abs(array) for array in wide]
    magnitude = np.maximum(np.abs(nest.value(*signed)), np.abs(nest.value(-signed[0], *signed[1:])))
    terms = np.prod([SIZES[axis] for axis in nest.over])
    assert np.all(np.abs(got - want) <= (1e-6 if sums == "f32" else 1e-14) * np.sqrt(terms) * magnitude)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i32"])
@pytest.mark.parametrize("name", NESTS)
def test_what_it_comes_to(name: str, dtype: str) -> None:
    held(NESTS[name], dtype, "cpu")


@pytest.mark.parametrize(
    ("name", "dtype"), [("bilinear", "bf16"), ("chain", "f16"), ("distances", "bf16"), ("four", "i8"), ("weighted", "f32")]
)
def test_what_it_comes_to_on_a_gpu(name: str, dtype: str) -> None:
    held(NESTS[name], dtype, "emulator:sm_90a")


def test_strict_sums_keep_the_written_order() -> None:
    nest = NESTS["bilinear"]
    a, b, c = arrays(nest, "f32")
    got = np.asarray(zynml.compile(nest.program("f32", "f32", "@precision(floats=strict)"), device="cpu").f(a, b, c))
    want = np.zeros(len(a), np.float32)
    for k in range(b.shape[0]):
        for l in range(b.shape[1]):
            want = want + a[:, k] * b[k, l] * c[:, l]
    np.testing.assert_array_equal(got, want)


def test_small_products_stay_terms() -> None:
    """The coordinates of points are too few for sums of their own."""
    source = """
def f(a: tensor[M, 3], b: tensor[N, 3]) {
    compute(a, b) -> tensor[M, N] {
        for m in 0..M, n in 0..N:
            var s = 0.0
            for k in 0..3: s += a[m, k] * a[m, k] + b[n, k] * b[n, k] - 2.0 * a[m, k] * b[n, k]
            out[m, n] = s
    }
}"""
    assert operations(built(source).field).count("reduce") == 1


def test_sizes_choose_the_order_of_factors() -> None:
    field = built(NESTS["chain"].program("f32", "f32")).field
    assert field is not None

    def first_sum(**sizes: int) -> tuple[str, ...]:
        known = with_better_orders(field, lambda extent: extent.evaluate(sizes.__getitem__))
        return next(op.over for op in known.body.body if isinstance(op, Contract))

    assert first_sum(M=4096, K=64, L=4096, N=64) == ("l",)
    assert first_sum(M=64, K=4096, L=64, N=4096) == ("k",)
    assert first_sum(M=512, K=512, L=512, N=500) == ("k",)  # as it is written, where that takes about as long


def test_another_order_comes_to_the_same() -> None:
    nest, r = NESTS["chain"], np.random.default_rng(3)
    a, b, c = (r.integers(-5, 6, shape).astype(np.float32) for shape in ((67, 17), (17, 40), (40, 16)))
    got = np.asarray(zynml.compile(nest.program("f32", "f32"), device="emulator:sm_90a").f(a, b, c))
    np.testing.assert_array_equal(got, a.astype(float) @ b @ c)
