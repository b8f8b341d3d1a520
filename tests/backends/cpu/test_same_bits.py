"""The bits of a kernel whose vectors are written out are its own: LLVM's shortest pipeline and the longest one give the same."""

from itertools import product

import numpy as np
import pytest

from compiler.backends.cpu.compile import CpuOptions, compile_function, is_explicit
from compiler.backends.cpu.liberties import leaves_liberties
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction, OptimizationLevel
from compiler.hir.types import INDEX, Mem
from compiler.machines.cpu import CpuMachine
from compiler.schedule.field import table_for
from compiler.schedule.packed import packing_for
from compiler.schedule.panels import PlacingPacked
from tests.backends.cpu.cpu_runs import assert_same, pointwise
from tests.schedule.fields import EXAMPLES, Example
from tests.schedule.test_place import case, placed, sizes_for

LEVELS = (OptimizationLevel.O0, OptimizationLevel.O1, OptimizationLevel.O3)
MACHINE = CpuMachine(256, 16)
LIBERTIES = ("contract", "reassoc")


def left_arrays(function: HirFunction, arguments: list[object]) -> list[list[np.ndarray]]:
    """What each level leaves in the arrays."""
    left = []
    for level in LEVELS:
        given = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
        kernel = compile_function(function, CpuOptions(level=level))
        assert "reassoc" not in kernel.llvm_unoptimised
        assert " contract" not in kernel.llvm_unoptimised
        assert kernel.run([value.ctypes.data if isinstance(value, np.ndarray) else value for value in given]) is None
        left.append([value for value in given if isinstance(value, np.ndarray)])
    return left


def assert_one_result(function: HirFunction, arguments: list[object]) -> None:
    first, *others = left_arrays(function, arguments)
    for other in others:
        for one, again in zip(first, other, strict=True):
            assert_same(again, one)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_fields(example: Example) -> None:
    function = placed(example, MACHINE)
    if is_explicit(function):
        arrays, _ = case(example, sizes_for(example)[-2])
        assert_one_result(function, [*arrays, *sizes_for(example)[-2]])


def test_a_product_in_panels() -> None:
    field = EXAMPLES[0].make()
    table = table_for(field, MACHINE)
    packing = packing_for(field, table, MACHINE)
    assert packing is not None
    function = PlacingPacked(field, table, packing).run()
    for sizes in ((17, 31, 65), (33, 97, 700), (40, 5, 33)):
        arrays, _ = case(EXAMPLES[0], sizes)
        assert_one_result(function, [*arrays, *sizes])


@pytest.mark.parametrize(("dtype", "operator"), [*product(("f32", "f64"), ("add", "sub", "reversed"))])
def test_a_product_and_its_sum_are_rounded_once(dtype: str, operator: str) -> None:
    """Against exact arithmetic: 1 + e squared, less 1, keeps the e squared that a rounded product loses."""

    def emit(b, x, y):  # type: ignore[no-untyped-def]
        square = b.op("mul", x, x, flags=LIBERTIES)
        return b.op("sub", y, square, flags=LIBERTIES) if operator == "reversed" else b.op(operator, square, y, flags=LIBERTIES)

    kind, tiny = (np.float32, 2.0**-20) if dtype == "f32" else (np.float64, 2.0**-40)
    x = np.full(33, 1 + tiny, kind)
    y = np.full(33, -(1 + 2 * tiny) if operator == "add" else 1 + 2 * tiny, kind)
    out = np.zeros(33, kind)
    function = pointwise(emit, [dtype, dtype], dtype, "tile")
    for arrays in left_arrays(function, [33, x, y, out]):
        np.testing.assert_array_equal(arrays[-1], np.full(33, -(tiny**2) if operator == "reversed" else tiny**2, kind))


@pytest.mark.parametrize("operator", ["exp", "log", "tanh", "sin"])
def test_functions_of_vectors(operator: str) -> None:
    def emit(b, x):  # type: ignore[no-untyped-def]
        return b.op("add", b.op("mul", b.op(operator, x), x, flags=LIBERTIES), x, flags=LIBERTIES)

    x = np.concatenate([np.random.default_rng(3).standard_normal(1001) * 8, [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40]]).astype(np.float32)
    assert_one_result(pointwise(emit, ["f32"], "f32", "tile"), [len(x), x, np.zeros_like(x)])


def test_a_product_that_is_read_twice_stays() -> None:
    def emit(b, x, y):  # type: ignore[no-untyped-def]
        square = b.op("mul", x, x, flags=LIBERTIES)
        return b.op("min", b.op("add", square, y, flags=LIBERTIES), square)

    x = np.full(9, 1 + 2.0**-20, np.float32)
    (arrays, *_) = left_arrays(pointwise(emit, ["f32", "f32"], "f32", "tile"), [9, x, -x, np.zeros(9, np.float32)])
    np.testing.assert_array_equal(arrays[-1], x * x - x)


LOOPS = {
    "a sum": (lambda b, x, y: b.op("add", x, y, flags=LIBERTIES), False),
    "a difference of a difference": (lambda b, x, y: b.op("sub", x, b.op("sub", x, y, flags=["contract"]), flags=["contract"]), False),
    "a sum of a sum": (lambda b, x, y: b.op("add", x, b.op("add", x, y, flags=LIBERTIES), flags=LIBERTIES), True),
    "a product and its sum": (lambda b, x, y: b.op("add", x, b.op("mul", x, y, flags=["contract"]), flags=["contract"]), True),
}


@pytest.mark.parametrize("name", LOOPS)
def test_llvm_decides_on_loops_in_which_it_finds_two_operations_to_fuse_or_reorder(name: str) -> None:
    emit, decides = LOOPS[name]
    function = pointwise(emit, ["f32", "f32"], "f32", "loop")
    assert leaves_liberties(function) == decides
    if not decides:
        x, y = np.random.default_rng(3).standard_normal((2, 1001)).astype(np.float32)
        results = []
        for level in LEVELS:
            out = np.zeros_like(x)
            assert compile_function(function, CpuOptions(level=level)).run([len(x), x.ctypes.data, y.ctypes.data, out.ctypes.data]) is None
            results.append(out)
        for other in results[1:]:
            assert_same(other, results[0])


def in_place(second: bool) -> HirFunction:
    """x += y; or z = x + y, then y = z + y in a second loop."""
    f = FunctionBuilder("f", Form.NEST, {})
    f.parameter("N", INDEX)
    x, y, z = (f.parameter(name, Mem("f32", ["N"])) for name in "xyz")
    for given, taken in ((x, z), (z, y)) if second else ((x, x),):
        with f.body.loop("i", 0, "N") as (inner, _):
            inner.store(taken, inner.op("add", inner.load(given, ["i"]), inner.load(y, ["i"]), flags=LIBERTIES), ["i"])
    return f.finish()


@pytest.mark.parametrize("second", [False, True])
def test_loops_may_hand_values_on_through_memory(second: bool) -> None:
    assert leaves_liberties(in_place(second))
