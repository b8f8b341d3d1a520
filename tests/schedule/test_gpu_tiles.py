"""How products are cut: what a processor holds, what a program says of it, and how many kernels come of many sizes."""

from math import prod

import numpy as np
import pytest

import zynml
from compiler.hir.gpu import SharedAlloc
from compiler.hir.hopper import WarpgroupMma
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_module
from compiler.schedule.gpu.choose import choices
from compiler.schedule.gpu.products.tiling import SHARED_BYTES, Impossible, ProductWork, TileRequests, Tiling, nanoseconds, ranked, tilings
from tests.schedule.test_gpu_warpgroups import facts, product

RANDOM = np.random.default_rng(11)


def work(m: int, n: int, k: int, **more: object) -> ProductWork:
    return ProductWork(("i",), 1, (m,), n, -(-k // 64), 132, **more)  # type: ignore[arg-type]


def lying(rows: int) -> tuple[int, ...]:
    return (rows,)


def best(work: ProductWork, wishes: TileRequests = TileRequests()) -> Tiling:
    """What is estimated to end first of what the program allows."""
    return ranked(work, lying, wishes)[0].tiling


def shared(tiling: Tiling, twice: bool, boxed: bool) -> int:
    """Bytes of the stages, and of what goes out: two pieces of 64 rows of 128 bytes for each warpgroup. Columns that lie across come in
    boxes of 64."""
    columns = -(-tiling.columns // 64) * 64 if boxed else tiling.columns
    stage = (prod(tiling.rows) + columns * (2 if twice else 1)) * 128
    return tiling.stages * stage + (tiling.warpgroups * 2 * 64 * 128 if boxed else 0)


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize(("apart", "twice"), [(False, False), (True, False), (True, True)])
def test_every_tile_fits_a_processor(apart: bool, twice: bool, boxed: bool) -> None:
    for tiling in tilings(work(4096, 4096, 4096, twice=twice, apart=apart, boxed=boxed, across=64 if boxed else 1), lying):
        assert prod(tiling.rows) == 64 * tiling.groups * tiling.blocks
        assert tiling.stages >= 2
        assert shared(tiling, twice, boxed) <= SHARED_BYTES // tiling.residents
        assert tiling.blocks * tiling.columns // 2 * (1 + apart + twice) <= (192 if apart else 128)
        assert tiling.columns % (8 * tiling.pieces) == 0


def test_tf32_takes_wide_tiles() -> None:
    """Measured on an H200: 128 by 256 takes 0.9 of the time of 128 by 192, which would fill the last round."""
    assert best(work(8192, 8192, 16384, hot=True, across=1, boxed=False)).columns == 256


@pytest.mark.parametrize("columns", [2304, 3072])
def test_products_by_weights_take_whole_boxes_of_columns(columns: int) -> None:
    """Measured on an H200: 128 by 96 takes 136 and 166 us, the best of whole boxes 82 and 113."""
    assert best(work(768, columns, 16384, both_across=True)).columns % 64 == 0


def test_the_least_estimate_is_taken() -> None:
    for _ in range(20):
        m, n, k = (int(2**size) for size in RANDOM.uniform(4, 14, 3))
        one = work(m, n, k)
        assert nanoseconds(best(one), one) == min(nanoseconds(tiling, one) for tiling in tilings(one, lying))


def test_long_sums_of_few_tiles_are_cut_in_pieces() -> None:
    found = best(work(64, 64, 1 << 16))
    assert found.pieces > 1 or found.cut
    assert best(work(8192, 8192, 1 << 16)).pieces == 1


def test_many_sizes_make_few_kernels() -> None:
    field = product("bf16", "f32", "bf16", turned_b=False)
    found = set()
    for _ in range(80):
        m, n, k = (int(size) * 8 for size in RANDOM.integers(8, 1024, 3))
        found.add(choices(field, facts(m, n, k, 132), {"M": m, "N": n, "K": k})[0].facts.tiling)
    assert None not in found and len(found) <= 30


WISHES = [
    (TileRequests(stages=3), lambda t: t.stages == 3),
    (TileRequests(warps=4), lambda t: t.warpgroups == 1),
    (TileRequests(warps=8), lambda t: t.warpgroups == 2),
    (TileRequests(cluster=2), lambda t: t.cluster == 2),
    (TileRequests(cluster=1), lambda t: t.cluster == 1),
    (TileRequests(registers=128), lambda t: t.blocks * t.columns // 2 <= 88),
    (TileRequests(stages=2, warps=8, cluster=2), lambda t: (t.stages, t.warpgroups, t.cluster) == (2, 2, 2)),
]


@pytest.mark.parametrize(("wishes", "kept"), WISHES, ids=[str(wishes) for wishes, _ in WISHES])
@pytest.mark.parametrize("sizes", [(8192, 8192, 8192), (1024, 1024, 1024), (100, 72, 4096)], ids=str)
def test_what_a_program_says_is_kept(wishes: TileRequests, kept: object, sizes: tuple[int, int, int]) -> None:
    assert callable(kept) and kept(best(work(*sizes), wishes))


IMPOSSIBLE = [
    (TileRequests(warps=6), "0502", "4 or 8 warps can"),
    (TileRequests(warps=32), "0502", "4 or 8 warps can"),
    (TileRequests(cluster=3), "0502", "1 or 2 blocks can"),
    (TileRequests(stages=1), "0502", "2 stages are the fewest"),
    (TileRequests(registers=100), "0502", "64 to 232 a thread can be taken"),
    (TileRequests(registers=240), "0502", "64 to 232 a thread can be taken"),
    (TileRequests(stages=64), "0503", "leave one of them out"),
    (TileRequests(registers=96, warps=8), "0503", "leave one of them out"),
]


@pytest.mark.parametrize(("wishes", "code", "hint"), IMPOSSIBLE, ids=str)
def test_what_can_not_be_is_told(wishes: TileRequests, code: str, hint: str) -> None:
    with pytest.raises(Impossible) as told:
        best(work(4096, 4096, 4096), wishes)
    assert (told.value.code, told.value.hint) == (code, hint)


PROGRAM = """
def f(A: tensor[1024, 512, bf16], B: tensor[512, 256, bf16]): tensor {
    compute(A, B) @kernel(matmul) %s {
        for i in 0..1024, j in 0..256:
            var sum = 0.0
            for k in 0..512: sum += A[i, k] * B[k, j]
            out[i, j] = sum
    }
}"""


def test_annotations_decide_the_schedule() -> None:
    """Four warps that multiply beside four that copy, three stages of each operand, clusters of two blocks."""
    module = parse_module(zynml.compile(PROGRAM % "@pipeline(stages=3) @warps(4) @cluster(2)").emit("hir", "sm_90a").replace("@<program>", "@program"))
    (function,) = (function for function in module.functions.values() if any(isinstance(op, WarpgroupMma) for op in operations(function)))
    assert function.kernel_info is not None
    assert (function.kernel_info.workgroup, function.kernel_info.cluster) == ((256, 1, 1), (2, 1, 1))
    staged = [op.type for op in operations(function) if isinstance(op, SharedAlloc) and op.type.swizzle is not None]
    assert [mem.dims[0].value for mem in staged] == [3, 3]


def operations(function: HirFunction) -> list[Instruction]:
    return [op for top in function.body.body for op in top.walk()]


def test_annotations_that_can_not_be_point_to_the_block() -> None:
    with pytest.raises(zynml.ZynMLError) as told:
        zynml.compile(PROGRAM % "@warps(6)").emit("schedule", "sm_90a")
    text = str(told.value)
    assert "ZYN0502" in text and "`@warps(6)` can't be done: whole warpgroups multiply" in text
