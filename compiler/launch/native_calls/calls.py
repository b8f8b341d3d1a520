"""The machine code of one function's calls: made when calls of a kind come again."""

import atexit
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any
from weakref import WeakSet, ref

from attrs import Factory

from compiler.backends.cpu.compile import attributes
from compiler.hir.module import OptimizationLevel
from compiler.launch.native_calls import emit
from compiler.launch.native_calls.code import NAME
from compiler.launch.native_calls.entry import EMPTIED, FIRST, SLOWLY, entry_module
from compiler.launch.native_calls.launches import kernel_symbol
from compiler.launch.native_calls.learn import BlocksFunction, Kinds, kinds_of, plan_of
from compiler.launch.native_calls.plan import CallPlan, Unplannable
from compiler.launch.native_calls.watch import CPU_LAUNCHES
from runtime import forks, futures
from runtime.calls import arrays
from runtime.calls.vectorcall import ENTRY, KEPT, VECTOR
from runtime.cpu import load, pool
from runtime.records import define

PLANS = 8
"""Plans of a function: kinds of arguments that are tried in turn."""

COMES_AGAIN = 2
"""The call of a kind, counted from 1, that is watched and planned."""

KINDS_REMEMBERED = 64


@define(eq=False)
class NativeCalls:
    """The calls of one function. `target`: the callable that Python has, with fields as `vectorcall_type` adds them; `offsets`: where they
    lie; `unawaited`: a dictionary with something in it while futures of the program are under way whose faults a call must tell."""

    function: BlocksFunction
    target: "ref[Any]"
    offsets: dict[str, int]
    unawaited: object
    _planned: set[Kinds] = Factory(set)
    _seen: dict[Kinds, int] = Factory(dict)
    _kept: list[Any] = Factory(list)
    _lock: threading.Lock = Factory(forks.lock)

    def value(self, values: Sequence[Any], given: Sequence[Any], program: Callable[..., Any]) -> Any:
        """The function's value, through the program; calls of this kind get machine code when they come again."""
        kinds = kinds_of(values) if len(values) == len(self.function.type.parameters) else None
        if kinds is None or not self._comes_again(kinds):
            return program(*given)
        with CPU_LAUNCHES.watched() as launches:
            value = program(*given)
        with suppress(Unplannable):
            self._add(kinds, plan_of(self.function, kinds, given, launches, value))
        return value

    def _comes_again(self, kinds: Kinds) -> bool:
        """Whether this is the call after which there is to be a plan."""
        if len(self._planned) >= PLANS or kinds in self._planned:
            return False
        if len(self._seen) >= KINDS_REMEMBERED:
            self._seen.clear()
        self._seen[kinds] = count = self._seen.get(kinds, 0) + 1
        return count == COMES_AGAIN

    def _add(self, kinds: Kinds, plan: CallPlan) -> None:
        """Calls by this plan are answered by machine code from now on. Raises Unplannable."""
        target = self.target()
        if target is None:
            return
        entries = _entries(tuple(self.offsets.items()))
        kernels = [launch.kernel.native for launch in plan.launches]
        code = emit.emit_call(plan, self.unawaited, futures._READING, _attributes())
        with self._lock:
            if kinds in self._planned:
                return
            following = getattr(target, f"_{ENTRY}") or entries[SLOWLY]
            symbols = {
                **arrays.symbols(),
                **{name: id(referred) for name, referred in code.objects.items()},
                **{kernel_symbol(number): kernel.entry() for number, kernel in enumerate(kernels)},
                emit.NEXT: following,
                SLOWLY: entries[SLOWLY],
                emit.FORKED: pool.forked_flag(),
            }
            addresses, tracker = _compiled(code.module.text()).addresses([NAME], symbols)
            # the code of calls that run in other threads stays, and so does what it refers to
            self._planned.add(kinds)
            self._kept.append((tracker, code.objects, kernels))
            setattr(target, f"_{ENTRY}", addresses[NAME])
            setattr(target, f"_{KEPT}", self._kept)
            setattr(target, f"_{VECTOR}", entries[FIRST])
            _TARGETS.add(target)


def _compiled(text: str) -> load.CompiledModule:
    """Not optimised: a call is as fast, and the code is made in a fifth of the time, some 2 ms."""
    return load.CompiledModule(text, _target(), OptimizationLevel.O0.value, {})


def _attributes() -> tuple[str, ...]:
    return attributes(_target(), OptimizationLevel.O0)


def _target() -> load.CodeTarget:
    return load.target(None, None, None, 0)


@cache
def _entries(offsets: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """The code that Python calls first, and the way through the program."""
    text = entry_module(dict(offsets), _attributes()).text()
    addresses, tracker = _compiled(text).addresses([FIRST, SLOWLY], {**arrays.symbols(), EMPTIED: id(ReferenceError)})
    _LASTING.append(tracker)
    return addresses


_LASTING: list[Any] = []
"""What keeps the code of entries alive."""

_TARGETS: "WeakSet[Any]" = WeakSet()
"""The callables whose calls machine code answers."""


@atexit.register
def _without_machine_code() -> None:
    """What is called while the interpreter takes itself apart goes the way through the program: machine code may be gone by then."""
    for target in list(_TARGETS):
        setattr(target, f"_{VECTOR}", 0)
