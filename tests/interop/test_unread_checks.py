"""Calls from Python whose indices are checked, and that come again: nobody waits for them. Whoever looks at the device meets the fault, by the
same words as at once, and what such a call made is never read."""

import gc
import sys
import threading
from collections import Counter

import numpy as np
import pytest
from peers import OWN, FakeTorch
from test_repeats import numbers, resident, same

import zynml
from compiler.launch.cuda import repeats, unread
from runtime.unread import UNREAD, VOID

PROGRAM = """
def picked(x: tensor[N], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }
def both(x: tensor[N], k: tensor[M, i64]) { compute(x, k) -> (y: tensor[M], z: tensor[M]) { for i in 0..M { y[i] = x[k[i]]; z[i] = 1.0 } } }
def rows(x: tensor[N, D], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M, j in 0..D: out[i, j] = x[k[i], j] } }
def total(x: tensor[N], k: tensor[M, i64]): f32 { compute(x, k) @kernel reduce(+) { for i in 0..M: yield x[k[i]] } }
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def raised(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def caught(x: tensor[N]): int { try { println("begun"); return 0 } catch IndexError { return 1 } }
"""


@pytest.fixture(autouse=True, params=["Python", "machine code"])
def soon(request, monkeypatch):
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


RIGHT, WRONG = np.array([5, 0, 3]), np.array([5, 6, 7])


@pytest.fixture
def called(program, gpu):
    """Calls of a function with six numbers, that came before."""

    def call(k, name="picked", x=None):
        function = program.functions[name]
        values = resident(gpu, numbers(6) if x is None else x)
        for _ in range(2):
            function(values, resident(gpu, RIGHT))
        zynml.synchronize()
        return function(values, resident(gpu, k))

    return call


def message_at_once(text="picked", k=WRONG):
    """The message of the first call, which is waited for."""
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(PROGRAM, device="cpu").functions[text](numbers(6), k)
    return str(caught.value)


def test_calls_that_come_again_wait_for_nothing(program, gpu, fake):
    x, k = resident(gpu, numbers(6)), resident(gpu, RIGHT)
    for _ in range(2):
        results = [program.picked(x, k) for _ in range(4)]
        del results
    before = Counter(fake.calls)
    results = [program.picked(x, k) for _ in range(4)]
    assert fake.calls - before == {"cuLaunchKernelEx": 4}
    for result in results:
        same(result, numbers(6)[RIGHT])
    assert (fake.calls - before)["cuMemcpyDtoHAsync"] == 1 + len(results), "all checks were read at once"
    assert not UNREAD and not VOID


@pytest.mark.parametrize("look", [np.asarray, lambda r: r.contents, lambda r: r.array, repr, lambda r: r.clone(),
                                  lambda r: r.__dlpack__(stream=1), lambda r: r.__cuda_array_interface__,
                                  lambda r: zynml.synchronize()])  # fmt: skip
def test_whoever_looks_at_the_result_meets_the_fault(called, look):
    result = called(WRONG)
    with pytest.raises(zynml.ZynMLError) as caught:
        look(result)
    assert caught.value.codes == ("ZYN0801",) and str(caught.value) == message_at_once()
    with pytest.raises(zynml.ZynMLError):
        np.asarray(result)


def test_other_results_are_read_behind_the_fault(called, program, gpu):
    before = program.scale(resident(gpu, numbers(6)), 2.0)
    wrong, right = called(WRONG), called
    with pytest.raises(zynml.ZynMLError):
        np.asarray(before)
    same(before, numbers(6) * 2)
    with pytest.raises(zynml.ZynMLError):
        np.asarray(wrong)
    same(right(RIGHT), numbers(6)[RIGHT])


def test_each_call_that_failed_leaves_void_what_it_made(called, program, gpu):
    x = resident(gpu, numbers(6))
    first = called(WRONG)
    results = [program.picked(x, resident(gpu, k)) for k in (RIGHT, np.array([0, 8, 1]))]
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        zynml.synchronize()
    zynml.synchronize()
    same(results[0], numbers(6)[RIGHT])
    for result, number in ((results[1], 8), (first, 6), (results[1], 8)):
        with pytest.raises(zynml.ZynMLError, match=f"index {number}"):
            np.asarray(result)
    assert len(VOID) == 2


def test_void_memory_is_forgotten_with_its_results(called):
    result = called(WRONG, "both")
    with pytest.raises(zynml.ZynMLError):
        zynml.synchronize()
    assert len(VOID) == 2
    del result
    gc.collect()
    assert not VOID


def test_what_is_computed_from_it_meets_the_fault_when_it_is_read(called, program):
    for _ in range(3):
        program.scale(called(RIGHT), 2.0)
    result = called(WRONG)
    twice = program.scale(result, 2.0)
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        np.asarray(twice)
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        program.scale(result, 2.0)


def test_nothing_void_is_written_into_the_callers_memory(called, program, gpu):
    w, x = resident(gpu, np.zeros(3, np.float32)), resident(gpu, np.ones(3, np.float32))
    for _ in range(3):
        program.raised(w, x)
    result = called(WRONG)
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        program.raised(w, result)
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        program.raised(w, result)
    same(w, np.full(3, 3))


def test_the_next_call_by_the_program_meets_the_fault_before_it_begins(called, program, capsys):
    called(WRONG)
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        program.caught(np.ones(3, np.float32))
    assert capsys.readouterr().out == ""
    assert program.caught(np.ones(3, np.float32)) == 0


def test_rows_of_a_table_are_checked_before_they_are_read(called):
    table = numbers(6, 5)
    same(called(RIGHT, "rows", table), table[RIGHT])
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        np.asarray(called(WRONG, "rows", table))


def test_a_number_is_waited_for(called):
    assert called(RIGHT, "total") == numbers(6)[RIGHT].sum()
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        called(WRONG, "total")


def test_arrays_that_others_changed_meanwhile_dont_hide_the_fault(program, gpu):
    x, k = resident(gpu, numbers(6)), resident(gpu, RIGHT.copy())
    for _ in range(2):
        program.picked(x, k)
    address = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int64 * 3).from_address(k.remote.address))
    address[1] = 9
    result = program.picked(x, k)
    address[1] = 0
    with pytest.raises(zynml.ZynMLError, match="index 9 is out of range"):
        np.asarray(result)


def test_arrays_are_kept_until_the_call_was_read(called, gpu):
    result = called(WRONG)
    gc.collect()
    with pytest.raises(zynml.ZynMLError) as caught:
        np.asarray(result)
    assert str(caught.value) == message_at_once()


def test_streams_of_others(program, gpu, torch):
    torch.stream = OWN
    x, right, wrong = (torch.Tensor(gpu, array) for array in (numbers(6), RIGHT, WRONG))
    for _ in range(2):
        program.picked(x, right)
    result = program.picked(x, wrong)
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        np.asarray(result)


def test_records_that_run_out_are_read(program, gpu, monkeypatch):
    monkeypatch.setattr(unread, "RECORDS", 3)
    x, right, wrong = (resident(gpu, array) for array in (numbers(6), RIGHT, WRONG))
    for _ in range(9):
        result = program.picked(x, right)
    zynml.synchronize()
    results = [program.picked(x, k) for k in (right, wrong, right)]
    with pytest.raises(zynml.ZynMLError, match="index 6"):
        program.picked(x, right)
    same(results[0], numbers(6)[RIGHT])
    same(result, numbers(6)[RIGHT])
    same(program.picked(x, right), numbers(6)[RIGHT])


def test_arguments_that_take_much_memory_are_read(program, gpu, monkeypatch):
    x, right = resident(gpu, numbers(6)), resident(gpu, RIGHT)
    for _ in range(2):
        program.picked(x, right)
    zynml.synchronize()
    monkeypatch.setattr(unread, "HELD", gpu.device.properties.memory // 100)
    for _ in range(5):
        program.picked(x, right)
        (checks,) = UNREAD
        assert len(checks._calls) <= 2


def test_many_threads_meet_one_fault(program, gpu):
    x, right, wrong = (resident(gpu, array) for array in (numbers(6), RIGHT, WRONG))
    for _ in range(2):
        program.picked(x, right)
    met, odd = [], []

    def work(k):
        for _ in range(40):
            try:
                result = np.asarray(program.picked(x, k))
                odd.extend([1] if k is wrong or not np.array_equal(result, numbers(6)[RIGHT]) else [])
            except zynml.ZynMLError as error:
                met.append(error.codes)

    threads = [threading.Thread(target=work, args=(k,)) for k in (right, wrong, right)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert odd == [] and met and set(met) == {("ZYN0801",)}


def test_a_device_that_is_lost_keeps_no_call(called, fake):
    called(RIGHT)
    fake.fault = 700
    with pytest.raises(Exception, match=r"700|illegal|lost|failed"):
        zynml.synchronize()
    assert not UNREAD
    fake.fault = 0


def test_faults_that_nobody_came_to_see_are_shown_at_the_end(called, capsys):
    from runtime.unread import _at_exit

    called(WRONG)
    _at_exit()
    assert capsys.readouterr().err == message_at_once() + "\n"
