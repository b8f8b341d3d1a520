"""What an author of a target writes against. Experimental: this may change in any version.

A package registers a `Target` under its name as an entry point of the group `zyntax.targets`; `zyntax compile --target NAME --emit STAGE`
and, where its machine is a `GpuMachine`, `--device emulator:NAME` then work."""

from compiler.machines.cpu import CpuMachine as CpuMachine
from compiler.machines.gpu import GpuMachine as GpuMachine
from compiler.targets.nvidia import PASSES as GPU_PASSES
from compiler.targets.shown import ShownProgram as ShownProgram
from compiler.targets.target import Target as Target

__all__ = ["GPU_PASSES", "CpuMachine", "GpuMachine", "ShownProgram", "Target"]
