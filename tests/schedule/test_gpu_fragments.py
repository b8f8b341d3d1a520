"""Products on the tensor cores of any target mean the field, in every layout and width of copies, with what follows the sum; and they
assemble without spills."""

from math import prod

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.fusion.program_kernels import kernels
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.build import FunctionBuilder
from compiler.hir.core import Contract
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.tensor_core import LoadMatrix, WarpMma
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import Facts, facts_of
from compiler.schedule.gpu.products.warp_product import warp_tiles
from compiler.schedule.launches import Launches

NUMPY = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8, "u8": np.uint8, "f32": np.float32, "i32": np.int32, "f64": np.float64,
}  # fmt: skip
SUMS = {"f32": "f32", "f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32", "f64": "f64"}


def product(dtype: str, out: str, turned_a: bool = False, turned_b: bool = False, bias: bool = False) -> HirFunction:
    """`C = A B` (and a row added, negatives cut), A and B as they lie."""
    made = FunctionBuilder("product", Form.FIELD)
    a = made.parameter("A", Mem(dtype, ("K", "M") if turned_a else ("M", "K"), readonly=True))
    b = made.parameter("B", Mem(dtype, ("N", "K") if turned_b else ("K", "N"), readonly=True))
    row = made.parameter("R", Mem(SUMS[dtype], ("N",), readonly=True))
    c = made.parameter("C", Mem(out, ("M", "N")))
    for size, axis in zip("MNK", "ijk", strict=True):
        made.parameter(size, INDEX)
        made.axis(axis, size)
    left = made.body.load(a, ["k", "i"] if turned_a else ["i", "k"])
    right = made.body.load(b, ["j", "k"] if turned_b else ["k", "j"])
    value = made.body.contract(left, right, ["k"], SUMS[dtype])
    if bias:
        value = made.body.op("max", made.body.add(value, made.body.load(row, ["j"])), made.body.const(0.0, SUMS[dtype]))
    made.body.store(c, made.body.cast(value, out), ["i", "j"])
    field = made.finish()
    field.kernel_info = HirKernelInfo(products="tf32" if dtype == "f32" else None)
    return field


def launches(field: HirFunction, known: Facts) -> Launches:
    made = launches_for(field, field, known)
    (launch,) = made.launches
    verify(launch.function)
    assert operations(made, WarpMma)
    return made


def operations(made: Launches, kind: type) -> list:
    return [op for top in made.launches[0].function.body.body for op in top.walk() if isinstance(op, kind)]


LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]
CASES = [
    *[("bf16", "f32", "sm_80", layout, (72, 80, 72)) for layout in LAYOUTS],
    *[("f64", "f64", "sm_80", layout, (72, 68, 36)) for layout in LAYOUTS],
    *[("f32", "f32", "sm_80", layout, (72, 68, 36)) for layout in LAYOUTS],
    *[("f16", "f16", "sm_75", layout, (72, 80, 136)) for layout in LAYOUTS],
    *[("f16", "f16", "sm_90", layout, (33, 67, 35)) for layout in LAYOUTS],
    ("bf16", "bf16", "sm_80", (False, False), (20, 36, 300)),
    ("f64", "f64", "sm_90", (True, False), (33, 67, 19)),
    ("i8", "i32", "sm_80", (False, True), (72, 80, 160)),
    ("u8", "i32", "sm_75", (False, True), (33, 72, 35)),
    ("u8", "i32", "sm_86", (False, True), (40, 24, 36)),
    ("bf16", "f32", "sm_80", (False, False), (16, 16, 16)),
]


@pytest.mark.parametrize(("dtype", "out", "arch", "turned", "sizes"), CASES, ids=str)
def test_fragments_mean_the_product(dtype: str, out: str, arch: str, turned: tuple[bool, bool], sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    random = np.random.default_rng(k)
    low = 0 if dtype == "u8" else -4
    a, b = (random.integers(low, 5, shape).astype(NUMPY[dtype]) for shape in ((m, k), (k, n)))
    row = random.integers(-4, 5, n).astype(NUMPY[SUMS[dtype]])
    c = np.full((m, n), 7, NUMPY[out])
    given = [np.ascontiguousarray(a.T) if turned[0] else a, np.ascontiguousarray(b.T) if turned[1] else b, row, c]
    known = facts_of({"M": m, "N": n, "K": k}, ["A", "B", "C", "R"], MACHINES[arch], 2)
    made = launches(product(dtype, out, *turned, bias=True), known)
    assert bool(operations(made, LoadMatrix)) == (dtype != "f64" and (dtype != "f32" or turned != (True, False)))
    arguments, sizes_known = made.counted([*given, m, n, k], {"M": m, "N": n, "K": k})
    (launch,) = made.launches
    interpret(launch.function, arguments, grid=(launch.blocks(sizes_known), 1, 1))
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + row, 0)
    np.testing.assert_array_equal(c, expected.astype(NUMPY[out]))


BATCH = """
def f(A: tensor[B, M, K, TYPE], C: tensor[K, N, TYPE], R: tensor[M, TYPE]) {
    compute(A, C, R) -> tensor[B, M, N, TYPE] {
        for b in 0..B, i in 0..M, j in 0..N:
            var s: SUM = 0.0
            for k in 0..K: s += A[b, i, k] * C[k, j]
            out[b, i, j] = s + R[i]
    }
}"""


@pytest.mark.parametrize("dtype", ["f64", "f16"])
def test_rows_of_several_axes_are_counted_through(dtype: str) -> None:
    p = zynml.compile(BATCH.replace("TYPE", dtype).replace("SUM", SUMS[dtype]), device="emulator")
    ((_, kernel),) = kernels(p._session)
    (launch,) = launches_for(kernel.nest, kernel.field, facts_of({}, ["A", "C", "R", "out"], MACHINES["sm_80"])).launches
    assert launch.blocks({"B": 5, "M": 3, "K": 20, "N": 9}) == 1  # one for each of the five, were only `i` rows
    random = np.random.default_rng(3)
    for b, m, n, k in ((7, 5, 20, 24), (3, 40, 33, 17), (64, 1, 16, 16)):
        a, c, r = (random.integers(-2, 3, shape).astype(NUMPY[dtype]) for shape in ((b, m, k), (k, n), (m,)))
        np.testing.assert_array_equal(p.f(a, c, r), a.astype(np.float64) @ c.astype(np.float64) + r.astype(np.float64)[:, None])


@pytest.mark.parametrize(("k", "bytes"), [(1024, 16), (1000, 16), (1004, 8), (1001, 0)])
def test_copies_are_as_wide_as_all_addresses_allow(k: int, bytes: int) -> None:
    known = facts_of({"M": 512, "N": 512, "K": k}, ["A", "B", "C", "R"], MACHINES["sm_80"])
    made = launches(product("bf16", "f32", turned_b=True), known)
    assert {op.bytes for op in operations(made, AsyncCopy)} == ({bytes} if bytes else set())


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_large_products_assemble_without_spills(arch: str) -> None:
    functions = []
    for dtype in ("f16", "i8", "f64"):
        if dtype == "f64" and arch == "sm_75":
            continue
        for size in (4096, 1001) if dtype != "f64" else (4096, 4000, 1001):
            known = facts_of({"M": size, "N": size, "K": size}, ["A", "B", "C", "R"], MACHINES[arch])
            (launch,) = launches(product(dtype, SUMS[dtype], turned_b=True), known).launches
            functions.append(launch.function)
    for function in functions:
        cubin = assemble(compile_kernels([function], gpu_target(arch)))
        assert cubin.spills == 0


PROGRAM = """
def f(A: tensor[M, K, TYPE], B: tensor[K, N, TYPE]) {
    compute(A, B) -> tensor[M, N, SUM] {
        for i in 0..M, j in 0..N:
            var s: SUM = ZERO
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }
}"""


@pytest.mark.parametrize("sizes", [(31, 33, 17), (16, 64, 40)], ids=str)
@pytest.mark.parametrize("dtype", ["f64", "f16"])
def test_the_sanitizer_finds_nothing(dtype: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    text = PROGRAM.replace("TYPE", dtype).replace("SUM", SUMS[dtype]).replace("ZERO", "0.0")
    a, b = (np.random.default_rng(k).integers(-4, 5, shape).astype(NUMPY[dtype]) for shape in ((m, k), (k, n)))
    p = zynml.compile(text, device="emulator", sanitize=True)
    np.testing.assert_array_equal(p.f(a, b), a.astype(np.float64) @ b.astype(np.float64))


def test_a_short_sum_has_small_tiles_and_few_stages() -> None:
    """Blocks store while others load: 20 terms are one stage of 64."""

    def shape(terms: int) -> tuple[int, int]:
        f = FunctionBuilder("short", Form.FIELD, {"i": 16384, "j": 16384, "k": terms})
        x, y = (f.parameter(name, Mem("f16", (terms, 16384), readonly=True, align=16)) for name in "xy")
        out = f.parameter("out", Mem("f32", (16384, 16384)))
        e = f.body
        product = Contract(a=e.load(x, ["k", "i"]), b=e.load(y, ["k", "j"]), over=("k",), to="f32")
        e.store(out, e.emit(product).result, ["i", "j"])
        found = warp_tiles(f.finish(), facts_of({}, ("x", "y", "out"), MACHINES["sm_90"]))
        assert found is not None
        return prod(found.tiles.values()), found.stages

    assert shape(20) == (128 * 64, 2)
    assert shape(2048) == (128 * 256, 4)
