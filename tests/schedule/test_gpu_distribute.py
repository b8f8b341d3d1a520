"""Fields on blocks of threads mean what the fields say: run block by block in the interpreter of form C, and assembled."""

import numpy as np
import pytest

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.gpu import Shuffle, SyncThreads
from compiler.hir.instruction import Instruction
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.launch.cpu import numpy_dtype
from compiler.schedule.gpu.block_launches import field_launches
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.tiles import distribute as distributing
from compiler.schedule.gpu.tiles.distribute import distribute
from compiler.schedule.gpu.tiles.tables import block_table
from compiler.schedule.launches import Launches
from tests.schedule.fields import EXAMPLES, Example
from tests.schedule.test_place import case, sizes_for

ON_BLOCKS = [example for example in EXAMPLES if example.name not in ("transpose", "attention")]


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


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 3, 5, 4), (1, 17, 33, 8), (2, 0, 3, 4)])
def test_products_with_more_to_reduce_between_them_are_computed_by_themselves(sizes: tuple[int, ...]) -> None:
    example = next(example for example in EXAMPLES if example.name == "attention")
    arrays, expected = case(example, sizes)
    field, known = example.make(), dict(zip(example.sizes, sizes, strict=True))
    launches = launches_for(field, field)
    assert len(launches.launches) == 3
    shared = workspaces(launches, known)
    for launch in launches.launches:
        verify(launch.function)
        if blocks := launch.blocks(known):
            interpret(launch.function, [*arrays, *sizes, *shared], grid=(blocks, 1, 1))
    np.testing.assert_allclose(arrays[-1], expected, rtol=2e-5, atol=2e-5)


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
