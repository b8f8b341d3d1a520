"""Modules, kernels, launches and graphs: what the driver is asked for, what is refused before it is."""

import numpy as np
import pytest
from attrs import evolve

from runtime.cuda.copies import to_device, to_host, upload
from runtime.cuda.driver import Driver
from runtime.cuda.errors import CudaError, CudaRefused
from runtime.cuda.gpu import open_gpu
from runtime.cuda.graph import Recording
from runtime.cuda.launch import CheckedLaunch

SIGNATURE = ("pointer", "pointer", "f64", "i64")


@pytest.fixture
def kernel(gpu):
    return gpu.modules.load(b"image", "blas").kernel("scale")


@pytest.fixture
def arrays(gpu):
    x = np.arange(5.0)
    return to_device(np.zeros(5), gpu.allocate(40), gpu.stream), to_device(x, gpu.allocate(40), gpu.stream)


def test_a_module_is_loaded_once_by_its_content(gpu, fake):
    one = gpu.modules.load(b"image" * 3)
    assert gpu.modules.load(bytes(bytearray(b"image" * 3))) is one
    assert gpu.modules.load(b"other") is not one
    assert fake.calls["cuModuleLoadData"] == len(gpu.modules) == 2
    assert one.kernel("scale") is one.kernel("scale")
    gpu.modules.clear()
    assert fake.calls["cuModuleUnload"] == 2


def test_ptx_that_does_not_assemble_comes_with_the_assemblers_words(gpu):
    with pytest.raises(CudaError) as caught:
        gpu.modules.load("bad ptx", "blas.zynml")
    assert str(caught.value) == (
        "cuModuleLoadData: a PTX JIT compilation failed (CUDA_ERROR_INVALID_PTX, 218): blas.zynml: line 3: syntax error"
    )


def test_a_kernel_that_is_not_in_the_module_is_named(gpu):
    with pytest.raises(CudaError) as caught:
        gpu.modules.load(b"image", "blas").kernel("dot")
    assert str(caught.value) == "cuModuleGetFunction: `dot` is no kernel of blas (CUDA_ERROR_NOT_FOUND, 500)"


def test_a_kernel_says_what_the_assembler_made(kernel):
    assert repr(kernel) == "Kernel(scale: 40 registers, 1024 bytes shared, up to 512 threads)"
    assert kernel.local == 0


def test_a_launch_passes_values_and_buffers(gpu, kernel, arrays, fake):
    y, x = arrays
    launch = CheckedLaunch(kernel, SIGNATURE, (1,), (32,))
    launch(gpu.stream, y, x, 3.0, 5)
    assert to_host(y).tolist() == [0.0, 3.0, 6.0, 9.0, 12.0]
    again = launch.bind(y, y, 2, 5)
    again(gpu.stream)
    again(gpu.stream)
    assert to_host(y).tolist() == [0.0, 12.0, 24.0, 36.0, 48.0]
    assert fake.launches[-1] == ("plain", (1, 1, 1), (32, 1, 1), 0, gpu.stream.number)
    assert gpu.stream.pending_kernels() == ()


def test_a_plan_keeps_no_memory_alive_and_a_bound_launch_does(gpu, kernel):
    plan = CheckedLaunch(kernel, SIGNATURE, (1,), (32,))
    y = to_device(np.zeros(5), gpu.allocate(40), gpu.stream)
    plan(gpu.stream, y, y, 3.0, 5)
    bound = plan.bind(y, y, 3.0, 5)
    del y
    assert gpu.pool.statistics().blocks_in_use == 1
    del bound
    assert gpu.pool.statistics().blocks_in_use == 0


def test_an_empty_grid_launches_nothing(gpu, kernel, fake):
    plan = CheckedLaunch(kernel, SIGNATURE, (0, 5), (32,))
    plan(gpu.stream, 0, 0, 1.0, 0)
    plan.resize((2, 3))
    assert plan.grid == (2, 3, 1)
    assert fake.launches == []


def test_cooperative_and_cluster_launches_go_their_own_ways(gpu, kernel, arrays, fake):
    values = (*arrays, 1.0, 5)
    CheckedLaunch(kernel, SIGNATURE, (8,), (512,), cooperative=True)(gpu.stream, *values)
    clustered = CheckedLaunch(kernel, SIGNATURE, (8,), (64,), cluster=(2,))
    clustered(gpu.stream, *values)
    clustered(gpu.stream, *values)
    assert [launch[0] for launch in fake.launches] == ["cooperative", "cluster", "cluster"]
    assert fake.launches[1][1:4] == ((8, 1, 1), (64, 1, 1), 0)


def test_early_launches_say_so_on_every_stream(gpu, kernel, arrays, fake):
    plan, other = CheckedLaunch(kernel, SIGNATURE, (1,), (32,), early=True), gpu.new_stream()
    for stream in (gpu.stream, other, gpu.stream):
        plan(stream, *arrays, 1.0, 5)
    plan.bind(*arrays, 1.0, 5)(other)
    plan.resize((3,))
    plan(other, *arrays, 1.0, 5)
    plan.resize((0,))
    plan(other, *arrays, 1.0, 5)
    grids, numbers = [1, 1, 1, 1, 3], [gpu.stream, other, gpu.stream, other, other]
    wanted = [("early", (grid, 1, 1), (32, 1, 1), 0, stream.number) for grid, stream in zip(grids, numbers, strict=True)]
    assert fake.launches == wanted


def test_drivers_that_cannot_record_early_launches_get_plain_ones(gpu, kernel, arrays, fake, monkeypatch):
    monkeypatch.setattr(gpu.device, "properties", evolve(gpu.device.properties, driver_version=(12, 2)))
    CheckedLaunch(kernel, SIGNATURE, (1,), (32,), early=True)(gpu.stream, *arrays, 1.0, 5)
    assert [launch[0] for launch in fake.launches] == ["plain"]


def test_much_shared_memory_is_opted_in_once(kernel, fake):
    CheckedLaunch(kernel, SIGNATURE, (1,), (32,), shared=40_000)
    assert fake.calls["cuFuncSetAttribute"] == 0
    for _ in range(2):
        CheckedLaunch(kernel, SIGNATURE, (1,), (32,), shared=100_000)
    assert fake.calls["cuFuncSetAttribute"] == 1


@pytest.mark.parametrize(
    ("grid", "block", "options", "message"),
    [
        ((1,), (1025,), {}, "a block of `scale` has 1025 threads; 512 is the most by its 40 registers and its bounds"),
        ((1,), (1, 1, 128), {}, "the block of `scale` has 128 in z; the device allows 64"),
        ((1, 65536), (1,), {}, "the grid of `scale` has 65536 in y; the device allows 65535"),
        ((1,), (0,), {}, "(0,) is no shape of a block"),
        ((-1,), (1,), {}, "(-1,) is no shape of a grid"),
        ((1, 1, 1, 1), (1,), {}, "(1, 1, 1, 1) is no shape of a grid"),
        ((17,), (512,), {"cooperative": True}, "`scale` waits for its whole grid of 17 blocks; Fake GPU runs 16 of them at once"),
        ((3,), (32,), {"cluster": (2,)}, "the grid (3, 1, 1) of `scale` is no multiple of its cluster (2, 1, 1)"),
        (
            (1,),
            (32,),
            {"shared": 232_000},
            "kernel `scale` wants 233024 bytes of shared memory a block (1024 static, 232000 dynamic); Fake GPU has 232448",
        ),
    ],
)
def test_what_the_device_can_not_hold_is_refused(kernel, grid, block, options, message):
    with pytest.raises(CudaRefused) as caught:
        CheckedLaunch(kernel, SIGNATURE, grid, block, **options)
    assert str(caught.value) == message


def test_a_failed_launch_names_kernel_place_and_shape(gpu, kernel, fake):
    fake.fail_next["cuLaunchKernel"] = 1
    with pytest.raises(CudaError) as caught:
        CheckedLaunch(kernel, SIGNATURE, (2,), (32,), shared=64, where="a.zynml:3")(gpu.stream, 0, 0, 0.0, 0)
    assert str(caught.value) == (
        "cuLaunchKernel: invalid argument (CUDA_ERROR_INVALID_VALUE, 1): kernel `scale` (a.zynml:3), grid (2, 1, 1), block (32, 1, 1), "
        "64 bytes of dynamic shared memory"
    )


def test_a_launch_whose_context_was_taken_away_is_made_again(gpu, kernel, arrays, fake):
    fake.current, fake.fail_next["cuLaunchKernel"] = 0, 201
    CheckedLaunch(kernel, SIGNATURE, (1,), (32,))(gpu.stream, *arrays, 2.0, 5)
    assert to_host(arrays[0]).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_stream_of_another_device_is_refused(fake, kernel):
    fake.devices = 2
    other = open_gpu(Driver(fake), 1)
    with pytest.raises(CudaRefused, match=r"^`scale` is loaded on cuda:0, the stream is one of cuda:1$"):
        CheckedLaunch(kernel, SIGNATURE, (1,), (32,))(other.stream, 0, 0, 0.0, 0)


def test_memory_used_by_a_launch_on_another_stream_is_waited_for(gpu, kernel, fake):
    other, buffer = gpu.new_stream(), gpu.allocate(40)
    plan = CheckedLaunch(kernel, SIGNATURE, (1,), (32,))
    plan(other, buffer, buffer, 1.0, 5)
    del buffer
    plan(gpu.stream, 0, 0, 1.0, 0)
    gpu.pool.statistics()
    assert fake.waits == [(gpu.stream.number, other.number)]


def test_a_graph_runs_what_was_recorded_with_the_arguments_of_then(gpu, kernel, arrays, fake):
    y, x = arrays
    plan = CheckedLaunch(kernel, SIGNATURE, (1,), (32,))
    with Recording(gpu.stream) as recording:
        plan(gpu.stream, y, x, 3.0, 5)
        plan(gpu.stream, y, y, 10.0, 5)
    assert to_host(y).tolist() == [0.0] * 5
    graph = recording.graph()
    graph(gpu.stream)
    assert to_host(y).tolist() == [0.0, 30.0, 60.0, 90.0, 120.0]
    graph.change(0, (y, x, 1.0, 5))
    graph(gpu.stream)
    assert to_host(y).tolist() == [0.0, 10.0, 20.0, 30.0, 40.0]


def test_a_graph_takes_another_recording_of_the_same_steps(gpu, kernel, arrays):
    y, x = arrays
    plan = CheckedLaunch(kernel, SIGNATURE, (1,), (32,))

    def record(*factors):
        with Recording(gpu.stream) as recording:
            for factor in factors:
                plan(gpu.stream, y, x, factor, 5)
        return recording

    graph = record(1.0).graph()
    graph.replace(record(7.0))
    graph(gpu.stream)
    assert to_host(y).tolist() == [0.0, 7.0, 14.0, 21.0, 28.0]
    with pytest.raises(CudaError, match="the new recording has other steps"):
        graph.replace(record(1.0, 2.0))


def test_a_graph_keeps_its_memory_and_gives_all_back(gpu, kernel, fake):
    plan = CheckedLaunch(kernel, SIGNATURE, (1,), (32,))
    y = to_device(np.ones(5), gpu.allocate(40), gpu.stream)
    with Recording(gpu.stream) as recording:
        plan(gpu.stream, y, y, 2.0, 5)
    graph = recording.graph()
    plan(gpu.stream, 0, 0, 0.0, 0)
    del y, recording
    assert gpu.pool.statistics().blocks_in_use == 1
    del graph
    assert gpu.pool.statistics().blocks_in_use == 0
    assert fake.graphs == {}


def test_an_error_while_recording_ends_the_recording(gpu):
    with pytest.raises(KeyError), Recording(gpu.stream) as recording:
        raise KeyError("a fault of the program")
    assert gpu.stream.recording is None and gpu.device.captures == 0
    gpu.allocate(10)
    del recording


def test_a_recorded_copy_keeps_both_sides(gpu, kernel):
    target, source = gpu.allocate(40), np.arange(5.0)
    with Recording(gpu.stream) as recording:
        upload(target, source, gpu.stream)
    assert recording.kept == [target, source] or recording.kept[1] is source
