"""Sums of some factors of a product, multiplied by others as two numbers of bf16 each."""

import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.hir.hopper import WarpgroupMma
from compiler.schedule.gpu.products import copied_operands
from compiler.schedule.launches import Launches
from tests.schedule import test_gpu_computed_operands

BF16 = ml_dtypes.bfloat16
CHAIN = """
def f(a: tensor[M, K, bf16], b: tensor[K, L, bf16], c: tensor[L, N, bf16]) {
    compute(a, b, c) -> tensor[M, N, f32] @precision(products=tf32) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K, l in 0..L: s += a[i, k] * b[k, l] * c[l, j]
            out[i, j] = s
    }
}"""


@pytest.fixture(autouse=True)
def _worthwhile(in_parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further launches pay for small sizes, too."""
    monkeypatch.setattr(copied_operands, "WORTH", 0)


def run(arrays: dict[str, Any]) -> tuple[Launches, Any]:
    (m, k), (l, n) = arrays["a"].shape, arrays["c"].shape
    out = np.full((m, n), -7, np.float32)
    made = test_gpu_computed_operands.run(CHAIN, {**arrays, "out": out}, "sm_90a", {"M": m, "K": k, "L": l, "N": n})
    return made, out


def normal(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape).astype(BF16)


def arrays_of(m: int = 72, k: int = 96, l: int = 80, n: int = 72) -> dict[str, Any]:
    return {"a": normal(m, k), "b": normal(k, l), "c": normal(l, n)}


def products_of_stage(made: Launches) -> list[int]:
    """How many products each launch asks for in a stage."""
    loops = [[op for top in one.function.body.body for op in top.walk() if isinstance(op, WarpgroupMma)] for one in made.launches]
    return [len({(op.a.name, op.b.name) for op in ops}) for ops in loops]


def test_the_second_sum_has_two_products_in_one_accumulator() -> None:
    arrays = arrays_of()
    made, found = run(arrays)
    a, b, c = (arrays[name].astype(np.float64) for name in "abc")
    assert len(made.launches) == 2 and [mem.dtype for mem in made.workspaces] == ["bf16", "bf16"]
    assert products_of_stage(made) == [1, 2]
    # 2^-16 of the first sum, and the rounding of sums of f32
    bound = (2.0**-16 * np.abs(a @ b) + 2.0**-20 * (np.abs(a) @ np.abs(b))) @ np.abs(c)
    assert (np.abs(found - a @ b @ c) <= bound).all()
    for launch in made.launches:
        assert not assemble(compile_kernels([launch.function], gpu_target("sm_90a"))).spills


@pytest.mark.parametrize(("where", "value"), [("a", np.inf), ("c", np.inf), ("c", -np.inf), ("c", np.nan), ("b", -np.inf)])
def test_numbers_that_are_not_finite_are_what_one_product_makes_of_them(where: str, value: float) -> None:
    arrays = arrays_of()
    # whole numbers have no second part: nothing times infinity would be NaN
    arrays = {name: np.abs(np.round(array.astype(np.float32))).astype(BF16) + BF16(1) for name, array in arrays.items()}
    arrays[where][3, 5] = value
    _, found = run(arrays)
    a, b, c = (arrays[name].astype(np.float64) for name in "abc")
    np.testing.assert_allclose(found, a @ b @ c, rtol=1e-5)


@pytest.mark.parametrize(("m", "k", "l", "n", "halves"), [(65, 96, 83, 72, True), (72, 8, 16, 80, False)])
def test_halves_are_copied_at_odd_sizes_and_of_few_terms_there_are_none(m: int, k: int, l: int, n: int, halves: bool) -> None:
    arrays = arrays_of(m, k, l, n)
    made, found = run(arrays)
    assert (products_of_stage(made)[-1] == 2) == halves
    a, b, c = (arrays[name].astype(np.float64) for name in "abc")
    np.testing.assert_allclose(found, a @ b @ c, rtol=0, atol=1e-5 * (np.abs(a) @ np.abs(b) @ np.abs(c)).max())


def test_results_of_f32_are_exact_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without leave to round products, no bits of the first sum are left out."""
    monkeypatch.setattr(sys.modules[__name__], "CHAIN", CHAIN.replace(" @precision(products=tf32)", ""))
    made, found = run(arrays := arrays_of())
    assert "f32" in [mem.dtype for mem in made.workspaces] and "bf16" not in [mem.dtype for mem in made.workspaces]
    a, b, c = (arrays[name].astype(np.float64) for name in "abc")
    assert np.abs(found - a @ b @ c).max() <= 2e-6 * (np.abs(a) @ np.abs(b) @ np.abs(c)).max()
