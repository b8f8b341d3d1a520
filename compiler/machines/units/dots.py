"""Dot products of CPUs: an instruction multiplies a few neighbours in each lane of 32 bits, and adds the products to the lane's sum."""

from collections.abc import Mapping

from runtime.records import evolve, frozen


@frozen(eq=False)
class DotUnit:
    """`factors`: dtypes of the first operand and of the second. `terms` of them are multiplied in a lane, and summed as `sums`.
    `instructions`: LLVM's names by lanes, with the features of processors of which one is enough. `adds`: whether the instruction adds to
    sums before it. `flushes`: whether it takes subnormal numbers for zeros."""

    factors: tuple[str, str]
    terms: int
    sums: tuple[str, ...]
    instructions: Mapping[int, tuple[str, tuple[str, ...]]]
    adds: bool = True
    flushes: bool = False

    def multiplies(self, a: str, b: str, to: str) -> bool:
        """Whether these are factors, in either order, of such sums."""
        return to in self.sums and self.factors in ((a, b), (b, a))


_VNNI = ("+avx512vnni", "+avxvnni")

BYTES = DotUnit(
    ("u8", "i8"),
    4,
    ("i32", "u32"),
    {16: ("avx512.vpdpbusd.512", _VNNI[:1]), 8: ("avx512.vpdpbusd.256", _VNNI), 4: ("avx512.vpdpbusd.128", _VNNI)},
)
WORDS = DotUnit(
    ("i16", "i16"),
    2,
    ("i32", "u32"),
    {16: ("avx512.pmaddw.d.512", ("+avx512bw",)), 8: ("avx2.pmadd.wd", ("+avx2",)), 4: ("sse2.pmadd.wd", ("+sse2",))},
    adds=False,
)
"""LLVM joins it with the addition where a processor has both in one."""
BFLOATS = DotUnit(("bf16", "bf16"), 2, ("f32",), {16: ("avx512bf16.dpbf16ps.512", ("+avx512bf16",))}, flushes=True)


def dot_units(features: str) -> tuple[DotUnit, ...]:
    """Those of a processor with such features, the ones of more terms first."""
    have = features.split(",")
    kept = [
        evolve(unit, instructions={lanes: way for lanes, way in unit.instructions.items() if any(each in have for each in way[1])})
        for unit in (BYTES, WORDS, BFLOATS)
    ]
    return tuple(unit for unit in kept if unit.instructions)
