"""The calls of one function with arrays on the host: a call of a kind that came before is watched, and then answered by machine code."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol
from weakref import ref

from compiler.backends.cpu.native import NativeKernel
from compiler.launch.native_calls import emit
from compiler.launch.native_calls.answers import answer, entries, made, new_code
from compiler.launch.native_calls.kept import KeptAnswers
from compiler.launch.native_calls.kinds import Kinds, kinds_of
from compiler.launch.native_calls.launches import kernel_symbol
from compiler.launch.native_calls.plan import CallPlan, Unplannable
from compiler.launch.native_calls.watch import CPU_LAUNCHES, CpuLaunch
from compiler.launch.tiers import AUTO, LaterWork, at_end, later, wake
from runtime import forks
from runtime.calls.answering import PLANS
from runtime.cpu.image import ObjectToLink
from runtime.records import Factory, define
from runtime.unawaited import READING
from runtime.uncollected import uncollected

COMES_AGAIN = 2
"""The call of a kind, counted from 1, that is watched and planned, where no other process has use for the plan. That takes as long as two
calls through the program, some 100 microseconds; the code is made beside the program, in 5 to 11 ms of another core, and spares each
call 55 to 70 microseconds. A later call would save that core's time for functions of fewer than a hundred calls, and cost all others."""

KINDS_REMEMBERED = 64


class Plannable(Protocol):
    """What is called."""

    @property
    def count(self) -> int:
        """How many arguments it takes."""

    def plan(self, kinds: Kinds, given: Sequence[Any], launches: Sequence[CpuLaunch], value: Any) -> CallPlan:
        """The plan of calls like this one, which took `given`, made these launches, and came to `value`. Raises Unplannable."""


@define(eq=False)
class NativeCalls:
    """The calls of one function. `target`: the callable that Python has, with fields as `vectorcall_type` adds them; `offsets`: where they
    lie; `unawaited`: a dictionary with something in it while futures of the program are under way whose faults a call must tell."""

    function: Plannable
    target: "ref[Any]"
    offsets: dict[str, int]
    unawaited: object
    kept: KeptAnswers | None = None
    """Where other processes find the code; None where the program may be another one there."""
    anywhere: bool = False
    """Whether the blocks run on the CPU whatever other devices a machine has."""
    comes_again: int = COMES_AGAIN
    _planned: dict[Kinds, list[NativeKernel]] = Factory(dict)
    """The kinds that machine code answers, and the kernels that it runs."""
    _seen: dict[Kinds, int] = Factory(dict)
    _early: set[Kinds] = Factory(set)
    """The kinds of early calls."""
    _waiting: set[Kinds] = Factory(set)
    """The kinds whose code is made beside the program, with the kernels that there are then: nothing more is wanted until it is there."""
    _lock: threading.Lock = Factory(forks.lock)

    def value(self, values: Sequence[Any], given: Sequence[Any], program: Callable[..., Any], early: bool = False) -> Any:
        """The function's value, through the program; calls of this kind get machine code when they come again. `early`: it isn't worth
        its while yet, and only other processes find it, for which it is made when this one ends."""
        wake()
        kinds = kinds_of(values) if len(values) == self.function.count else None
        if kinds is None or not self._comes_again(kinds, early):
            return program(*given)
        with CPU_LAUNCHES.watched() as launches:
            try:
                value = program(*given)
            except BaseException:
                self._seen.pop(kinds, None)  # the next call that goes well tells the plan
                self._early.discard(kinds)
                raise
        with suppress(Unplannable), uncollected():
            plan = self.function.plan(kinds, given, launches, value)
            if early:
                at_end(self._later(kinds, plan))
            else:
                self._plan(kinds, plan)
        return value

    def is_coming(self, values: Sequence[Any]) -> bool:
        """Whether machine code answers calls like this one, or soon will."""
        kinds = kinds_of(values)
        return kinds in self._planned or kinds in self._waiting

    def _plan(self, kinds: Kinds, plan: CallPlan) -> None:
        """Has machine code answer calls by this plan. Kernels are to have the code of their last tier before. Raises
        Unplannable."""
        if all(launch.kernel.options.tier != AUTO or not launch.kernel.in_use.is_quick for launch in plan.launches):
            self._add(kinds, plan)
            return
        self._waiting.add(kinds)
        later(self._later(kinds, plan))

    def _later(self, kinds: Kinds, plan: CallPlan) -> LaterWork:
        """Has machine code answer calls by this plan when it is done."""

        def add(ending: bool) -> None:
            self._waiting.discard(kinds)
            for launch in plan.launches:
                if launch.kernel.options.tier == AUTO:
                    launch.kernel.in_use.improve()
            with suppress(Unplannable):
                self._add(kinds, plan, ending)

        def fail(error: Exception) -> None:
            self._waiting.discard(kinds)
            for launch in plan.launches:
                launch.kernel.in_use.fail(error)

        return LaterWork(add, fail, lasts=self.kept is not None)

    def _comes_again(self, kinds: Kinds, early: bool) -> bool:
        """Whether this is the call after which there is to be a plan, or one with other kernels: code that answers, but hands this call on,
        may have the kernel of another path."""
        if kinds in self._waiting:
            return False
        if kinds in self._planned:
            return any(kernel.has_one_path for kernel in self._planned[kinds])
        if len(self._planned) >= PLANS:
            return False
        if early:
            is_new = kinds not in self._early and len(self._early) < PLANS
            self._early.add(kinds)
            return is_new
        if len(self._seen) >= KINDS_REMEMBERED:
            self._seen.clear()
        self._seen[kinds] = count = self._seen.get(kinds, 0) + 1
        return count == (self.comes_again if self.kept is None else 1)

    def _add(self, kinds: Kinds, plan: CallPlan, ending: bool = False) -> None:
        """Calls by this plan are answered by machine code from now on; where the process ends, those of other processes. Raises
        Unplannable."""
        target = self.target()
        if target is None:
            return
        # where the cache had code that handed this call on, calls take several paths
        found = self.kept is not None and self.kept.has_answered(kinds)
        kernels = [launch.kernel.native if found else launch.kernel.in_use for launch in plan.launches]
        if kernels == self._planned.get(kinds):
            return
        for kernel, launch in zip(kernels, plan.launches, strict=True):
            if launch.kernel.options.tier == AUTO:
                kernel.improve()  # the call's code has the address of this code for good
        code = emit.emit_call(plan, self.unawaited, READING, new_code())
        with self._lock:
            if kernels != self._planned.get(kinds):
                symbols = {kernel_symbol(number): kernel.entry() for number, kernel in enumerate(kernels)}
                if ending:
                    entries(self.offsets)
                compiled = made(code) if ending else answer(target, self.offsets, code, symbols, kernels)
                self._planned[kinds] = kernels
                if self.kept is not None and not any(kernel.is_quick for kernel in kernels):
                    objects = [ObjectToLink(kernel.object, {kernel.symbol: kernel_symbol(number)}) for number, kernel in enumerate(kernels)]
                    self.kept.keep(kinds, compiled.object, code.objects, objects, self.anywhere)
