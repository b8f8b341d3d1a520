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

_SHARED_KIB = {75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
_KNOWN = ((8, 0), (8, 1), (8, 2), (8, 3), (8, 4), (8, 5), (8, 6), (8, 7), (8, 8), (9, 0))


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
        return _SHARED_KIB[self.number] * 1024

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
