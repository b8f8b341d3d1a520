"""Products whose operands are copied first mean the field: bytes and f32 in every layout, odd sizes, numbers of any magnitude."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.fusion.program_kernels import kernels
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.hopper import WarpgroupMma
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import choices, launches_for
from compiler.schedule.gpu.facts import Facts, facts_of
from compiler.schedule.gpu.products import three_products, tiling
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_warpgroups import NUMPY
from tests.windows import CHANNELS_FIRST, CHANNELS_LAST, convolved

Array = np.ndarray[Any, Any]
MANY = 1 << 20


@pytest.fixture(autouse=True)
def of_few_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(three_products, "LEAST", 64)
    monkeypatch.setattr(three_products, "FMAS", 1e-9)


LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]


def product(dtype: str, to: str, turned_a: bool, turned_b: bool, products: str | None = None) -> HirFunction:
    """`C = A B + R`, A and B as they lie."""
    made = FunctionBuilder("product", Form.FIELD)
    a = made.parameter("A", Mem(dtype, ("K", "M") if turned_a else ("M", "K"), readonly=True))
    b = made.parameter("B", Mem(dtype, ("N", "K") if turned_b else ("K", "N"), readonly=True))
    row, c = made.parameter("R", Mem(to, ("N",), readonly=True)), made.parameter("C", Mem(to, ("M", "N")))
    for size, axis in zip("MNK", "ijk", strict=True):
        made.parameter(size, INDEX)
        made.axis(axis, size)
    left = made.body.load(a, ["k", "i"] if turned_a else ["i", "k"])
    right = made.body.load(b, ["j", "k"] if turned_b else ["k", "j"])
    made.body.store(c, made.body.add(made.body.contract(left, right, ["k"], to), made.body.load(row, ["j"])), ["i", "j"])
    made.function.kernel_info = HirKernelInfo(products=products)
    return made.finish()


def facts(sizes: dict[str, int], large: bool = True, processors: int = 2) -> Facts:
    """Of these sizes; `large`: with many rows, so that copies are worth their time."""
    known = facts_of(sizes, ["A", "B", "C", "R"], MACHINES["sm_90a"], processors)
    return evolve(known, magnitudes=tuple((name, MANY if name == "M" else most) for name, most in known.magnitudes)) if large else known


def run(field: HirFunction, given: Sequence[Any], sizes: dict[str, int]) -> Launches:
    """Its launches, which have been run."""
    made = launches_for(field, field, facts(sizes))
    launched(made, [*given, *sizes.values()], sizes)
    return made


def launched(made: Launches, given: Sequence[Any], sizes: dict[str, int]) -> None:
    arguments, known = made.counted(given, sizes)
    workspaces = [np.full([dim.evaluate(known.__getitem__) for dim in mem.dims], 77, NUMPY[mem.dtype]) for mem in made.workspaces]
    for number, after in made.steps(known):
        launch = made.launches[number]
        verify(launch.function)
        interpret(launch.function, [*arguments, *workspaces, *after], grid=(launch.blocks(known), 1, 1))
    assert any(isinstance(op, WarpgroupMma) for top in made.launches[-1].function.body.body for op in top.walk())


def multiplied(dtype: str, to: str, turned: tuple[bool, bool], a: Array, b: Array, products: str | None = None) -> tuple[Array, Launches]:
    (m, k), n = a.shape, b.shape[1]
    c = np.full((m, n), -7, NUMPY[to])
    row = np.arange(n).astype(NUMPY[to])
    given = [np.ascontiguousarray(x.T) if turn else x for x, turn in zip((a, b), turned, strict=True)]
    made = run(product(dtype, to, *turned, products), [*given, row, c], {"M": m, "N": n, "K": k})
    return c, made


@pytest.mark.parametrize("turned", LAYOUTS, ids=str)
@pytest.mark.parametrize("sizes", [(64, 72, 160), (67, 33, 131)], ids=str)
@pytest.mark.parametrize(("dtype", "to"), [("i8", "i32"), ("f8e4m3", "f32"), ("bf16", "f32"), ("f32", "f32")])
def test_whole_numbers_in_every_layout(dtype: str, to: str, sizes: tuple[int, int, int], turned: tuple[bool, bool]) -> None:
    m, n, k = sizes
    random = np.random.default_rng(n)
    a, b = (random.integers(-4, 5, shape).astype(NUMPY[dtype]) for shape in ((m, k), (k, n)))
    c, _ = multiplied(dtype, to, turned, a, b)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64) + np.arange(n))


def error(c: Array, a: Array, b: Array) -> float:
    """In proportion to what the sums could be at most."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    most = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    return float(np.max(np.abs(c - np.arange(b.shape[1], dtype=np.float32) - exact) / (most + np.arange(b.shape[1]))))


PRICES = ({"LOW": 0.0, "TURNED": 0.0, "PREPARED_STAGES": 2}, {"LOW": 0.0, "TURNED": 1e9, "PREPARED_STAGES": 2}, {"LOW": 1e9})
"""Nanoseconds of a column where blocks compute what tensor cores leave of it, and turn it; and the fewest stages for that."""

WHERE = pytest.mark.parametrize(
    ("prices", "launches"), list(zip(PRICES, (1, 2, 2), strict=True)), ids=["prepared by blocks", "turned before", "put aside before"]
)
"""Where columns are prepared; and launches of a product whose columns lie across."""


def priced(prices: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, price in prices.items():
        monkeypatch.setattr(tiling, name, price)


@WHERE
@pytest.mark.parametrize("scale", [0, 60, -60, -122], ids="2^{}".format)
def test_three_products_are_as_exact_as_one(scale: int, prices: dict[str, float], launches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    priced(prices, monkeypatch)
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((70, 300), (300, 40)))
    c, made = multiplied("f32", "f32", (False, False), a * np.float32(2.0**scale), b * np.float32(2.0**-scale))
    assert len(made.launches) == launches
    assert error(c, a, b) < 2**-20


@pytest.mark.parametrize("across", [False, True], ids=["rows along the sum", "rows across"])
def test_tf32_is_for_those_who_ask(across: bool) -> None:
    random = np.random.default_rng(6)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((72, 300), (300, 40)))
    c, made = multiplied("f32", "f32", (across, True), a, b, "tf32")
    assert len(made.launches) == 1  # as they lie
    assert 2**-14 < error(c, a, b) < 2**-10
    field = product("f32", "f32", False, True, "f32")
    exact = launches_for(field, field, facts({"M": 512, "N": 512, "K": 512}))
    assert not any(isinstance(op, WarpgroupMma) for one in exact.launches for top in one.function.body.body for op in top.walk())


def infinite(a: Array, b: Array) -> None:
    a[3, 5], b[9, 2] = np.inf, -np.inf


def nan(a: Array, b: Array) -> None:
    a[3, 5] = np.nan


def infinity_of_nothing(a: Array, b: Array) -> None:
    a[3, 5], b[5, :] = -np.inf, 0


def too_large_in_parts(a: Array, b: Array) -> None:
    a[2], b[:, 1] = 0, 0
    a[2, 7], b[7, 1] = 3.4e38, 1


@WHERE
@pytest.mark.parametrize("fill", [infinite, nan, infinity_of_nothing, too_large_in_parts])
def test_what_is_not_finite(
    fill: Callable[[Array, Array], None], prices: dict[str, float], launches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(prices, monkeypatch)
    random = np.random.default_rng(7)
    a, b = (random.integers(1, 5, shape).astype(np.float32) for shape in ((65, 256), (256, 40)))
    fill(a, b)
    c, made = multiplied("f32", "f32", (False, False), a, b)
    assert len(made.launches) == launches
    with np.errstate(invalid="ignore", over="ignore"):
        np.testing.assert_array_equal(c, (a.astype(np.float64) @ b.astype(np.float64) + np.arange(40)).astype(np.float32))


@pytest.mark.parametrize("columns", [24, 136])
def test_tiles_that_are_not_finite_are_summed_along_all_axes(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`C[i, j] = sum A[i, l, k] B[j, l, k]`."""
    monkeypatch.setattr(tiling, "PIECES", (1,))
    monkeypatch.setattr(tiling, "CLUSTERS", (1,))
    made = FunctionBuilder("product", Form.FIELD)
    a = made.parameter("A", Mem("f32", ("M", "L", "K"), strides=(Affine.of("L") * 64, 64, 1), readonly=True))
    b = made.parameter("B", Mem("f32", ("N", "L", "K"), strides=(Affine.of("L") * 64, 64, 1), readonly=True))
    c = made.parameter("C", Mem("f32", ("M", "N")))
    for size, axis in zip("MNLK", "ijlk", strict=True):
        made.parameter(size, INDEX)
        made.axis(axis, size)
    left, right = made.body.load(a, ["i", "l", "k"]), made.body.load(b, ["j", "l", "k"])
    made.body.store(c, made.body.contract(left, right, ["l", "k"], "f32"), ["i", "j"])
    random, sizes = np.random.default_rng(11), {"M": 67, "N": columns, "L": 2, "K": 59}
    x, y = (random.integers(-9, 9, (rows, 2, 64)).astype(np.float32)[:, :, :59] for rows in (67, columns))
    x[3, 1, 50], x[66, 1, 58], y[-1, 0, 1] = np.inf, np.nan, -np.inf
    found = np.zeros((67, columns), np.float32)
    run(made.finish(), [x, y, found], sizes)
    np.testing.assert_array_equal(found, np.einsum("ilk,jlk->ij", x.astype(np.float64), y.astype(np.float64)).astype(np.float32))


def test_places_along_steps_and_batches() -> None:
    """`C[h, i, j] = sum A[h, 2 i + 1, k + 1] B[k, h, n - 1 - j]`: what no box has as it lies."""
    made = FunctionBuilder("product", Form.FIELD)
    h, i, j, k, m, n, terms = map(Affine.of, ("h", "i", "j", "k", "M", "N", "K"))
    a = made.parameter("A", Mem("f32", ("H", m * 2 + 1, terms + 1), readonly=True))
    b = made.parameter("B", Mem("f32", ("K", "H", "N"), readonly=True))
    c = made.parameter("C", Mem("f32", ("H", "M", "N")))
    for size, axis in zip("HMNK", "hijk", strict=True):
        made.parameter(size, INDEX)
        made.axis(axis, size)
    left, right = made.body.load(a, [h, i * 2 + 1, k + 1]), made.body.load(b, [k, h, n - 1 - j])
    made.body.store(c, made.body.contract(left, right, ["k"], "f32"), ["h", "i", "j"])
    field, sizes = made.finish(), {"H": 2, "M": 66, "N": 30, "K": 190}
    random = np.random.default_rng(8)
    x, y = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((2, 133, 191), (190, 2, 30)))
    found = np.zeros((2, 66, 30), np.float32)
    run(field, [x, y, found], sizes)
    np.testing.assert_array_equal(found, np.einsum("hik,khj->hij", x[:, 1::2, 1:], y[:, :, ::-1]))


@pytest.mark.parametrize(
    ("source", "pictures"), [(CHANNELS_LAST, (1, 6, 7, 20)), (CHANNELS_FIRST, (1, 6, 7, 20)), (CHANNELS_LAST, (2, 9, 5, 3))]
)
@pytest.mark.parametrize("weight", [1.0, np.inf], ids=str)
def test_windows_of_f32(source: str, pictures: tuple[int, int, int, int], weight: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(three_products, "WORTH", 1)
    monkeypatch.setattr(three_products, "LEAST", 1)
    monkeypatch.setattr(three_products, "FMAS", 1e-9)
    random = np.random.default_rng(9)
    filters = (8, 3, 3, pictures[-1])
    x, f = (random.standard_normal(shape).astype(np.float32) for shape in (pictures, filters))
    f[1, 0, 1, 2] = weight
    wanted = convolved(x, f, 1, 1, 1)
    sizes = dict(zip("NHWCKRSYZ", (*pictures, *filters[:3], *wanted.shape[1:3]), strict=True))
    program = zynml.compile((source % ("f32", 1, 1, 1)).replace("bf16", "f32"))
    ((_, kernel),) = kernels(program._session)
    last = source is CHANNELS_LAST
    found = np.full(wanted.shape if last else [wanted.shape[place] for place in (0, 3, 1, 2)], -7, np.float32)
    arrays = {"X": x if last else x.transpose(0, 3, 1, 2).copy(), "F": f if last else f.transpose(0, 3, 1, 2).copy(), "out": found}
    memories = [parameter.name for parameter in kernel.nest.parameters]
    made = launches_for(kernel.nest, kernel.field, facts_of(sizes, memories, MACHINES["sm_90a"], 2))
    launched(made, [arrays[one.name] if one.name in arrays else sizes[one.name] for one in kernel.nest.parameters], sizes)
    assert any(isinstance(op, WarpgroupMma) for one in made.launches for top in one.function.body.body for op in top.walk())
    found = found if last else found.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    assert np.max(np.abs(found[finite] - wanted[finite])) < 2**-20 * np.max(np.abs(wanted[finite]))


@pytest.mark.parametrize("turned", [(False, False), (False, True)], ids=str)
def test_one_row_is_reduced_where_it_lies(turned: tuple[bool, bool]) -> None:
    """Reading takes as long as everything else: neither tensor cores nor copies help."""
    field = product("f32", "f32", *turned)
    made = launches_for(field, field, facts({"M": 1, "N": 4096, "K": 4096}, large=False, processors=132))
    assert len(made.launches) == 1
    assert not any(isinstance(op, WarpgroupMma) for top in made.launches[0].function.body.body for op in top.walk())


@pytest.mark.parametrize("rows", [4, 16])
def test_a_way_that_reads_in_place_keeps_no_copy(rows: int) -> None:
    """Of the plans that a chosen way to cut a product fits, the one with the least copies."""
    field, sizes = product("f32", "f32", False, False), {"M": rows, "N": 4096, "K": 4096}
    known = facts(sizes, large=False, processors=132)
    assert rows * 4096 * 4096 >= three_products.WORTH
    for choice in choices(field, known, sizes)[:2]:
        assert choice.facts.tiling is not None
        assert [one.function.name for one in launches_for(field, field, choice.facts).launches] == ["product_0"]


def test_small_products_stay_where_they_are() -> None:
    field = product("f32", "f32", False, False)
    assert len(launches_for(field, field, facts({"M": 64, "N": 64, "K": 64}, large=False)).launches) == 1


@pytest.mark.parametrize(
    ("dtype", "to", "prices"), [("i8", "i32", {}), ("f8e4m3", "f32", {}), *(("f32", "f32", prices) for prices in PRICES)]
)
def test_the_assembler_keeps_products_side_by_side(dtype: str, to: str, prices: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    priced(prices, monkeypatch)
    field = product(dtype, to, True, False)
    made = launches_for(field, field, facts({"M": 4096, "N": 4096, "K": 4096}, processors=132))
    module = compile_kernels([one.function for one in made.launches], gpu_target("sm_90a"))
    assert module.hands_registers
    log = assemble(module).log
    assert "C7509" not in log and "C7510" not in log and "C7519" not in log, log


@pytest.mark.parametrize("turned", LAYOUTS, ids=str)
@pytest.mark.parametrize("sizes", [(64, 72, 160), (68, 36, 132), (132, 40, 300), (200, 260, 64)], ids=str)
def test_operands_that_blocks_turn(sizes: tuple[int, int, int], turned: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    priced({"FETCHED": 0.0, "LOW": 0.0, "TURNED": 0.0}, monkeypatch)
    m, n, k = sizes
    random = np.random.default_rng(n)
    a, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    c, made = multiplied("f32", "f32", turned, a, b)
    assert len(made.launches) == 1
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64) + np.arange(n))
