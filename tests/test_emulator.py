"""Kernels on the emulator: what a GPU would run, on a machine without one, gives what NumPy gives."""

import numpy as np
import pytest

import zynml
from tests.kernels.device_kernels import KERNELS, check


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_every_kind_give_what_numpy_gives(name: str) -> None:
    check(KERNELS[name], "emulator", m=5)


@pytest.mark.parametrize(
    ("loops", "shape"),
    [("i in 0..0", (0,)), ("i in 0..0 step 2", (0,)), ("i in 3..1 step 2", (0,)), ("i in -1..-1 step -1", (0,))],
)
def test_loops_that_surely_never_run_leave_nothing_to_launch(loops: str, shape: tuple[int, ...]) -> None:
    x = np.arange(5, dtype=np.float32)
    for device in ("emulator", None):
        made = zynml.compile(f"def f(x: tensor[?]) {{ compute(x) {{ for {loops}: out[i] = x[i] + 1.0 }} }}", device=device)
        assert np.asarray(made.f(x)).shape == shape
        kept = zynml.compile(f"def f(x: tensor[?]) {{ compute(x) {{ for {loops}: x[i] = x[i] + 1.0 }} }}", device=device)
        np.testing.assert_array_equal(kept.f(x), x)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 31, 100])
@pytest.mark.parametrize("descending", ["true", "false"])
def test_sorting_is_stable_and_moves_the_payload(n: int, descending: str) -> None:
    keys = np.random.default_rng(n).integers(0, 5, n).astype(np.int32)
    program = zynml.compile(
        f"def f(k: tensor[N, i32]) {{ compute(k) @kernel(sort, descending={descending}) {{ for i in 0..N: yield (k[i], i) }} }}",
        device="emulator",
    )
    got, order = program.f(keys)
    expected = np.argsort(-keys if descending == "true" else keys, kind="stable")
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(got, keys[expected])


def test_an_index_outside_is_reported_and_inputs_stay_as_they_were() -> None:
    program = zynml.compile(
        "def f(mut x: tensor[N], i: tensor[N, i32]) { compute(mut x, i) { for j in 0..N: x[j] = x[i[j]] + 1.0 } }", device="emulator"
    )
    x = np.zeros(3, np.float32)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.f(x, np.array([0, 5, 1], np.int32))
    assert caught.value.codes in (("ZYN0801",), ("ZYN0405",))
    np.testing.assert_array_equal(x, 0)


def test_a_divergent_barrier_is_found() -> None:
    program = zynml.compile(
        """
def f(x: tensor[N, i32]): tensor {
    compute(x) -> tensor[N, i32] @kernel(custom) @workgroup(64) {
        let i = thread_idx().x
        if x[i] > 3:
            barrier()
        out[i] = 1
    }
}
""",
        device="emulator",
    )
    with pytest.raises(zynml.ZynMLError) as caught:
        program.f(np.arange(64, dtype=np.int32))
    assert caught.value.codes == ("ZYN0411",)
