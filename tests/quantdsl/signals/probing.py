"""Calls a function with signals in it again and again, with memory that lasts: compiled at O0 and for latency, and in the interpreter."""

from typing import Any

import numpy as np

from compiler.hir.layout import new_memory
from compiler.hir.types import Array, HirType, Pointer
from tests.quantdsl.elaborate.running import Functions


class Probe:
    """`fn probe` of a text. Its result's numbers come flat; none is None. `compiled_only`: functions like `log` may differ from the
    interpreter's in the last bit."""

    def __init__(self, text: str, compiled_only: bool = False) -> None:
        self.compiled_only = compiled_only
        self.functions = Functions(text)
        self.name = "fn.probe"
        function = self.functions.program.module.functions[self.name]
        self.memory = [_memory(p.type.pointee) for p in function.parameters if isinstance(p.type, Pointer)]
        self.optional = str(function.results[0]) == "i1" and len(function.results) > 1

    def __call__(self, *arguments: Any) -> Any:
        if self.compiled_only:
            found = self.functions.both.native[-1][self.name].run([*arguments, *self.memory]).results
        else:
            found = self.functions.run(self.name, *arguments, *self.memory)
        if not self.optional:
            return found
        present, *values = found
        return None if not present else values[0] if len(values) == 1 else tuple(values)

    def all(self, *columns: Any, width: int = 1) -> np.ndarray[Any, Any]:
        """The results of one call after the other as floats, NaN for none."""
        blank = (np.nan,) * width if width > 1 else np.nan
        found = [self(*row) for row in zip(*columns, strict=True)]
        return np.array([blank if one is None else one for one in found], dtype=np.float64)


def _memory(type: HirType) -> np.ndarray[Any, Any]:
    if isinstance(type, Array):
        assert type.count is not None
        return new_memory(type.element, type.count)
    return new_memory(type)
