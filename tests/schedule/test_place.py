"""Fields placed by their own tables compute what they say: form B in the interpreter, and as native code with one and two threads."""

import itertools
from typing import Any

import numpy as np
import pytest

from compiler.backends.cpu.compile import compile_function
from compiler.emulator.interpret import interpret
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.control import For
from compiler.hir.core import Binary, Const, Index
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.machines.cpu import CpuMachine
from compiler.schedule.field import table_for
from compiler.schedule.materialise import materialise
from compiler.schedule.place import place
from tests.schedule.fields import EXAMPLES, Example

MACHINES = [CpuMachine(512, 32), CpuMachine(256, 16), CpuMachine(128, 16)]
EXTENTS = {1: [(0,), (1,), (33,), (257,)], 2: [(0, 3), (3, 0), (1, 1), (5, 33), (31, 100), (130, 17)]}


def sizes_for(example: Example) -> list[tuple[int, ...]]:
    match len(example.sizes):
        case 2:
            return EXTENTS[2] if example.name != "guarded window" else [(1, 3), (40, 3), (77, 5)]
        case 3:
            return [(0, 3, 2), (1, 1, 1), (5, 3, 7), (17, 70, 9), (16, 64, 33), (3, 31, 0)]
        case _:
            return [(1, 1, 1, 1), (2, 5, 7, 3), (1, 9, 33, 17), (3, 4, 64, 16)]


def placed(example: Example, machine: CpuMachine) -> HirFunction:
    field = materialise(example.make())
    function = place(field, table_for(field, machine))
    verify(function)
    return function


def case(example: Example, sizes: tuple[int, ...]) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(7)
    *inputs, result = [rng.standard_normal(shape).astype(np.float32) for shape in example.shapes(*sizes)]
    expected = example.expected(*[x.astype(np.float64) for x in inputs])
    return [*inputs, np.full(result.shape, 7, np.float32)], np.asarray(expected)


@pytest.mark.parametrize(("example", "machine"), list(itertools.product(EXAMPLES, MACHINES[:2])), ids=lambda v: getattr(v, "name", None))
def test_form_b_means_the_field(example: Example, machine: CpuMachine) -> None:
    function = placed(example, machine)
    for sizes in sizes_for(example):
        arrays, expected = case(example, sizes)
        interpret(function, [*arrays, *sizes])
        np.testing.assert_allclose(arrays[-1], expected, rtol=2e-5, atol=2e-5, err_msg=str(sizes))


@pytest.mark.parametrize(("example", "machine"), list(itertools.product(EXAMPLES, MACHINES)), ids=lambda v: getattr(v, "name", None))
def test_native_code_means_the_field_on_any_number_of_threads(example: Example, machine: CpuMachine) -> None:
    kernel = compile_function(placed(example, machine), quick=machine is not MACHINES[0])
    for sizes in sizes_for(example):
        results = []
        for threads in (1, 2):
            arrays, expected = case(example, sizes)
            pointers = [array.__array_interface__["data"][0] for array in arrays]
            assert kernel.run([*pointers, *sizes], threads) is None
            np.testing.assert_allclose(arrays[-1], expected, rtol=2e-5, atol=2e-5, err_msg=str(sizes))
            results.append(arrays[-1].tobytes())
        assert results[0] == results[1], "bits differ with the number of threads"


def test_vectors_follow_contiguous_memory() -> None:
    table = table_for(EXAMPLES[0].make(), MACHINES[0])
    assert (table["j"].lanes, table["i"].registers, table["k"].tile) == (16, 8, 1)
    transposed = table_for(EXAMPLES[1].make(), MACHINES[0])
    assert (transposed["k"].lanes, transposed["i"].registers, transposed["j"].registers) == (16, 4, 4)


def test_a_reduction_in_exact_order_gets_no_digits() -> None:
    from compiler.hir.build import FunctionBuilder
    from compiler.hir.module import Form
    from compiler.hir.types import INDEX, Mem

    f = FunctionBuilder("ordered", Form.FIELD, {"i": "N"})
    x, y = f.parameter("X", Mem("f32", ("N",))), f.parameter("Y", Mem("f32", ()))
    f.parameter("N", INDEX)
    (total,) = f.body.reduce("add", f.body.load(x, ["i"]), over=["i"])
    f.body.store(y, total, [])
    table = table_for(f.finish(), MACHINES[0])
    assert (table["i"].tile, table["i"].place) == (1, "time")


def test_scores_of_attention_are_kept_not_computed_again() -> None:
    field = materialise(EXAMPLES[-1].make())
    names = [op.name for op in field.body.body]
    assert names.count("alloc") == 2 and names.count("contract") == 2


def _field(name: str, axes: dict[str, Any], memories: dict[str, list[str]]) -> tuple[FunctionBuilder, list[Any]]:
    f = FunctionBuilder(name, Form.FIELD, axes)
    values = [f.parameter(one, Mem("f32", tuple(dims))) for one, dims in memories.items()]
    f.parameter("N", INDEX)
    f.parameter("M", INDEX)
    return f, values


def _run(function: HirFunction, *arguments: Any) -> None:
    """In the interpreter, and natively on one thread and on two, to the same elements of the last array."""
    *given, result, n, m = arguments
    found = []
    for threads in (0, 1, 2):
        own = np.full_like(result, 7)
        if threads:
            pointers = [array.__array_interface__["data"][0] for array in (*given, own)]
            assert compile_function(function).run([*pointers, n, m], threads) is None
        else:
            interpret(function, [*given, own, n, m])
        found.append(own)
    assert all(np.array_equal(one, found[0]) for one in found)
    result[...] = found[0]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("m", [1, 5, 16, 33])
def test_operands_that_are_computed_count_nothing_behind_the_end(machine: CpuMachine, m: int) -> None:
    """(x + 1) * (y + 1) isn't 0 where nothing is loaded."""
    f, (a, b, c) = _field("computed", {"i": "N", "j": "N", "k": "M"}, {"A": ["N", "M"], "B": ["N", "M"], "C": ["N", "N"]})
    e = f.body
    left, right = (e.add(e.load(one, [axis, "k"]), e.const(1.0, "f32")) for one, axis in ((a, "i"), (b, "j")))
    e.store(c, e.contract(left, right, over=["k"], to="f32"), ["i", "j"])
    field = f.finish()
    chance = np.random.default_rng(m)
    x, y = (chance.integers(-3, 4, (9, m)).astype(np.float32) for _ in range(2))
    result = np.zeros((9, 9), np.float32)
    _run(place(field, table_for(field, machine)), x, y, result, 9, m)
    np.testing.assert_array_equal(result, (x + 1) @ (y + 1).T)


@pytest.mark.parametrize("m", [1, 5, 16, 33, 70])
def test_a_count_of_what_holds_counts_nothing_behind_the_end(m: int) -> None:
    f, (x, y) = _field("count", {"i": "N", "j": "M"}, {"X": ["N", "M"], "Y": ["N"]})
    e = f.body
    holds = e.op("ge", e.load(x, ["i", "j"]), e.const(0.0, "f32"))
    e.store(y, e.reduce("add", e.select(holds, e.const(1.0, "f32"), e.const(0.0, "f32")), over=["j"], flags=("reassoc",))[0], ["i"])
    field = f.finish()
    values = np.random.default_rng(m).integers(-3, 4, (5, m)).astype(np.float32)
    for machine in MACHINES:
        result = np.zeros(5, np.float32)
        _run(place(field, table_for(field, machine)), values, result, 5, m)
        np.testing.assert_array_equal(result, (values >= 0).sum(axis=1))


def test_few_tiles_of_a_sum_lie_in_chunks_all_over() -> None:
    """Threads take neighbouring chunks: four rows are two for each of two threads."""
    f = FunctionBuilder("total", Form.FIELD, {"r": "M", "i": "N"})
    x, out = f.parameter("x", Mem("f32", ("M", "N"))), f.parameter("out", Mem("f32", (1,)))
    for name in "MN":
        f.parameter(name, INDEX)
    f.body.store(out, f.body.reduce("add", f.body.load(x, ["r", "i"]), over=["r", "i"], flags=("reassoc",))[0], [0])
    function = place(f.finish(), table_for(f.function, CpuMachine(512, 32)))
    ops = [op for top in function.body.body for op in top.walk()]
    made = {value.name: op for op in ops for value in op.results}
    chunks = next(op for op in ops if isinstance(op, For) and op.place == "thread")
    rows = next(op for op in chunks.body.body if isinstance(op, For))

    def number(name: str, chunk: int) -> int:
        match made.get(name):
            case Index(of=form):
                return form.evaluate(lambda inner: number(inner, chunk))
            case Const(value=value):
                return int(value)
            case Binary(operator=operator, left=left, right=right):
                first, second = number(left.name, chunk), number(right.name, chunk)
                return {"mul": first * second, "add": first + second, "min": min(first, second)}[operator]
            case _:
                return {"M": 4, chunks.variable.name: chunk}[name]

    ends = [tuple(form.evaluate(lambda name, chunk=chunk: number(name, chunk)) for form in (rows.low, rows.high)) for chunk in range(64)]
    assert [row for low, high in ends[:32] for row in range(low, high)] == [0, 1]
    assert [row for low, high in ends[32:] for row in range(low, high)] == [2, 3]


def test_two_extents_below_zero_are_no_work() -> None:
    """The inner elements of a matrix without rows and columns: -2 times -2 iterations are none."""
    f, (x, y) = _field("inner", {"i": Affine.of("N") - 2, "j": Affine.of("M") - 2}, {"X": ["N", "M"], "Y": ["N", "M"]})
    f.body.store(y, f.body.load(x, [Affine.of("i") + 1, Affine.of("j") + 1]), [Affine.of("i") + 1, Affine.of("j") + 1])
    field = f.finish()
    for machine in MACHINES:
        kernel = compile_function(place(field, table_for(field, machine)))
        for n, m in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (5, 4)]:
            around = np.full(4096, 7, np.float32)
            values = np.arange(4096, dtype=np.float32)
            pointers = [array[2048:].__array_interface__["data"][0] for array in (values, around)]
            assert kernel.run([*pointers, n, m], 2) is None
            expected = np.full(4096, 7, np.float32)
            for i in range(1, n - 1):
                expected[2048 + i * m + 1 : 2048 + i * m + m - 1] = values[2048 + i * m + 1 : 2048 + i * m + m - 1]
            np.testing.assert_array_equal(around, expected)


def test_axes_that_no_square_fits_into_are_turned_in_smaller_ones() -> None:
    """A transpose of matrices of any size: squares of 16, 8 and 4, which reach back over rows that they leave over."""
    f = FunctionBuilder("transpose", Form.FIELD, {"i": Affine.of("A"), "j": Affine.of("B")})
    x, out = f.parameter("x", Mem("f32", ["A", "B"], readonly=True)), f.parameter("out", Mem("f32", ["B", "A"], noalias=True))
    for name in ("A", "B"):
        f.parameter(name, INDEX)
    f.body.store(out, f.body.load(x, ["i", "j"]), ["j", "i"])
    field = f.finish()
    function = place(field, table_for(field, MACHINES[0]))
    verify(function)
    assert {extent.value for extent in function.axes.values()} == {16, 8, 4}
    for shape in (24, 33), (12, 40), (5, 4), (3, 50), (0, 7):
        values, result = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape), np.zeros(shape[::-1], np.float32)
        interpret(function, [values, result, *shape])
        np.testing.assert_array_equal(result, values.T)
