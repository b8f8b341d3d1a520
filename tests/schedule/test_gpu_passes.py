"""Few and long rows on a GPU: a launch for each reduction, then what reads the rows again. Expected values from NumPy in float64."""

import numpy as np
import pytest

import zynml
from compiler.emulator.interpret import interpret
from compiler.hir.core import Binary, Unary, dtype_of
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of
from compiler.schedule.gpu.tiles import rows
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_convolutions import built, launches
from tests.schedule.test_gpu_rows import SOFTMAX, best, softmax
from tests.schedule.test_gpu_scans import numpy_dtype


@pytest.fixture
def short(in_parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go in passes, and a block's registers hold 256 elements."""
    monkeypatch.setattr(rows, "MOST_THREADS", 32)
    monkeypatch.setattr(rows, "KEPT_BYTES", 16)


def made(field: HirFunction, sizes: dict[str, int], architecture: str = "sm_80") -> Launches:
    return launches_for(field, field, facts_of(sizes, (), MACHINES[architecture]))


def kernels(launches: Launches) -> list[str]:
    return [launch.function.name for launch in launches.launches]


def test_when_rows_go_in_passes() -> None:
    two = ["softmax_sum0_0", "softmax_stored_0"]
    assert kernels(made(softmax(), {"M": 4, "N": 1_000_003})) == two
    assert kernels(made(softmax(), {"M": 60, "N": 1_000_003}, "sm_90a")) == two
    assert kernels(made(softmax(), {"M": 5000, "N": 1_000_003})) == ["softmax_0"]
    assert kernels(made(softmax(), {"M": 4, "N": 10_000})) == ["softmax_0"]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("shape", [(1, 5_000), (3, 2_049)])
def test_softmax_in_passes(shape: tuple[int, int], target: str) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    weight = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(zynml.compile(SOFTMAX, device=f"emulator:{target}").f(x), weight / weight.sum(1, keepdims=True), rtol=2e-5)


COLUMNS = """def f(x: tensor[M, N]) {
    compute(x) { for j in 0..N {
        var m = -inf
        for i in 0..M: m = max(m, x[i, j])
        for i in 0..M: out[i, j] = x[i, j] - m
    } }
}"""


def test_when_columns_go_in_passes() -> None:
    kernel = built(COLUMNS)
    assert len(launches(kernel, {"M": 8192, "N": 1024}, 132).launches) == 2
    assert len(launches(kernel, {"M": 512, "N": 4096}, 132).launches) == 1
    assert len(launches(kernel, {"M": 8192, "N": 65536}, 132).launches) == 1


@pytest.mark.usefixtures("short")
def test_columns_less_their_largest() -> None:
    x = np.random.default_rng(2).standard_normal((3000, 3)).astype(np.float32)
    np.testing.assert_array_equal(zynml.compile(COLUMNS, device="emulator:sm_80").f(x), x - x.max(0))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("seed", [None, 1])
def test_rows_places_and_what_is_less_than_the_best(seed: int | None) -> None:
    """Stores along a row, and stores beside it, by the launch that reduces; again and again on the same workspaces."""
    x = np.random.default_rng(4).integers(0, 200, (2, 2301)).astype(np.int16)
    work = made(best("i16"), {"M": 2, "N": 2301})
    assert kernels(work) == ["best_sum0_0", "best_stored_0"]
    out, top, place = np.zeros_like(x), np.zeros(2, x.dtype), np.zeros(2, np.int64)
    sizes = {"M": 2, "N": 2301}
    held = [np.zeros([dim.evaluate(sizes.__getitem__) for dim in mem.dims], numpy_dtype(mem.dtype)) for mem in work.workspaces]
    for number, one in enumerate(held):
        if number not in work.zeros:
            one.fill(77)
    given, sizes = work.counted([x, out, top, place, 2, 2301], sizes)
    for _ in range(2):
        for launch in work.launches:
            verify(launch.function)
            arguments = [
                value.reshape([dim.evaluate(sizes.__getitem__) for dim in parameter.type.dims]) if isinstance(value, np.ndarray) else value
                for parameter, value in zip(launch.function.parameters, [*given, *held], strict=True)
            ]
            interpret(launch.function, arguments, grid=(launch.blocks(sizes), 1, 1), seed=seed)
        assert all(not held[number].any() for number in work.zeros)
        np.testing.assert_array_equal(top, x.max(1))
        np.testing.assert_array_equal(place, x.argmax(1))
        np.testing.assert_array_equal(out, x - x.max(1, keepdims=True))


NORM = """def f(x: tensor[M, N], w: tensor[M]) {
    compute(x, w) { for i in 0..M {
        var t = 0.0
        for j in 0..N: t += x[i, j]
        let mean = t / N
        var s = 0.0
        for j in 0..N:
            let d = x[i, j] - mean
            s += d * d
        let r = 1.0 / sqrt(s / N + 0.00001)
        for j in 0..N: out[i, j] = (x[i, j] - mean) * r * w[i]
    } }
}"""


def test_what_is_made_once_a_row_is_left_by_the_reduction() -> None:
    """The launch that stores reads a mean and a factor, and computes neither."""
    made = launches(built(NORM), {"M": 16, "N": 1 << 20}, 132)
    *_, stored = made.launches
    ops = [op for top in stored.function.body.body for op in top.walk()]
    assert len(made.launches) == 2
    assert not any(isinstance(op, Unary) and op.operator == "sqrt" for op in ops)
    assert not any(isinstance(op, Binary) and op.operator == "div" and is_float(dtype_of(op.result)) for op in ops)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_a_norm_in_passes(target: str) -> None:
    random = np.random.default_rng(7)
    x, w = (random.standard_normal((3, 2301)) + 5).astype(np.float32), random.standard_normal(3).astype(np.float32)
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w[:, None]
    np.testing.assert_allclose(zynml.compile(NORM, device=f"emulator:{target}").f(x, w), wanted, atol=1e-5)
