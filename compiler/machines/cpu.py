"""The facts of CPUs that schedules and back ends read: of the one here, and of those that objects are made for elsewhere."""

from collections.abc import Mapping

from compiler.hir.types import DTYPES, FLOATS
from compiler.machines.units.dots import DotUnit, dot_units
from runtime.cpu import detect
from runtime.records import frozen


@frozen
class CpuMachine:
    """`vector_bits` of the widest vector worth using, and how many vector registers there are. `triple`, `cpu` and `features` are LLVM's
    names of what code is made for; None: the CPU here."""

    vector_bits: int = 256
    vector_registers: int = 16
    triple: str | None = None
    cpu: str | None = None
    features: str | None = None

    @property
    def masked_bits(self) -> int:
        """Bits of the narrowest elements of which it moves vectors under a mask: AVX-512 does for bytes, AVX2 for 32 bits."""
        return {512: 8, 256: 32}.get(self.vector_bits, 128)

    @property
    def dots(self) -> tuple[DotUnit, ...]:
        """Dot products of its widest vectors."""
        units = dot_units(detect.host_features() if self.features is None else self.features)
        return tuple(unit for unit in units if self.vector_bits // 32 in unit.instructions)

    @property
    def register_tile(self) -> tuple[int, int]:
        """Rows and vectors of the results of a product that registers hold, beside the vectors and one number that are multiplied: enough
        sums in flight to hide the latency of additions. More than eight rows only make the ends of matrices dearer."""
        vectors = 2
        return min(8, (self.vector_registers - 1 - vectors) // vectors), vectors

    def lanes(self, dtype: str) -> int:
        """Elements of a dtype in one vector; half floats are computed in f32."""
        bits = 32 if dtype == "i1" or FLOATS.get(dtype, 32) < 32 else DTYPES[dtype]
        return max(1, self.vector_bits // bits)


def host_machine() -> CpuMachine:
    """The CPU that this runs on."""
    bits = detect.vector_bits(detect.host_features()) or 128
    return CpuMachine(bits, 32 if bits == 512 or detect.simd_name() == "NEON" else 16)


_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_V2 = "+cx8,+fxsr,+mmx,+sse,+sse2,+cx16,+popcnt,+sahf,+sse3,+ssse3,+sse4.1,+sse4.2"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"

CPUS: Mapping[str, CpuMachine] = {
    "x86-64-v2": CpuMachine(128, 16, _X86, "x86-64-v2", _V2),
    "x86-64-v3": CpuMachine(256, 16, _X86, "x86-64-v3", _V3),
    "x86-64-v4": CpuMachine(512, 32, _X86, "x86-64-v4", _V4),
    "aarch64": CpuMachine(128, 32, _ARM, "generic", "+fp-armv8,+neon"),
}
"""Levels of processors under Linux by name: the x86-64 psABI's, with all features of a level and no other, and AArch64 with NEON."""
