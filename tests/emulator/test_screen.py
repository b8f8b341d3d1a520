"""The first look at memory that threads share: what it lets pass, and what it leaves to clocks. That a launch with a fault doesn't pass is
tested in `tests/sanitize`, where it would find nothing."""

from collections.abc import Callable

import numpy as np
import pytest

from compiler.emulator.block import ThreadBlock
from compiler.emulator.interpret import interpret
from compiler.emulator.sanitize import Watch
from compiler.emulator.screen import Elements, Order, Screened, Unsure
from compiler.hir.gpu import Atomic
from compiler.hir.parse import parse_function

THREADS = 64
COUNT = 8


class Threads:
    """Some threads of a block."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = np.array(numbers)


class Look:
    """A memory of eight elements, and the threads of two blocks."""

    def __init__(self, filled: bool = True, shared: bool = False, units: int = 1) -> None:
        self.order = Order(32, THREADS, 2, warps=True)
        self.order.begin(0)
        self.elements = Elements(self.order, COUNT * units, None if filled else np.zeros(COUNT * units, np.bool_), shared)
        self.memory = Screened(self.elements, (COUNT,), units=units)

    def do(self, kind: str, threads: list[int], at: list[int], value: object = None, op: Atomic | None = None) -> "Look":
        self.memory.tell(kind, op, Threads(threads), (np.array(at),), value=value)
        return self


def barrier(look: Look) -> None:
    look.order.meet()


def first_warp(look: Look) -> None:
    look.order.meet_warps(np.arange(32))


def second_warp(look: Look) -> None:
    look.order.meet_warps(np.arange(32, 64))


def nothing(look: Look) -> None:
    pass


@pytest.mark.parametrize(
    ("between", "thread", "ordered"),
    [(barrier, 40, True), (first_warp, 9, True), (first_warp, 40, False), (second_warp, 9, False), (nothing, 9, False), (nothing, 3, True)],
)
@pytest.mark.parametrize(("first", "second"), [("write", "read"), ("read", "write"), ("write", "write")])
def test_what_lies_between_two_threads(first: str, second: str, between: Callable[[Look], None], thread: int, ordered: bool) -> None:
    look = Look().do(first, [3], [5], 1.0)
    between(look)
    if ordered:
        look.do(second, [thread], [5], 2.0).do(second, [thread], [4], 2.0)
    else:
        with pytest.raises(Unsure):
            look.do(second, [thread], [5], 2.0)


@pytest.mark.parametrize(("between", "ordered"), [(barrier, True), (first_warp, False), (nothing, False)])
@pytest.mark.parametrize("readers", [[3, 40], [40, 3], [3, 3, 40]])
def test_of_several_readers_all_come_first(readers: list[int], between: Callable[[Look], None], ordered: bool) -> None:
    """Whether they read at once or one after another: a barrier of one warp says nothing of the other's."""
    for look in (Look().do("read", readers, [5] * len(readers)), Look()):
        for reader in readers:
            look.do("read", [reader], [5])
        between(look)
        if ordered:
            look.do("write", [3], [5])
        else:
            with pytest.raises(Unsure):
                look.do("write", [3], [5])


def test_readers_of_a_warp_meet_in_it() -> None:
    look = Look().do("read", [3, 4], [5, 5]).do("read", [9], [5])
    first_warp(look)
    look.do("write", [7], [5])


def test_reads_before_a_barrier_are_past_with_those_behind_it() -> None:
    look = Look().do("read", [3], [5])
    barrier(look)
    look.do("read", [9], [5])
    first_warp(look)
    look.do("write", [7], [5])


@pytest.mark.parametrize(("values", "alike"), [([2.0, 2.0], True), ([np.nan, np.nan], True), ([2.0, 3.0], False)])
def test_threads_may_write_one_value_at_once(values: list[float], alike: bool) -> None:
    if alike:
        Look().do("write", [3, 40], [5, 5], np.array(values))
    else:
        with pytest.raises(Unsure):
            Look().do("write", [3, 40], [5, 5], np.array(values))


def test_what_nobody_has_written_is_not_read() -> None:
    look = Look(filled=False).do("write", [3], [5]).do("read", [3], [5])
    with pytest.raises(Unsure):
        look.do("read", [3], [4])
    look.memory.fill()
    look.do("read", [3], [4])


def test_a_copy_is_nobodys_until_it_arrives() -> None:
    look = Look(filled=False).do("copy", [3, 4], [5, 6])
    for kind in ("read", "write", "copy"):
        with pytest.raises(Unsure):
            look.do(kind, [3], [5])
    look.do("arrive", [3], [5]).do("read", [3], [5])
    with pytest.raises(Unsure):
        look.do("read", [4], [5])
    barrier(look)
    look.do("read", [4], [5])
    with pytest.raises(Unsure):
        look.do("read", [4], [6])
    with pytest.raises(Unsure):
        Look().do("copy", [3, 3], [5, 5])


def test_elements_of_two_units_share_them() -> None:
    look = Look(units=2).do("write", [3], [1])
    look.elements.read(np.array([1, 4]), np.array([9, 9]))
    with pytest.raises(Unsure):
        look.elements.read(np.array([3]), np.array([9]))


def atomic(order: str = "relaxed", scope: str = "device") -> Atomic:
    function = parse_function(
        f"func @f(%n: mem<8xi32>) form=C {{ %i = const 1 : i32 %o = atomic add %n[0], %i order={order} scope={scope} : i32 }}"
    )
    op = function.body.body[-1]
    assert isinstance(op, Atomic)
    return op


def test_atomics_stand_beside_each_other_and_nothing_else() -> None:
    look = Look().do("atomic", [3, 40, 3], [5, 5, 5], op=atomic())
    for kind in ("read", "write"):
        with pytest.raises(Unsure):
            look.do(kind, [3], [5])
    barrier(look)
    look.do("read", [3], [5])
    with pytest.raises(Unsure):
        look.do("atomic", [4], [5], op=atomic())
    with pytest.raises(Unsure):
        Look().do("atomic", [3], [5], op=atomic(scope="block"))
    Look(shared=True).do("atomic", [3], [5], op=atomic(scope="block"))


@pytest.mark.parametrize(
    ("order", "fence", "before", "behind", "seen"),
    [
        ("relaxed", "device", True, True, True),
        ("acq_rel", "", True, True, True),
        ("relaxed", "", True, True, False),
        ("relaxed", "block", True, True, False),
        ("relaxed", "device", False, True, False),
        ("relaxed", "device", True, False, False),
    ],
)
def test_a_block_sees_what_another_did_through_an_atomic(order: str, fence: str, before: bool, behind: bool, seen: bool) -> None:
    """Between barriers of both: `before`, where all of the first block have met, and `behind`, where those of the second do."""
    look = Look().do("write", [40], [1])
    if before:
        barrier(look)
    look.order.fence(np.array([0]), fence or "thread")
    look.do("atomic", [0], [5], op=atomic(order))
    look.order.begin(1)
    look.do("atomic", [0], [5], op=atomic())
    if behind:
        barrier(look)
    if seen:
        look.do("read", [40], [1])
    else:
        with pytest.raises(Unsure):
            look.do("read", [40], [1])


CLEAN = """func @f(%x: mem<64xf32>, %n: mem<1xi32>) form=C {{
  %t = thread_idx x : index %b = block_idx x : index %s = shared_alloc : mem<32xf32, shared> %v = load %x[32*b+t] : f32
  store %s[t], %v {between} %w = load %s[31-t] : f32 store %x[32*b+t], %w }}"""


@pytest.mark.parametrize(("between", "again"), [("sync_threads", False), ("warp_sync", False), ("", True)])
def test_a_launch_runs_again_only_where_the_first_look_isnt_sure(between: str, again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run begins with the memory as it was."""
    exact: set[bool] = set()
    close = ThreadBlock.close

    def closed(block: ThreadBlock) -> None:
        exact.add(block.run.order is None)
        close(block)

    monkeypatch.setattr(ThreadBlock, "close", closed)
    memory, watch = np.arange(64, dtype=np.float32), Watch()
    interpret(parse_function(CLEAN.format(between=between)), [memory, np.zeros(1, np.int32)], grid=(2,), block=(32,), watch=watch)
    assert exact == {again} and (len(list(watch.findings)) > 0) == again
    assert np.array_equal(memory.reshape(2, 32), np.arange(64).reshape(2, 32)[:, ::-1])
