"""Runs HIR: the meaning against which every pass and backend is tested. Forms A, F and B run in order, one instruction after the
other (`place` of a loop has no meaning here); form C runs block by block in `threads.py`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.emulator.execute import finish, prepare
from compiler.emulator.fault import KernelFault, unsupported
from compiler.emulator.threads import interpret_threads
from compiler.emulator.translate import Translator
from compiler.hir.module import Form, HirFunction, HirModule

__all__ = ["KernelFault", "interpret"]


def interpret(function: HirFunction, arguments: Sequence[Any], module: HirModule | None = None, **launch: Any) -> tuple[Any, ...]:
    """Run `function` on arguments in the order of its parameters; memories are changed in place. Gives what the function returns.
    A function in form C may be given `grid=(x, y, z)`, `block=` and `shared_bytes=`; else its kernel info says them."""
    try:
        if function.form is Form.THREAD:
            interpret_threads(function, arguments, module, **launch)
            return ()
        run = finish(Translator(function, module), {})
        with np.errstate(all="ignore"):
            return run(*prepare(function, arguments)) or ()
    except RecursionError:
        raise unsupported(f"@{function.name} calls functions deeper than the interpreter follows") from None
