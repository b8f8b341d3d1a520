"""What programs can be compiled for: the targets by name, and those that other packages bring."""

from collections.abc import Callable
from functools import partial

from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target
from compiler.machines.cpu import CPUS, host_machine
from compiler.targets import cpu, nvidia
from compiler.targets.installed import installed_target
from compiler.targets.target import Target


def cpu_target(name: str | None = None) -> Target:
    """The CPU that this runs on, or another by its name. Raises ZyntaxError (0501)."""
    named = None if name is None else cpu.machine_named(name)
    return Target(name or "cpu", named or host_machine(), cpu.PASSES, cpu.STAGES, partial(cpu.emit, named), "cpu")


def nvidia_target(name: str) -> Target:
    """A GPU by the name of its architecture. Raises ZyntaxError (0501)."""
    target = gpu_target(name)
    emitter = partial(nvidia.emit, target)
    return Target(name, target.machine, nvidia.PASSES, nvidia.STAGES, emitter, f"emulator:{name}")


TARGETS: dict[str, Callable[[], Target]] = {
    "cpu": cpu_target,
    **{name: partial(cpu_target, name) for name in CPUS},
    **{name: partial(nvidia_target, name) for name in PTX_VERSIONS},
}


def target_named(name: str | None) -> Target:
    """None: the CPU. Raises ZyntaxError (0501)."""
    name = name or "cpu"
    if name in TARGETS:
        return TARGETS[name]()
    return installed_target(name) or nvidia_target(name)
