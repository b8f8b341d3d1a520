"""PyTorch's and CuPy's arrays in and out without a copy, in the same context, in the right order."""

import gc

import numpy as np
import pytest

import zynml
from runtime import dlpack
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import to_device, to_host
from runtime.cuda.interop import import_array, import_cuda_array, import_dlpack
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.remote import upload
from runtime.element_types import DTYPES
from runtime.tensor import Tensor

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


def on_device_tensor(gpu, array):
    return Tensor(None, upload(array, gpu, named=True))


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
        "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"
    }  # fmt: skip
    tensor = torch.arange(24, device="cuda").reshape(4, 6).to(getattr(torch, dtype[name])).t()
    array = import_dlpack(tensor, gpu.stream)
    assert (array.pointer, array.shape, array.strides, array.dtype) == (tensor.data_ptr(), (6, 4), (1, 6), name)
    assert to_host(array).tolist() == np.arange(24).reshape(4, 6).astype(DTYPES[name]).T.tolist()


def test_our_kernel_works_on_pytorchs_tensors_in_order(gpu, torch, kernel):
    n = 1 << 20
    plan = CheckedLaunch(kernel("axpb", "axpb"), AXPB, (n // 256,), (256,))
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
    wait = CheckedLaunch(kernel("waiting", "spin"), ("i64",), (1,), (1,))
    plan = CheckedLaunch(kernel("axpb", "axpb"), AXPB, (n // 256,), (256,))
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
    plan = CheckedLaunch(kernel("axpb", "axpb"), AXPB, (4,), (256,))
    plan(gpu.stream, import_array(y, gpu.stream), import_array(x, gpu.stream), 3.0, 1.0, 1000)
    gpu.stream.synchronize()
    assert bool((y == 3 * x + 1).all())


# ---- functions of programs on others' arrays ----

PROGRAM = """
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def copied(x: tensor[M, N]): tensor { compute(x) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] } }
def flat(x: tensor[M, N]): tensor { compute(x) { for i in 0..x.numel(): out[i] = x[i] } }
def total(x: tensor[M, N]): tensor { compute(x) @kernel reduce(+, axis=1) { for i in 0..M, j in 0..N: yield x[i, j] } }
def double(mut x: tensor[M, N]) { compute(mut x) { for i in 0..M, j in 0..N: x[i, j] = x[i, j] + x[i, j] } }
def picked(mut x: tensor[N], k: tensor[M, i64]) { compute(mut x, k) { for i in 0..M: x[i] = x[i] + x[k[i]] } }
def ordered(x: tensor[N]): tensor { compute(x) @kernel sort { for i in 0..N: yield x[i] } }
"""


@pytest.fixture(scope="module")
def program():
    # nothing is said of devices: where the arrays lie is where the blocks run
    return zynml.compile(PROGRAM)


def test_a_function_works_on_pytorchs_tensors_where_they_lie(gpu, torch, program):
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    result = program.scale(x, 2.0)
    assert isinstance(result, zynml.Tensor) and result.device == "cuda:0"
    y = torch.from_dlpack(result)
    assert y.is_cuda and bool((y == 2 * x).all())
    assert y.data_ptr() == result.__cuda_array_interface__["data"][0]


def test_a_chain_through_both_keeps_its_order(gpu, torch, program):
    n = 1 << 24
    x = torch.ones(n, device="cuda")
    for _ in range(20):
        y = torch.from_dlpack(program.scale(x, 2.0))
        # written at once after the call, on PyTorch's stream: our reading comes first
        x.zero_()
        x = y * 0.5
        del y
    assert bool((x == 1.0).all())


@pytest.mark.parametrize("own_stream", [False, True])
def test_work_is_ordered_on_pytorchs_current_stream(gpu, torch, program, own_stream):
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    n = 1 << 24
    with torch.cuda.stream(stream):
        x = torch.zeros(n, device="cuda")
        for value in range(1, 11):
            x.fill_(value)
            y = torch.from_dlpack(program.scale(x, 3.0))
            x.fill_(-1.0)
            assert bool((y == 3.0 * value).all())


def test_blocks_run_on_pytorchs_own_streams(gpu, torch, program, monkeypatch):
    def refuse(self, **options):
        raise AssertionError("read without a protocol")

    monkeypatch.setattr(torch.Tensor, "__dlpack__", refuse)
    for stream, number in ((torch.cuda.default_stream(), 1), (side := torch.cuda.Stream(), side.cuda_stream)):
        with torch.cuda.stream(stream):
            x = torch.arange(1000, device="cuda", dtype=torch.float32)
            result = program.scale(x, 2.0)
            assert result.__cuda_array_interface__["stream"] == number
            assert bool((torch.from_dlpack(result) == 2 * x).all())


def test_an_external_stream_is_waited_for_both_ways(gpu, torch, program):
    ours = gpu.new_stream()
    with torch.cuda.stream(torch.cuda.ExternalStream(ours.number)):
        for value in range(1, 6):
            x = torch.full((1 << 22,), float(value), device="cuda")
            result = program.scale(x, 2.0)
            assert result.__cuda_array_interface__["stream"] == gpu.stream.number
            x.fill_(-1.0)
            assert bool((torch.from_dlpack(result) == 2.0 * value).all())
    torch.cuda.synchronize()


def test_resident_tensors_and_pytorchs_together(gpu, torch, program):
    add = zynml.compile("def add(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }").add
    n = 1 << 22
    w = program.scale(on_device_tensor(gpu, np.ones(n, np.float32)), 1.0)
    for value in range(1, 21):
        add(w, torch.full((n,), float(value), device="cuda"))
        w = program.scale(w, 1.0)
    assert bool((torch.from_dlpack(w) == 211.0).all())


def test_memory_that_pytorch_gives_on_is_read_before(gpu, torch, program):
    n, results = 1 << 22, []
    for value in range(20):
        # freed at once: PyTorch gives the same memory to the next
        results.append(program.scale(torch.full((n,), float(value), device="cuda"), 2.0))
    assert all(bool((torch.from_dlpack(result) == 2.0 * value).all()) for value, result in enumerate(results))


def test_a_stream_that_pytorch_records_is_refused(gpu, torch, program):
    x = torch.ones(1000, device="cuda")
    program.scale(x, 2.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(zynml.ZynMLError, match="PyTorch is recording its current stream into a graph"):
            program.scale(x, 2.0)
        y = x * 3.0
    graph.replay()
    assert bool((y == 3.0).all())


@pytest.mark.parametrize("function", ["copied", "flat", "total"])
def test_strided_tensors_are_read_as_they_lie(gpu, torch, program, function):
    whole = torch.arange(35 * 33, device="cuda", dtype=torch.float32).reshape(35, 33)
    for view in (whole.t(), whole[::2, 1::3], whole[3:4].expand(7, 33), whole[:0], whole[:, :0]):
        expected = view.sum(1, dtype=torch.float64) if function == "total" else view
        result = torch.from_dlpack(getattr(program, function)(view))
        assert result.shape == expected.shape
        assert bool((result == expected).all())


def test_updates_happen_in_pytorchs_memory(gpu, torch, program):
    whole = torch.arange(12, device="cuda", dtype=torch.float32).reshape(3, 4)
    program.double(whole.t()[1:])
    assert whole.tolist() == [[0, 2, 4, 6], [4, 10, 12, 14], [8, 18, 20, 22]]
    with pytest.raises(zynml.ZynMLError, match="several of its elements share memory"):
        program.double(whole[:1].expand(3, 4))
    x = torch.arange(4, device="cuda", dtype=torch.float32)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.picked(x, np.array([1, 77]))
    assert caught.value.codes == ("ZYN0801",)
    assert x.tolist() == [0, 1, 2, 3]


def test_a_sequence_is_replayed_for_pytorchs_tensors(gpu, torch, program):
    for seed in range(8):
        torch.manual_seed(seed)
        x = torch.randn(10_000 + seed % 2, device="cuda")
        y = torch.from_dlpack(program.ordered(x))
        assert bool((y == x.sort().values).all())


def test_bfloat16_and_the_host_from_pytorch(gpu, torch):
    program = zynml.compile("def same(x: tensor[N, bf16]): tensor { compute(x) { for i in 0..N: out[i] = x[i] } }")
    x = torch.tensor([1.5, -2.0, float("inf")], dtype=torch.bfloat16)
    assert torch.from_dlpack(program.same(x.cuda())).cpu().tolist() == x.tolist()
    result = program.same(x)
    assert type(result) is np.ndarray and result.dtype == DTYPES["bf16"] and result.tolist() == x.tolist()


def test_tensors_that_can_not_be_taken_say_why(gpu, torch, program):
    with pytest.raises(zynml.ZynMLError) as caught:
        program.scale(torch.ones(3, device="cuda", requires_grad=True), 2.0)
    assert caught.value.codes == ("ZYN0807",) and "detach" in str(caught.value)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.scale(torch.ones(3, device="cuda", dtype=torch.complex64), 2.0)
    assert caught.value.codes == ("ZYN0807",)


def test_functions_give_all_of_pytorchs_memory_back(gpu, torch, program):
    torch.cuda.synchronize()
    gc.collect()
    before, exported = torch.cuda.memory_allocated(), dlpack.exported()
    for _ in range(50):
        torch.from_dlpack(program.scale(torch.ones(1 << 20, device="cuda"), 2.0))
    gpu.stream.synchronize()
    gc.collect()
    gpu.device.reap()
    assert torch.cuda.memory_allocated() == before
    assert dlpack.exported() == exported


def test_a_function_works_on_cupys_arrays(gpu, cupy, program):
    x = cupy.arange(60, dtype=cupy.float32).reshape(6, 10)
    for view in (x, x.T, x[::-1, ::3]):
        result = program.copied(view)
        for back in (cupy.asarray(result), cupy.from_dlpack(result)):
            assert cupy.asnumpy(back).tolist() == cupy.asnumpy(view).tolist()
    program.double(x[::-1, ::2])
    assert cupy.asnumpy(x[:, ::2]).tolist() == (2 * np.arange(60.0).reshape(6, 10)[:, ::2]).tolist()
    with cupy.cuda.Stream(non_blocking=True):
        for value in range(1, 6):
            y = cupy.full(1 << 22, value, cupy.float32)
            z = cupy.from_dlpack(program.scale(y, 2.0))
            y.fill(0)
            assert bool((z == 2 * value).all())
