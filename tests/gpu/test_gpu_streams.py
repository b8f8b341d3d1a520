"""Streams, events and graphs on the device."""

import threading

import numpy as np
import pytest

from runtime.cuda.copies import download, to_device, to_host, upload
from runtime.cuda.errors import CudaError, CudaTimeout
from runtime.cuda.graph import Recording
from runtime.cuda.launch import CheckedLaunch

AXPB = ("pointer", "pointer", "f32", "f32", "i64")


def axpb(gpu, kernel, n=1000):
    x = np.arange(n, dtype=np.float32)
    source, target = (to_device(each, gpu.allocate(x.nbytes), gpu.stream) for each in (x, np.zeros_like(x)))
    return CheckedLaunch(kernel("axpb", "axpb"), AXPB, (-(-n // 256),), (256,)), target, source, x


def test_waiting_ends_after_the_time_limit_and_the_work_goes_on(gpu, kernel):
    CheckedLaunch(kernel("waiting", "spin"), ("i64",), (1,), (1,))(gpu.stream, 300_000_000)
    assert not gpu.stream.done()
    with pytest.raises(CudaTimeout, match=r"^the stream's work did not end within 0.01 s$"):
        gpu.stream.synchronize(timeout=0.01)
    gpu.stream.synchronize(timeout=60)
    assert gpu.stream.done()


def test_a_stream_waits_for_another(gpu, kernel):
    plan, target, source, x = axpb(gpu, kernel)
    other = gpu.new_stream()
    CheckedLaunch(kernel("waiting", "spin"), ("i64",), (1,), (1,))(gpu.stream, 50_000_000)
    plan(gpu.stream, target, source, 2.0, 0.0, 1000)
    other.wait(gpu.stream)
    plan(other, target, target, 1.0, 5.0, 1000)
    assert (to_host(target, other) == 2 * x + 5).all()


def test_events_measure_time_on_the_device(gpu, kernel):
    start = gpu.stream.record(timing=True)
    CheckedLaunch(kernel("waiting", "spin"), ("i64",), (1,), (1,))(gpu.stream, 20_000_000)
    end = gpu.stream.record(timing=True)
    end.synchronize(timeout=60)
    # the kernel waits until 20 ms have passed by the device's clock, whose steps may be a microsecond or more
    assert end.milliseconds_since(start) >= 19.0


def test_a_graph_of_launches_and_copies_runs_again_and_again(gpu, kernel):
    plan, target, source, x = axpb(gpu, kernel)
    result = gpu.pinned.empty((1000,), np.float32)
    fresh = gpu.pinned.empty((1000,), np.float32)
    fresh[:] = x
    gpu.stream.synchronize()
    with Recording(gpu.stream) as recording:
        upload(source, fresh, gpu.stream)
        plan(gpu.stream, target, source, 2.0, 1.0, 1000)
        plan(gpu.stream, target, target, 3.0, 0.0, 1000)
        download(result, target, gpu.stream)
    graph = recording.graph()
    for shift in (0, 10):
        fresh[:] = x + shift
        graph(gpu.stream)
        gpu.stream.synchronize()
        assert (result == 3 * (2 * (x + shift) + 1)).all()


def test_the_arguments_of_a_graphs_launches_can_be_changed(gpu, kernel):
    plan, target, source, x = axpb(gpu, kernel)
    gpu.stream.synchronize()
    with Recording(gpu.stream) as recording:
        for step in range(5):
            plan(gpu.stream, target, target if step else source, 1.0, 1.0, 1000)
    graph = recording.graph()
    graph.change(0, (target, source, 4.0, 0.0, 1000))
    graph.change(4, (target, target, 1.0, 100.0, 1000))
    graph(gpu.stream)
    assert (to_host(target) == 4 * x + 103).all()
    graph.change(4, (target, target, 0.0, 0.0, 1000), grid=(1,))
    graph(gpu.stream)
    assert (to_host(target) == np.where(x < 256, 0, 4 * x + 3)).all()


def test_a_graph_takes_another_recording_of_its_steps(gpu, kernel):
    plan, target, source, x = axpb(gpu, kernel)
    gpu.stream.synchronize()

    def record(*factors):
        with Recording(gpu.stream) as recording:
            for factor in factors:
                plan(gpu.stream, target, source, factor, 0.0, 1000)
        return recording

    graph = record(1.0).graph()
    graph.replace(record(7.0))
    graph(gpu.stream)
    assert (to_host(target) == 7 * x).all()
    with pytest.raises(CudaError, match="CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE"):
        graph.replace(record(1.0, 2.0))


def test_an_error_while_recording_leaves_the_stream_usable(gpu, kernel):
    plan, target, source, x = axpb(gpu, kernel)
    gpu.stream.synchronize()
    with pytest.raises(KeyError), Recording(gpu.stream):
        plan(gpu.stream, target, source, 9.0, 0.0, 1000)
        raise KeyError("a fault of the program")
    plan(gpu.stream, target, source, 2.0, 0.0, 1000)
    assert (to_host(target) == 2 * x).all()


def test_threads_launch_on_streams_of_their_own(gpu, kernel):
    wrong = []

    def work(number):
        plan, target, source, x = axpb(gpu, kernel)
        stream = gpu.new_stream()
        stream.wait(gpu.stream)
        for _ in range(50):
            plan(stream, target, source, float(number), 1.0, 1000)
            if not (to_host(target, stream) == number * x + 1).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
