"""Sorts by digits on blocks of threads: against NumPy's stable sort in the emulator, whatever order warps run in; and assembled."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.analysis.dependence import analyse
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.fusion.program_kernels import kernels
from compiler.hir.build import FunctionBuilder
from compiler.hir.library import Sort
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.blocks import nest_launches
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of
from compiler.schedule.gpu.library import sort_launches, sorting
from compiler.schedule.launches import CountedSort, Launches

Array = np.ndarray[Any, Any]


def numpy_dtype(dtype: str) -> Any:
    return np.dtype(bool) if dtype == "i1" else np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}")


def sort_of(dtypes: tuple[str, ...], rank: int = 1, axis: int = 0, descending: bool = False) -> HirFunction:
    """Keys, and payloads, sorted in place."""
    f = FunctionBuilder("sorted")
    sizes = "LMN"[:rank]
    memories = [f.parameter(f"m{number}", Mem(dtype, tuple(sizes))) for number, dtype in enumerate(dtypes)]
    for size in sizes:
        f.parameter(size, INDEX)
    f.body.emit(Sort(keys=memories[0], payload=tuple(memories[1:]), axis=axis, descending=descending))
    return f.finish()


def launches(made: HirFunction) -> Launches:
    found = nest_launches(made, analyse(made))
    assert any(isinstance(stage, CountedSort) for stage in found.stages)
    return found


def run(arrays: tuple[Array, ...], axis: int = 0, descending: bool = False, seed: int | None = None, known: bool = False) -> list[Array]:
    """By digits; where sizes are `known`, by blocks."""
    dtypes = tuple("i1" if array.dtype == bool else f"{array.dtype.kind}{8 * array.itemsize}" for array in arrays)
    sizes = dict(zip("LMN", arrays[0].shape, strict=False))
    nest = sort_of(dtypes, arrays[0].ndim, axis, descending)
    work = nest_launches(nest, analyse(nest), facts_of(sizes, [])) if known else launches(nest)
    made = [array.copy() for array in arrays]
    spaces = []
    for mem in work.workspaces:
        junk = np.random.default_rng(1).integers(0, 255, [max(0, d.evaluate(sizes.__getitem__)) for d in mem.dims])
        spaces.append(junk.astype(numpy_dtype(mem.dtype)))
    for number, after in work.steps(sizes):
        launch = work.launches[number]
        if blocks := launch.blocks(sizes):
            interpret(launch.function, [*made, *sizes.values(), *spaces, *after], grid=(blocks, 1, 1), seed=seed)
    return made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 384 elements, and digits for lines of any length."""
    monkeypatch.setattr(sorting, "MOST_ITEMS", 1)
    monkeypatch.setattr(sorting, "TURNS", 1)
    monkeypatch.setattr(sort_launches, "TURNS", 1)
    monkeypatch.setattr(sorting, "FEWEST", 1)
    monkeypatch.setattr(sort_launches, "FEWEST", 1)


def keys(dtype: str, count: int) -> Array:
    random = np.random.default_rng(count)
    if dtype == "i1":
        return random.integers(0, 2, count).astype(bool)
    if dtype[0] == "f":
        drawn = np.round(random.standard_normal(count) * 4) / 4
        drawn[: count // 5] = random.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-7]), count // 5)
        return random.permutation(drawn).astype(numpy_dtype(dtype))
    kind = numpy_dtype(dtype)
    limits = np.iinfo(kind)
    drawn = random.integers(limits.min, limits.max, count, kind, endpoint=True)
    drawn[: count // 2] //= limits.max // 5
    return np.asarray(random.permutation(drawn))


def order(x: Array, descending: bool) -> Array:
    """The stable order, NaN last in either direction."""
    rank = np.unique(x, return_inverse=True, equal_nan=True)[1].astype(np.int64)
    if descending:
        rank = np.where(np.isnan(x), rank.max(initial=0) + 1, -rank) if x.dtype.kind == "f" else -rank
    return np.argsort(rank, kind="stable")


WAYS = [("i1", False), ("i8", True), ("u8", False), ("i16", True), ("f16", False), ("u32", True), ("i32", False), ("f32", False), ("f32", True)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("dtype", "descending"), WAYS)
def test_keys_of_every_dtype_with_what_goes_along(dtype: str, descending: bool) -> None:
    x = keys(dtype, 500)
    want = order(x, descending)
    got, places = run((x, np.arange(500, dtype=np.int64)), 0, descending)
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(got.view(f"u{x.itemsize}"), x[want].view(f"u{x.itemsize}"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["i64", "f64"])
def test_wide_keys(dtype: str) -> None:
    x = keys(dtype, 400)
    got, small = run((x, np.arange(400).astype(np.int16)))
    np.testing.assert_array_equal(small, order(x, False))
    np.testing.assert_array_equal(got, x[order(x, False)])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(2))
def test_many_tiles_in_any_order_of_warps(seed: int) -> None:
    x = np.random.default_rng(seed).integers(-300, 300, 1300).astype(np.int16)
    (got,) = run((x,), seed=seed)
    np.testing.assert_array_equal(got, np.sort(x))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("count", [0, 1, 383, 384, 385])
def test_sizes_around_tiles(count: int) -> None:
    x = keys("u8", count)
    (got,) = run((x,))
    np.testing.assert_array_equal(got, np.sort(x))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("shape", "axis"), [((3, 400), 1), ((400, 3), 0), ((2, 385, 2), 1)])
def test_lines_beside_each_other(shape: tuple[int, ...], axis: int) -> None:
    x = keys("i16", int(np.prod(shape))).reshape(shape)
    (got,) = run((x,), axis)
    np.testing.assert_array_equal(got, np.sort(x, axis))


NESTS = """
def down(x) { compute(x) @kernel(sort, descending=true) { for i in 0..N: yield (-x[i] * 2, i) } }
def columns(x) { compute(x) @kernel(sort, axis=0) { for i in 0..M, j in 0..N: yield (x[i, j], i + 10 * j) } }
def turned(x) { compute(x) @kernel(sort, axis=1) { for i in 0..N, j in 0..M: yield x[j, i] } }
def behind(x) { compute(x) @kernel(sort) { for i in 0..N - 1: yield x[i + 1] } }
def alike(x) { compute(x) @kernel(sort) { for i in 0..N: yield (1, x[i]) } }
def gathered(x, at) { compute(x, at) @kernel(sort) { for i in 0..N: yield x[at[i]] } }
"""


@pytest.fixture(scope="module")
def nests() -> Any:
    return zynml.compile(NESTS, device="emulator")


@pytest.mark.parametrize("count", [0, 1, 16, 17, 31, 33, 100, 513, 1000])
def test_lines_that_a_block_sorts(nests: Any, count: int) -> None:
    x = np.random.default_rng(count).integers(-30, 30, count).astype(np.int16)
    order = np.argsort(2 * x, kind="stable")
    found, places = nests.down(x)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(found, -2 * x[order])


@pytest.mark.parametrize("shape", [(40, 3), (0, 3), (3, 0), (129, 2)])
def test_lines_that_blocks_sort_beside_each_other(nests: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(3).integers(-30, 30, shape).astype(np.int16)
    found, places = nests.columns(x)
    np.testing.assert_array_equal(found, np.sort(x, 0))
    np.testing.assert_array_equal(places, np.argsort(x, 0, kind="stable") + 10 * np.arange(shape[1]))
    np.testing.assert_array_equal(nests.turned(x), np.sort(x.T, 1))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["i1", "u8", "f16", "u32", "f32", "i64", "f64"])
def test_lines_of_every_dtype_in_blocks(dtype: str, descending: bool) -> None:
    """By warps in an order of chance: what a barrier forgets, one of them sees."""
    x = keys(dtype, 700)
    want = order(x, descending)
    got, places = run((x, np.arange(700, dtype=np.int64)), 0, descending, seed=1, known=True)
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(got.view(f"u{x.itemsize}"), x[want].view(f"u{x.itemsize}"))


@pytest.mark.usefixtures("small")
def test_what_is_sorted_is_computed_in_the_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_launches, "LONGEST", 1)
    monkeypatch.setattr(sort_launches, "SHORTEST", 1)
    program = zynml.compile(NESTS, device="emulator")
    built = [kernel for _, kernel in kernels(program._session)]
    stages = [launches_for(kernel.nest, kernel.field, facts_of({}, [], MACHINES["sm_90"])).stages for kernel in built]
    assert [len(of_nest) for of_nest in stages] == [1, 1, 1, 1, 2, 2]  # the last two need a launch before they are sorted
    assert all(isinstance(of_nest[-1], CountedSort) for of_nest in stages)
    x = np.random.default_rng(1).integers(-300, 300, 400).astype(np.int16)
    order = np.argsort(2 * x, kind="stable")
    found, places = program.down(x)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(found, -2 * x[order])
    y = x.reshape(200, 2)
    found, places = program.columns(y)
    np.testing.assert_array_equal(found, np.sort(y, 0))
    np.testing.assert_array_equal(places, np.argsort(y, 0, kind="stable") + 10 * np.arange(2))
    np.testing.assert_array_equal(program.behind(x), np.sort(x[1:]))


def test_short_lines_are_merged_and_need_no_counts() -> None:
    work = launches(sort_of(("f32",), 2, 1))
    short, long = {"L": 1 << 20, "M": sorting.FEWEST - 1}, {"L": 5, "M": 100_000}
    elements = [[d.evaluate(s.__getitem__) for d in work.workspaces[-1].dims] for s in (short, long)]
    assert np.prod(elements[0]) == 0
    tiles = -(-100_000 // (sorting.PASS_THREADS * sorting.items_of(Sort(keys=sort_of(("f32",)).parameters[0]))))
    assert elements[1][1] >= tiles + 5
    assert len(list(work.steps(short))) == 12
    assert len(list(work.steps(long))) == 6


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("dtypes", [("f32",), ("f64", "i64")])
def test_blocks_that_sort_do_not_spill(dtypes: tuple[str, ...], target: str) -> None:
    nest = sort_of(dtypes)
    (launch,) = nest_launches(nest, analyse(nest), facts_of({"L": 4096}, [], MACHINES[target])).launches
    verify(launch.function)
    for name, use in assemble(compile_kernels([launch.function], gpu_target(target))).kernels.items():
        assert use.spills == 0, name


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("dtypes", [("i32",), ("f32", "i64"), ("f64", "f64"), ("i8",)])
def test_kernels_do_not_spill_and_two_blocks_fit(dtypes: tuple[str, ...], target: str) -> None:
    functions = [launch.function for launch in launches(sort_of(dtypes)).launches]
    for function in functions:
        verify(function)
    for name, use in assemble(compile_kernels(functions, gpu_target(target))).kernels.items():
        assert use.spills == 0, name
        assert use.shared <= 48 << 10
