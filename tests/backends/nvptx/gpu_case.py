"""How a GPU instruction's small kernel is written down: what makes it, and the PTX line that it must become."""

from collections.abc import Callable

from attrs import field, frozen

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.gpu import (
    GridIndex,
    SharedAlloc,
)
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.types import Mem, Space, Tile

T = Affine.of("t")
"""The thread's index in its block."""


class Kernel:
    """A kernel of one warpgroup under construction."""

    def __init__(self, name: str) -> None:
        self.builder = FunctionBuilder(name, Form.THREAD)
        self.body = self.builder.body
        self.emit = self.body.emit
        self.thread = self.emit(GridIndex(operator="thread_idx", dim="x"), "t").result

    def input(self, dtype: str, *dims: int, **facts: object) -> Value:
        return self.builder.parameter("x", Mem(dtype, dims or (128,), **facts))

    def loaded(self, dtype: str) -> Value:
        """A value of the thread's own."""
        return self.body.load(self.input(dtype, readonly=True), ["t"])

    def shared(self, dtype: str, *dims: int, **facts: object) -> Value:
        return self.emit(SharedAlloc(type=Mem(dtype, dims, space=Space.SHARED, **facts)), "s").result

    def keep(self, *values: Value) -> None:
        """Store values, so that they are computed."""
        for value in values:
            assert isinstance(value.type, Tile)
            out = self.builder.parameter("out", Mem(value.type.dtype, (1024,)))
            self.body.store(out, value, ["t"])

    def use(self, mem: Value) -> None:
        """Read a shared memory back, so that it exists."""
        self.keep(self.body.load(mem, ["t"] if mem.type.rank == 1 else [0, "t"]))

    def const(self, value: float, dtype: str) -> Value:
        return self.body.const(value, dtype)

    def finish(self) -> HirFunction:
        function = self.builder.finish()
        function.kernel_info = HirKernelInfo(workgroup=(128, 1, 1))
        return function


@frozen
class Case:
    """`line` is what must stand in the PTX (registers without their numbers), from `sm` on; older targets refuse with `lacking`, or
    do without when that is None. `specific`: only on these targets."""

    instruction: str
    name: str
    make: Callable[[Kernel], None]
    line: str
    sm: int = 75
    lacking: str | None = None
    specific: tuple[str, ...] = ()
    absent: str = field(default="")

    def function(self) -> HirFunction:
        kernel = Kernel(self.name)
        self.make(kernel)
        return kernel.finish()


CASES: list[Case] = []


def case(instruction: str, line: str, name: str = "", **facts: object) -> Callable[[Callable[[Kernel], None]], Callable[[Kernel], None]]:
    def add(make: Callable[[Kernel], None]) -> Callable[[Kernel], None]:
        known = sum(c.instruction == instruction for c in CASES)
        CASES.append(Case(instruction, name or f"{instruction.replace('.', '_')}_{known}", make, line, **facts))
        return make

    return add
