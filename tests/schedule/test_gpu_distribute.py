"""Fields on blocks of threads mean what the fields say: run block by block in the interpreter of form C, and assembled."""

import numpy as np
import pytest

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.fragment_shapes import PRODUCTS
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.control import For
from compiler.hir.core import Contract
from compiler.hir.gpu import Shuffle, SyncThreads
from compiler.hir.instruction import Instruction
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.tensor_core import Mma
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.launch.cpu import numpy_dtype
from compiler.machines.nvidia import MACHINES, PORTABLE
from compiler.machines.units import wmma
from compiler.schedule.gpu import distribute as distributing
from compiler.schedule.gpu import tensor_cores
from compiler.schedule.gpu.distribute import distribute, field_launches
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.tables import block_table
from compiler.schedule.launches import Launches
from tests.schedule.fields import EXAMPLES, Example
from tests.schedule.test_place import case, sizes_for

ON_BLOCKS = [example for example in EXAMPLES if example.name != "transpose"]


def workspaces(launches: Launches, known: dict[str, int]) -> list[np.ndarray]:
    """What a launch finds: zeros where it counts on them."""
    made = [np.full([int(dim.evaluate(known.__getitem__)) for dim in mem.dims], 99, numpy_dtype(mem.dtype)) for mem in launches.workspaces]
    for place in launches.zeros:
        made[place][...] = 0
    return made


def run(field: HirFunction, arguments: list[object], known: dict[str, int]) -> None:
    table = block_table(field)
    assert table is not None
    launches = field_launches(field, table)
    shared = workspaces(launches, known)
    for launch in launches.launches:
        verify(launch.function)
        blocks = launch.blocks(known)
        if blocks:
            interpret(launch.function, [*arguments, *shared], grid=(blocks, 1, 1))


@pytest.mark.parametrize("example", ON_BLOCKS, ids=lambda example: example.name)
def test_blocks_mean_the_field(example: Example) -> None:
    for sizes in sizes_for(example):
        if max(sizes) > 40:
            continue
        arrays, expected = case(example, sizes)
        run(example.make(), [*arrays, *sizes], dict(zip(example.sizes, sizes, strict=True)))
        np.testing.assert_allclose(arrays[-1], expected, rtol=2e-5, atol=2e-5, err_msg=str(sizes))


@pytest.mark.parametrize("example", ON_BLOCKS, ids=lambda example: example.name)
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_blocks_assemble_without_spills(example: Example, target: str) -> None:
    field = example.make()
    table = block_table(field)
    assert table is not None
    module = compile_kernels([one.function for one in field_launches(field, table).launches], gpu_target(target))
    assert all(use.spills == 0 for use in assemble(module).kernels.values())


def test_a_map_is_one_thread_an_element() -> None:
    assert block_table(next(example for example in EXAMPLES if example.name == "transpose").make()) is None


def everything(function: HirFunction) -> list[Instruction]:
    return [op for top in function.body.body for op in top.walk()]


def distributed(name: str) -> list[Instruction]:
    field = next(example for example in EXAMPLES if example.name == name).make()
    table = block_table(field)
    assert table is not None
    return everything(distribute(field, table))


def test_sums_along_rows_are_joined_by_shuffles_alone() -> None:
    ops = distributed("row sums")
    assert any(isinstance(op, Shuffle) for op in ops)
    assert not any(isinstance(op, SyncThreads) for op in ops)


def test_sums_down_columns_are_shared_by_rows_of_threads() -> None:
    ops = distributed("column sums")
    assert not any(isinstance(op, Shuffle) for op in ops)
    assert any(isinstance(op, SyncThreads) for op in ops)


def test_attention_walks_along_its_scores_once() -> None:
    """A loop over whole tiles of `j` and one over the end: the maximum, its sum and the weighted sum share them."""
    loops = [op.variable.name for op in distributed("attention") if isinstance(op, For)]
    assert sorted(name for name in loops if name.startswith("j")) == ["j0", "j1"]


def product(dtype: str, to: str, transposed: bool = False) -> HirFunction:
    out = FunctionBuilder("product", Form.FIELD)
    a = out.parameter("A", Mem(dtype, ("M", "K"), readonly=True))
    b = out.parameter("B", Mem(dtype, ("N", "K") if transposed else ("K", "N"), readonly=True))
    c = out.parameter("C", Mem(to, ("M", "N")))
    for size in "MNK":
        out.parameter(size, INDEX)
    for axis, extent in (("i", "M"), ("j", "N"), ("k", "K")):
        out.axis(axis, extent)
    left = out.body.load(a, ["i", "k"])
    right = out.body.load(b, ["j", "k"] if transposed else ["k", "j"])
    out.body.store(c, out.body.contract(left, right, ["k"], to), ["i", "j"])
    return out.finish()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("dtype", "to"), [("f16", "f32"), ("i8", "i32")])
def test_products_on_tensor_cores(dtype: str, to: str, transposed: bool) -> None:
    random = np.random.default_rng(3)
    for m, n, k in [(1, 1, 1), (33, 17, 40), (130, 65, 31), (5, 0, 3), (3, 4, 0)]:
        a, b = (random.integers(-8, 8, shape).astype({"f16": np.float16, "i8": np.int8}[dtype]) for shape in ((m, k), (k, n)))
        c = np.full((m, n), -1, {"f32": np.float32, "i32": np.int32}[to])
        given = np.ascontiguousarray(b.T) if transposed else b
        run(product(dtype, to, transposed), [a, given, c, m, n, k], {"M": m, "N": n, "K": k})
        np.testing.assert_array_equal(c, a.astype(np.int64) @ b.astype(np.int64))


def test_tensor_cores_multiply_only_what_they_multiply_exactly() -> None:
    for dtype, to, expected in [
        ("f16", "f32", True),
        ("bf16", "f32", True),
        ("i8", "i32", True),
        ("f32", "f32", False),
        ("f16", "f16", False),
    ]:
        field = product(dtype, to)
        table = block_table(field, Facts(machine=MACHINES["sm_80"]))
        assert table is not None
        assert any(isinstance(op, Mma) for op in everything(distribute(field, table))) is expected
        assert any(isinstance(op, Contract) for op in everything(distribute(field, table))) is not expected


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_tensor_core_products_assemble_without_spills(target: str) -> None:
    field = product("bf16", "f32")
    table = block_table(field, Facts(machine=MACHINES[target]))
    assert table is not None and table.tensor_cores
    module = compile_kernels([one.function for one in field_launches(field, table).launches], gpu_target(target))
    (use,) = assemble(module).kernels.values()
    assert use.spills == 0


@pytest.mark.parametrize(
    ("architecture", "hint", "expected"),
    [
        ("", None, False),
        ("sm_75", None, False),
        ("sm_80", None, True),
        ("sm_90a", None, True),
        ("sm_80", False, False),
        ("sm_80", True, True),
    ],
)
def test_tensor_cores_are_those_of_the_architecture(architecture: str, hint: bool | None, expected: bool) -> None:
    field = product("bf16", "f32")
    field.kernel_info = HirKernelInfo(tensor_cores=hint)
    table = block_table(field, Facts(machine=MACHINES.get(architecture, PORTABLE)))
    assert table is not None and table.tensor_cores is expected


def test_architectures_multiply_what_the_back_end_says() -> None:
    side = tensor_cores.SIDE
    for dtype, to in tensor_cores.SUMS.items():
        assert (dtype, (side, side, side)) in PRODUCTS
        assert to in wmma.SUMS[dtype]


@pytest.mark.parametrize("blocks", [3, 4])
@pytest.mark.parametrize("count", [1, 1023, 4096, 4097, 3 * 4096, 4 * 4096 + 5, 20_000, 30_001])
def test_blocks_take_every_so_many_tiles_of_a_whole_sum(blocks: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first n odd numbers make n squared."""
    monkeypatch.setattr(distributing, "CHUNKS", blocks)
    made = FunctionBuilder("total", Form.FIELD, {"i": "N"})
    x, out = made.parameter("X", Mem("i64", ("N",))), made.parameter("S", Mem("i64", ()))
    made.parameter("N", INDEX)
    made.body.store(out, made.body.reduce("add", made.body.load(x, ["i"]), over=["i"])[0], [])
    given, found = np.arange(count, dtype=np.int64) * 2 + 1, np.zeros((), np.int64)
    field, known = made.finish(), {"N": count}
    table = block_table(field)
    assert table is not None
    launches = field_launches(field, table)
    shared = workspaces(launches, known)
    for launch in launches.launches:
        verify(launch.function)
        interpret(launch.function, [given, found, count, *shared], grid=(launch.blocks(known), 1, 1))
    assert found == count**2
