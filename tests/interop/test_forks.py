"""Processes that were forked from one whose kernels ran on threads: they work on, with threads of their own."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import zynml
from runtime import forks, futures
from runtime.cuda.remote import upload
from runtime.tensor import Tensor

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

BEGIN = """
import multiprocessing, os, sys, threading
import numpy as np
import zynml
from runtime.cpu import team
{before}
program = zynml.compile('''
def scaled(x: tensor[N, f64], by: f64): tensor {{ compute(x, by) {{ for i in 0..N: out[i] = x[i] * by + exp(-x[i]) }} }}
def later(x: tensor[N, f64]): Future<tensor[N, f64]> {{ compute(x) @async {{ for i in 0..N: out[i] = x[i] * 2.0 }} }}
''', threads=2)
x = np.linspace(0.0, 1.0, 1 << 19)
def right(by):
    return bool(np.allclose(program.scaled(x, by), x * by + np.exp(-x), rtol=1e-12, atol=0))
assert right(2.0)
def forked(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

PYTHON = "team.text = lambda architecture: None"


def run(script, before=""):
    text = BEGIN.format(before=before) + script
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("before", ["", PYTHON], ids=["machine-code", "python"])
def test_a_child_runs_threaded_kernels_and_so_does_its_child(before):
    script = "print(forked(lambda: right(3.0) and right(4.0) and forked(lambda: right(5.0)) == 0), right(6.0))"
    assert run(script, before) == ["0", "True"]


def test_a_child_of_a_thread_works():
    script = """
def work():
    assert right(2.0)
    print(forked(lambda: right(3.0)))
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    assert run(script) == ["0"]


def test_threads_of_a_child_work_at_once():
    script = """
def work():
    found = []
    threads = [threading.Thread(target=lambda by=by: found.append(right(by))) for by in (1.0, 2.0, 3.0)]
    for each in threads: each.start()
    found.append(right(4.0))
    for each in threads: each.join()
    return found == [True] * 4
print(forked(work))
"""
    assert run(script) == ["0"]


def test_a_pool_of_forked_processes_works():
    script = """
with multiprocessing.get_context("fork").Pool(2) as processes:
    print(*processes.map(right, [1.0, 2.0, 3.0, 4.0]))
"""
    assert run(script) == ["True"] * 4


def test_futures_of_before_the_fork_and_after_it_have_values_in_the_child():
    script = """
futures = [program.later(x + k) for k in range(8)]
def work():
    old = all(np.array_equal(f.result(), (x + k) * 2) for k, f in enumerate(futures))
    return old and np.array_equal(program.later(x).result(), x * 2)
print(forked(work), all(np.array_equal(f.result(), (x + k) * 2) for k, f in enumerate(futures)))
"""
    assert run(script) == ["0", "True"]


def in_a_child(work):
    """What a child gives as its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_task_that_was_under_way_is_begun_again_in_a_child():
    gate = threading.Event()
    parent = os.getpid()

    def work():
        if os.getpid() == parent:
            gate.wait()
        return 7

    future = futures.started(work)
    assert in_a_child(future.value) == 7
    gate.set()
    assert future.value() == 7 and not futures._UNDER_WAY


def test_a_lock_that_another_thread_holds_is_open_in_a_child():
    lock, held, gate = forks.lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            gate.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    try:
        assert in_a_child(lambda: lock.acquire(timeout=200))
    finally:
        gate.set()
        thread.join()
    assert not lock.locked()


def test_a_fork_waits_for_native_code_that_cannot_be_copied_half_done():
    lock, held, gate = forks.quiet_lock(), threading.Event(), threading.Event()
    seen = []

    def hold():
        with lock:
            held.set()
            gate.wait()
            seen.append("done")

    threads = [threading.Thread(target=hold), threading.Thread(target=gate.set)]
    threads[0].start()
    held.wait()
    threads[1].start()
    assert in_a_child(lambda: len(seen) + (10 if lock.acquire(blocking=False) else 0)) == 11
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("outer", [0, 1])
def test_a_fork_waits_for_threads_that_hold_one_lock_and_want_another(outer):
    locks, held, gate, seen = [forks.quiet_lock(), forks.quiet_lock()], threading.Event(), threading.Event(), []

    def hold():
        with locks[outer]:
            held.set()
            gate.wait()
            with locks[1 - outer]:
                seen.append("done")

    threads = [threading.Thread(target=hold), threading.Thread(target=gate.set)]
    threads[0].start()
    held.wait()
    threads[1].start()
    assert in_a_child(lambda: len(seen) + sum(10 for lock in locks if lock.acquire(blocking=False))) == 21
    for thread in threads:
        thread.join()


def test_a_child_is_refused_the_gpu_that_its_parent_uses(fake, gpu):
    program = zynml.compile("def f(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * 2.0 } }", device="cuda")
    there = Tensor(None, upload(np.ones(4, np.float32), gpu, named=True))
    for _ in range(2):
        assert np.asarray(program.f(there)).tolist() == [2.0] * 4
    calls = sum(fake.calls.values())
    wanted = (
        "error[ZYN0501]: the device can't be used: CUDA was initialised before this process was forked: "
        "start processes with `spawn` instead\n"
    )

    def work():
        for value in (there, np.ones(4, np.float32)):
            try:
                program.f(value)
                return 1
            except zynml.ZynMLError as error:
                if not str(error).startswith(wanted):
                    print(error)
                    return 2
        return 3 if sum(fake.calls.values()) == calls else 4

    assert in_a_child(work) == 3
    assert np.asarray(program.f(there)).tolist() == [2.0] * 4
