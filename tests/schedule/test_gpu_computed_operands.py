"""Products whose operands are computed: into memory first, and multiplied on tensor cores then."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.emulator.interpret import interpret
from compiler.hir.instruction import Value
from compiler.hir.tensor_core import Mma
from compiler.hir.types import Mem
from compiler.schedule.gpu.products import computed_operands, copied_operands, three_products
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_convolutions import built, launches, on_warpgroups

BF16 = ml_dtypes.bfloat16
NUMPY = {"bf16": BF16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32, "u32": np.uint32}
SIZES = {"M": 72, "N": 80, "K": 96}

SOURCE = """
def f(A: tensor[M, K, TYPE], B: tensor[OTHER], c: tensor[K], keep: tensor[M, K, u8]) {
    compute(A, B, c, keep) -> tensor[M, N, f32] {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K:
                WHEN s += LEFT * RIGHT
            out[i, j] = s
    }
}"""


def source(left: str, right: str = "B[k, j]", type: str = "bf16", other: str = "K, N, bf16", when: str = "") -> str:
    text = SOURCE.replace("TYPE", type).replace("OTHER", other).replace("WHEN", f"if {when}:" if when else "")
    return text.replace("LEFT", left).replace("RIGHT", right)


@pytest.fixture(autouse=True)
def _worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further launches pay for small sizes, too."""
    for module in (computed_operands, copied_operands, three_products):
        monkeypatch.setattr(module, "WORTH", 0)
    monkeypatch.setattr(three_products, "LEAST", 0)
    monkeypatch.setattr(three_products, "FMAS", 1e-9)


def launch_shape(parameter: Value, sizes: dict[str, int]) -> tuple[int, ...] | None:
    """Of a memory, as a launch has it: dims of one element may be left out."""
    return tuple(dim.evaluate(sizes.__getitem__) for dim in parameter.type.dims) if isinstance(parameter.type, Mem) else None


def run(text: str, arrays: dict[str, Any], architecture: str = "sm_90a", sizes: dict[str, int] = SIZES) -> Launches:
    kernel = built(text)
    made = launches(kernel, sizes, architecture=architecture)
    given = [arrays[one.name] if one.name in arrays else sizes[one.name] for one in kernel.nest.parameters]
    arguments, known = made.counted(given, sizes)
    for number, mem in enumerate(made.workspaces):
        begins = 0 if number in made.zeros else 77
        arguments.append(np.full([dim.evaluate(known.__getitem__) for dim in mem.dims], begins, NUMPY[mem.dtype]))
    for number, after in made.steps(known):
        launch = made.launches[number]
        shapes = [launch_shape(parameter, known) for parameter in launch.function.parameters]
        fitted = [one if shape is None else one.reshape(shape) for one, shape in zip(arguments, shapes, strict=False)]
        interpret(launch.function, [*fitted, *after], grid=(launch.blocks(known), 1, 1))
    return made


def arrays_of(sizes: dict[str, int], type: str = "bf16", other: Any = BF16) -> dict[str, Any]:
    """Small whole numbers, of which every sum is exact."""
    r, (m, n, k) = np.random.default_rng(3), sizes.values()
    return {
        "A": r.integers(-4, 5, (m, k)).astype(NUMPY[type]),
        "B": r.integers(-4, 5, (k, n)).astype(other),
        "c": r.integers(-2, 3, k).astype(np.float32),
        "keep": r.integers(0, 2, (m, k)).astype(np.uint8),
        "out": np.full((m, n), -7, np.float32),
    }


def wide(arrays: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(arrays[name].astype(np.float64) for name in "ABc")


@pytest.mark.parametrize("sizes", [SIZES, {"M": 33, "N": 70, "K": 67}], ids=str)
def test_a_factor_that_loses_nothing_in_its_type_is_kept_in_it(sizes: dict[str, int]) -> None:
    arrays = arrays_of(sizes)
    made = run(source("max(A[i, k], 0.0)"), arrays, sizes=sizes)
    a, b, _ = wide(arrays)
    np.testing.assert_array_equal(arrays["out"], np.maximum(a, 0) @ b)
    assert on_warpgroups(made)
    assert {mem.dtype for mem in made.workspaces} == {"bf16"}


@pytest.mark.parametrize("architecture", ["sm_90a", "sm_80"])
def test_weights_of_eight_bits(architecture: str) -> None:
    arrays = arrays_of(SIZES, other=np.int8)
    arrays["B"] = np.ascontiguousarray(arrays["B"].T)
    made = run(source("A[i, k]", "(B[j, k] as bf16)", other="N, K, i8"), arrays, architecture)
    a, b, _ = wide(arrays)
    np.testing.assert_array_equal(arrays["out"], a @ b.T)
    assert on_warpgroups(made) == (architecture == "sm_90a")


@pytest.mark.parametrize(("left", "right"), [("bf16", "f32"), ("f32", "f16"), ("f16", "bf16")])
def test_factors_of_two_types(left: str, right: str) -> None:
    arrays = arrays_of(SIZES, left, NUMPY[right])
    made = run(source("A[i, k]", type=left, other=f"K, N, {right}"), arrays)
    a, b, _ = wide(arrays)
    np.testing.assert_array_equal(arrays["out"], a @ b)
    assert on_warpgroups(made)
    assert {mem.dtype for mem in made.workspaces} == {"f32"}


def test_a_factor_that_needs_more_bits_is_multiplied_in_them() -> None:
    arrays = arrays_of(SIZES)
    made = run(source("(A[i, k] * c[k])"), arrays)
    a, b, c = wide(arrays)
    np.testing.assert_array_equal(arrays["out"], (a * c) @ b)
    assert on_warpgroups(made)
    assert {mem.dtype for mem in made.workspaces} == {"f32"}


@pytest.mark.parametrize("when", ["k <= i", "k + 5 > i and k < i + 40", "keep[i, k] != 0", "k <= i and keep[i, k] != 0"])
def test_terms_that_a_condition_leaves_out(when: str) -> None:
    arrays = arrays_of(SIZES)
    arrays["B"][60, 7], arrays["B"][3, 9], arrays["B"][90, 70] = np.inf, np.nan, -np.inf
    made = run(source("A[i, k]", when=when), arrays)
    a, b, _ = wide(arrays)
    i, k = np.indices(a.shape)
    keep = arrays["keep"] != 0
    kept = {"k <= i": k <= i, "k + 5 > i and k < i + 40": (k + 5 > i) & (k < i + 40), "keep[i, k] != 0": keep}.get(when, keep & (k <= i))
    with np.errstate(invalid="ignore"):
        wanted = np.where(kept[:, :, None], a[:, :, None] * b[None], 0).sum(1)
    np.testing.assert_array_equal(arrays["out"], wanted)
    assert on_warpgroups(made)
    assert np.isnan(wanted).any() and np.isfinite(wanted[:, 9]).any()


def test_both_factors() -> None:
    arrays = arrays_of(SIZES)
    run(source("max(A[i, k], 0.0)", "(-B[k, j])"), arrays)
    a, b, _ = wide(arrays)
    np.testing.assert_array_equal(arrays["out"], np.maximum(a, 0) @ -b)


def test_a_condition_of_rows_and_columns_is_none_of_a_factor() -> None:
    made = launches(built(source("A[i, k]", when="k + i < j")), SIZES)
    assert not on_warpgroups(made)
    assert not any(isinstance(op, Mma) for one in made.launches for top in one.function.body.body for op in top.walk())


@pytest.mark.parametrize("target", ["sm_75", "sm_80"])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 3, 5), (33, 17, 40)])
def test_bytes_that_lie_across_the_sum_are_turned_for_any_matrix_unit(m: int, n: int, k: int, target: str) -> None:
    text = """def f(a: tensor[K, M, i8], b: tensor[K, N, i8]) {
        compute(a, b) @tensor_cores(on) { for i in 0..M, j in 0..N {
            var s = 0
            for k in 0..K { s += a[k, i] * b[k, j] }
            out[i, j] = s } }
    }"""
    random = np.random.default_rng(m)
    a, b = (random.integers(-128, 128, (k, length), np.int8) for length in (m, n))
    expected = a.astype(np.int64).T @ b.astype(np.int64)
    np.testing.assert_array_equal(zynml.compile(text, device=f"emulator:{target}").f(a, b), expected)
