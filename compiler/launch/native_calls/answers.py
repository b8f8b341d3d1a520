"""Machine code that answers calls of a function: compiled, and put in front of the code that answered until now."""

from collections.abc import Mapping
from typing import Any

from compiler.backends.cpu.compile import attributes
from compiler.hir.module import OptimizationLevel
from compiler.launch.native_calls.code import NAME, CallCode
from compiler.launch.native_calls.entry import entry_module
from compiler.launch.native_calls.kept import EMPTIED, keep_entries, kept_entries
from runtime.calls import arrays
from runtime.calls.answering import FIRST, SLOWLY, put_in_front
from runtime.cpu import load


def new_code() -> CallCode:
    return CallCode(_attributes())


def answer(target: Any, offsets: Mapping[str, int], code: CallCode, symbols: Mapping[str, int], held: Any) -> load.CompiledModule:
    """Has this code answer calls of `target` from now on, whose fields (see `vectorcall_type`) lie at `offsets`. `symbols`: what the code
    refers to that isn't an object; `held`: what must live as long as the code does."""
    compiled = made(code)
    known = {**arrays.symbols(), **{name: id(referred) for name, referred in code.objects.items()}, **symbols}

    def bring(after: Mapping[str, int]) -> tuple[int, Any]:
        addresses, tracker = compiled.addresses([NAME], {**known, **after})
        return addresses[NAME], (tracker, code.objects, held)

    put_in_front(target, entries(offsets), bring)
    return compiled


def made(code: CallCode) -> load.CompiledModule:
    """The code of a call."""
    return _compiled(code.module.text())


def _compiled(text: str) -> load.CompiledModule:
    """Not optimised: a call is as fast, and the code is made in a fifth of the time, some 2 ms."""
    return load.CompiledModule(text, _target(), OptimizationLevel.O0.value, {})


def _attributes() -> tuple[str, ...]:
    return attributes(_target(), OptimizationLevel.O0)


def _target() -> load.CodeTarget:
    return load.target(None, None, None, 0)


def entries(offsets: Mapping[str, int]) -> Mapping[str, int]:
    """The code that Python calls first, and the way through the program."""
    known = kept_entries(offsets)
    if known is None:
        compiled = _compiled(entry_module(offsets, _attributes()).text())
        known, tracker = compiled.addresses([FIRST, SLOWLY], {**arrays.symbols(), EMPTIED: id(ReferenceError)})
        _LASTING.append(tracker)
        keep_entries(compiled.object, offsets, known)
    return known


_LASTING: list[Any] = []
"""What keeps the code of entries alive."""
