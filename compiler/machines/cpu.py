"""The facts of a CPU that schedules read."""

from compiler.hir.types import DTYPES, FLOATS
from runtime.cpu import detect
from runtime.records import frozen


@frozen
class CpuMachine:
    """`vector_bits` of the widest vector worth using, and how many vector registers there are."""

    vector_bits: int = 256
    vector_registers: int = 16

    def lanes(self, dtype: str) -> int:
        """Elements of a dtype in one vector; half floats are computed in f32."""
        bits = 32 if dtype == "i1" or FLOATS.get(dtype, 32) < 32 else DTYPES[dtype]
        return max(1, self.vector_bits // bits)


def host_machine() -> CpuMachine:
    """The CPU that this runs on."""
    bits = detect.vector_bits(detect.host_features()) or 128
    return CpuMachine(bits, 32 if bits == 512 or detect.simd_name() == "NEON" else 16)
