"""A target: a machine with the passes of its kernels, what shows a program at each of them and behind the last, and what runs a block."""

from collections.abc import Callable

from compiler.machines.cpu import CpuMachine
from compiler.machines.gpu import GpuMachine
from compiler.targets.shown import ShownProgram
from runtime.records import frozen

AFTER = "hir-after="
"""In front of a pass: the kernels after that."""


@frozen(eq=False)
class Target:
    """`passes` by name, in order; `stages`: what is shown besides; `executor`: the device that runs its kernels on any machine."""

    name: str
    machine: CpuMachine | GpuMachine
    passes: tuple[str, ...]
    stages: tuple[str, ...]
    emitter: Callable[[ShownProgram, str], str | bytes]
    executor: str

    def shows(self, stage: str) -> bool:
        return stage in self.stages or (stage.startswith(AFTER) and stage.removeprefix(AFTER) in self.passes)
