"""Kernels on the device: loading, arguments, shapes, shared memory, cooperative and cluster launches."""

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import ALL

from runtime.cuda.copies import fill, to_device, to_host
from runtime.cuda.errors import CudaError, CudaRefused
from runtime.cuda.launch import CheckedLaunch

AXPB = ("pointer", "pointer", "f32", "f32", "i64")


@pytest.mark.parametrize("n", [1, 31, 1000, 1_000_003])
def test_axpb_over_n_elements(gpu, kernel, n):
    x = np.random.default_rng(n).standard_normal(n, np.float32)
    source, target = (to_device(each, gpu.allocate(x.nbytes), gpu.stream) for each in (x, np.zeros_like(x)))
    CheckedLaunch(kernel("axpb", "axpb"), AXPB, (-(-n // 256),), (256,))(gpu.stream, target, source, 1.5, -0.25, n)
    # 1.5 x - 0.25 with one rounding: within half a unit in the last place of the float64 result
    expected = 1.5 * x.astype(np.float64) - 0.25
    assert (np.abs(to_host(target) - expected) <= np.spacing(np.abs(expected).astype(np.float32))).all()


def test_a_plan_is_launched_again_with_other_values_and_shapes(gpu, kernel):
    x = np.arange(1000, dtype=np.float32)
    source, target = (to_device(each, gpu.allocate(x.nbytes), gpu.stream) for each in (x, np.zeros_like(x)))
    launch = CheckedLaunch(kernel("axpb", "axpb"), AXPB, (4,), (256,))
    launch(gpu.stream, target, source, 2.0, 1.0, 1000)
    again = launch.bind(target, target, 2.0, 1.0, 1000)
    again(gpu.stream)
    again(gpu.stream)
    assert (to_host(target) == 8 * x + 7).all()
    launch.resize((1,))
    launch(gpu.stream, target, source, 0.0, 0.0, 1000)
    assert (to_host(target) == np.where(x < 256, 0, 8 * x + 7)).all()


def test_every_type_of_parameter_arrives(gpu, kernel):
    out = gpu.allocate(40)
    fill(out, 0, gpu.stream)
    signature = ("pointer", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "bool")
    values = (-5, -300, -70_000, -(1 << 40), 1.5, -3.25, 0.1, 1e300, True)
    CheckedLaunch(kernel("parameters", "parameters"), signature, (1,), (1,))(gpu.stream, out, *values)
    got = to_host(to_array(gpu, out, "u8", 40)).tobytes()
    kinds = (np.int8, np.int16, np.int32, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.bool_)
    for kind, value, offset in zip(kinds, values, (0, 2, 4, 8, 16, 18, 20, 24, 32), strict=True):
        expected = np.array(value).astype(kind).tobytes()
        assert got[offset : offset + len(expected)] == expected


def test_128_bytes_pass_by_value(gpu, kernel):
    out, data = gpu.allocate(128), bytes(range(100, 228))
    CheckedLaunch(kernel("parameters", "by_value"), ("pointer", "u8", "bytes128@64"), (1,), (128,))(gpu.stream, out, 1, data)
    assert to_host(to_array(gpu, out, "u8", 128)).tobytes() == data


def to_array(gpu, buffer, dtype, count):
    from runtime.cuda.array import DeviceArray

    return DeviceArray(buffer, buffer.pointer, (count,), dtype, gpu.stream)


def test_attributes_are_those_of_the_assembled_kernel(kernel):
    found = kernel("axpb", "axpb")
    assert 0 < found.registers < 64
    assert (found.shared, found.local, found.max_threads) == (0, 0, 1024)
    assert found.blocks_per_multiprocessor(256) >= 1


@pytest.mark.parametrize("shared", [1024, 48 << 10, None])
def test_dynamic_shared_memory_up_to_the_devices_limit(gpu, kernel, shared):
    size = shared or gpu.device.properties.shared_per_block_opt_in
    words, out = size // 4, gpu.allocate(4 * 256)
    launch = CheckedLaunch(kernel("shared", "reversed"), ("pointer", "u32"), (1,), (256,), shared=size)
    launch(gpu.stream, out, words)
    assert to_host(to_array(gpu, out, "u32", 256)).tolist() == list(range(255, -1, -1))


def test_shared_memory_over_the_limit_is_refused(gpu, kernel):
    most = gpu.device.properties.shared_per_block_opt_in
    with pytest.raises(CudaRefused, match=rf"^kernel `reversed` wants {most + 16} bytes of shared memory a block"):
        CheckedLaunch(kernel("shared", "reversed"), ("pointer", "u32"), (1,), (256,), shared=most + 16)


def test_a_block_over_the_limit_is_refused(gpu, kernel):
    with pytest.raises(CudaRefused, match=r"^a block of `axpb` \(a.zynml:1\) has 1025 threads; 1024 is the most by "):
        CheckedLaunch(kernel("axpb", "axpb"), AXPB, (1,), (1025,), where="a.zynml:1")


def test_a_cooperative_grid_meets(gpu, kernel):
    blocks = kernel("grid", "meet").blocks_per_multiprocessor(128) * gpu.device.properties.multiprocessors
    counter, out = gpu.allocate(4), gpu.allocate(4 * blocks)
    fill(counter, 0, gpu.stream)
    CheckedLaunch(kernel("grid", "meet"), ("pointer", "pointer"), (blocks,), (128,), cooperative=True)(gpu.stream, counter, out)
    assert to_host(to_array(gpu, out, "u32", blocks)).tolist() == [blocks] * blocks
    with pytest.raises(CudaRefused, match=rf"waits for its whole grid of {blocks + 1} blocks; .* runs {blocks} of them at once$"):
        CheckedLaunch(kernel("grid", "meet"), ("pointer", "pointer"), (blocks + 1,), (128,), cooperative=True)


def test_blocks_of_a_cluster_know_their_rank(gpu, kernel):
    if not gpu.device.properties.clusters:
        pytest.skip("the device has no clusters")
    out = gpu.allocate(4 * 8)
    CheckedLaunch(kernel("cluster", "rank"), ("pointer",), (8,), (1,), cluster=(4,))(gpu.stream, out)
    assert to_host(to_array(gpu, out, "u32", 8)).tolist() == [0, 1, 2, 3] * 2


def test_a_module_is_loaded_once(gpu):
    first = gpu.modules.load(ALL["axpb"])
    count = len(gpu.modules)
    assert gpu.modules.load(ALL["axpb"]) is first
    assert len(gpu.modules) == count


def test_wrong_ptx_comes_with_the_assemblers_words(gpu):
    wrong = ALL["axpb"].replace("fma.rn.f32", "fmaa.rn.f32")
    with pytest.raises(CudaError) as caught:
        gpu.modules.load(wrong, "wrong.zynml")
    assert caught.value.name == "CUDA_ERROR_INVALID_PTX"
    assert "wrong.zynml: ptxas" in str(caught.value) and "fmaa" in str(caught.value)


def test_a_kernel_that_is_not_there_is_named(gpu):
    with pytest.raises(CudaError, match=r"`nowhere` is no kernel of axpb"):
        gpu.modules.load(ALL["axpb"], "axpb").kernel("nowhere")


def test_properties_are_plausible(gpu):
    limits = gpu.device.properties
    assert limits.warp_size == 32 and limits.max_threads_per_block == 1024
    assert limits.capability >= (7, 5) and limits.architecture.startswith("sm_")
    assert limits.memory > 1 << 30 and limits.l2_cache > 1 << 20 and limits.clock > 500_000
    assert limits.shared_per_block <= limits.shared_per_block_opt_in <= limits.shared_per_multiprocessor
    free, total = gpu.device.memory()
    assert 0 < free <= total
