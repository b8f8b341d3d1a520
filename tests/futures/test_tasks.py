"""The runtime under `await`: tasks that end when the test says so."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runtime.futures import (
    NotReady,
    PendingValue,
    TaskOutcome,
    all_values,
    before_device_write,
    before_write,
    completed,
    first,
    started,
)
from runtime.unawaited import Unawaited


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Tasks that wait for it end at the latest with the test."""
    made = threading.Event()
    yield made
    made.set()


def pending() -> tuple[TaskOutcome, PendingValue]:
    outcome = TaskOutcome()
    return outcome, PendingValue(outcome)


def failing() -> Any:
    raise ValueError("no")


def test_a_value_is_made_once_and_stays() -> None:
    made: list[int] = []
    outcome, future = pending()
    longer = future.then(lambda value: made.append(value) or [value])
    assert not longer.done()
    outcome.set_result(3)
    assert longer.value() == [3] and longer.value() is longer.value()
    assert made == [3]


def test_a_failure_is_told_each_time() -> None:
    future = started(failing)
    for one in (future, future.then(lambda value: value)):
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                one.value()


def test_what_follows_may_fail() -> None:
    future = completed(lambda: 1).then(lambda value: failing())
    with pytest.raises(ValueError, match="no"):
        future.value()


def test_nobody_waits_longer_than_told(gate: threading.Event) -> None:
    future = started(gate.wait)
    for wait in (lambda: future.value(0), lambda: all_values([completed(lambda: 1), future], 0.001), lambda: first([future, future], 0)):
        with pytest.raises(NotReady):
            wait()
    gate.set()
    assert future.value() is True
    assert all_values([future, completed(lambda: 2)]) == [True, 2]


def test_the_first_of_several_in_their_order_that_is_done(gate: threading.Event) -> None:
    slow = started(gate.wait)
    assert first([slow, completed(lambda: 1), completed(lambda: 2)]) == 1
    outcome, later = pending()
    threading.Thread(target=outcome.set_result, args=(5,)).start()
    assert first([slow, later]) == 1


def test_a_failure_counts_as_done(gate: threading.Event) -> None:
    assert first([started(gate.wait), completed(failing)]) == 1


def test_tasks_begin_in_their_order() -> None:
    begun: list[int] = []
    lock = threading.Lock()

    def note(number: int) -> None:
        with lock:
            begun.append(number)

    blocked = threading.Event()
    holding = [started(blocked.wait) for _ in range(8)]
    futures = [started(lambda n=n: note(n)) for n in range(20)]  # type: ignore[misc]
    assert begun == []
    blocked.set()
    all_values([*holding, *futures])
    assert sorted(begun) == list(range(20))


@pytest.mark.parametrize(
    ("read", "written", "waits"),
    [
        (np.s_[:], np.s_[:], True),
        (np.s_[2:5], np.s_[4:], True),
        (np.s_[:3], np.s_[3:], False),
        (np.s_[::2], np.s_[3:4], True),  # between the elements: bounds decide
    ],
)
def test_a_write_waits_for_those_who_read_there(gate: threading.Event, read: Any, written: Any, waits: bool) -> None:
    memory = np.arange(8)
    seen: list[int] = []

    def task() -> None:
        gate.wait()
        seen.extend(memory[read])

    future = started(task, [memory[read]])
    writer = threading.Thread(target=lambda: (before_write(memory[written]), memory.__setitem__(written, 0)))
    writer.start()
    if not waits:
        writer.join()
    else:
        assert writer.is_alive()
    gate.set()
    future.value()
    writer.join()
    assert seen == np.arange(8)[read].tolist()
    before_write(memory)


def test_memory_of_devices_is_waited_for_as_a_whole(gate: threading.Event) -> None:
    future = started(gate.wait, elsewhere=True)
    writer = threading.Thread(target=before_device_write)
    writer.start()
    assert writer.is_alive()
    gate.set()
    writer.join()
    assert future.done()


def test_a_forked_process_has_threads_of_its_own() -> None:
    script = """
import os, threading
from runtime.futures import started
gate = threading.Event()
held = started(gate.wait)
child = os.fork()
if child == 0:
    assert started(lambda: 7).value() == 7
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
gate.set()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=False)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_faults_of_futures_that_nobody_awaits_are_not_lost() -> None:
    unawaited = Unawaited()
    first_one, fine, asked = completed(failing), completed(lambda: 1), completed(failing)
    for future in (first_one, fine, asked):
        unawaited.note(future)
    with pytest.raises(ValueError, match="no"):
        asked.value()
    unawaited.settle_dropped()
    del first_one
    with pytest.raises(ValueError, match="no"):
        unawaited.settle_dropped()
    unawaited.settle()


def test_the_end_waits_for_everybody(gate: threading.Event) -> None:
    unawaited = Unawaited()
    future = started(gate.wait)
    unawaited.note(future)
    end = threading.Thread(target=unawaited.settle)
    end.start()
    assert end.is_alive()
    gate.set()
    end.join()
    assert future.done()
