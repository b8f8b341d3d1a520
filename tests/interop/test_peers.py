"""PyTorch's and CuPy's arrays, read without a protocol and worked on where their library works: same memory, right order, no events."""

import gc
import sys
import weakref
from collections import Counter

import numpy as np
import pytest
from foreign import seen, waits_of
from peers import EXTERNAL, OWN, TORCH_NAMES, FakeCupy, FakeTorch, ones

import zynml
from compiler.schedule.gpu.library import sort_launches
from runtime.cuda.remote import upload
from runtime.cuda.stream import LEGACY
from runtime.element_types import DTYPES
from runtime.tensor import Tensor

PROGRAM = """
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def add(x: tensor[M, N], y: tensor[M, N]): tensor { compute(x, y) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] + y[i, j] } }
def twice(x: tensor[M, N]): tensor {
    let y = compute(x) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] + x[i, j] }
    compute(y) { for i in 0..M, j in 0..N: out[i, j] = y[i, j] + y[i, j] }
}
def copied(x: tensor[M, N]): tensor { compute(x) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] } }
def same(x: tensor): tensor { x }
def gather(x: tensor[N], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }
def raised(mut w: tensor[M, N], x: tensor[M, N]) { compute(mut w, x) { for i in 0..M, j in 0..N: w[i, j] = w[i, j] + x[i, j] } }
def doubled(mut w: tensor[M, N]) { compute(mut w) { for i in 0..M, j in 0..N: w[i, j] = w[i, j] + w[i, j] } }
def ordered(x: tensor[N]): tensor { compute(x) @kernel sort { for i in 0..N: yield x[i] } }
def set_first(mut x: tensor[N]) { x[0] = 9.0 }
"""


@pytest.fixture
def torch(monkeypatch):
    made = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


@pytest.fixture
def cupy(monkeypatch):
    made = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", made)
    return made


@pytest.fixture
def program(fake):
    # nothing is said of devices: where the arrays lie is where the blocks run
    return zynml.compile(PROGRAM)


def resident(gpu, array):
    return Tensor(None, upload(array, gpu, named=True))


def streams_of(fake):
    found, fake.launches = [launch[-1] for launch in fake.launches], []
    return found


def elements(tensor):
    return tensor.remote.elements


def test_a_call_is_one_launch_on_the_callers_stream(program, gpu, fake, torch):
    x, y = torch.Tensor(gpu, ones(3, 4)), torch.Tensor(gpu, 2 * ones(3, 4))
    program.add(x, y)
    before = Counter(fake.calls)
    result = program.add(x, y)
    assert fake.calls - before == {"cuLaunchKernelEx": 1}
    assert x.log == y.log == [] and set(streams_of(fake)) == {LEGACY}
    assert elements(result).stream.number == LEGACY
    assert np.asarray(result).tolist() == [[3.0] * 4] * 3


def test_what_follows_stays_on_that_stream(gpu, fake, torch):
    program, x = zynml.compile(PROGRAM, device="cuda"), torch.Tensor(gpu, ones(3, 4))
    waits_of(fake)
    result = program.twice(program.twice(x))
    result.__dlpack__(stream=LEGACY)
    assert set(streams_of(fake)) == {LEGACY} and waits_of(fake) == []
    assert np.asarray(result).tolist() == [[16.0] * 4] * 3


@pytest.mark.parametrize("name", TORCH_NAMES)
def test_elements_of_every_type_keep_their_bits(fake, gpu, torch, name):
    source = np.array([[0, 1, 1], [1, 0, 1]]).astype(DTYPES[name])
    line = next(line for line in PROGRAM.splitlines() if "copied" in line).replace("M, N]", f"M, N, {name}]")
    x = torch.Tensor(gpu, source.T)
    result = zynml.compile(line).copied(x)
    assert x.log == [] and np.asarray(result).tobytes() == source.T.tobytes()


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("view", ["[:, ::2]", ".T", "[::-1]", "[2:2]", "[1:2]", "[:]"])
def test_strided_arrays_are_read_as_they_lie(program, gpu, request, library, view):
    peer = request.getfixturevalue(library)
    source = eval(f"whole{view}", {"whole": np.arange(35, dtype=np.float32).reshape(5, 7)})
    x = (peer.Tensor if library == "torch" else peer.ndarray)(gpu, source)
    result = program.copied(x)
    assert x.log == [] and np.asarray(result).tolist() == source.tolist()


def test_a_stream_of_the_librarys_own_is_worked_on(program, gpu, fake, torch):
    torch.stream = OWN
    x = torch.Tensor(gpu, ones(3, 4))
    result = program.add(x, x)
    assert x.log == [] and set(streams_of(fake)) == {OWN}
    torch.stream = 0
    assert np.asarray(program.add(result, torch.Tensor(gpu, ones(3, 4)))).tolist() == [[3.0] * 4] * 3


@pytest.mark.parametrize("unusual", ["gradient", "sparse", "complex", "somebody's stream"])
def test_what_is_unusual_goes_by_the_protocol(program, gpu, fake, torch, unusual):
    x = torch.Tensor(gpu, ones(3, 4))
    match unusual:
        case "gradient":
            x.requires_grad = True
        case "sparse":
            x.layout = torch.sparse_coo
        case "complex":
            x.dtype = torch.complex64
        case _:
            # it may end before our memory does
            torch.stream = EXTERNAL
    program.copied(x)
    assert len(x.log) == 1 and set(streams_of(fake)) == {gpu.stream.number}


@pytest.mark.parametrize("unusual", ["stream", "device"])
def test_cupys_streams_go_by_the_protocol(program, gpu, fake, cupy, unusual):
    x = cupy.ndarray(gpu, ones(3, 4))
    setattr(cupy, unusual, 0x9900)
    program.copied(x)
    assert len(x.log) == 1 and set(streams_of(fake)) == {gpu.stream.number}


def test_a_stream_that_is_being_recorded_is_refused(program, gpu, torch):
    torch.stream, torch.recording = OWN, True
    with pytest.raises(zynml.ZynMLError, match="PyTorch is recording its current stream into a graph") as caught:
        program.copied(torch.Tensor(gpu, ones(3, 4)))
    assert caught.value.codes == ("ZYN0807",)


# ---- beside tensors of our own ----


def test_a_resident_tensor_is_waited_for_only_while_work_on_it_is_under_way(program, gpu, fake, torch):
    x, w = torch.Tensor(gpu, ones(3, 4)), resident(gpu, ones(3, 4))
    waits_of(fake)
    program.add(x, w)
    assert waits_of(fake) == []
    with fake.holding():
        program.add(w, x)
    assert waits_of(fake) == [(LEGACY, gpu.stream.number)]


def test_an_update_on_the_callers_stream_comes_before_our_own_work(program, gpu, fake, torch):
    x, w = torch.Tensor(gpu, ones(3, 4)), resident(gpu, ones(3, 4))
    waits_of(fake)
    with fake.holding():
        program.raised(w, x)
        assert set(streams_of(fake)) == {LEGACY}
        assert waits_of(fake)[-1] == (gpu.stream.number, LEGACY)
        program.doubled(w)
    assert streams_of(fake) == [gpu.stream.number]
    assert np.asarray(w).tolist() == [[4.0] * 4] * 3


def test_an_update_waits_for_who_reads_on_another_stream(program, gpu, fake, torch):
    x, w = torch.Tensor(gpu, ones(3, 4)), resident(gpu, ones(3, 4))
    with fake.holding():
        program.add(x, w)
        waits_of(fake)
        program.doubled(w)
        assert (gpu.stream.number, LEGACY) in waits_of(fake)


def test_an_update_of_a_peers_array_is_in_its_order(program, gpu, fake, torch):
    x = torch.Tensor(gpu, ones(3, 4))
    waits_of(fake)
    with fake.holding():
        program.doubled(x)
    assert waits_of(fake) == [] and set(streams_of(fake)) == {LEGACY}
    assert x.numpy().tolist() == [[2.0] * 4] * 3


def test_what_the_host_writes_goes_back(program, gpu, torch):
    x = torch.Tensor(gpu, np.arange(6, dtype=np.float32)[::2])
    program.set_first(x)
    assert seen(x.whole.pointer, (6,), "f32").tolist() == [9.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_checks_are_read_on_the_callers_stream(program, gpu, fake, torch):
    x, k = torch.Tensor(gpu, np.arange(4, dtype=np.float32)), np.array([3, 1])
    for _ in range(2):
        assert np.asarray(program.gather(x, k)).tolist() == [3.0, 1.0]
        with pytest.raises(zynml.ZynMLError) as caught:
            program.gather(x, np.array([0, 9]))
        assert caught.value.codes == ("ZYN0801",)
    assert set(streams_of(fake)) == {LEGACY}


def test_a_sequence_is_recorded_beside_the_callers_stream_and_replayed_on_it(program, gpu, fake, torch, monkeypatch):
    monkeypatch.setattr(sort_launches, "SHORTEST", 1024)  # merged, not sorted by a block
    numbers = np.random.default_rng(3).standard_normal(33).astype(np.float32)
    x = torch.Tensor(gpu, numbers)
    for _ in range(6):
        result = program.ordered(x)
        assert np.asarray(result).tolist() == sorted(numbers.tolist())
        del result
    assert fake.calls["cuGraphLaunch"] > 0 and fake.capturing == {}
    assert set(streams_of(fake)) - {LEGACY} <= fake.streams - {gpu.stream.number}, "the legacy stream can't be recorded"


# ---- lifetime ----


def test_an_array_is_not_kept_after_the_call(program, gpu, fake, torch):
    x = torch.Tensor(gpu, ones(3, 4))
    gone = weakref.ref(x)
    with fake.holding():
        program.add(x, x)
        del x
        gc.collect()
        assert gone() is None, "its library gives the memory to later work of the same stream alone"


def test_an_array_that_our_stream_uses_is_kept_until_that_is_done(program, gpu, fake, torch):
    torch.stream = OWN
    other = torch.Tensor(gpu, ones(3, 4))
    w = program.add(other, other)
    torch.stream = 0
    x = torch.Tensor(gpu, ones(3, 4))
    gone = weakref.ref(x)
    with fake.holding():
        # the first array decides on the stream
        program.add(w, x)
        del x
        gc.collect()
        assert gone() is not None
        assert (LEGACY, OWN) in waits_of(fake), "and its library goes on behind us"
    gpu.device.reap()
    gc.collect()
    assert gone() is None


def test_a_result_that_is_the_array_keeps_it(program, gpu, torch):
    x = torch.Tensor(gpu, np.arange(6, dtype=np.float32))
    result, gone = program.same(x), weakref.ref(x)
    pointer = x.array.pointer
    del x
    gc.collect()
    assert gone() is not None and elements(result).pointer == pointer
    del result
    gc.collect()
    assert gone() is None


def test_memory_of_results_comes_back(program, gpu, torch):
    x = torch.Tensor(gpu, ones(3, 4))
    before = gpu.pool.statistics().blocks_in_use
    for _ in range(5):
        program.twice(x)
    assert gpu.pool.statistics().blocks_in_use == before
