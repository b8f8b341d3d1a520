"""Scans on blocks of threads: against NumPy in the emulator, at sizes around tiles, whatever order warps run in; and assembled."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.facts import Facts, facts_of, specialised
from compiler.schedule.gpu.library import look_back, scans
from compiler.schedule.gpu.library.scans import scan_launches, scan_plan
from compiler.schedule.launches import Launches
from tests.schedule.test_running import SOURCE

Array = np.ndarray[Any, Any]
FLAGS = {"f32": ("reassoc",), "f64": ("reassoc",)}


def numbers(dtype: str, shape: tuple[int, ...]) -> Array:
    drawn = np.random.default_rng(sum(shape)).integers(0 if dtype[0] == "u" else -50, 50, shape)
    return (drawn > 0 if dtype == "i1" else drawn).astype(numpy_dtype(dtype))


def numpy_dtype(dtype: str) -> Any:
    return np.dtype(bool) if dtype == "i1" else np.dtype(f"{dtype[0]}{int(dtype[1:]) // 8}")


def field(dtype: str, monoid: str = "add", axis: int = 0, rank: int = 1, exclusive: bool = False, twice: bool = False) -> HirFunction:
    """The scan of `X` along an axis in `Y`; `twice`: of the scan's square too, in `Z`, beside `X`."""
    names, sizes = "ij"[:rank], "MN"[:rank]
    f = FunctionBuilder("scan", Form.FIELD, dict(zip(names, sizes, strict=True)))  # type: ignore[arg-type]
    x, y, z = (f.parameter(name, Mem(dtype, tuple(sizes))) for name in "XYZ")
    for size in sizes:
        f.parameter(size, INDEX)
    b = f.body
    flags = FLAGS.get(dtype, ()) if monoid in ("add", "mul") else ()
    value = b.load(x, list(names))
    found = b.scan(monoid, value, names[axis], exclusive=exclusive, flags=flags)
    b.store(y, found, list(names))
    if twice:
        b.store(z, b.add(b.scan(monoid, b.mul(found, found), names[axis], flags=flags), value), list(names))
    return f.finish()


def launches(made: HirFunction, facts: Facts) -> Launches:
    known, _, about = specialised(made, facts)
    plan = scan_plan(known, about)
    assert plan is not None
    return scan_launches(known, plan)


def run(made: HirFunction, x: Array, seed: int | None = None, facts: Facts | None = None) -> tuple[Array, Array]:
    sizes = dict(zip("MN", x.shape, strict=False))
    y, z = np.zeros_like(x), np.zeros_like(x)
    work = launches(made, facts or facts_of({}, "XYZ"))
    junk = [np.full([d.evaluate(sizes.__getitem__) for d in m.dims], 1 << 40, numpy_dtype(m.dtype)) for m in work.workspaces]
    for launch in work.launches:
        verify(launch.function)
        if blocks := launch.blocks(sizes):
            interpret(launch.function, [x, y, z, *sizes.values(), *junk], grid=(blocks, 1, 1), seed=seed)
    return y, z


def expected(x: Array, axis: int = 0, exclusive: bool = False) -> Array:
    made = np.cumsum(x, axis, x.dtype)
    return np.asarray(made - x) if exclusive else made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 256 elements, groups of two: look-back through all its levels."""
    monkeypatch.setattr(scans, "WARPS", 2)
    monkeypatch.setattr(scans, "MOST_WARPS", 2)
    monkeypatch.setattr(scans, "WORDS", 4)
    monkeypatch.setattr(look_back, "GROUP", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1500, 3000])
def test_look_back_in_any_order_of_warps(count: int, seed: int) -> None:
    x = numbers("i32", (count,))
    np.testing.assert_array_equal(run(field("i32"), x, seed)[0], expected(x))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "i16", "u32", "i64", "u64", "f32", "f64"])
def test_look_back_of_every_width(dtype: str, exclusive: bool) -> None:
    x = numbers(dtype, (1501,))
    np.testing.assert_array_equal(run(field(dtype, exclusive=exclusive), x)[0], expected(x, 0, exclusive))


@pytest.mark.usefixtures("small")
def test_look_back_of_truth() -> None:
    x = np.zeros(1501, bool)
    x[700] = True
    np.testing.assert_array_equal(run(field("i1", "or"), x)[0], np.logical_or.accumulate(x))


@pytest.mark.usefixtures("small")
def test_a_scan_of_a_scan() -> None:
    x = numbers("i64", (1501,))
    once, again = run(field("i64", twice=True), x)
    np.testing.assert_array_equal(once, expected(x))
    np.testing.assert_array_equal(again, np.cumsum(once * once) + x)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("axis", [0, 1])
def test_look_back_along_each_of_a_few_scans(axis: int) -> None:
    x = numbers("i32", (700, 5) if axis == 0 else (5, 700))
    made, facts = field("i32", axis=axis, rank=2), facts_of({}, "XYZ", processors=1 << 20)
    assert len(launches(made, facts).launches) == 2
    np.testing.assert_array_equal(run(made, x, facts=facts)[0], expected(x, axis))


def test_what_is_short_is_a_thread_s() -> None:
    known, _, about = specialised(field("f32", axis=1, rank=2), facts_of({"M": 1 << 20, "N": 7}, "XYZ"))
    assert scan_plan(known, about) is None


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (9, 257), (70, 9)])
def test_blocks_that_walk(shape: tuple[int, int], axis: int, exclusive: bool) -> None:
    x, facts = numbers("f32", shape), facts_of({"M": 4001, "N": 4001}, "XYZ")
    got, _ = run(field("f32", axis=axis, rank=2, exclusive=exclusive), x, seed=1, facts=facts)
    np.testing.assert_array_equal(got, expected(x, axis, exclusive))


def test_many_lines_across_memory_march() -> None:
    for columns, walks in ((4001, True), (40_001, False)):
        known, _, about = specialised(field("f32", axis=0, rank=2), facts_of({"M": 1001, "N": columns}, "XYZ"))
        assert (scan_plan(known, about) is not None) == walks
        assert scans.marches(known, about) != walks
    shown = str(zynml.compile(SOURCE)._session.emit("schedule", "sm_90a", ["down(x=1001x40001:f32)"]))
    assert "blocks of 128 lines, whose other threads bring" in shown


def test_nan_and_infinities_go_on() -> None:
    x = np.array([1, np.inf, 2, -np.inf, 3], np.float32)
    np.testing.assert_array_equal(run(field("f32"), x)[0], np.array([1, np.inf, np.inf, np.nan, np.nan], np.float32))


def test_floats_are_near_the_sum_in_float64() -> None:
    x = np.random.default_rng(1).standard_normal(20_000).astype(np.float32)
    wide = np.cumsum(x.astype(np.float64))
    np.testing.assert_allclose(run(field("f32"), x)[0], wide, atol=1e-6 * np.abs(x).sum())


def test_programs_scan_on_blocks() -> None:
    program = zynml.compile(SOURCE, device="emulator")
    for count in (0, 1, 127, 129, 4097):
        x = numbers("i32", (count,))
        np.testing.assert_array_equal(program.whole(x), np.cumsum(x))
        np.testing.assert_array_equal(program.sums(x.astype(np.float32)), np.cumsum(2.0 * x))
    for shape in ((1, 1), (3, 5), (40, 257), (257, 40), (5, 0), (0, 5)):
        x = numbers("f32", shape)
        np.testing.assert_array_equal(program.down(x), np.cumsum(x, 0))
        np.testing.assert_array_equal(program.highest(x), np.maximum.accumulate(x, 1))


CASES = {
    "one": (dict[str, Any](dtype="f32"), {"M": 2**28}),
    "odd": (dict[str, Any](dtype="i32"), {"M": 2**28 - 1}),
    "wide": (dict[str, Any](dtype="f64"), {"M": 2**28}),
    "one block": (dict[str, Any](dtype="f32"), {"M": 2**14}),
    "one block, wide": (dict[str, Any](dtype="i64"), {"M": 2**13}),
    "narrow": (dict[str, Any](dtype="i8"), {"M": 2**28}),
    "rows": (dict[str, Any](dtype="f32", axis=1, rank=2), {"M": 8192, "N": 8192}),
    "short rows": (dict[str, Any](dtype="f32", axis=1, rank=2), {"M": 2**20, "N": 100}),
    "few columns": (dict[str, Any](dtype="f32", axis=0, rank=2), {"M": 2**20, "N": 8}),
    "fewer columns": (dict[str, Any](dtype="f32", axis=0, rank=2), {"M": 65536, "N": 1024}),
    "fewer wide columns": (dict[str, Any](dtype="f64", axis=0, rank=2), {"M": 65536, "N": 1024}),
    "columns": (dict[str, Any](dtype="f32", axis=0, rank=2), {"M": 8192, "N": 8192}),
}


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("case", CASES)
def test_kernels_do_not_spill(case: str, target: str) -> None:
    options, sizes = CASES[case]
    work = launches(field(**options), facts_of(sizes, "XYZ", MACHINES[target]))
    module = compile_kernels([one.function for one in work.launches], gpu_target(target))
    assert all(use.spills == 0 for use in assemble(module).kernels.values())
