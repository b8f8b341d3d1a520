"""Functions of one block, called again and again with arrays on a GPU: the way through the program is taken once for what it looks at,
and again for everything that it would decide otherwise."""

import gc
import sys
import threading
import weakref
from collections import Counter

import numpy as np
import pytest
from foreign import ByDlpack
from peers import EXTERNAL, OWN, FakeCupy, FakeTorch

import zynml
import zynml.crossing
from compiler.launch.cuda import repeats
from runtime.cuda.array import DeviceArray
from runtime.cuda.gpu import gpu as gpu_of
from runtime.cuda.remote import OnGpu, upload
from runtime.futures import started
from runtime.tensor import Tensor

PROGRAM = """
mut factor = 3.0
def add(x: tensor[M, N], y: tensor[M, N]): tensor { compute(x, y) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] + y[i, j] } }
def minus(x: tensor[M, N], y: tensor[M, N]): tensor { compute(y, x) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] - y[i, j] } }
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def shares(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] / (N as f32) } }
def first(x: tensor[N], n: int): tensor { compute(x, n) { for i in 0..n: out[i] = x[i] } }
def captured(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * factor } }
def set_factor(by: f32) { factor = by }
def twice(x: tensor[N]): tensor {
    let y = compute(x) { for i in 0..N: out[i] = x[i] + x[i] }
    compute(y) { for i in 0..N: out[i] = y[i] + y[i] }
}
def raised(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def total(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def wide_total(x: tensor[N]): f64 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def both(x: tensor[N]) { compute(x) -> (y: tensor[N], z: tensor[N]) { for i in 0..N { y[i] = x[i] + 1.0; z[i] = x[i] * 2.0 } } }
def picked(x: tensor[N], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }
def any_type(x) { compute(x) { for i in 0..N: out[i] = x[i] + x[i] } }
"""


@pytest.fixture
def ways(monkeypatch):
    """How many calls went all of the way through the program."""
    made = []

    class Counting(zynml.crossing.Crossing):
        def __init__(self, *arguments):
            made.append(1)
            super().__init__(*arguments)

    monkeypatch.setattr(zynml.crossing, "Crossing", Counting)
    return made


@pytest.fixture(autouse=True, params=["Python", "machine code"])
def soon(request, monkeypatch):
    """Whether machine code answers calls as soon as they come again, or Python does."""
    monkeypatch.setattr(repeats, "COMES_AGAIN", 1 if request.param == "machine code" else 0)
    return request.param == "machine code"


@pytest.fixture
def torch(monkeypatch, soon):
    made = FakeTorch(exchanges=soon)
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


@pytest.fixture
def program(fake):
    return zynml.compile(PROGRAM)


def resident(gpu, array):
    return Tensor(None, upload(array, gpu, named=True))


def fetched(array, gpu):
    """The elements of a tensor, or of a peer's array."""
    return array if isinstance(array, Tensor) else Tensor(None, OnGpu(array.array, gpu))


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def same(result, wanted):
    np.testing.assert_array_equal(np.asarray(result), wanted)


def test_the_second_call_goes_straight_to_the_launch(program, gpu, fake, ways):
    for seed in range(4):
        x, y = numbers(5, 6, seed=seed), numbers(5, 6, seed=10 + seed)
        before = Counter(fake.calls)
        result = program.add(resident(gpu, x), resident(gpu, y))
        assert (fake.calls - before)["cuLaunchKernelEx"] == 1
        same(result, x + y)
    assert len(ways) == 1


def test_results_are_arguments_of_further_calls(program, gpu, ways):
    x = numbers(3, 4)
    found = resident(gpu, x)
    for _ in range(5):
        found = program.add(found, found)
    same(found, x * np.float32(32))
    assert len(ways) == 1


def test_one_array_twice_is_not_the_rule(program, gpu):
    x, y = numbers(3, 4), numbers(3, 4, seed=2)
    one, other = resident(gpu, x), resident(gpu, y)
    same(program.minus(one, one), x - x)
    same(program.minus(one, other), x - y)
    same(program.minus(other, one), y - x)


def test_other_extents_are_decided_anew(program, gpu, ways):
    for count in (5, 1, 0, 33, 5, 33):
        x = numbers(count)
        same(program.shares(resident(gpu, x)), x / np.float32(count) if count else x)
    assert len(ways) == 4


def test_other_strides_are_decided_anew(program, gpu, torch, ways):
    x, y = numbers(4, 4), numbers(4, 4, seed=2)
    for one, other in ((x, y), (x.T, y), (x, y.T), (x.T, y.T), (x.T, y)):
        same(program.add(torch.Tensor(gpu, one), torch.Tensor(gpu, other)), one + other)
    assert len(ways) == 4


def test_other_alignment_is_decided_anew(program, gpu, torch, ways):
    x = numbers(64)
    for start in (0, 1, 2, 4, 0, 1):
        same(program.scale(torch.Tensor(gpu, x[start : start + 16]), 2.0), x[start : start + 16] * 2)
    assert len(ways) == 3


def test_other_types_are_decided_anew(program, gpu, ways):
    for kind in (np.float32, np.int32, np.float64, np.float32, np.int32):
        x = numbers(7).astype(kind)
        result = np.asarray(program.any_type(resident(gpu, x)))
        assert result.dtype == kind
        same(result, x + x)
    assert len(ways) == 3


@pytest.mark.parametrize("fake", [2], indirect=True)
def test_another_device_is_decided_anew(program, fake):
    x = numbers(3, 4)
    for ordinal in (0, 1, 0, 1):
        result = program.add(resident(gpu_of(ordinal), x), resident(gpu_of(ordinal), x))
        assert str(result.device) == f"cuda:{ordinal}"
        same(result, x + x)
    with pytest.raises(zynml.ZynMLError, match="nothing says where this block runs"):
        program.add(resident(gpu_of(0), x), resident(gpu_of(1), x))


def test_another_stream_is_decided_anew(program, gpu, fake, torch, ways):
    x = numbers(6)
    for stream in (0, OWN, 0, OWN):
        torch.stream, fake.launches = stream, []
        same(program.scale(torch.Tensor(gpu, x), 2.0), x * 2)
        assert {launch[-1] for launch in fake.launches} == {stream or 1}
    assert len(ways) == 2


def test_a_stream_that_was_given_to_a_peer_is_waited_for_each_time(program, gpu, fake, torch, ways):
    # it may end, so our work goes onto our own stream, whatever came of the call before
    torch.stream = EXTERNAL
    for seed in range(4):
        x = torch.Tensor(gpu, numbers(6, seed=seed))
        fake.order.clear()
        result = program.scale(x, 2.0)
        ours, theirs = gpu.stream.number, x.stream.number
        assert fake.order == [("wait", ours, theirs), ("launch", ours), ("wait", EXTERNAL, ours)]
        same(result, numbers(6, seed=seed) * 2)
    assert len(ways) == 4


def test_a_stream_that_was_given_to_a_peer_after_calls_on_its_own(program, gpu, fake, torch):
    for seed, stream in enumerate((OWN, EXTERNAL, OWN, EXTERNAL, 0, EXTERNAL)):
        torch.stream = stream
        x = torch.Tensor(gpu, numbers(6, seed=seed))
        fake.order.clear()
        program.scale(x, 2.0)
        launched = ("launch", gpu.stream.number if stream == EXTERNAL else stream or 1)
        waits = (("wait", gpu.stream.number, x.stream.number), ("wait", EXTERNAL, gpu.stream.number)) if stream == EXTERNAL else ()
        assert fake.order == [*waits[:1], launched, *waits[1:]]


def test_memory_by_a_protocol_is_kept_until_our_work_is_done(program, gpu, fake, torch):
    torch.stream = EXTERNAL
    for _ in range(3):
        x = torch.Tensor(gpu, numbers(6))
        gone = weakref.ref(x.array)
        fake.held = True
        program.scale(x, 2.0)
        del x
        gc.collect()
        assert gone() is not None
        fake.held = False
        gpu.device.reap()
        assert gone() is None


def test_a_stream_under_recording_is_refused_as_ever(program, gpu, torch):
    x = torch.Tensor(gpu, numbers(6))
    torch.stream = OWN
    program.scale(x, 2.0)
    torch.recording = True
    with pytest.raises(zynml.ZynMLError, match="recording its current stream"):
        program.scale(x, 2.0)


def test_what_a_peer_calls_something_else_is_looked_at(program, gpu, torch, ways):
    x = numbers(6)
    plain, negative = torch.Tensor(gpu, x), torch.Tensor(gpu, x)
    program.scale(plain, 2.0)
    negative.negative = True
    with pytest.raises(zynml.ZynMLError, match="with the other sign"):
        program.scale(negative, 2.0)
    other = torch.Tensor(gpu, x)
    other.requires_grad, before = True, len(ways)
    program.scale(other, 2.0)
    assert other.log and len(ways) == before + 1


def test_cupys_arrays(program, gpu, monkeypatch, ways):
    cupy = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    x = numbers(3, 4)
    for _ in range(3):
        same(program.add(cupy.ndarray(gpu, x), cupy.ndarray(gpu, x)), x + x)
    assert len(ways) == 1
    cupy.stream = 9
    program.add(cupy.ndarray(gpu, x), cupy.ndarray(gpu, x))
    assert len(ways) == 2


def test_arrays_on_the_host_and_of_other_libraries(program, gpu):
    x = numbers(3, 4)
    here = resident(gpu, x)
    for one, other in ((here, here), (here, x), (x, here), (here, ByDlpack(gpu, x)), (here, here)):
        same(program.add(one, other), x + x)


def test_numbers(program, gpu, ways):
    x = numbers(6)
    there = resident(gpu, x)
    program.scale(there, 1.0)
    ways.clear()
    for by in (2.0, -0.0, 1e-45, 0.1, 1e37):
        same(program.scale(there, by), x * np.float32(by))
    assert ways == []
    with np.errstate(over="ignore", invalid="ignore"):
        for by in (1e300, np.inf, -np.inf, np.nan, 3.4e38):
            by = np.float32(by)
            same(program.scale(there, by), x * by)
            same(program.scale(there, float(by)), x * by)
    same(program.scale(there, 3), x * 3)
    same(program.scale(there, 4), x * 4)
    same(program.scale(there, np.float32(5)), x * 5)


def test_ints_decide_on_sizes(program, gpu):
    x = numbers(6)
    there = resident(gpu, x)
    for count in (2, 3, 6, 0, 2):
        same(program.first(there, count), x[:count])
    with pytest.raises(zynml.ZynMLError):
        program.first(there, 7)
    with pytest.raises(zynml.ZynMLError):
        program.first(there, 2.5)


def test_checks_of_sizes_stay(program, gpu):
    program.add(resident(gpu, numbers(3, 4)), resident(gpu, numbers(3, 4)))
    with pytest.raises(zynml.ZynMLError):
        program.add(resident(gpu, numbers(3, 4)), resident(gpu, numbers(4, 3)))
    with pytest.raises(zynml.ZynMLError):
        program.add(resident(gpu, numbers(3, 4)))
    same(program.add(y=resident(gpu, numbers(3, 4)), x=resident(gpu, numbers(3, 4))), numbers(3, 4) * 2)


def test_captured_values_are_read_each_time(program, gpu):
    x = numbers(6)
    there = resident(gpu, x)
    for by in (3.0, 5.0, 3.0):
        program.set_factor(by)
        same(program.captured(there), x * np.float32(by))
        same(program.captured(there), x * np.float32(by))


def test_several_blocks_come_back_too(program, gpu, ways):
    for seed in range(3):
        x = numbers(6, seed=seed)
        same(program.twice(resident(gpu, x)), x * 4)
    assert len(ways) == 1


def test_numbers_come_back_as_the_program_gives_them(program, gpu, ways):
    found = [program.total(resident(gpu, numbers(6, seed=seed))) for seed in range(3)]
    assert found == [numbers(6, seed=seed).sum() for seed in range(3)] and len({type(one) for one in found}) == 1
    assert len(ways) == 1


def test_numbers_that_the_program_converts(program, gpu, ways):
    for seed in range(3):
        x = numbers(6, seed=seed)
        found = program.wide_total(resident(gpu, x))
        assert found == x.sum() and type(found) is float
    assert len(ways) == 3


def test_checks_come_back_until_one_fails(program, gpu, ways):
    x, k = numbers(6), np.array([5, 0, 3])
    for _ in range(3):
        same(program.picked(resident(gpu, x), resident(gpu, k)), x[k])
    wrong = program.picked(resident(gpu, x), resident(gpu, np.array([5, 0, 6])))
    with pytest.raises(zynml.ZynMLError):
        np.asarray(wrong)
    assert len(ways) == 2
    same(program.picked(resident(gpu, x), resident(gpu, k)), x[k])


def test_updates_come_back(program, gpu, fake, torch, ways):
    x = numbers(6)
    for kind in (resident, torch.Tensor):
        w, given = kind(gpu, np.zeros(6, np.float32)), kind(gpu, x)
        ways.clear()
        for count in range(1, 5):
            before = Counter(fake.calls)
            result = program.raised(w, given)
            assert (fake.calls - before)["cuLaunchKernelEx"] == 1
            same(result, x * count)
            same(fetched(w, gpu), x * count)
        assert len(ways) == 1


def test_an_update_is_read_from_the_device_again(program, gpu):
    x = numbers(6)
    w = resident(gpu, np.zeros(6, np.float32))
    for count in range(1, 4):
        assert program.raised(w, resident(gpu, x)) is w
        same(w.contents, x * count)


def test_updates_of_memory_that_is_read_too_are_refused_as_ever(program, gpu, torch):
    values = numbers(12)
    whole = torch.Tensor(gpu, values)
    low, high, between = (torch.Tensor(gpu, values[:6]) for _ in range(3))
    for view, first in ((low, 0), (high, 6), (between, 3)):
        view.array = DeviceArray(whole.array.owner, whole.array.pointer + 4 * first, (6,), "f32", whole.array.stream)
    for _ in range(3):
        program.raised(low, high)
        with pytest.raises(zynml.ZynMLError, match="shares memory with"):
            program.raised(low, between)
        with pytest.raises(zynml.ZynMLError, match="shares memory with"):
            program.raised(low, low)
    same(fetched(whole, gpu), np.concatenate([values[:6] + 3 * values[6:], values[6:]]))


def test_updates_of_read_only_memory_are_refused_as_ever(program, gpu):
    x = resident(gpu, numbers(6))
    for read_only in (False, True, False, True):
        w = resident(gpu, numbers(6))
        w.remote.elements.read_only = read_only
        if read_only:
            with pytest.raises(zynml.ZynMLError, match="read-only"):
                program.raised(w, x)
        else:
            same(program.raised(w, x), numbers(6) * 2)


def test_an_update_waits_for_work_on_another_stream(program, gpu, fake, ways):
    w, x = resident(gpu, numbers(6)), resident(gpu, numbers(6))
    program.raised(w, x)
    other = gpu.new_stream()
    w.remote.elements.owner.used_on(other)
    fake.held = True
    fake.launches = []
    program.raised(w, x)
    fake.held = False
    assert len(ways) == 2


def test_several_results(program, gpu, ways):
    for seed in range(3):
        x = numbers(6, seed=seed)
        y, z = program.both(resident(gpu, x))
        same(y, x + 1)
        same(z, x * 2)
    assert len(ways) == 1


def test_what_fails_is_told_as_ever(program, gpu, fake):
    x = resident(gpu, numbers(3, 4))
    program.add(x, x)
    kept = program.add(x, x)
    fake.fail_next["cuLaunchKernelEx"] = 1
    same(program.add(x, x), numbers(3, 4) * 2)
    fake.fault = 700
    with pytest.raises(zynml.ZynMLError, match="ZYN0805"):
        program.add(x, x)
    fake.fault = 0
    del kept


def test_memory_that_is_short_is_told_as_ever(program, gpu, fake):
    x = resident(gpu, numbers(64, 64))
    first = program.add(x, x)
    gpu.pool.limit = gpu.pool.taken
    with pytest.raises(zynml.ZynMLError, match="ZYN0804"):
        program.add(x, x)
    del first
    same(program.add(x, x), numbers(64, 64) * 2)


def test_work_under_way_is_waited_for_as_ever(program, gpu, ways):
    x = resident(gpu, numbers(3, 4))
    program.add(x, x)
    go = threading.Event()
    reading = started(go.wait, (), False)
    program.add(x, x)
    go.set()
    assert reading.value() and len(ways) == 2


def test_many_threads(program, gpu):
    x = resident(gpu, numbers(16))
    program.scale(x, 1.0)
    wrong = []

    def work(by):
        for _ in range(50):
            if not np.array_equal(np.asarray(program.scale(x, float(by))), numbers(16) * by):
                wrong.append(by)

    threads = [threading.Thread(target=work, args=(by,)) for by in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_named_device_comes_first(fake, gpu, ways):
    program = zynml.compile(PROGRAM, device="cpu")
    x = numbers(3, 4)
    for _ in range(3):
        program.add(resident(gpu, x), resident(gpu, x))
    assert len(ways) == 3 and not fake.launches
