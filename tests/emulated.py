"""How an instruction's test in the emulator is written down: a small kernel in form C, what it is given, and what must come out, which
NumPy or a closed form says."""

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen

import compiler.hir.instructions  # noqa: F401  (all are declared)
from compiler.emulator.interpret import interpret
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.verify import verify

Array = np.ndarray[Any, Any]


@frozen
class Launch:
    """`expected`: by position, what arguments hold afterwards; `kernel`: further kernel information; `tolerance`: of float results."""

    parameters: str
    body: str
    arguments: tuple[Any, ...]
    expected: dict[int, Array]
    block: tuple[int, ...] = (32,)
    grid: tuple[int, ...] = (1,)
    axes: str = ""
    kernel: str = ""
    shared_bytes: int = 0
    tolerance: float = 0.0

    def function(self) -> HirFunction:
        x, y, z = (*self.block, 1, 1)[:3]
        info = f"kernel=[entry=true, kind=custom, workgroup=[{x}, {y}, {z}]{self.kernel}]"
        text = f"func @f({self.parameters}) form=C {f'axes=[{self.axes}] ' if self.axes else ''}{info} {{\n{self.body}\n}}"
        function = parse_function(text)
        verify(function)
        return function

    def run(self, seed: int | None = None) -> list[Any]:
        """The arguments after the launch."""
        arguments = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in self.arguments]
        interpret(self.function(), arguments, grid=self.grid, shared_bytes=self.shared_bytes, seed=seed)
        return arguments

    def check(self, seed: int | None = None) -> None:
        found = self.run(seed)
        for place, expected in self.expected.items():
            have, want = (np.asarray(array, np.float64) if self.tolerance else array for array in (found[place], expected))
            if self.tolerance:
                np.testing.assert_allclose(have, want, rtol=self.tolerance, atol=self.tolerance)
            else:
                np.testing.assert_array_equal(have, want)


@frozen
class Case:
    """A launch that shows these instructions."""

    name: str
    instructions: tuple[str, ...]
    make: Callable[[], Launch] = field(repr=False)


CASES: list[Case] = []


def emulated(*instructions: str, name: str = "", **facts: Any) -> Callable[[Callable[..., Launch]], Callable[..., Launch]]:
    """Write down a case; `facts` are given to the function."""

    def add(make: Callable[..., Launch]) -> Callable[..., Launch]:
        words = "_".join(str(value) for value in facts.values())
        CASES.append(Case(name or f"{make.__name__}{'_' if words else ''}{words}", instructions, lambda: make(**facts)))
        return make

    return add
