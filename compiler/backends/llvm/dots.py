"""Contractions that are dot products of lanes: an instruction multiplies a few neighbours of each lane and adds the products."""

from collections.abc import Sequence

from compiler.backends.llvm.arithmetic import to_memory
from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.types import LlvmType, memory_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.core import Contract
from compiler.machines.units.dots import DotUnit


def unit_of(w: FunctionWriter, op: Contract, a: Bundle, b: Bundle, summed: Sequence[tuple[str, int]]) -> DotUnit | None:
    """What makes a contraction over the neighbours of each lane."""
    for unit in w.module.dots:
        fits = unit.multiplies(a.dtype, b.dtype, op.to) and [extent for _, extent in summed] == [unit.terms]
        if fits and max(a.lanes, b.lanes) in unit.instructions and (not unit.flushes or "ftz" in op.flags):
            return unit
    return None


class DotsOfBundles:
    """Neighbours along an axis, which are a word of each lane: made once, and spread over the lanes."""

    def __init__(self, w: FunctionWriter, unit: DotUnit, axis: str, lanes: int) -> None:
        self.w, self.unit, self.axis, self.lanes = w, unit, axis, lanes
        self.words: dict[tuple[str, ...], LlvmValue] = {}

    def add_products(self, total: LlvmValue, a: Bundle, b: Bundle, point: dict[str, int]) -> LlvmValue:
        w = self.w
        factors = [self.word(bundle, point) for bundle in ((a, b) if a.dtype == self.unit.factors[0] else (b, a))]
        name = f"llvm.x86.{self.unit.instructions[self.lanes][0]}"
        return w.call(name, total.type, total, *factors) if self.unit.adds else w.binary("add", total, w.call(name, total.type, *factors))

    def word(self, bundle: Bundle, point: dict[str, int]) -> LlvmValue:
        """A vector of the neighbours at a point."""
        items = [bundle.at({**point, self.axis: number}) for number in range(self.unit.terms)]
        key = tuple(item.text for item in items)
        if key not in self.words:
            self.words[key] = self.spread(self.w.groups.get(key) or self.joined(items, bundle.dtype), bundle.dtype)
        return self.words[key]

    def spread(self, word: LlvmValue, dtype: str) -> LlvmValue:
        """As the instruction takes it."""
        w, count = self.w, self.unit.terms * self.lanes
        type = LlvmType("bfloat" if dtype == "bf16" else memory_type(dtype).element, count)
        if not word.type.lanes:
            word = w.splat(word, self.lanes)
        return word if word.type == type else w.value(type, f"bitcast {word} to {type}")

    def joined(self, items: Sequence[LlvmValue], dtype: str) -> LlvmValue:
        w, items = self.w, [to_memory(self.w, item, dtype) for item in items]
        word = w.convert("zext", items[0], "i32")
        for number, item in enumerate(items[1:], 1):
            shifted = w.binary("shl", w.convert("zext", item, "i32"), constant(word.type, number * item.type.bits))
            word = w.binary("or", word, shifted)
        return word
