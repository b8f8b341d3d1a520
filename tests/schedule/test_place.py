"""Fields placed by their own tables compute what they say: form B in the interpreter, and as native code with one and two threads."""

import itertools

import numpy as np
import pytest

from compiler.backends.cpu.compile import compile_function
from compiler.hir.interpret import interpret
from compiler.hir.module import HirFunction
from compiler.hir.verify import verify
from compiler.schedule.field import table_for
from compiler.schedule.machine import CpuMachine
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
    kernel = compile_function(placed(example, machine))
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
