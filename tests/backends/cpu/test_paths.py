"""Code of one path through a kernel: launches on it have the bits of the whole kernel, others come back before anything is written."""

import numpy as np

from compiler.backends.cpu.compile import compile_function, is_explicit
from compiler.backends.cpu.native import NativeKernel
from compiler.backends.cpu.paths import instructions_on, path_of
from compiler.hir.module import HirFunction
from compiler.machines.cpu import CpuMachine
from compiler.schedule.field import table_for
from compiler.schedule.packed import packing_for
from compiler.schedule.panels import PlacingPacked
from tests.backends.cpu.cpu_runs import assert_same
from tests.schedule.fields import EXAMPLES

SIZES = ((3, 1, 3), (8, 40, 5), (33, 100, 8), (17, 64, 31), (9, 64, 64), (40, 1000, 48), (65, 300, 67), (30, 500, 101), (0, 5, 3))
"""Rows, terms and columns: few columns of three kinds, tiles, and panels."""


def product() -> HirFunction:
    field = EXAMPLES[0].make()
    machine = CpuMachine(256, 16)
    table = table_for(field, machine)
    packing = packing_for(field, table, machine)
    assert packing is not None
    return PlacingPacked(field, table, packing).run()


def named(sizes: tuple[int, int, int]) -> dict[str, int]:
    rows, terms, columns = sizes
    return {"M": rows, "N": columns, "K": terms}


def multiplied(kernel: NativeKernel, sizes: tuple[int, int, int], threads: int) -> np.ndarray:
    rows, terms, columns = sizes
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, terms), (terms, columns)))
    c = np.full((rows, columns), 7, np.float32)
    known = {"A": a.ctypes.data, "B": b.ctypes.data, "C": c.ctypes.data, **named(sizes)}
    assert kernel.run([known[parameter.name] for parameter in kernel.function.parameters], threads) is None
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-4)
    return c


def test_a_path_has_the_bits_of_the_whole_kernel_and_leaves_other_sizes_to_it() -> None:
    function = product()
    whole = compile_function(function)
    expected = {sizes: [multiplied(whole, sizes, threads) for threads in (1, 2)] for sizes in SIZES}
    paths = {tuple(path.values()): path for path in (path_of(function, named(sizes)) for sizes in SIZES)}
    assert len(paths) >= 4
    for path in paths.values():
        left: list[int] = []
        kernel = compile_function(function, path=path, whole=lambda left=left: left.append(1) or whole)
        others = 0
        for sizes in SIZES:
            others += path_of(function, named(sizes)) != path
            for threads in (1, 2):
                assert_same(multiplied(kernel, sizes, threads), expected[sizes][threads - 1])
        assert len(left) == 2 * others


def test_code_of_a_path_has_what_lies_on_it_alone() -> None:
    function = product()
    path = path_of(function, named((64, 64, 64)))
    assert len([*instructions_on(function, path)]) < len([*instructions_on(function, {})]) / 2
    assert is_explicit(function, path)


def test_a_size_that_is_not_known_decides_nothing() -> None:
    assert path_of(product(), {"M": 5}) == {}
