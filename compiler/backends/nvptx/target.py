"""Which NVIDIA targets there are, and which version of PTX goes with each: the one table that is asked before LLVM is. (LLVM aborts
the process over a pair that it doesn't know.)"""

from attrs import frozen

from compiler.diagnostics import Diagnostic, ZyntaxError

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
class Multiprocessor:
    """What a multiprocessor holds, and what a block can have of it. Shared memory in bytes."""

    warps: int
    blocks: int
    shared: int
    block_shared: int
    registers: int = 65536

    def resident_blocks(self, threads: int, registers: int, shared: int) -> int:
        """Blocks that it can hold at once, each of so many threads with so many registers, and so much shared memory a block.
        Registers are given to warps in units of 256, a quarter of the warps to each of four schedulers; shared memory to blocks in
        units of 128 bytes, 1 KiB of it to the system where a block can't have all."""
        warps = -(-threads // 32)
        for_warp = -(-registers * 32 // 256) * 256
        by_registers = 4 * (self.registers // 4 // for_warp) // warps if registers else self.blocks
        system = 1024 if self.block_shared < self.shared else 0
        each = -(-(shared + system) // 128) * 128
        by_shared = self.shared // each if each else self.blocks
        return min(self.blocks, self.warps // warps, by_registers, by_shared)


_KIB = 1024
MULTIPROCESSORS = {
    75: Multiprocessor(32, 16, 64 * _KIB, 64 * _KIB),
    80: Multiprocessor(64, 32, 164 * _KIB, 163 * _KIB),
    86: Multiprocessor(48, 16, 100 * _KIB, 99 * _KIB),
    89: Multiprocessor(48, 24, 100 * _KIB, 99 * _KIB),
    90: Multiprocessor(64, 32, 228 * _KIB, 227 * _KIB),
    100: Multiprocessor(64, 32, 228 * _KIB, 227 * _KIB),
    120: Multiprocessor(48, 24, 100 * _KIB, 99 * _KIB),
}
"""By the architecture's number: the CUDA programming guide's table of technical specifications."""


@frozen
class GpuTarget:
    """An architecture and a PTX version that go together; made by `gpu_target`."""

    arch: str
    ptx: tuple[int, int]

    @property
    def number(self) -> int:
        """90 of sm_90a."""
        return int(self.arch.removeprefix("sm_").rstrip("a"))

    @property
    def specific(self) -> bool:
        """Whether it is one architecture only, with what later ones need not have (`a`)."""
        return self.arch.endswith("a")

    @property
    def features(self) -> str:
        return f"+ptx{self.ptx[0]}{self.ptx[1]}"

    @property
    def shared_limit(self) -> int:
        """Bytes of shared memory that a block can have."""
        return self.multiprocessor.block_shared

    @property
    def multiprocessor(self) -> Multiprocessor:
        return MULTIPROCESSORS[self.number]

    @property
    def has_warpgroups(self) -> bool:
        return self.arch == "sm_90a"

    def __str__(self) -> str:
        return self.arch


def gpu_target(arch: str, ptx: tuple[int, int] | None = None) -> GpuTarget:
    """The target of that name (`sm_90a`), with the table's PTX version or another that goes with it; 0501 otherwise."""
    if arch not in PTX_VERSIONS:
        raise ZyntaxError(Diagnostic("0501", f"there is no GPU target `{arch}`", hint=f"targets are {', '.join(PTX_VERSIONS)}"))
    lowest, highest = PTX_VERSIONS[arch]
    if ptx is None:
        return GpuTarget(arch, lowest)
    if ptx not in _KNOWN or not lowest <= ptx <= highest:
        words = [".".join(map(str, version)) for version in (ptx, lowest, highest)]
        message = f"PTX {words[0]} doesn't go with `{arch}`"
        raise ZyntaxError(Diagnostic("0501", message, hint=f"`{arch}` takes PTX {words[1]} to {words[2]}"))
    return GpuTarget(arch, ptx)


def target_of_device(capability: tuple[int, int]) -> GpuTarget:
    """The target to compile for a device: with what is its own where there is such a target, else the highest that it runs. 0504 for
    devices older than any target."""
    number = capability[0] * 10 + capability[1]
    fitting = [gpu_target(arch) for arch in PTX_VERSIONS]
    fitting = [target for target in fitting if target.number == number or (target.number < number and not target.specific)]
    if not fitting:
        message = f"devices of compute capability {capability[0]}.{capability[1]} are not supported"
        raise ZyntaxError(Diagnostic("0504", message, hint="7.5 is the lowest"))
    return max(fitting, key=lambda target: (target.number, target.specific))


def ptx_of_driver(version: tuple[int, int]) -> tuple[int, int]:
    """The highest PTX version that a driver of this CUDA version takes."""
    return _OF_DRIVERS.get(version, (version[0] - 4, version[1]))
