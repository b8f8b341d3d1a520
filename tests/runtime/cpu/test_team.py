"""The team that parallel loops are shared out to: which thread does what, and what happens where threads don't come."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from runtime.cpu import detect, team
from runtime.cpu.team_code import FIELDS, SIZE, text

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
REGION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
CONTEXT = 1234
has_machine_code = pytest.mark.skipif(sys.platform != "linux" or text(os.uname().machine) is None, reason="Python's threads are the team")


def region(count: int, work: Callable[[int], None] = lambda number: None) -> list[int]:
    """The threads that did the chunks, by number. Each is done once, behind the region all are."""
    done: list[tuple[int, int]] = []
    lock = threading.Lock()

    def body(context: int, number: int, chunks: int) -> None:
        assert (context, chunks) == (CONTEXT, count)
        work(number)
        with lock:
            done.append((number, threading.get_ident()))

    callback = BODY(body)
    run = ctypes.c_void_p.from_address(team.address()).value
    assert run is not None
    REGION(run)(ctypes.cast(callback, ctypes.c_void_p), CONTEXT, count)
    assert sorted(number for number, _ in done) == list(range(count))
    return [thread for _, thread in sorted(done)]


def met(parties: int = 2) -> Callable[[int], None]:
    """Work that ends when so many threads are at it."""
    barrier = threading.Barrier(parties, timeout=200)

    def work(number: int) -> None:
        barrier.wait()

    return work


@pytest.fixture(params=["machine-code", "python"])
def any_team(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Teams begun from nothing, of either kind."""
    if request.param == "python":
        monkeypatch.setattr(team, "text", lambda architecture: None)
        own = team._Team()
        monkeypatch.setattr(team, "_team", lambda: own)
    yield
    monkeypatch.undo()


@pytest.mark.usefixtures("any_team")
@pytest.mark.parametrize("count", [1, 2, 3, 5, 64, 1000])
def test_every_chunk_runs_once_and_the_call_waits(count: int) -> None:
    if count < 1000 or team.text is text:
        region(count)


@pytest.mark.usefixtures("any_team")
@pytest.mark.parametrize("count", [2, 3])
def test_threads_work_at_the_same_time(count: int) -> None:
    for _ in range(3):
        assert len(set(region(count, met(count)))) == count


@has_machine_code
def test_a_region_that_begins_within_another_is_done_by_its_thread() -> None:
    inner: list[list[int]] = []
    outer = region(2, lambda number: inner.append(region(3)))
    assert sorted(inner) == sorted([thread] * 3 for thread in outer)


@has_machine_code
def test_workers_compute_with_the_callers_modes() -> None:
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[os.uname().machine]
    sums: list[float] = []
    tiny = 1e-30
    meet = met()

    def work(number: int) -> None:
        meet(number)
        sums.append(1.0 + tiny)

    library = ctypes.CDLL("libm.so.6")
    region(2, work)
    assert library.fesetround(upward) == 0
    try:
        region(2, work)
    finally:
        library.fesetround(0)
    region(2, work)
    assert sums == [1.0] * 2 + [1.0 + sys.float_info.epsilon] * 2 + [1.0] * 2


def in_a_child(work: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@has_machine_code
def test_a_forked_process_has_a_team_of_its_own() -> None:
    def own() -> bool:
        return team._team().place("workers").value == 0 and len(set(region(2, met()))) == 2

    region(2, met())
    assert in_a_child(lambda: own() and in_a_child(own))
    assert len(set(region(2, met()))) == 2


@has_machine_code
def test_a_process_forked_in_a_region_has_a_team_of_its_own() -> None:
    children: list[bool] = []

    def work(number: int) -> None:
        if number == 0:
            children.append(in_a_child(lambda: len(set(region(2, met()))) == 2))

    region(2, work)
    assert children == [True]


@has_machine_code
def test_workers_that_never_come_cost_nothing() -> None:
    region(2)

    def alone() -> bool:
        team._team().place("workers").value = 8  # nobody is there, and none are begun
        return all(set(region(count)) == {threading.get_ident()} for count in (2, 8))

    assert in_a_child(alone)


class Refusal:
    """What the system says that has no thread to give."""

    def __call__(self, *arguments: object) -> int:
        return 11


@has_machine_code
def test_a_system_that_begins_no_threads_has_the_caller_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    region(2)

    def alone() -> bool:
        monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(pthread_create=Refusal()))
        return set(region(4)) == {threading.get_ident()} and team._team().place("workers").value == 3

    assert in_a_child(alone)


@has_machine_code
def test_a_process_held_to_one_processor_works() -> None:
    region(2)

    def held() -> bool:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        processors = team._team().start + FIELDS["processors"]
        ctypes.memmove(processors, sum(1 << each for each in os.sched_getaffinity(0)).to_bytes(128, "little"), 128)
        return len(set(region(2, met()))) == 2

    assert in_a_child(held)


@pytest.mark.parametrize(
    ("said", "spins"),
    [
        ({}, team.SPINS),
        ({"GOMP_SPINCOUNT": "7"}, 7),
        ({"GOMP_SPINCOUNT": "infinite"}, 1 << 62),
        ({"GOMP_SPINCOUNT": "10k"}, team.SPINS),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, 0),
        ({"OMP_WAIT_POLICY": "active"}, 1 << 62),
        ({"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "9"}, 9),
    ],
)
def test_how_long_threads_look_for_work(said: dict[str, str], spins: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert team.spins() == spins
    assert team.SPINS * 50 <= 100_000


@pytest.mark.parametrize(("said", "most"), [("1", 1), ("1,4", 1), ("1000", None), ("0", None), ("", None), ("many", None), ("-2", None)])
def test_the_environment_bounds_how_many_threads_work(said: str, most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    detect.threads.cache_clear()
    try:
        assert detect.threads() == (detect.cores() if most is None else most)
    finally:
        monkeypatch.undo()
        detect.threads.cache_clear()


def test_fields_of_a_team_lie_apart() -> None:
    places = sorted(FIELDS.values())
    assert len(set(places)) == len(places) and places[-1] + 128 == SIZE
    lines = [{FIELDS[name] // 64 for name in names} for names in (("run", "grow", "workers", "spins"), ("untaken",), ("done",), ("busy",))]
    assert all(not first & second for number, first in enumerate(lines) for second in lines[:number])


def test_no_machine_code_for_other_architectures() -> None:
    assert text("riscv64") is None
    for architecture in ("x86_64", "aarch64"):
        assert "define void @zyntax_team_run(" in (text(architecture) or "")
