"""Stores, gathers and scatters of vectors of which a mask picks the elements. What the machine has no instruction for, LLVM writes as a
branch a lane; where a module has many such accesses, all but the first few of a kind are calls of one function: 80 rows of i16 would be
1,280 branches, which take LLVM seconds. Masked loads stand where they are: innermost loops of products have them, and a call would take
the registers of sums."""

from collections import Counter
from collections.abc import Sequence

from compiler.backends.llvm.types import LlvmType
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, has_feature
from runtime.records import Factory, define

WRITTEN_OUT = 4
"""Accesses of a kind that stand where they are used: a loop of few has no calls."""

_NARROW = frozenset({"i1", "i8", "i16", "half", "bfloat"})
"""Elements of less than 32 bits: AVX2 has no masks for them, and no machine gathers them."""


@define
class MaskedVectors:
    """Those of one module; `lacking` counts those that the machine has no instruction for, by kind."""

    lacking: Counter[str] = Factory(Counter)

    def gather(self, w: FunctionWriter, pointers: LlvmValue, mask: LlvmValue, other: LlvmValue, align: int, notes: str) -> LlvmValue:
        """The elements at addresses of their own where the mask holds, those of `other` elsewhere."""
        kind, wide = f"gather.{other.type.suffix}.{pointers.type.suffix}", other.type.element not in _NARROW
        has = mask.number is not None or (wide and (has_feature(w.module, "fast-gather") or has_feature(w.module, "avx512f")))
        return w.value(other.type, self._call(w, kind, other.type, [pointers, mask, other], 0, align, has) + notes)

    def store(self, w: FunctionWriter, value: LlvmValue, pointer: LlvmValue, mask: LlvmValue, align: int, notes: str) -> None:
        has = value.type.element not in _NARROW or has_feature(w.module, "avx512bw")
        w.line(self._call(w, f"store.{value.type.suffix}.p0", None, [value, pointer, mask], 1, align, has) + notes)

    def scatter(self, w: FunctionWriter, value: LlvmValue, pointers: LlvmValue, mask: LlvmValue, align: int, notes: str) -> None:
        has = mask.number is not None or (value.type.element not in _NARROW and has_feature(w.module, "avx512f"))
        kind = f"scatter.{value.type.suffix}.{pointers.type.suffix}"
        w.line(self._call(w, kind, None, [value, pointers, mask], 1, align, has) + notes)

    def _call(
        self, w: FunctionWriter, kind: str, result: LlvmType | None, arguments: Sequence[LlvmValue], address: int, align: int, has: bool
    ) -> str:
        """The call of LLVM's own function, whose argument at `address` is aligned, or of one around it. `has`: the machine has it."""

        def intrinsic(values: Sequence[LlvmValue]) -> str:
            texts = [f"{v.type} align {align} {v.text}" if n == address else str(v) for n, v in enumerate(values)]
            return f"call {result or 'void'} @llvm.masked.{kind}({', '.join(texts)})"

        self.lacking[kind] += not has
        if has or self.lacking[kind] <= WRITTEN_OUT:
            return intrinsic(arguments)

        def make(name: str) -> None:
            inner = w.module.function(name, result, [(a.type, f"a{n}") for n, a in enumerate(arguments)], "internal", "noinline")
            call = intrinsic(inner.parameters)
            if result is None:
                inner.line(call)
            inner.ret(None if result is None else inner.value(result, call))

        name = w.module.helper(f"masked.{kind}", make)
        return f"call {result or 'void'} @{name}({', '.join(map(str, arguments))})"
