"""Code of a program that runs beside other code of it."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runtime.futures import all_values
from runtime.host_tasks import THREADS, beside, both

ENDLESS = "def endless(step: int): int {\n    mut n = 0\n    while true { n = (n + step) % 7 }\n    n\n}\nprintln(1)\n"


def test_both_sides_run_at_once() -> None:
    first, second = threading.Event(), threading.Event()

    def one() -> bool:
        first.set()
        return second.wait(60)

    def other() -> bool:
        second.set()
        return first.wait(60)

    assert both((one, other)) == (True, True)


def test_the_first_fault_in_order_is_raised_when_all_are_done() -> None:
    done = threading.Event()

    def slow() -> None:
        done.set()
        raise KeyError("second")

    def fails() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        both((fails, slow))
    assert done.is_set()


def test_more_tasks_than_threads_may_wait_for_each_other() -> None:
    def chain(n: int) -> int:
        return 0 if n == 0 else beside(lambda: chain(n - 1)).value() + 1

    assert chain(2 * THREADS) == 2 * THREADS
    assert all_values([beside(lambda k=k: k * k) for k in range(3 * THREADS)]) == [k * k for k in range(3 * THREADS)]


@pytest.mark.parametrize("last", ["println(endless(1) & endless(2))", "println(try { endless(1) & endless(2) } catch _ { 0 })"])
def test_an_interruption_stops_both_sides(tmp_path: Path, last: str) -> None:
    path = tmp_path / "endless.zynml"
    path.write_text(ENDLESS + last + "\n")
    command = [sys.executable, "-m", "zyntax", "run", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=200)
    assert process.returncode == 130
    assert errors.startswith("error[ZYN0809]: interrupted")
