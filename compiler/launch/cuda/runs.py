"""Functions of host code whose runs come back. A straight function that comes again with arguments laid out as before, and the same ints
among them, launches what it launched then: one piece of machine code does so, with other memory and floats. Whatever differs goes the way
through the program."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import ref

from compiler.codes.device_faults import DeviceTrouble
from compiler.launch.cuda.direct import GPU_CALLS
from compiler.launch.cuda.native import answer_calls
from compiler.launch.cuda.repeats import MACHINE_CODES, lasts
from compiler.launch.cuda.run_plans import look_at, plan_of_run, with_own_floats
from compiler.launch.native_calls.plan import Unplannable
from compiler.launch.native_calls.straight import StraightFunction, made_function, offsets
from compiler.launch.watch import WATCHED
from runtime.futures import under_way
from runtime.records import Factory, define
from runtime.unawaited import Unawaited
from runtime.unread import UNREAD, VOID

COMES_AGAIN = 32
"""The run, counted from 1, that machine code is made from: this takes some milliseconds for each launch."""

KINDS = 64
"""Of arguments that a function is looked at for: one that has more has others each time."""


class _Thread(threading.local):
    inside = False
    """Whether this thread runs a function that may come back as a whole: those that it calls needn't."""


THREAD = _Thread()


@define(eq=False)
class RepeatedRuns:
    """The runs of one function. `changes` counts the arguments that were converted to other values until now. `times`: how often each kind
    of arguments came."""

    function: Callable[..., Any]
    changes: Callable[[], int]
    unawaited: Unawaited
    target: "ref[StraightFunction]"
    answered: int = 0
    times: dict[tuple[Any, ...], int] = Factory(dict)

    def run(self, *values: Any, **named: Any) -> Any:
        """The function's value the way through the program."""
        if THREAD.inside or WATCHED or named or self.answered >= MACHINE_CODES or len(self.times) >= KINDS:
            return self.function(*values, **named)
        key: list[Any] = []
        if not all(look_at(value, key, []) for value in values):
            return self.function(*values)
        kind = tuple(key)
        times = self.times[kind] = self.times.get(kind, 0) + 1
        if times > COMES_AGAIN:
            return self.function(*values)
        THREAD.inside = True
        try:
            return self._learnt(values, kind) if times == COMES_AGAIN else self.function(*values)
        finally:
            THREAD.inside = False

    def _learnt(self, values: tuple[Any, ...], kind: tuple[Any, ...]) -> Any:
        """The value, while it is watched what is launched; from then on machine code has it, where it can."""
        if under_way() or self.unawaited or UNREAD or VOID:
            self.times[kind] -= 1
            return self.function(*values)
        own, inside, changes = [with_own_floats(value) for value in values], list[Any](), self.changes()
        for value in own:
            look_at(value, [], inside)
        lying = [getattr(each, "remote", None) for each in inside]
        with GPU_CALLS.watched() as calls:
            value = self.function(*own)
        is_as_before = changes == self.changes() and lying == [getattr(each, "remote", None) for each in inside]
        there = [call for call in calls if call is not None]
        target = self.target()
        if target is not None and is_as_before and there and len(there) == len(calls) and lasts(there[0].stream, there[0].call.gpu):
            with suppress(Unplannable, *DeviceTrouble):
                answer_calls(plan_of_run(there, inside, value), own, False, self.unawaited.futures, target, offsets())
                self.answered += 1
        return value


def coming_back(function: Callable[..., Any], changes: Callable[[], int], unawaited: Unawaited) -> Callable[..., Any]:
    """The function, for its callers: machine code answers runs that come back."""
    target = made_function()
    target._slow = RepeatedRuns(function, changes, unawaited, ref(target)).run
    return target
