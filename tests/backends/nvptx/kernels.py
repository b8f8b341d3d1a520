"""Small kernels of form C for tests: built, compiled, and their PTX as lines without register numbers."""

import re
from collections.abc import Callable, Sequence

from compiler.backends.nvptx.compile import PtxModule, compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.gpu import GridIndex
from compiler.hir.instruction import Value
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.types import INDEX, Mem


def pointwise(name: str, make: Callable[[Builder, Sequence[Value]], Value], dtype: str, count: int = 1) -> HirFunction:
    """`out[t] = make(x0[t], ...)`, a thread an element."""
    f = FunctionBuilder(name, Form.THREAD)
    inputs = [f.parameter(f"x{number}", Mem(dtype, ["N"], readonly=True)) for number in range(count)]
    f.parameter("N", INDEX)
    f.body.emit(GridIndex(operator="thread_idx", dim="x"), "t")
    result = make(f.body, [f.body.load(x, ["t"]) for x in inputs])
    f.body.store(f.parameter("out", Mem(result.type.dtype, ["N"])), result, ["t"])
    function = f.finish()
    function.kernel_info = HirKernelInfo(workgroup=(128, 1, 1))
    return function


def compiled(function: HirFunction, arch: str = "sm_90a") -> PtxModule:
    return compile_kernels(function, gpu_target(arch))


def lines(ptx: str) -> list[str]:
    """The PTX without the numbers of registers, and with one blank between words."""
    return [" ".join(re.sub(r"%(p|rs|rd|r|f|fd)\d+", r"%\1", line).split()) for line in ptx.splitlines()]
