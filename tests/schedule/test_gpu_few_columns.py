"""Sums that join long rows with few columns: triangles and whole matrices by two to eight columns, at odd sizes, turned loops, strided rows;
rows that all read one vector; rows of which a diagonal leaves the beginning. Expected values from NumPy in float64."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.hir.control import If
from compiler.schedule.gpu.reuse import few_columns
from compiler.schedule.gpu.tiles import rows
from tests.schedule.test_gpu_convolutions import built, launches

DTYPES: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i32": np.int32}
ERROR = {"f32": 1e-5, "f16": 1e-3, "bf16": 1e-2, "f64": 1e-13, "i32": 0}
LOOPS = {
    "by rows": "for i in 0..N, j in 0..M",
    "by columns": "for j in 0..M, i in 0..N",
}
PRODUCT = """
def f(x: tensor[N, {length}, {dtype}], y: tensor[{length}, M, {dtype}]) {{
    compute(x, y) -> tensor[N, M, {dtype}] {{
        {loops}:
            var s = {zero}
            for k in 0..{terms}: s += x[i, k] * y[k, j]
            out[i, j] = s
    }}
}}"""
CAUSAL = """
def f(x: tensor[N, N, {dtype}]) {{
    compute(x) {{
        for i in 0..N:
            var top = -inf
            for j in 0..i + 1: top = max(top, x[i, j])
            var s = 0.0
            for j in 0..i + 1: s += exp(x[i, j] - top)
            for j in 0..N: out[i, j] = exp(x[i, j] - top) / s if j <= i else 0.0
    }}
}}"""
VECTOR = """
def f(w: tensor[M, K, {dtype}], x: tensor[K, f32], scale: tensor[M, f32]) {{
    compute(w, x, scale) {{
        for i in 0..M:
            var s = 0.0
            for k in 0..K: s += (w[i, k] as f32) * x[k]
            out[i] = s * scale[i]
    }}
}}"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEAST_ROWS", "LEAST_TERMS"):
        monkeypatch.setattr(few_columns, name, 1)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize(
    ("dtype", "shape"), [("f32", (37, 41, 3)), ("bf16", (33, 33, 5)), ("f16", (70, 64, 2)), ("f64", (31, 67, 8)), ("i32", (1, 40, 4))]
)
@pytest.mark.parametrize("architecture", ["sm_90a", "sm_80"])
def test_few_columns(dtype: str, shape: tuple[int, int, int], loops: str, architecture: str) -> None:
    n, k, m = shape
    random = np.random.default_rng(n)
    zero = "0i32" if dtype == "i32" else "0.0"
    for length, terms, depth in (("K", "K", k), ("N", "i + 1", n)):
        x, y = (random.integers(-9, 10, each).astype(DTYPES[dtype]) for each in ((n, 2 * depth), (depth, m)))
        source = PRODUCT.format(dtype=dtype, length=length, loops=LOOPS[loops], zero=zero, terms=terms)
        seen = x[:, ::2].astype(np.float64)
        seen = seen if terms == "K" else np.tril(seen)
        out = np.asarray(zynml.compile(source, device=f"emulator:{architecture}").f(x[:, ::2], y)).astype(np.float64)
        wanted = seen @ y.astype(np.float64)
        assert np.abs(out - wanted).max() <= ERROR[dtype] * max(1.0, np.abs(wanted).max())


@pytest.mark.usefixtures("small")
def test_what_lies_beyond_the_diagonal_is_not_seen() -> None:
    x = np.random.default_rng(1).standard_normal((45, 45)).astype(np.float32)
    y = np.random.default_rng(2).standard_normal((45, 3)).astype(np.float32)
    wanted = np.tril(x).astype(np.float64) @ y
    x[np.triu_indices(45, 1)] = np.nan
    source = PRODUCT.format(dtype="f32", length="N", loops=LOOPS["by rows"], zero="0.0", terms="i + 1")
    np.testing.assert_allclose(zynml.compile(source, device="emulator:sm_90a").f(x, y), wanted, atol=1e-5)


def test_only_the_columns_are_copied() -> None:
    """Rows are read where they lie, by warps that have several of them."""
    source = PRODUCT.format(dtype="bf16", length="N", loops=LOOPS["by rows"], zero="0.0", terms="i + 1")
    made = launches(built(source.replace("M,", "3,").replace("..M", "..3")), {"N": 28807}, 132)
    copied, summed = made.launches
    assert "turned" in copied.function.name
    assert made.words[0].startswith("y is copied first")
    assert copied.blocks({"N": 28807}) * 128 < 28807 * 2
    assert summed.blocks({"N": 28807}) == -(-28807 // 16)


@pytest.mark.parametrize(
    ("terms", "columns", "copies"), [("K", 1, 0), ("K", 3, 1), ("K", 8, 1), ("K", 64, 2), ("i + 1", 1, 0), ("i + 1", 3, 1)]
)
def test_rows_are_copied_for_matrix_units_where_many_results_read_them(terms: str, columns: int, copies: int) -> None:
    """Rows of an odd length don't lie as bulk copies take them."""
    source = PRODUCT.format(dtype="f16", length="K" if terms == "K" else "N", loops=LOOPS["by rows"], zero="0.0", terms=terms)
    made = launches(built(source), {"N": 8191, "M": columns, **({"K": 8191} if terms == "K" else {})}, 132)
    assert sum("is copied first" in words for words in made.words) == copies


def test_rows_that_lie_across_are_no_long_rows() -> None:
    source = PRODUCT.format(dtype="f32", length="K", loops=LOOPS["by rows"], zero="0.0", terms="K").replace("x[i, k]", "x[k, i]")
    source = source.replace("x: tensor[N, K, f32]", "x: tensor[K, N, f32]").replace("M,", "3,").replace("..M", "..3")
    made = launches(built(source), {"N": 20000, "K": 20000}, 132)
    assert not any("turned" in launch.function.name for launch in made.launches)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 3), (1, 1, 2)])
def test_few_columns_of_nothing(shape: tuple[int, int, int]) -> None:
    n, k, m = shape
    source = PRODUCT.format(dtype="f32", length="K", loops=LOOPS["by rows"], zero="0.0", terms="K")
    out = zynml.compile(source, device="emulator:sm_90a").f(np.ones((n, k), np.float32), np.ones((k, m), np.float32))
    np.testing.assert_array_equal(out, np.full((n, m), k))


@pytest.mark.parametrize("dtype", ["i8", "u8", "f32", "f16"])
@pytest.mark.parametrize("shape", [(1, 2049), (3, 4100), (33, 2304), (9, 3001)])
def test_long_rows_that_read_one_vector(dtype: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.schedule.gpu.tiles.tables.FULL", 0)
    random = np.random.default_rng(shape[1])
    whole = {"i8": np.int8, "u8": np.uint8}
    w = random.integers(-9 if dtype != "u8" else 0, 10, shape).astype(whole.get(dtype) or DTYPES[dtype])
    x, scale = (random.standard_normal(count).astype(np.float32) for count in (shape[1], shape[0]))
    wanted = (w.astype(np.float64) @ x) * scale
    out = zynml.compile(VECTOR.format(dtype=dtype), device="emulator:sm_90a").f(w, x, scale)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-3)


def test_a_thread_has_several_rows_that_read_one_vector() -> None:
    sizes = {"M": 25536, "K": 11328}
    made = launches(built(VECTOR.format(dtype="i8")), sizes, 132)
    assert made.launches[0].blocks(made.counted_sizes(sizes)) == 25536 // 32


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
@pytest.mark.parametrize("size", [1, 31, 300])
@pytest.mark.parametrize(("architecture", "threads"), [("sm_90a", 256), ("sm_80", 256), ("sm_90a", 32)])
def test_rows_up_to_a_diagonal(dtype: str, size: int, architecture: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One block, or several, or a cluster of small ones a row; a row of NaN, one that begins with infinity; what isn't needed isn't seen."""
    monkeypatch.setattr(rows, "THREADS", threads)
    monkeypatch.setattr(rows, "KEPT_BYTES", threads // 2)
    x = np.random.default_rng(size).standard_normal((size, size)).astype(DTYPES[dtype])
    x[np.triu_indices(size, 1)] = np.nan
    x[size // 2, size // 3], x[size // 3, 0] = np.nan, -np.inf
    needed = np.tril(np.ones((size, size), bool))
    wide = np.where(needed, x.astype(np.float64), -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.where(needed, np.exp(wide - wide.max(1, keepdims=True)), 0.0)
        wanted = np.where(needed, powers / powers.sum(1, keepdims=True), 0.0)
    out = zynml.compile(CAUSAL.format(dtype=dtype), device=f"emulator:{architecture}").f(x)
    np.testing.assert_allclose(np.asarray(out).astype(np.float64), wanted, rtol=2e-3 if dtype == "f16" else 1e-5, atol=1e-6)


def test_blocks_of_rows_that_end_early_have_code_of_their_own() -> None:
    (launch,) = launches(built(CAUSAL.format(dtype="f16")), {"N": 6848}, 132).launches
    assert sum(isinstance(op, If) for top in launch.function.body.body for op in top.walk()) == 3


@pytest.mark.parametrize(("dtype", "columns", "few"), [("u8", 4, True), ("u8", 8, False), ("f16", 8, True)])
def test_the_first_cache_gives_the_columns_as_fast_as_memory_the_rows(dtype: str, columns: int, few: bool) -> None:
    source = f"""def f(x: tensor[N, V, {dtype}], w: tensor[C, V], prior: tensor[C]) {{
        compute(x, w, prior) {{
            for i in 0..N, c in 0..C:
                var s = prior[c]
                for v in 0..V: s += (x[i, v] as f32) * w[c, v]
                out[i, c] = s
        }}
    }}"""
    like = [f"x=65536x4096:{dtype}", f"w={columns}x4096", f"prior={columns}"]
    (kernel,) = zynml.compile(source)._session.launches_like(like, "emulator:sm_90a")
    assert (len(kernel.threads.launches.stages) == 2) is few  # with the copy of the columns
