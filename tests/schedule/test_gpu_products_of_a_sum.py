"""Sums of several products each, as those of complex numbers: all products of a tile in one launch on warpgroups, added to, or subtracted
from, one accumulator a sum; a launch for each product elsewhere."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.hir.hopper import BulkLoad, WarpgroupMma
from compiler.schedule.gpu.products import copied_operands, three_products
from tests.schedule import test_gpu_computed_operands
from tests.schedule.test_gpu_sums_together import ops_of, run

COMPLEX = """
def f(a: tensor[M, K, TYPE], b: tensor[M, K, TYPE], c: tensor[K, N, TYPE], d: tensor[K, N, TYPE]) {
    compute(a, b, c, d) -> (out: tensor[M, N, TO], other: tensor[M, N, TO]) {
        for i in 0..M, j in 0..N:
            var r = ZERO
            var m = ZERO
            for k in 0..K:
                r += a[i, k] * c[k, j] - b[i, k] * d[k, j]
                m += a[i, k] * d[k, j] + b[i, k] * c[k, j]
            out[i, j] = r
            other[i, j] = m
    }
}"""
SIZES = {"M": 136, "N": 72, "K": 200}
BF16 = ml_dtypes.bfloat16


def of(dtype: str, to: str = "f32") -> str:
    return COMPLEX.replace("TYPE", dtype).replace("TO", to).replace("ZERO", "0i32" if to == "i32" else "0.0")


def whole(sizes: dict[str, int], dtype: Any) -> dict[str, Any]:
    """Small whole numbers, of which every sum is exact."""
    r, (m, n, k) = np.random.default_rng(7), sizes.values()
    return {name: r.integers(-3, 4, shape).astype(dtype) for name, shape in zip("abcd", ((m, k), (m, k), (k, n), (k, n)), strict=True)}


def product(arrays: dict[str, Any]) -> Any:
    a, b, c, d = (arrays[name].astype(np.float64) for name in "abcd")
    return (a + 1j * b) @ (c + 1j * d)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_complex_products_are_one_launch(dtype: str) -> None:
    arrays = whole(SIZES, BF16 if dtype == "bf16" else np.float16)
    other = np.full((136, 72), -7, np.float32)
    made, found = run(of(dtype), {**arrays, "other": other}, SIZES)
    np.testing.assert_array_equal(found + 1j * other, product(arrays))
    assert len(made.launches) == 1
    assert len({op.tensor.name for op in ops_of(made, BulkLoad)}) == 4
    assert {op.negated for op in ops_of(made, WarpgroupMma)} == {True, False}
    assert not assemble(compile_kernels([made.launches[0].function], gpu_target("sm_90a"))).spills


@pytest.mark.parametrize(
    "tiling",
    [
        {"rows": 128, "columns": 128, "groups": 2, "blocks": 1, "stages": 2},
        {"rows": 128, "columns": 64, "groups": 1, "blocks": 2, "stages": 2},
        {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 2, "turns": 2},
        {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 2, "pieces": 2},
        {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 2, "cut": True},
    ],
    ids=str,
)
def test_every_way_to_cut_tiles(tiling: dict[str, int]) -> None:
    arrays, other = whole(SIZES, BF16), np.full((136, 72), -7, np.float32)
    _, found = run(of("bf16"), {**arrays, "other": other}, SIZES, 4, **tiling)
    np.testing.assert_array_equal(found + 1j * other, product(arrays))


def test_one_sum_of_several_products() -> None:
    text = """
def f(a: tensor[M, K, bf16], b: tensor[N, K, bf16], c: tensor[M, K, bf16]) {
    compute(a, b, c) -> tensor[M, N, f32] {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += a[i, k] * b[j, k] - c[i, k] * b[j, k]
            out[i, j] = s
    }
}"""
    arrays = whole(SIZES, BF16)
    given = {"a": arrays["a"], "c": arrays["b"], "b": np.ascontiguousarray(arrays["c"].T)}
    made, found = run(text, given, SIZES)
    a, b, c = (given[name].astype(np.float64) for name in "abc")
    np.testing.assert_array_equal(found, (a - c) @ b.T)
    assert len(made.launches) == 1 and len({op.tensor.name for op in ops_of(made, BulkLoad)}) == 3


def test_operands_that_lie_otherwise_are_copied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real and imaginary parts side by side, at odd sizes."""
    monkeypatch.setattr(copied_operands, "WORTH", 0)
    text = """
def f(a: tensor[M, K, 2, bf16], b: tensor[K, N, 2, bf16]) {
    compute(a, b) -> tensor[M, N, 2, f32] {
        for i in 0..M, j in 0..N:
            var r = 0.0
            var m = 0.0
            for k in 0..K:
                r += a[i, k, 0] * b[k, j, 0] - a[i, k, 1] * b[k, j, 1]
                m += a[i, k, 0] * b[k, j, 1] + a[i, k, 1] * b[k, j, 0]
            out[i, j, 0] = r
            out[i, j, 1] = m
    }
}"""
    sizes = {"M": 65, "N": 67, "K": 70}
    arrays = whole(sizes, BF16)
    a, b = (np.stack([arrays[name] for name in pair], -1) for pair in ("ab", "cd"))
    out = np.full((65, 67, 2), -7, np.float32)
    made = test_gpu_computed_operands.run(text, {"a": a, "b": b, "out": out}, "sm_90a", sizes)
    np.testing.assert_array_equal(out[..., 0] + 1j * out[..., 1], product(arrays))
    assert len(made.launches) == 5 and len({op.negated for op in ops_of(made, WarpgroupMma)}) == 2


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize(
    ("dtype", "to", "architecture", "sizes"),
    [
        ("bf16", "f32", "sm_80", {"M": 65, "N": 67, "K": 70}),
        ("f32", "f32", "sm_90a", {"M": 64, "N": 72, "K": 68}),
        ("f64", "f64", "sm_80", {"M": 65, "N": 67, "K": 33}),
        ("i8", "i32", "sm_90a", {"M": 64, "N": 72, "K": 96}),
    ],
)
def test_a_launch_for_each_product(dtype: str, to: str, architecture: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (copied_operands, three_products):
        monkeypatch.setattr(module, "WORTH", 0)
    monkeypatch.setattr(three_products, "LEAST", 0)
    monkeypatch.setattr(three_products, "FMAS", 1e-9)
    types = {"bf16": BF16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
    arrays = whole(sizes, types[dtype])
    out, other = (np.full((sizes["M"], sizes["N"]), -7, types[to]) for _ in range(2))
    made = test_gpu_computed_operands.run(of(dtype, to), {**arrays, "out": out, "other": other}, architecture, sizes)
    np.testing.assert_array_equal(out + 1j * other, product(arrays))
    assert len([launch for launch in made.launches if launch.function.name.rsplit("_", 1)[1] == "0"]) >= 4
