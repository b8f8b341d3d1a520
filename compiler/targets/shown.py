"""What is shown of a program: its kernels, as types tell them or as a call runs them."""

from collections.abc import Mapping, Sequence

from compiler.launch.kernels import BuiltKernel
from compiler.launch.recorded import LaunchedKernel
from compiler.launch.thread_kernels import ThreadKernel
from compiler.options import CompileOptions
from compiler.passes.pipelines import PassTimes
from compiler.source import Sources
from compiler.typed_ast import nodes
from runtime.records import define, frozen


@frozen(eq=False)
class ShownKernel:
    """A compute block and its kernel. `position`: where it stands (`norms.zynml:2:5`). Of a call that runs it `call` says the values,
    `threads` the launches, where threads run it, and `sizes` what their parameters are."""

    compute: nodes.Compute
    built: BuiltKernel
    position: str
    call: str = ""
    threads: ThreadKernel | None = None
    sizes: Mapping[str, int] | None = None

    @property
    def heading(self) -> str:
        """`norms.zynml:2:5: @norms_line2`, and for which values."""
        called = f" of {self.call}" if self.call else ""
        return f"{self.position}: @{self.built.lowered.function.name}{called}"


@define(eq=False)
class ShownProgram:
    """Kernels that go into one module of this name."""

    name: str
    kernels: Sequence[ShownKernel]
    sources: Sources
    options: CompileOptions
    times: PassTimes


def shown_launch(launched: LaunchedKernel, position: str) -> ShownKernel:
    return ShownKernel(launched.compute, launched.built, position, launched.call, launched.threads, launched.sizes)
