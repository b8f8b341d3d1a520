"""Contractions of pairs of i16: an instruction of x86-64 multiplies two vectors of them and adds the products of each pair in 32 bits."""

from collections.abc import Sequence

from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.types import LlvmType
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.core import Contract

PAIRED = "i16"

INSTRUCTIONS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""By the lanes of the result."""


def goes_in_pairs(w: FunctionWriter, op: Contract, a: Bundle, b: Bundle, summed: Sequence[tuple[str, int]]) -> bool:
    """Whether a contraction is over one pair of i16 in each lane."""
    ints = a.dtype == b.dtype == PAIRED and op.to in ("i32", "u32")
    return ints and w.module.multiplies_pairs and [extent for _, extent in summed] == [2] and max(a.lanes, b.lanes) in INSTRUCTIONS


class PairsOfBundles:
    """Pairs along an axis, of which each is a word: made once, and spread over the lanes."""

    def __init__(self, w: FunctionWriter, axis: str, lanes: int) -> None:
        self.w, self.axis, self.lanes = w, axis, lanes
        self.words: dict[tuple[str, str], LlvmValue] = {}

    def add_products(self, total: LlvmValue, a: Bundle, b: Bundle, point: dict[str, int]) -> LlvmValue:
        w, x, y = self.w, self.word(a, point), self.word(b, point)
        name = f"llvm.x86.{INSTRUCTIONS[self.lanes]}"
        return w.binary("add", total, w.call(name, total.type, x, y))

    def word(self, bundle: Bundle, point: dict[str, int]) -> LlvmValue:
        """A vector of the pairs at a point."""
        first, second = (bundle.at({**point, self.axis: number}) for number in range(2))
        key = first.text, second.text
        if key not in self.words:
            self.words[key] = self.w.pairs.get(key) or self.joined(first, second)
        return self.words[key]

    def joined(self, first: LlvmValue, second: LlvmValue) -> LlvmValue:
        w = self.w
        if first.type.lanes:
            return w.shuffle(first, second, [lane + self.lanes * number for lane in range(self.lanes) for number in range(2)])
        low, high = (w.convert("zext", value, "i32") for value in (first, second))
        word = w.splat(w.binary("or", low, w.binary("shl", high, constant(high.type, 16))), self.lanes)
        return w.value(LlvmType(PAIRED, 2 * self.lanes), f"bitcast {word} to {LlvmType(PAIRED, 2 * self.lanes)}")
