"""Machine code that answers calls of a function: compiled, and put in front of the code that answered until now."""

import atexit
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any
from weakref import WeakSet

from compiler.backends.cpu.compile import attributes
from compiler.hir.module import OptimizationLevel
from compiler.launch.native_calls.code import FORKED, NAME, NEXT, CallCode
from compiler.launch.native_calls.entry import EMPTIED, FIRST, SLOWLY, entry_module
from runtime import forks
from runtime.calls import arrays
from runtime.calls.vectorcall import ENTRY, KEPT, VECTOR
from runtime.cpu import load, pool

PLANS = 8
"""Plans of a function: kinds of arguments that are tried in turn."""

_LOCK: threading.Lock = forks.lock()


def new_code() -> CallCode:
    return CallCode(_attributes())


def answer(target: Any, offsets: Mapping[str, int], code: CallCode, symbols: Mapping[str, int], held: Any) -> None:
    """Has this code answer calls of `target` from now on, whose fields (see `vectorcall_type`) lie at `offsets`. `symbols`: what the code
    refers to that isn't an object; `kept`: what must live as long as the code does."""
    entries = _entries(tuple(offsets.items()))
    with _LOCK:
        known = {
            **arrays.symbols(),
            **{name: id(referred) for name, referred in code.objects.items()},
            **symbols,
            NEXT: getattr(target, f"_{ENTRY}") or entries[SLOWLY],
            SLOWLY: entries[SLOWLY],
            FORKED: pool.forked_flag(),
        }
        addresses, tracker = _compiled(code.module.text()).addresses([NAME], known)
        # the code of calls that run in other threads stays, and so does what it refers to
        setattr(target, f"_{KEPT}", [*getattr(target, f"_{KEPT}", ()), (tracker, code.objects, held)])
        setattr(target, f"_{ENTRY}", addresses[NAME])
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
