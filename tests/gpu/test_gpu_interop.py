"""PyTorch's and CuPy's arrays in and out without a copy, in the same context, in the right order."""

import gc

import numpy as np
import pytest

from runtime import dlpack
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import to_device, to_host
from runtime.cuda.interop import import_array, import_cuda_array, import_dlpack
from runtime.cuda.launch import LaunchPlan
from runtime.tensor import DTYPES

AXPB = ("pointer", "pointer", "f32", "f32", "i64")
BOTH_KNOW = [name for name in DTYPES if name not in ("u16", "u32", "u64")]


@pytest.fixture
def torch():
    found = pytest.importorskip("torch", exc_type=ImportError)
    if not found.cuda.is_available():
        pytest.skip("PyTorch here has no CUDA")
    return found


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy", exc_type=ImportError)


def on_device(gpu, array):
    return to_device(array, gpu.allocate(array.nbytes), gpu.stream)


def test_the_context_is_the_one_pytorch_uses(gpu, torch):
    torch.zeros(1, device="cuda")
    assert int(gpu.device.driver.call("cuCtxGetCurrent")) == int(gpu.device.context)


@pytest.mark.parametrize("name", BOTH_KNOW)
def test_pytorch_sees_our_memory_by_dlpack(gpu, torch, name):
    source = np.arange(24).reshape(4, 6).astype(DTYPES[name])
    array = on_device(gpu, source)
    tensor = torch.from_dlpack(array)
    assert (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride())) == (array.pointer, (4, 6), (6, 1))
    assert tensor.view(torch.uint8).cpu().numpy().tobytes() == source.tobytes()
    tensor.zero_()
    torch.cuda.synchronize()
    assert not to_host(array).view(np.uint8).any()


def test_pytorch_sees_strides_by_dlpack(gpu, torch):
    source = np.arange(24, dtype=np.float32)
    whole = on_device(gpu, source)
    view = DeviceArray(whole.owner, whole.pointer + 4, (3, 4), "f32", gpu.stream, (8, 2))
    assert (
        torch.from_dlpack(view).cpu().tolist() == source[1:].copy()[np.add.outer(np.arange(3) * 8, np.arange(4) * 2).clip(0, 22)].tolist()
    )


@pytest.mark.parametrize("name", BOTH_KNOW)
def test_we_see_pytorchs_memory_by_dlpack(gpu, torch, name):
    dtype = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8"} | {
        "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"
    }  # fmt: skip
    tensor = torch.arange(24, device="cuda").reshape(4, 6).to(getattr(torch, dtype[name])).t()
    array = import_dlpack(tensor, gpu.stream)
    assert (array.pointer, array.shape, array.strides, array.dtype) == (tensor.data_ptr(), (6, 4), (1, 6), name)
    assert to_host(array).tolist() == np.arange(24).reshape(4, 6).astype(DTYPES[name]).T.tolist()


def test_our_kernel_works_on_pytorchs_tensors_in_order(gpu, torch, kernel):
    n = 1 << 20
    plan = LaunchPlan(kernel("axpb", "axpb"), AXPB, (n // 256,), (256,))
    x = torch.ones(n, device="cuda")
    for _ in range(20):
        x = x * 1.0
    y = torch.empty_like(x)
    plan(gpu.stream, import_array(y, gpu.stream), import_array(x, gpu.stream), 2.0, 3.0, n)
    gpu.stream.synchronize()
    assert bool((y == 5.0).all())


def test_our_memory_lives_as_long_as_pytorchs_tensor(gpu, torch):
    before = gpu.pool.statistics().blocks_in_use
    tensor = torch.from_dlpack(on_device(gpu, np.full(1000, 3.0)))
    for _ in range(10):
        on_device(gpu, np.zeros(1000))
    assert gpu.pool.statistics().blocks_in_use == before + 1
    assert bool((tensor == 3.0).all())
    del tensor
    gc.collect()
    assert gpu.pool.statistics().blocks_in_use == before
    assert dlpack.exported() == 0


def test_pytorchs_tensor_lives_until_our_work_on_it_is_done(gpu, torch, kernel):
    n = 1 << 20
    y = torch.zeros(n, device="cuda")
    wait = LaunchPlan(kernel("waiting", "spin"), ("i64",), (1,), (1,))
    plan = LaunchPlan(kernel("axpb", "axpb"), AXPB, (n // 256,), (256,))
    x = torch.full((n,), 2.0, device="cuda")
    theirs, address = import_array(x, gpu.stream), x.data_ptr()
    wait(gpu.stream, 50_000_000)
    plan(gpu.stream, import_array(y, gpu.stream), theirs, 1.0, 0.0, n)
    del x, theirs
    gc.collect()
    other = torch.full((n,), 9.0, device="cuda")
    assert other.data_ptr() != address
    gpu.stream.synchronize()
    assert bool((y == 2.0).all())


def test_pytorch_takes_the_array_interface(gpu, torch):
    array = on_device(gpu, np.arange(6, dtype=np.float32).reshape(2, 3))
    # PyTorch reads the interface's memory without waiting for its stream
    gpu.stream.synchronize()
    tensor = torch.as_tensor(array, device="cuda")
    assert tensor.data_ptr() == array.pointer and tensor.cpu().tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_we_take_pytorchs_array_interface(gpu, torch):
    tensor = torch.arange(6, device="cuda", dtype=torch.float32).reshape(2, 3).t()
    torch.cuda.synchronize()
    array = import_cuda_array(tensor, gpu.stream)
    assert (array.pointer, array.strides) == (tensor.data_ptr(), (1, 3))
    assert to_host(array).tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_a_tensor_of_the_host_is_refused(gpu, torch):
    with pytest.raises(ValueError, match="does not lie on a CUDA device"):
        import_array(torch.zeros(3), gpu.stream)


@pytest.mark.parametrize("way", ["asarray", "from_dlpack"])
@pytest.mark.parametrize("name", ["i32", "u64", "f16", "f32", "f64"])
def test_cupy_sees_our_memory(gpu, cupy, way, name):
    source = np.arange(24).reshape(4, 6).astype(DTYPES[name])
    array = on_device(gpu, source)
    theirs = getattr(cupy, way)(array)
    assert theirs.data.ptr == array.pointer
    assert cupy.asnumpy(theirs).tolist() == source.tolist()


@pytest.mark.parametrize("take", [import_dlpack, import_cuda_array])
def test_we_see_cupys_memory(gpu, cupy, take):
    theirs = cupy.arange(24, dtype=cupy.float32).reshape(4, 6)[::2, 1:]
    array = take(theirs, gpu.stream)
    assert (array.pointer, array.strides) == (theirs.data.ptr, (12, 1))
    assert to_host(array).tolist() == np.arange(24.0).reshape(4, 6)[::2, 1:].tolist()


def test_our_kernel_works_on_cupys_arrays(gpu, cupy, kernel):
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.zeros(1000, dtype=cupy.float32)
    plan = LaunchPlan(kernel("axpb", "axpb"), AXPB, (4,), (256,))
    plan(gpu.stream, import_array(y, gpu.stream), import_array(x, gpu.stream), 3.0, 1.0, 1000)
    gpu.stream.synchronize()
    assert bool((y == 3 * x + 1).all())
