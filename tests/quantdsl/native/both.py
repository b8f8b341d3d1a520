"""Runs a host function natively and in the interpreter, and looks that both give the same results, the same failure and the same memory."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from compiler.backends.native.compile import HostModule, compile_module
from compiler.emulator.execute import finish, prepare
from compiler.emulator.interpret import KernelFault
from compiler.emulator.translate import Translator
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.verify import verify

Failure = tuple[str, str, int, tuple[Any, ...]]
"""Code, function, site, values."""


class Both:
    """A module compiled at some levels, and interpreted."""

    def __init__(self, module: HirModule, levels: Sequence[OptimizationLevel] = (OptimizationLevel.OLATENCY,)) -> None:
        verify(module)
        self.module = module
        self.native: list[HostModule] = [compile_module(module, level) for level in levels]
        self.interpreted = cache(lambda name: finish(Translator(module.functions[name], module), {}))

    def __call__(self, name: str, *arguments: Any) -> tuple[Any, ...] | Failure:
        """The results, or the failure. Arrays are changed in place."""
        before = [_copy(a) for a in arguments]
        expected, memories = self._interpret(name, arguments)
        for number, native in enumerate(self.native):
            own = list(arguments) if number == 0 else [_copy(a) for a in before]
            outcome = native[name].run(own)
            found: tuple[Any, ...] = outcome.results
            if outcome.fault is not None:
                f = outcome.fault
                found = (f.code, f.function, f.site, f.values)
            assert repr(found) == repr(expected), f"{name}{tuple(before)}: native {found}, interpreted {expected}"
            for mine, other in zip(own, memories, strict=True):
                if isinstance(mine, np.ndarray):
                    assert _same(mine, other), f"{name}: memory differs: {mine} and {other}"
        return expected

    def _interpret(self, name: str, arguments: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
        memories = [_copy(a) for a in arguments]
        run = self.interpreted(name)
        try:
            return tuple(run(*prepare(self.module.functions[name], memories)) or ()), memories
        except KernelFault as failure:
            return (failure.code, failure.function, failure.site, failure.values), memories


def _copy(argument: Any) -> Any:
    if not isinstance(argument, np.ndarray):
        return argument
    made = np.zeros_like(argument)
    made.reshape(-1).view(np.uint8)[:] = argument.reshape(-1).view(np.uint8)
    return made


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bytes, but for those of NaNs, whose sign no standard says."""
    if a.dtype.names is not None:
        return all(_same(a[name], b[name]) for name in a.dtype.names)
    if a.dtype.kind != "f":
        return a.tobytes() == b.tobytes()
    return bool(np.array_equal(np.isnan(a), np.isnan(b))) and np.nan_to_num(a).tobytes() == np.nan_to_num(b).tobytes()
