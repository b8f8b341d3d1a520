"""Arrays of other libraries in and out of a program's functions: the same memory, in the right order, alive as long as it is used."""

import gc
import re

import ml_dtypes
import numpy as np
import pytest
from foreign import ByDlpack, ByInterface, ByOldDlpack, seen, waits_of

import zynml
from runtime import dlpack
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import to_device, to_host
from runtime.cuda.interop import import_array
from runtime.cuda.remote import OnGpu, upload
from runtime.element_types import DTYPES
from runtime.host_arrays import import_host_array
from runtime.tensor import Tensor, dtype_name

LEGACY = 1

PROGRAM = """
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def same(x: tensor): tensor { x }
def copied(x: tensor[M, N]): tensor { compute(x) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] } }
def flat(x: tensor[M, N]): tensor { compute(x) { for i in 0..x.numel(): out[i] = x[i] } }
def total(x: tensor[M, N]): tensor { compute(x) @kernel reduce(+, axis=1) { for i in 0..M, j in 0..N: yield x[i, j] } }
def double(mut x: tensor[M, N]) { compute(mut x) { for i in 0..M, j in 0..N: x[i, j] = x[i, j] + x[i, j] } }
def add(mut x: tensor[N], y: tensor[N]) { compute(mut x, y) { for i in 0..N: x[i] = x[i] + y[N - 1 - i] } }
def pick(mut x: tensor[N], k: tensor[M, i64]) { compute(mut x, k) { for i in 0..M: x[i] = x[i] + x[k[i]] } }
def both(mut x: tensor[N], mut y: tensor[N]) { compute(mut x, mut y) { for i in 0..N: { x[i] = x[i] + 1.0; y[i] = y[i] + 1.0 } } }
def first(x: tensor[N]): f32 { x[0] }
def set_first(mut x: tensor[N]) { x[0] = 9.0 }
"""


@pytest.fixture
def program(fake):
    return zynml.compile(PROGRAM, device="cuda")


@pytest.fixture(params=[ByDlpack, ByOldDlpack, ByInterface])
def foreign(request):
    return request.param


def test_a_result_lies_where_its_input_lay(program, gpu, fake, foreign):
    x = foreign(gpu, np.arange(5, dtype=np.float32))
    result = program.scale(x, 2.0)
    assert isinstance(result, zynml.Tensor)
    assert (result.shape, result.dtype, result.device, result.__dlpack_device__()) == ((5,), np.float32, "cuda:0", (2, 0))
    assert fake.calls["cuMemcpyHtoDAsync"] == 1, "only the test's own upload"
    assert fake.calls["cuMemcpyDtoHAsync"] == 0
    assert seen(result.__cuda_array_interface__["data"][0], (5,), "f32").tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert np.asarray(result).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_results_go_in_again(program, gpu, fake):
    result = program.scale(ByDlpack(gpu, np.ones(3, np.float32)), 2.0)
    for _ in range(3):
        result = program.scale(result, 2.0)
    assert fake.calls["cuMemcpyDtoHAsync"] == 0
    assert np.asarray(result).tolist() == [16.0] * 3


def test_arrays_of_the_host_come_out_as_numpys(program, fake):
    result = program.scale(np.ones(3, np.float32), 2.0)
    assert type(result) is np.ndarray and result.tolist() == [2.0, 2.0, 2.0]


def test_what_is_not_touched_comes_out_as_the_same_memory(program, gpu, foreign):
    x = foreign(gpu, np.arange(6, dtype=np.float32))
    again = import_array(program.same(x), gpu.stream)
    assert (again.pointer, again.shape) == (x.array.pointer, (6,))


@pytest.mark.parametrize("name", DTYPES)
def test_elements_of_every_type_keep_their_bits(gpu, foreign, name):
    source = np.array([[0, 1, 1], [1, 0, 1]]).astype(DTYPES[name])
    if name.startswith("f8") and foreign is ByInterface:
        pytest.skip("the array interface has no name for it")
    text = PROGRAM.splitlines()[3].replace("M, N]", f"M, N, {name}]")
    result = zynml.compile(text, device="cuda").copied(foreign(gpu, source))
    assert (result.dtype, np.asarray(result).tobytes()) == (DTYPES[name], source.tobytes())
    assert import_array(result, gpu.stream).dtype == name


STRIDED = {
    "transposed": lambda whole: whole.T,
    "every second": lambda whole: whole[::2, 1::2],
    "upside down": lambda whole: whole[::-1],
    "mirrored": lambda whole: whole[:, ::-1],
    "a row for all": lambda whole: np.broadcast_to(whole[1], whole.shape),
}


@pytest.mark.parametrize("how", STRIDED)
@pytest.mark.parametrize("function", ["copied", "flat", "total"])
def test_strided_arrays_are_read_as_they_lie(program, gpu, fake, foreign, how, function):
    whole = np.arange(35, dtype=np.float32).reshape(5, 7) + 1
    source = STRIDED[how](whole)
    expected = {"copied": source, "flat": source, "total": source.sum(axis=1, dtype=np.float64)}[function]
    result = getattr(program, function)(foreign(gpu, source))
    assert fake.calls["cuMemcpyDtoHAsync"] == 0, "a copy is made on the device, if at all"
    assert np.asarray(result).tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_small_and_empty_arrays(program, gpu, foreign, shape):
    x = foreign(gpu, np.ones(shape, np.float32))
    assert np.asarray(program.copied(x)).tolist() == np.ones(shape).tolist()
    assert np.asarray(program.total(x)).tolist() == np.ones(shape).sum(axis=1).tolist()


def test_an_empty_array_needs_no_address(program, gpu):
    class Nowhere:
        __cuda_array_interface__ = {"version": 3, "shape": (0, 4), "typestr": "<f4", "data": (0, False), "strides": None}

    assert np.asarray(program.copied(Nowhere())).shape == (0, 4)


def test_an_array_of_rank_0(program, gpu, foreign):
    result = program.same(foreign(gpu, np.array(3.5, np.float32)))
    assert result.shape == () and float(np.asarray(result)) == 3.5


# ---- updates ----


@pytest.mark.parametrize("how", ["transposed", "every second", "upside down", "mirrored"])
def test_updates_happen_in_the_callers_memory(program, gpu, fake, foreign, how):
    whole = np.arange(35, dtype=np.float32).reshape(5, 7)
    x = foreign(gpu, STRIDED[how](whole))
    program.double(x)
    assert fake.calls["cuMemcpyDtoHAsync"] == 0
    STRIDED[how](whole)[...] *= 2
    assert seen(x.whole.pointer, (35,), "f32").tolist() == whole.reshape(-1).tolist(), "and nowhere else"


@pytest.mark.parametrize("name", ["add", "both"])
def test_one_array_for_two_parameters_is_refused_where_one_is_updated(program, gpu, foreign, name):
    x = foreign(gpu, np.arange(6, dtype=np.float32))
    with pytest.raises(zynml.ZynMLError) as caught:
        program.functions[name](x, x)
    assert caught.value.codes == ("ZYN0813",)
    assert x.numpy().tolist() == [*range(6)]


def test_each_call_asks_whether_its_inputs_overlap(program, gpu):
    """Calls of one layout are planned once, and differ in addresses alone."""
    whole = to_device(np.arange(100, dtype=np.float32), gpu.allocate(400), gpu.stream)

    def part(start, step=1):
        array = DeviceArray(whole.owner, whole.pointer + 4 * start, (40,), "f32", gpu.stream, (step,))
        return Tensor(None, OnGpu(array, gpu, named=True))

    before = np.arange(100, dtype=np.float64)
    for first, second in ((0, 40), (41, 0), (60, 20)):
        program.add(part(first), part(second))
        before[first : first + 40] += before[second : second + 40][::-1]
        for start in (first + 39, first + 1, first, first - 39):
            if 0 <= start <= 60:
                with pytest.raises(zynml.ZynMLError) as caught:
                    program.add(part(first), part(start))
                assert caught.value.codes == ("ZYN0813",)
    np.testing.assert_array_equal(to_host(whole), before)
    program.add(part(0, 2), part(1, 2))
    before[0:80:2] += before[1:81:2][::-1]
    np.testing.assert_array_equal(to_host(whole), before)
    with pytest.raises(zynml.ZynMLError, match="ZYN0813"):
        program.add(part(0, 2), part(2, 2))


def test_what_fails_updates_nothing(program, gpu, foreign):
    whole = np.arange(12, dtype=np.float32)
    x = foreign(gpu, whole[::2])
    with pytest.raises(zynml.ZynMLError) as caught:
        program.pick(x, np.array([1, 1, 77]))
    assert caught.value.codes == ("ZYN0801",)
    assert seen(x.whole.pointer, (12,), "f32").tolist() == whole.tolist()
    program.pick(x, np.array([1, 1]))
    assert x.numpy().tolist() == [2.0, 4.0, 4.0, 6.0, 8.0, 10.0]


@pytest.mark.parametrize("foreign", [ByDlpack, ByInterface])
def test_memory_that_is_read_only_is_not_updated(program, gpu, foreign):
    x = foreign(gpu, np.ones((2, 2), np.float32), read_only=True)
    with pytest.raises(zynml.ZynMLError, match=r"`x` can't be updated: its memory is read-only") as caught:
        program.double(x)
    assert caught.value.codes == ("ZYN0807",)
    assert np.asarray(program.copied(x)).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    exported = program.same(x).__cuda_array_interface__
    assert exported["data"] == (x.array.pointer, True)


def test_a_broadcast_array_is_not_updated(program, gpu, foreign):
    x = foreign(gpu, np.broadcast_to(np.ones(3, np.float32), (2, 3)))
    with pytest.raises(zynml.ZynMLError, match="`x` can't be updated: several of its elements share memory"):
        program.double(x)


@pytest.mark.parametrize("step", [1, 2, -1])
def test_what_the_host_writes_goes_to_the_callers_memory(program, gpu, foreign, step):
    whole = np.arange(6, dtype=np.float32)
    x = foreign(gpu, whole[::step])
    program.set_first(x)
    whole[::step][0] = 9.0
    assert seen(x.whole.pointer, (6,), "f32").tolist() == whole.tolist()
    assert program.first(x) == 9.0


# ---- order ----


def test_work_is_ordered_both_ways(program, gpu, fake, foreign):
    x = foreign(gpu, np.ones(3, np.float32))
    waits_of(fake)
    program.scale(x, 2.0)
    ours, theirs = gpu.stream.number, x.stream.number
    back = theirs if foreign is ByInterface else LEGACY
    assert waits_of(fake) == [(ours, theirs), (back, ours)]


def test_a_dlpack_producer_is_told_our_stream(program, gpu):
    x = ByDlpack(gpu, np.ones(3, np.float32))
    program.scale(x, 2.0)
    assert x.log == [{"stream": gpu.stream.number, "max_version": (1, 0)}]


@pytest.mark.parametrize(("stream", "waiting"), [(None, [1]), (1, [1]), (2, [2]), (0x7770, [0x7770]), (-1, [])])
def test_a_consumer_waits_for_the_result_on_its_stream(program, gpu, fake, stream, waiting):
    result = program.scale(ByDlpack(gpu, np.ones(3, np.float32)), 2.0)
    waits_of(fake)
    result.__dlpack__(stream=stream)
    assert waits_of(fake) == [(each, gpu.stream.number) for each in waiting]


def test_the_interface_names_the_stream_to_wait_for(program, gpu):
    result = program.scale(ByDlpack(gpu, np.ones(3, np.float32)), 2.0)
    assert result.__cuda_array_interface__["stream"] == gpu.stream.number


# ---- lifetime ----


def test_borrowed_memory_is_let_go_once_when_our_work_is_done(program, gpu, fake):
    x, before = ByDlpack(gpu, np.ones(3, np.float32)), dlpack.exported()
    with fake.holding():
        program.scale(x, 2.0)
        gc.collect()
        assert dlpack.exported() == before + 1
    gpu.stream.synchronize()
    assert dlpack.exported() == before


def test_a_result_lives_as_long_as_its_consumer(program, gpu):
    before = gpu.pool.statistics().blocks_in_use
    taken = dlpack.TakenTensor(program.scale(ByInterface(gpu, np.ones(3, np.float32)), 2.0).__dlpack__(max_version=(1, 0)))
    gpu.stream.synchronize()
    gc.collect()
    assert gpu.pool.statistics().blocks_in_use == before + 1
    assert seen(taken.description.pointer, (3,), "f32").tolist() == [2.0] * 3
    del taken
    assert gpu.pool.statistics().blocks_in_use == before


def test_what_a_consumer_writes_is_seen(program, gpu):
    result = program.scale(ByDlpack(gpu, np.ones(3, np.float32)), 2.0)
    assert np.asarray(result).tolist() == [2.0] * 3
    seen(result.__cuda_array_interface__["data"][0], (3,), "f32")[:] = 7.0
    assert np.asarray(result).tolist() == [7.0] * 3


# ---- what can't be taken ----


def message(call, *arguments):
    with pytest.raises(zynml.ZynMLError) as caught:
        call(*arguments)
    return str(caught.value).splitlines()[0]


def test_what_has_no_counterpart_says_so(program, gpu):
    class Complex:
        __cuda_array_interface__ = {"version": 3, "shape": (2,), "typestr": "<c8", "data": (64, False), "strides": None}

    class Other:
        def __dlpack_device__(self):
            return (10, 1)

        def __dlpack__(self, **options):
            raise AssertionError

    class Refusing(ByDlpack):
        def __dlpack__(self, **options):
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    assert message(program.same, Complex()) == "error[ZYN0807]: this Complex can't be taken: elements of type `<c8` are not supported"
    assert message(program.same, Other()) == (
        "error[ZYN0501]: this Other lies on a device that programs can't use (DLPack's kind 10, number 1)"
    )
    assert message(program.same, Refusing(gpu, np.ones(2, np.float32))) == (
        "error[ZYN0807]: this Refusing can't be taken: Can't export tensors that require gradient, use tensor.detach()"
    )


def test_an_array_on_a_device_without_a_driver(monkeypatch):
    from runtime.cuda import driver as driver_module
    from runtime.cuda.errors import CudaUnavailable

    monkeypatch.setattr(driver_module._State, "driver", None)
    monkeypatch.setattr(driver_module._State, "refusal", CudaUnavailable("this machine has no NVIDIA driver"))

    class Somewhere:
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **options):
            raise AssertionError

    assert message(zynml.compile(PROGRAM).same, Somewhere()) == (
        "error[ZYN0501]: this Somewhere lies on a CUDA device, which programs can't use here: this machine has no NVIDIA driver"
    )


# ---- on the host ----


class OnHost:
    """An array of another library on the host."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, stream=None, max_version=None):
        return dlpack.export_host_array(self.array, dtype_name(self.array.dtype), versioned=max_version is not None)

    def __dlpack_device__(self):
        return (1, 0)


class OnHostOld(OnHost):
    def __dlpack__(self, stream=None):
        return dlpack.export_host_array(self.array, dtype_name(self.array.dtype), versioned=False)


@pytest.mark.parametrize("kind", [OnHost, OnHostOld])
@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_the_host_are_the_same_memory(kind, name):
    source, before = np.array([[0, 1, 1], [1, 0, 1]]).astype(DTYPES[name]), dlpack.exported()
    result = zynml.compile(f"def same(x: tensor[N, M, {name}]): tensor {{ x }}").same(kind(source.T))
    assert np.shares_memory(result, source) and result.dtype == DTYPES[name]
    assert result.tobytes() == source.T.tobytes()
    del result
    gc.collect()
    assert dlpack.exported() == before


def test_updates_of_the_hosts_arrays_and_read_only_ones():
    program = zynml.compile(PROGRAM)
    array = np.ones((2, 3), np.float32)
    program.double(OnHost(array))
    program.double(OnHostOld(array))
    assert array.tolist() == [[4.0] * 3] * 2
    array.flags.writeable = False
    assert "read-only" in message(program.double, OnHost(array))
    with pytest.raises(BufferError, match="read-only"):
        OnHostOld(array).__dlpack__()


def test_bfloat16_of_the_host_goes_to_others():
    tensor = zynml.Tensor(np.array([1.5, -2.0], ml_dtypes.bfloat16))
    assert dlpack.TakenTensor(tensor.__dlpack__(max_version=(1, 0))).description.dtype == "bf16"
    assert import_host_array(tensor).tolist() == [1.5, -2.0]
    with pytest.raises(BufferError, match="exported as it lies"):
        tensor.__dlpack__(copy=True)


def test_the_hosts_tensor_has_no_interface_of_cuda():
    assert not hasattr(zynml.Tensor(np.zeros(2)), "__cuda_array_interface__")


def test_the_message_of_unknown_elements_names_the_known_ones(gpu):
    class Eighth(ByDlpack):
        def __dlpack__(self, **options):
            capsule = super().__dlpack__(**options)
            address = dlpack._pointer(capsule, b"dltensor_versioned")
            dlpack._Versioned.from_address(address).tensor.type = dlpack._Type(11, 8, 1)
            return capsule

    text = message(zynml.compile(PROGRAM).same, Eighth(gpu, np.zeros(2, np.uint8)))
    assert re.search(r"elements of DLPack's type \(11, 8 bits, 1 lanes\) are not supported", text)


def test_numpy_takes_bf16_from_a_device(gpu):
    held = np.arange(6).astype(ml_dtypes.bfloat16)
    found = np.asarray(Tensor(None, upload(held, gpu)))
    assert found.dtype == held.dtype
    np.testing.assert_array_equal(found.astype(np.float32), np.arange(6))
