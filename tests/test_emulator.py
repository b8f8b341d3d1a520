"""Programs on the emulator: what a GPU would run, on a machine without one, with the CPU's results."""

from pathlib import Path

import numpy as np
import pytest

import zynml

KERNELS = Path(__file__).parent.parent / "bench" / "kernels.zynml"


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(np.float32)


INPUTS = {
    "relu": (f32(1003),),
    "gelu": (f32(300),),
    "transpose": (f32(13, 25),),
    "total": (f32(1003),),
    "column_sums": (f32(33, 10),),
    "argmax": (f32(1007),),
    "matmul": (f32(10, 7), f32(7, 33)),
    "batched": (f32(3, 5, 4), f32(3, 4, 7)),
    "conv2d": (f32(1, 2, 5, 7), f32(3, 2, 3, 3)),
    "depthwise": (f32(1, 3, 6, 7), f32(3, 3, 3)),
    "attention": (f32(2, 5, 4), f32(2, 7, 4), f32(2, 7, 4)),
    "softmax": (f32(5, 33),),
    "scan": (f32(300),),
    "sort": (np.concatenate([f32(200), [np.nan, -0.0, 0.0, np.inf]]).astype(np.float32),),
    "histogram": (np.random.default_rng(0).integers(0, 256, 1007).astype(np.uint8),),
}


@pytest.fixture(scope="module")
def programs() -> tuple[zynml.CompiledProgram, zynml.CompiledProgram]:
    return zynml.compile(KERNELS, device="emulator"), zynml.compile(KERNELS, device="cpu")


@pytest.mark.parametrize("name", INPUTS)
def test_every_kind_as_on_the_cpu(name: str, programs: tuple[zynml.CompiledProgram, zynml.CompiledProgram]) -> None:
    emulated, native = (getattr(program, name)(*INPUTS[name]) for program in programs)
    if isinstance(emulated, tuple):
        assert emulated == native
    else:
        np.testing.assert_allclose(emulated, native, rtol=2e-5, atol=2e-5)


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


PROGRAMS = sorted((KERNELS.parent.parent / "programs" / "zynml").glob("*.zynml"))


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.stem not in ("digits", "photo")], ids=lambda p: p.stem)
def test_programs_print_what_they_state(program: Path) -> None:
    """Each program of the gallery but the two whose work is too much for an interpreter."""
    from zyntax.main import cli

    assert cli.main(args=["test", str(program), "--device", "emulator"], prog_name="zyntax", standalone_mode=False) == 0
