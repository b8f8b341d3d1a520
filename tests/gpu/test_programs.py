"""ZynML programs on a GPU give what they give on the CPU."""

from pathlib import Path

import numpy as np
import pytest

import zynml

KERNELS = Path(__file__).parent.parent.parent / "bench" / "kernels.zynml"
RNG = np.random.default_rng(3)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


INPUTS = {
    "relu": (f32(100_003),),
    "gelu": (f32(1000),),
    "transpose": (f32(130, 257),),
    "total": (f32(100_003),),
    "column_sums": (f32(333, 100),),
    "argmax": (f32(10_007),),
    "matmul": (f32(100, 70), f32(70, 33)),
    "batched": (f32(5, 31, 33), f32(5, 33, 17)),
    "conv2d": (f32(2, 3, 13, 17), f32(4, 3, 3, 3)),
    "depthwise": (f32(2, 3, 13, 17), f32(3, 3, 3)),
    "attention": (f32(2, 33, 16), f32(2, 40, 16), f32(2, 40, 16)),
    "softmax": (f32(33, 100),),
    "scan": (f32(1000),),
    "sort": (f32(10_007),),
    "histogram": (RNG.integers(0, 256, 10_007).astype(np.uint8),),
}


@pytest.fixture(scope="module")
def programs() -> tuple[zynml.CompiledProgram, zynml.CompiledProgram]:
    return zynml.compile(KERNELS, device="cuda:0"), zynml.compile(KERNELS, device="cpu")


@pytest.mark.parametrize("name", INPUTS)
def test_kernels_of_every_kind_as_on_the_cpu(name: str, programs: tuple[zynml.CompiledProgram, zynml.CompiledProgram]) -> None:
    """The CPU's result is the reference, itself tested against NumPy; f32 may differ by the order of sums."""
    on_gpu, on_cpu = (getattr(program, name)(*INPUTS[name]) for program in programs)
    if isinstance(on_gpu, tuple):
        assert on_gpu == on_cpu
    else:
        np.testing.assert_allclose(on_gpu, on_cpu, rtol=2e-5, atol=2e-4)


def test_tensors_stay_on_the_device_between_blocks() -> None:
    program = zynml.compile(
        """
def f(x: tensor[N]): tensor {
    let y = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }
    let z = compute(y) { for i in 0..N: out[i] = y[i] * 2.0 }
    z
}
""",
        device="cuda:0",
    )
    np.testing.assert_array_equal(program.f(np.arange(1000, dtype=np.float32)), (np.arange(1000) + 1) * 2)


def test_an_index_from_data_that_is_outside_is_reported() -> None:
    program = zynml.compile(
        """
def f(x: tensor[N], i: tensor[M, i32]): tensor {
    compute(x, i) { for j in 0..M: out[j] = x[i[j]] }
}
""",
        device="cuda:0",
    )
    index = np.array([0, 1, 7, 2, 9], np.int32)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.f(np.arange(5, dtype=np.float32), index)
    assert caught.value.codes == ("ZYN0801",)
    np.testing.assert_array_equal(program.f(np.arange(5, dtype=np.float32), index % 5), index % 5)
