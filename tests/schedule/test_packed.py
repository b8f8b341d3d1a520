"""Products packed into panels compute what their field says, whatever the sizes, blocks and layouts, on any number of threads."""

import itertools
from typing import Any

import numpy as np
import pytest
from attrs import frozen

import zynml
from compiler.backends.cpu.compile import compile_function
from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.machines.cpu import CpuMachine
from compiler.schedule import packed, panels
from compiler.schedule.field import table_for
from compiler.schedule.packed import packing_for
from compiler.schedule.panels import PlacingPacked
from tests.schedule.fields import EXAMPLES

MACHINES = [CpuMachine(256, 16), CpuMachine(512, 32), CpuMachine(128, 32)]
SIZES = [(0, 3, 2), (3, 0, 5), (5, 4, 0), (1, 1, 1), (9, 1, 33), (19, 6, 47), (7, 33, 19), (31, 3, 130), (97, 64, 31), (130, 131, 47)]
"""Rows, columns, terms: none, one, ends in every direction, several blocks of each."""


@frozen
class Product:
    """`max(A B + bias, 0)`. The index of each memory in order, `h` for a head of three; the type of the operands and of the result."""

    name: str
    a: str = "ik"
    b: str = "kj"
    c: str = "ij"
    dtype: str = "f32"
    to: str = "f32"

    def field(self) -> HirFunction:
        sizes = {"h": 3, "g": 2, "i": "M", "j": "N", "k": "K"}
        used = [axis for axis in sizes if axis in self.a + self.b]
        f = FunctionBuilder("product", Form.FIELD, {axis: sizes[axis] for axis in used})  # type: ignore[misc]
        a, b, bias, c = (
            f.parameter(name, Mem(dtype, tuple(sizes[axis] for axis in axes)))  # type: ignore[misc]
            for name, dtype, axes in (("A", self.dtype, self.a), ("B", self.dtype, self.b), ("bias", self.to, "j"), ("C", self.to, self.c))
        )
        for name in "MNK":
            f.parameter(name, INDEX)
        e = f.body
        product = e.contract(e.load(a, list(self.a)), e.load(b, list(self.b)), over=["k"], to=self.to)
        zero = e.const(0 if self.to == "i32" else 0.0, self.to)
        e.store(c, e.op("max", e.add(product, e.load(bias, ["j"])), zero), list(self.c))
        return f.finish()

    def arrays(self, sizes: tuple[int, ...]) -> tuple[list[Any], Any]:
        """Inputs and result of integers, whose sums are exact in every type; and what is expected."""
        extents = {"h": 3, "g": 2, **dict(zip("ijk", sizes, strict=True))}
        rng = np.random.default_rng(3)
        kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32}
        a, b, bias = (
            rng.integers(-4, 5, [extents[axis] for axis in axes]).astype(kinds[dtype])
            for axes, dtype in ((self.a, self.dtype), (self.b, self.dtype), ("j", self.to))
        )
        wide = np.einsum(f"{self.a},{self.b}->{''.join(sorted(self.c, key='hgij'.index))}", a.astype(float), b.astype(float)) + bias
        order = [sorted(self.c, key="hgij".index).index(axis) for axis in self.c]
        expected = np.maximum(wide, 0).transpose(order)
        return [a, b, bias, np.full(expected.shape, 7, kinds[self.to])], expected


PRODUCTS = [
    Product("plain"),
    Product("both along the sum", b="jk"),
    Product("both across the sum", a="ki"),
    Product("transposed", a="ki", b="jk", c="ji"),
    Product("batched", a="hik", b="hkj", c="hij"),
    Product("heads of one matrix", a="hgik", b="kj", c="hgij"),
    Product("grouped", a="hgik", b="hkj", c="hgij"),
    Product("f64", dtype="f64", to="f64"),
    Product("f16 to f32", dtype="f16", b="jk"),
    Product("i32", dtype="i32", to="i32"),
]


def packed_always(field: HirFunction, machine: CpuMachine, monkeypatch: pytest.MonkeyPatch) -> HirFunction:
    """The field in panels of any size, in small blocks."""
    for name in ("LEAST_DEPTH", "LEAST_ROWS", "LEAST_BYTES", "IN_PLACE_TILES", "ACROSS_LANES", "ACROSS_DEPTH"):
        monkeypatch.setattr(panels, name, 1)
    monkeypatch.setattr(panels, "PART", 128)
    monkeypatch.setattr(panels, "LONG_SUM", 2)
    monkeypatch.setattr(packed, "PANEL_BYTES", 128)
    monkeypatch.setattr(packed, "BLOCK_ROWS", 16)
    monkeypatch.setattr(packed, "BLOCK_COLUMNS", 32)
    table = table_for(field, machine)
    packing = packing_for(field, table, machine)
    assert packing is not None
    function = PlacingPacked(field, table, packing).run()
    verify(function)
    return function


@pytest.mark.parametrize(("product", "machine"), list(itertools.product(PRODUCTS, MACHINES)), ids=lambda v: getattr(v, "name", None))
def test_native_code_is_exact_on_any_number_of_threads(product: Product, machine: CpuMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compile_function(packed_always(product.field(), machine, monkeypatch), quick=product is not PRODUCTS[0])
    for sizes, threads in itertools.product(SIZES, (1, 2)):
        arrays, expected = product.arrays(sizes)
        assert kernel.run([*(array.ctypes.data for array in arrays), *sizes], threads) is None
        np.testing.assert_array_equal(arrays[-1], expected, err_msg=f"{sizes} on {threads} threads")


@pytest.mark.parametrize("product", PRODUCTS[:7], ids=lambda product: product.name)
def test_the_interpreter_gives_the_same(product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    function = packed_always(product.field(), CpuMachine(128, 16), monkeypatch)
    for sizes in ((3, 9, 5), (13, 10, 37)):
        arrays, expected = product.arrays(sizes)
        interpret(function, [*arrays, *sizes])
        np.testing.assert_array_equal(arrays[-1], expected, err_msg=str(sizes))


@pytest.mark.parametrize("sizes", [(100, 90, 1700), (33, 40, 7001)], ids=["blocks of results", "chunks of the sum"])
def test_sums_of_several_blocks_have_the_same_bits_on_any_number_of_threads(sizes: tuple[int, int, int]) -> None:
    """Products of sizes that are packed without being asked to, of numbers that don't add up exactly."""
    field = EXAMPLES[0].make()
    machine = CpuMachine(256, 16)
    table = table_for(field, machine)
    packing = packing_for(field, table, machine)
    assert packing is not None
    kernel = compile_function(PlacingPacked(field, table, packing).run())
    rows, columns, terms = sizes
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((rows, terms)).astype(np.float32), rng.standard_normal((terms, columns)).astype(np.float32)
    results = []
    for threads in (1, 2, 3):
        c = np.full((rows, columns), 7, np.float32)
        assert kernel.run([a.ctypes.data, b.ctypes.data, c.ctypes.data, *sizes], threads) is None
        np.testing.assert_allclose(c, a.astype(float) @ b, rtol=1e-5, atol=1e-3)
        results.append(c.tobytes())
    assert len(set(results)) == 1


def test_vectors_lie_along_results_where_operands_lie_along_rows_and_columns() -> None:
    table = table_for(Product("both across the sum", a="ki").field(), CpuMachine(512, 32))
    assert (table["i"].lanes, table["j"].lanes) == (1, 16)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{machine.vector_bits} bits")
def test_operands_that_are_read_in_place_end_in_lower_blocks_and_half_vectors(machine: CpuMachine) -> None:
    field = PRODUCTS[0].field()
    table = table_for(field, machine)
    packing = packing_for(field, table, machine)
    assert packing is not None
    assert packing.in_place
    kernel = compile_function(PlacingPacked(field, table, packing).run(), quick=machine is not MACHINES[0])
    for rows, columns in itertools.product((8, 12, 13, 19), (49, 56, 57, 63, 65, 72, 104)):
        arrays, expected = PRODUCTS[0].arrays((rows, columns, 33))
        assert kernel.run([*(array.ctypes.data for array in arrays), rows, columns, 33], 2) is None
        np.testing.assert_array_equal(arrays[-1], expected, err_msg=f"{rows} by {columns}")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_only_products_of_one_sum_are_packed(example: Any) -> None:
    field, machine = example.make(), CpuMachine()
    found = packing_for(field, table_for(field, machine), machine)
    assert (found is not None) == example.name.startswith("matmul")


def test_tiles_fill_the_registers() -> None:
    field = EXAMPLES[0].make()
    tiles = {}
    for machine in MACHINES:
        packing = packing_for(field, table_for(field, machine), machine)
        assert packing is not None
        tiles[machine.vector_bits] = packing.rows.plan.tile, packing.columns.plan.tile
    assert tiles == {256: (6, 16), 512: (8, 32), 128: (8, 8)}


PLAIN_WINDOWS = """
def filtered(x: tensor[B, C, H, W], w: tensor[F, C]): tensor {
    compute(x, w) {
        for n in 0..B, f in 0..F, y in 0..H, z in 0..W:
            var s = 0.0
            for c in 0..C: s += x[n, c, y, z] * w[f, c]
            out[n, f, y, z] = s
    }
}
"""


@pytest.mark.parametrize("shape", [(2, 40, 7, 13), (3, 33, 1, 50), (1, 100, 56, 1), (1, 32, 5, 5), (2, 600, 9, 9), (1, 32, 0, 7)])
@pytest.mark.parametrize("filters", [19, 32])
def test_panels_of_pictures_go_on_from_line_to_line(shape: tuple[int, ...], filters: int) -> None:
    drawn = np.random.default_rng(3)
    x, w = (drawn.integers(-4, 5, extents).astype(np.float32) for extents in (shape, (filters, shape[1])))
    for threads in (1, 2):
        filtered = zynml.compile(PLAIN_WINDOWS, threads=threads).filtered
        for given in (x, np.asfortranarray(x), x.repeat(2, 3)[..., ::2]):
            np.testing.assert_array_equal(filtered(given, w), np.einsum("ncyz,fc->nfyz", x, w))


@pytest.mark.parametrize("width", [0, 1, 3, 6, 7, 33])
def test_few_columns_of_pictures_are_read_in_place(width: int) -> None:
    """Columns lie along several axes: each picture and line has others, so that there is no one copy of all."""
    drawn = np.random.default_rng(3)
    x = drawn.integers(-4, 5, (2, 33, 3, width)).astype(np.float32)
    w = drawn.integers(-4, 5, (9, 33)).astype(np.float32)
    program = zynml.compile(PLAIN_WINDOWS, threads=1)
    expected = np.einsum("ncyz,fc->nfyz", x.astype(np.float64), w.astype(np.float64))
    np.testing.assert_array_equal(program.filtered(x, w), expected)
    assert "define" in program.emit("llvm")  # with all paths
