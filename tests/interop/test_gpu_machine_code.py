"""Calls with arrays on a GPU that machine code answers: it launches what the program would, looks at all that the program would look at, and
loses nothing. The driver's calls in C come to the fake driver, PyTorch's functions in C to stand-ins."""

import gc
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from peers import OWN, FakeTorch
from test_repeats import fetched, numbers, resident, same
from test_sequences import PROGRAM as CHAINS
from test_sequences import expected

import zynml
from compiler.launch.cuda import repeats
from compiler.launch.cuda.maps import LaunchMap
from runtime.cuda.array import DeviceArray
from runtime.cuda.gpu import gpu as gpu_of
from runtime.cuda.graph import Recording
from runtime.element_types import DTYPES
from runtime.tensor import Tensor

BF16 = DTYPES["bf16"]

PROGRAM = """
def add(x: tensor[M, N], y: tensor[M, N]): tensor { compute(x, y) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] + y[i, j] } }
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def wide(x: tensor[N, f64], by: f64): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def first(x: tensor[N], n: int): tensor { compute(x, n) { for i in 0..n: out[i] = x[i] } }
def raised(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def both(x: tensor[N]) { compute(x) -> (y: tensor[N], z: tensor[N]) { for i in 0..N { y[i] = x[i] + 1.0; z[i] = x[i] * 2.0 } } }
def any_type(x) { compute(x) { for i in 0..N: out[i] = x[i] + x[i] } }
"""


@pytest.fixture(autouse=True)
def several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls stay calls: inlined, the chains of these programs would be one launch."""
    monkeypatch.setattr("compiler.backends.host.program.inlined", lambda program, checker: program)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(repeats, "COMES_AGAIN", 1)


@pytest.fixture
def torch(monkeypatch):
    made = FakeTorch(exchanges=True)
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


@pytest.fixture
def program(fake):
    return zynml.compile(PROGRAM)


@pytest.fixture(params=["ours", "PyTorch's"])
def lay(request, gpu, torch):
    """Puts an array on the GPU."""
    return (lambda array: resident(gpu, array)) if request.param == "ours" else (lambda array: torch.Tensor(gpu, array))


class Answered:
    """How many launches machine code made meanwhile."""

    def __init__(self, fake):
        self.fake = fake

    def __enter__(self):
        self.before = self.fake.library.launched
        return self

    def __exit__(self, *raised):
        self.count = self.fake.library.launched - self.before


def known(call, *values):
    """Has machine code answer calls like this one."""
    for _ in range(3):
        call(*values)


def test_results_and_updates(program, fake, gpu, lay):
    w, x = lay(np.zeros(6, np.float32)), lay(numbers(6))
    known(program.raised, w, x)
    known(program.both, x)
    with Answered(fake) as answered:
        value = program.raised(w, x)
        y, z = program.both(x)
    assert answered.count == 2
    same(value, numbers(6) * 4)
    same(fetched(w, gpu), numbers(6) * 4)
    assert (value is w) == isinstance(w, Tensor) and isinstance(value, Tensor)
    same(y, numbers(6) + 1)
    same(z, numbers(6) * 2)


def test_results_are_tensors_like_any(program, fake, gpu, lay):
    x = lay(numbers(3, 4))
    known(program.add, x, x)
    result = program.add(x, x)
    assert (result.shape, result.dtype, str(result.device), result.strides) == ((3, 4), np.float32, "cuda:0", (4, 1))
    with Answered(fake) as answered:
        for _ in range(5):
            program.add(result, result)
    assert answered.count > 0
    assert repr(result) and result.__cuda_array_interface__["shape"] == (3, 4)


def test_floats(program, fake, lay):
    x, y = lay(numbers(6)), lay(numbers(6).astype(np.float64))
    known(program.scale, x, 1.0)
    known(program.wide, y, 1.0)
    with Answered(fake) as answered:
        for by in (2.0, -0.0, 1e-45, 0.1, 1e37):
            same(program.scale(x, by), numbers(6) * np.float32(by))
            same(program.wide(y, by), numbers(6).astype(np.float64) * by)
    assert answered.count == 10
    with Answered(fake) as answered, np.errstate(over="ignore", invalid="ignore"):
        for by in (1e300, float("inf"), float("nan"), 3.4e38, 3, np.float32(5)):
            same(program.scale(x, by), numbers(6) * np.float32(by))
    assert answered.count == 0


def test_ints_decide_on_plans(program, fake, lay):
    x = lay(numbers(6))
    known(program.first, x, 2)
    with Answered(fake) as answered:
        same(program.first(x, 2), numbers(6)[:2])
    assert answered.count == 1
    for count in (3, 6, 0, 2):
        same(program.first(x, count), numbers(6)[:count])
    with pytest.raises(zynml.ZynMLError):
        program.first(x, 7)
    with pytest.raises(zynml.ZynMLError):
        program.first(x, True)


def test_what_differs_is_decided_by_the_program(program, fake, gpu, torch):
    x = numbers(8)
    known(program.any_type, torch.Tensor(gpu, x))
    grid = numbers(4, 4)
    known(program.add, torch.Tensor(gpu, grid), torch.Tensor(gpu, grid))
    with Answered(fake) as answered:
        for other in (x.astype(np.int32), x.astype(np.float64), numbers(9), np.zeros(0, np.float32)):
            result = np.asarray(program.any_type(torch.Tensor(gpu, other)))
            assert result.dtype == other.dtype
            same(result, other + other)
        same(program.add(torch.Tensor(gpu, grid.T), torch.Tensor(gpu, grid)), grid.T + grid)
        with pytest.raises(zynml.ZynMLError):
            program.add(torch.Tensor(gpu, numbers(4, 3)), torch.Tensor(gpu, grid))
        with pytest.raises(zynml.ZynMLError):
            program.add(torch.Tensor(gpu, grid))
        same(program.add(y=torch.Tensor(gpu, grid), x=torch.Tensor(gpu, grid)), grid * 2)
        same(program.any_type(x), x + x)
    assert answered.count == 0


def test_what_a_peer_says_of_an_array(program, fake, gpu, torch):
    x = torch.Tensor(gpu, numbers(8))
    known(program.scale, x, 2.0)
    negative = torch.Tensor(gpu, numbers(8))
    negative.negative = True
    with Answered(fake) as answered, pytest.raises(zynml.ZynMLError, match="with the other sign"):
        program.scale(negative, 2.0)
    assert answered.count == 0
    for change in ({"requires_grad": True}, {"layout": torch.sparse_coo}):
        y = torch.Tensor(gpu, numbers(8))
        vars(y).update(change)
        with Answered(fake) as answered:
            program.scale(y, 2.0)
        assert answered.count == 0 and y.log
    with Answered(fake) as answered:
        same(program.scale(x, 2.0), numbers(8) * 2)
    assert answered.count == 1 and sys.exc_info() == (None, None, None)


def test_the_peers_stream(program, fake, gpu, torch):
    x = torch.Tensor(gpu, numbers(8))
    for stream in (0, OWN, 0, OWN):
        torch.stream, fake.launches = stream, []
        known(program.scale, x, 2.0)
        assert {launch[-1] for launch in fake.launches} == {stream or 1}
    with Answered(fake) as answered:
        program.scale(x, 2.0)
    assert answered.count == 1
    torch.recording, fake.capturing[OWN] = True, []
    with pytest.raises(zynml.ZynMLError, match="recording its current stream"):
        program.scale(x, 2.0)


def test_a_stream_of_ours_that_is_recorded(program, fake, gpu):
    x = resident(gpu, numbers(8))
    known(program.scale, x, 2.0)
    with Answered(fake) as answered, Recording(gpu.stream), pytest.raises(zynml.ZynMLError, match="can't be allocated"):
        program.scale(x, 2.0)
    assert answered.count == 0


@pytest.mark.parametrize("fake", [2], indirect=True)
def test_another_device(program, fake, torch):
    arrays = [torch.Tensor(gpu_of(ordinal), numbers(8)) for ordinal in (0, 1)]
    for x in (*arrays, *arrays):
        known(program.scale, x, 2.0)
        result = program.scale(x, 2.0)
        assert str(result.device) == f"cuda:{x.get_device()}"
        same(result, numbers(8) * 2)


def test_another_context_or_a_new_thread(program, fake, lay):
    x = lay(numbers(8))
    known(program.scale, x, 2.0)
    fake.current = 0x99
    with Answered(fake) as answered:
        same(program.scale(x, 2.0), numbers(8) * 2)
    assert answered.count == 0


def test_updates_of_memory_that_is_read_too(program, fake, gpu, torch):
    whole = torch.Tensor(gpu, numbers(12))
    low, high, between = (torch.Tensor(gpu, numbers(6)) for _ in range(3))
    for view, first in ((low, 0), (high, 6), (between, 3)):
        view.array = DeviceArray(whole.array.owner, whole.array.pointer + 4 * first, (6,), "f32", whole.array.stream)
    known(program.raised, low, high)
    with Answered(fake) as answered:
        program.raised(low, high)
    assert answered.count == 1
    for other in (between, low):
        with pytest.raises(zynml.ZynMLError, match="ZYN0813"):
            program.raised(low, other)


def test_an_updated_tensor_is_read_from_the_device_again(program, fake, gpu):
    w, x = resident(gpu, np.zeros(6, np.float32)), resident(gpu, numbers(6))
    known(program.raised, w, x)
    for count in range(4, 7):
        assert program.raised(w, x) is w
        same(w.contents, numbers(6) * count)
    other = gpu.new_stream()
    w.remote.elements.owner.used_on(other)
    with Answered(fake) as answered:
        program.raised(w, x)
    assert answered.count == 0


def test_views_of_an_updated_tensor_are_read_again_too(program, fake, gpu):
    w, x = resident(gpu, np.zeros(6, np.float32)), resident(gpu, numbers(6))
    known(program.raised, w, x)
    view = w.viewed(lambda array: array[1:3])
    for times in range(3, 7):
        same(view.contents, numbers(6)[1:3] * times)
        same(w.contents, numbers(6) * times)
        with Answered(fake) as answered:
            program.raised(w, x)
        assert answered.count == 0
    del view
    program.raised(w, x)
    with Answered(fake) as answered:
        program.raised(w, x)
    assert answered.count == 1
    same(w.contents, numbers(6) * 9)


def test_launches_that_are_refused_are_told_as_ever(program, fake, gpu, lay):
    x = lay(numbers(3, 4))
    known(program.add, x, x)
    used = gpu.pool.statistics().blocks_in_use
    fake.fail_next["cuLaunchKernelEx"] = 1
    same(program.add(x, x), numbers(3, 4) * 2)
    gc.collect()
    assert gpu.pool.statistics().blocks_in_use == used
    fake.fault = 700
    with pytest.raises(zynml.ZynMLError, match="ZYN0805"):
        program.add(x, x)
    fake.fault = 0


def test_memory_that_is_short(program, fake, gpu, lay):
    x = lay(numbers(64, 64))
    known(program.add, x, x)
    kept = program.add(x, x)
    gpu.pool.limit = gpu.pool.taken
    with pytest.raises(zynml.ZynMLError, match="ZYN0804"):
        kept = [kept, *[program.add(x, x) for _ in range(3)]]
    kept = None
    same(program.add(x, x), numbers(64, 64) * 2)


def test_no_reference_is_lost_or_kept(program, fake, gpu, lay):
    x, w = lay(numbers(6)), lay(numbers(6))
    watched = (x, w, None, True, False, (), Tensor, DeviceArray, gpu, gpu.stream, "f32", gpu.device)
    calls = [lambda: program.both(x), lambda: program.raised(w, x), lambda: program.scale(x, 2.5)]

    def run(times):
        for _ in range(times):
            for call in calls:
                call()

    object.__setattr__(fake, "_launch", lambda *launch: (0,))  # the kernels' stand-ins keep references of their own
    run(5)
    gc.collect()
    before, used = [sys.getrefcount(one) for one in watched], gpu.pool.statistics().blocks_in_use
    tracemalloc.start()
    run(20)
    gc.collect()
    started = tracemalloc.get_traced_memory()[0]
    with Answered(fake) as answered:
        run(100)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - started
    tracemalloc.stop()
    assert answered.count == 300
    after = [sys.getrefcount(one) for one in watched]
    # what is used everywhere is counted elsewhere, too
    assert after[:2] == before[:2] and all(abs(now - then) < 50 for now, then in zip(after, before, strict=True))
    assert gpu.pool.statistics().blocks_in_use == used and grown < 4000


def test_kernels_that_ran_are_known(program, fake, gpu):
    x = resident(gpu, numbers(3, 4))
    known(program.add, x, x)
    gpu.stream.forget_kernels()
    with Answered(fake) as answered:
        program.add(x, x)
    assert answered.count == 1
    (site,) = gpu.stream.pending_kernels()
    assert site.startswith("`") and "<program>:2" in site


def test_programs_and_their_code_go(fake, gpu):
    program = zynml.compile(PROGRAM)
    x = resident(gpu, numbers(6))
    scale = program.scale
    known(scale, x, 2.0)
    del program
    gc.collect()
    with Answered(fake) as answered:
        same(scale(x, 2.0), numbers(6) * 2)
    assert answered.count == 1


def test_many_threads(program, fake, gpu, lay):
    x = lay(numbers(16))
    known(program.scale, x, 1.0)
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


# ---- several launches ----


def test_sequences(fake, gpu, lay):
    program = zynml.compile(CHAINS, device="cuda")
    pairs = [(numbers(9, seed=2 * k), numbers(9, seed=2 * k + 1)) for k in range(3)]
    known(program.chain, *map(lay, pairs[0]), 3.0)
    for x, y in pairs:
        with Answered(fake) as answered:
            np.testing.assert_allclose(np.asarray(program.chain(lay(x), lay(y), 3.0)), expected(x, y, 3.0), rtol=1e-5, atol=1e-5)
        assert answered.count > 2


def test_other_sizes_numbers_and_arrays_of_a_sequence(fake, gpu, lay):
    program = zynml.compile(CHAINS, device="cuda")
    for _ in range(3):
        for count in (5, 0, 1):
            for by in (2.0, -0.0, 0.0):
                x, y = numbers(count, seed=count), numbers(count, seed=count + 1)
                one, other = lay(x), lay(y)
                for left, right, a, b in ((one, other, x, y), (other, one, y, x), (one, one, x, x)):
                    np.testing.assert_allclose(np.asarray(program.chain(left, right, by)), expected(a, b, by), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fails", range(1, 4))
def test_a_launch_of_a_sequence_that_is_refused(fake, gpu, lay, fails):
    program = zynml.compile(CHAINS, device="cuda")
    x, y = numbers(9), numbers(9, seed=2)
    one, other = lay(x), lay(y)
    known(program.chain, one, other, 3.0)
    used = gpu.pool.statistics().blocks_in_use
    fake.fail_at[fake.calls.total() + fails] = 1
    np.testing.assert_allclose(np.asarray(program.chain(one, other, 3.0)), expected(x, y, 3.0), rtol=1e-5, atol=1e-5)
    fake.fail_at.clear()
    gc.collect()
    assert gpu.pool.statistics().blocks_in_use == used


# ---- tensor maps ----

PRODUCT = """
def product(a: tensor[M, K, bf16], b: tensor[K, N, bf16]): tensor {
    compute(a, b) @kernel(matmul) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += a[i, k] * b[k, j]
            out[i, j] = s
    }
}
"""


def test_tensor_maps_of_addresses_that_came_before_and_of_others(fake, gpu, lay, monkeypatch):
    program = zynml.compile(PRODUCT, device="cuda", tune=False)
    taken = []
    of = LaunchMap.of
    monkeypatch.setattr(LaunchMap, "of", lambda self, device, pointer: (taken.append(pointer), of(self, device, pointer))[1])
    # the emulated kernels take no maps: what counts is what the launch is given
    object.__setattr__(fake, "_launch", lambda *launch: fake.order.append(launch) or (0,))
    arrays = [lay(np.zeros((512, 512), BF16)) for _ in range(3)]
    known(program.product, arrays[0], arrays[1])
    assert taken
    taken.clear()
    with Answered(fake) as answered:
        program.product(arrays[0], arrays[1])
        assert fetched(arrays[0], gpu).remote.address not in taken
        program.product(arrays[2], arrays[1])
        assert fetched(arrays[2], gpu).remote.address in taken
    assert answered.count == 2

    def interrupted(self, device, pointer):
        raise KeyboardInterrupt

    monkeypatch.setattr(LaunchMap, "of", interrupted)
    used, fresh = gpu.pool.statistics().blocks_in_use, lay(np.zeros((512, 512), BF16))
    with pytest.raises(KeyboardInterrupt):
        program.product(fresh, arrays[1])
    del fresh
    gc.collect()
    assert gpu.pool.statistics().blocks_in_use == used
