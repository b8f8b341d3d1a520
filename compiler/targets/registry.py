"""What programs can be compiled for. A target is a machine with the passes of its kernels, what shows a program at each of them and behind
the last, and what runs a block."""

from collections.abc import Callable
from functools import partial

from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target
from compiler.machines.cpu import CpuMachine, host_machine
from compiler.machines.gpu import GpuMachine
from compiler.targets import cpu, nvidia
from compiler.targets.installed import installed_target
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


def cpu_target() -> Target:
    """The CPU that this runs on."""
    return Target("cpu", host_machine(), cpu.PASSES, cpu.STAGES, cpu.emit, "cpu")


def nvidia_target(name: str) -> Target:
    """A GPU by the name of its architecture. Raises ZyntaxError (0501)."""
    target = gpu_target(name)
    emitter = partial(nvidia.emit, target)
    return Target(name, target.machine, nvidia.PASSES, nvidia.STAGES, emitter, f"emulator:{name}")


TARGETS: dict[str, Callable[[], Target]] = {"cpu": cpu_target, **{name: partial(nvidia_target, name) for name in PTX_VERSIONS}}


def target_named(name: str | None) -> Target:
    """None: the CPU. Raises ZyntaxError (0501)."""
    name = name or "cpu"
    if name in TARGETS:
        return TARGETS[name]()
    return installed_target(name) or nvidia_target(name)
