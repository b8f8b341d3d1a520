"""Gathers on a GPU: indices are checked in a launch of their own, and the rest is the map or reduction that it would be without. Expected values
from NumPy."""

import numpy as np
import pytest

import zynml
from compiler.fusion.program_kernels import kernels
from compiler.hir.memory import Check
from compiler.launch.thread_kernels import launch_facts, thread_kernel
from compiler.machines.nvidia import MACHINES
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_maps import ptx

RNG = np.random.default_rng(7)

LOOKUP = "def f(w: tensor[V, D], k: tensor[B, i32]) { compute(w, k) { for b in 0..B, d in 0..D: out[b, d] = w[k[b], d] } }"
BAGS = """def f(w: tensor[V, D], k: tensor[B, L, i64]) { compute(w, k) { for b in 0..B, d in 0..D {
    var s = 0.0
    for l in 0..L: s += w[k[b, l], d]
    out[b, d] = s
} } }"""
PICKED = """def f(x: tensor[M, N], k: tensor[M, i32]) { compute(x, k) { for i in 0..M {
    var m = -inf
    for j in 0..N: m = max(m, x[i, j])
    out[i] = x[i, k[i]] - m
} } }"""
TWICE = "def f(x: tensor[N], k: tensor[M, i32], l: tensor[N, i32]) { compute(x, k, l) { for i in 0..M: out[i] = x[l[k[i]]] + x[k[i]] } }"
GUARDED = """def f(x: tensor[N], k: tensor[M, i32]) { compute(x, k) { for i in 0..M {
    var v = 0.0
    if k[i] >= 0: v = x[k[i]]
    out[i] = v
} } }"""
LARGEST = """def f(x: tensor[M, N], w: tensor[V], p: tensor[M, N, i32]) { compute(x, w, p) { for i in 0..M {
    var m = 0
    for j in 0..N: m = max(m, p[i, j])
    out[i] = w[m]
} } }"""


def scheduled(source: str, **sizes: int) -> Launches:
    ((compute, kernel),) = kernels(zynml.compile(source)._session)
    facts = launch_facts(kernel, sizes, [one.name for one in kernel.nest.parameters], MACHINES["sm_90a"])
    found = thread_kernel(kernel, compute, facts).launches
    assert found is not None
    return found


def message(call: object, *given: object) -> str:
    with pytest.raises(zynml.ZynMLError) as caught:
        call(*given)  # type: ignore[operator]
    return caught.value.diagnostics[0].message


@pytest.mark.parametrize("target", ["sm_90a", "sm_75"])
@pytest.mark.parametrize(("rows", "columns", "taken"), [(10, 32, 7), (1, 33, 40), (31, 3, 1), (5, 1, 5), (4, 0, 3), (3, 8, 0)])
def test_rows_of_a_table(rows: int, columns: int, taken: int, target: str) -> None:
    w, k = RNG.standard_normal((rows, columns)).astype(np.float32), RNG.integers(0, rows, taken).astype(np.int32)
    np.testing.assert_array_equal(zynml.compile(LOOKUP, device=f"emulator:{target}").f(w, k), w[k])


@pytest.mark.parametrize("bad", [-1, 10, 1 << 30, -(1 << 31)])
def test_an_index_outside_is_told_as_on_the_cpu(bad: int) -> None:
    w, k = np.ones((10, 32), np.float32), np.zeros(40, np.int32)
    k[[3, 30]] = bad, 77
    assert message(zynml.compile(LOOKUP, device="emulator").f, w, k) == f"index {bad} is out of range: axis 0 of `w` has 10 elements"


def test_what_is_never_read_is_not_checked() -> None:
    found = zynml.compile(LOOKUP, device="emulator").f(np.ones((10, 0), np.float32), np.array([99], np.int32))
    assert found.shape == (1, 0)


@pytest.mark.parametrize("shape", [(3, 4, 32), (2, 1, 5), (40, 3, 8), (2, 0, 4)])
def test_sums_of_gathered_rows(shape: tuple[int, int, int]) -> None:
    bags, each, columns = shape
    w, k = RNG.standard_normal((9, columns)).astype(np.float32), RNG.integers(0, 9, (bags, each))
    program = zynml.compile(BAGS, device="emulator")
    np.testing.assert_allclose(program.f(w, k), w[k].astype(np.float64).sum(1), rtol=1e-5, atol=1e-6)
    if each:
        k[-1, -1] = 9
        assert message(program.f, w, k) == "index 9 is out of range: axis 0 of `w` has 9 elements"


def test_one_element_of_each_row_less_the_largest() -> None:
    x, k = RNG.standard_normal((5, 33)).astype(np.float32), RNG.integers(0, 33, 5).astype(np.int32)
    np.testing.assert_array_equal(zynml.compile(PICKED, device="emulator").f(x, k), x[np.arange(5), k] - x.max(1))


def test_an_index_by_an_index() -> None:
    x, k, chosen = RNG.standard_normal(12).astype(np.float32), RNG.integers(0, 12, 30).astype(np.int32), RNG.integers(0, 12, 12).astype(np.int32)
    program = zynml.compile(TWICE, device="emulator")
    np.testing.assert_array_equal(program.f(x, k, chosen), x[chosen[k]] + x[k])
    k[7] = 12
    assert message(program.f, x, k, chosen) == "index 12 is out of range: axis 0 of `l` has 12 elements"


def test_an_index_in_two_places() -> None:
    source = "def f(x: tensor[M, N], k: tensor[L, i32]) { compute(x, k) { for i in 0..L: out[i] = x[k[i], k[i]] } }"
    x, k = RNG.standard_normal((4, 9)).astype(np.float32), np.array([0, 3, 2], np.int32)
    program = zynml.compile(source, device="emulator")
    np.testing.assert_array_equal(program.f(x, k), x[k, k])
    assert message(program.f, x, k + np.int32(5)) == "index 5 is out of range: axis 0 of `x` has 4 elements"
    assert message(program.f, x.T.copy(), k + np.int32(4)) == "index 4 is out of range: axis 1 of `x` has 4 elements"


def test_windows_at_places_that_data_decide() -> None:
    source = "def f(x: tensor[N], k: tensor[L, i32]) { compute(x, k) -> tensor[L, 5] { for i in 0..L, j in 0..5: out[i, j] = x[k[i] + j] } }"
    x, k = RNG.standard_normal(20).astype(np.float32), np.array([0, 15, 3], np.int32)
    program = zynml.compile(source, device="emulator")
    np.testing.assert_array_equal(program.f(x, k), x[k[:, None] + np.arange(5)])
    k[1] = 17
    assert message(program.f, x, k) == "index 20 is out of range: axis 0 of `x` has 20 elements"


def test_an_index_behind_a_guard_is_checked_where_that_holds() -> None:
    x, k = RNG.standard_normal(12).astype(np.float32), RNG.integers(-3, 12, 30).astype(np.int32)
    program = zynml.compile(GUARDED, device="emulator")
    np.testing.assert_array_equal(program.f(x, k), np.where(k >= 0, x[np.maximum(k, 0)], np.float32(0)))
    k[4] = 12
    assert message(program.f, x, k) == "index 12 is out of range: axis 0 of `x` has 12 elements"


def test_an_index_that_comes_of_a_reduction_is_checked_on_the_way() -> None:
    x, w = np.zeros((3, 5), np.float32), RNG.standard_normal(9).astype(np.float32)
    p = RNG.integers(0, 9, (3, 5)).astype(np.int32)
    np.testing.assert_array_equal(zynml.compile(LARGEST, device="emulator").f(x, w, p), w[p.max(1)])


def test_the_lookup_itself_has_no_checks_and_16_bytes_a_thread() -> None:
    found = scheduled(LOOKUP, V=50257, D=1024, B=4096)
    checks = [[isinstance(op, Check) for top in one.function.body.body for op in top.walk()].count(True) for one in found.launches]
    assert checks == [1, 0]
    text = ptx(found, "sm_90a")
    assert "ld.global.nc.v4.b32" in text and "st.global.v4.b32" in text


def test_an_index_that_is_used_once_is_checked_on_the_way() -> None:
    assert len(scheduled(TWICE, N=1024, M=1024).launches) == 1
    assert len(scheduled(PICKED, M=64, N=4096).launches) > 1


@pytest.mark.parametrize(
    ("source", "sizes"),
    [
        (PICKED, {"M": 64, "N": 4096}),
        (TWICE, {"N": 1024, "M": 1024}),
        (GUARDED, {"N": 1000, "M": 1 << 20}),
        (BAGS, {"V": 99, "D": 256, "B": 64, "L": 20}),
    ],
)
@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_gathers_by_vectors_of_indices_are_machine_code(source: str, sizes: dict[str, int], target: str) -> None:
    assert "ld.global" in ptx(scheduled(source, **sizes), target)
