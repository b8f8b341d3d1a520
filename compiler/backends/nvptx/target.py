"""Which NVIDIA targets there are, and which version of PTX goes with each: the one table that is asked before LLVM is. (LLVM aborts
the process over a pair that it doesn't know.)"""

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.machines.gpu import GpuMachine
from compiler.machines.nvidia import MACHINES
from runtime.records import frozen

PTX_VERSIONS: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "sm_75": ((8, 0), (9, 0)),
    "sm_80": ((8, 0), (9, 0)),
    "sm_86": ((8, 0), (9, 0)),
    "sm_89": ((8, 0), (9, 0)),
    "sm_90": ((8, 0), (9, 0)),
    "sm_90a": ((8, 0), (9, 0)),
    "sm_100": ((8, 6), (9, 0)),
    "sm_100a": ((8, 6), (9, 0)),
    "sm_120": ((8, 7), (9, 0)),
}
"""Each architecture's lowest PTX version, which is also the one used, and the highest. Lower ones exist for old architectures, but
their drivers are older than any that this project runs on."""

DEFAULT = "sm_90"
"""The architecture that is compiled for where none is named."""

_KNOWN = ((8, 0), (8, 1), (8, 2), (8, 3), (8, 4), (8, 5), (8, 6), (8, 7), (8, 8), (9, 0))
_OF_DRIVERS = {(12, 0): (8, 0), (12, 5): (8, 5), (12, 6): (8, 5), (12, 7): (8, 6), (12, 8): (8, 7), (12, 9): (8, 8)}
"""PTX versions of drivers that aren't the driver's own version less four (12.3: 8.3, 13.0: 9.0); NVIDIA's PTX ISA, release notes."""


@frozen
class GpuTarget:
    """An architecture and a PTX version that go together; made by `gpu_target`."""

    machine: GpuMachine
    ptx: tuple[int, int]

    @property
    def features(self) -> str:
        return f"+ptx{self.ptx[0]}{self.ptx[1]}"

    def __str__(self) -> str:
        return self.machine.name


def gpu_target(arch: str, ptx: tuple[int, int] | None = None) -> GpuTarget:
    """The target of that name (`sm_90a`), with the table's PTX version or another that goes with it; 0501 otherwise."""
    if arch not in PTX_VERSIONS:
        raise ZyntaxError(Diagnostic("0501", f"there is no GPU target `{arch}`", hint=f"targets are {', '.join(PTX_VERSIONS)}"))
    lowest, highest = PTX_VERSIONS[arch]
    if ptx is None:
        return GpuTarget(MACHINES[arch], lowest)
    if ptx not in _KNOWN or not lowest <= ptx <= highest:
        words = [".".join(map(str, version)) for version in (ptx, lowest, highest)]
        message = f"PTX {words[0]} doesn't go with `{arch}`"
        raise ZyntaxError(Diagnostic("0501", message, hint=f"`{arch}` takes PTX {words[1]} to {words[2]}"))
    return GpuTarget(MACHINES[arch], ptx)


def target_of_device(capability: tuple[int, int]) -> GpuTarget:
    """The target to compile for a device: with what is its own where there is such a target, else the highest that it runs. 0504 for
    devices older than any target."""
    machines = [machine for machine in MACHINES.values() if machine.capability <= capability]
    fitting = [machine for machine in machines if machine.capability == capability or machine.general is None]
    if not fitting:
        message = f"devices of compute capability {capability[0]}.{capability[1]} are not supported"
        raise ZyntaxError(Diagnostic("0504", message, hint="7.5 is the lowest"))
    return gpu_target(max(fitting, key=lambda machine: (machine.capability, machine.general is not None)).name)


def ptx_of_driver(version: tuple[int, int]) -> tuple[int, int]:
    """The highest PTX version that a driver of this CUDA version takes."""
    return _OF_DRIVERS.get(version, (version[0] - 4, version[1]))
