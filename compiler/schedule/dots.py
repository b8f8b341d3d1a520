"""Products of matrices whose terms a CPU's instruction takes several at a time: what panels hold for it."""

from compiler.hir.core import Cast, dtype_of
from compiler.hir.instruction import Value
from compiler.machines.cpu import CpuMachine
from compiler.machines.units.dots import DotUnit
from compiler.schedule.combination import PairReduction
from runtime.records import frozen

HALF = 128
"""Between a byte without a sign and one with it."""

@frozen(eq=False)
class DotPanels:
    """`rows` and `columns`: the dtypes of what panels hold. `shift`: what is added to rows that have another sign."""

    unit: DotUnit
    rows: str
    columns: str
    shift: int = 0

    @property
    def memory(self) -> str:
        """The dtype of the memory of both."""
        return self.unit.factors[0]


def dot_panels(product: PairReduction, rows: Value, columns: Value, machine: CpuMachine) -> DotPanels | None:
    """How panels are multiplied by an instruction of the machine; None where it has none for these operands."""
    if not product.sums or product.guard is not None or len(product.k) != 1:
        return None
    factors = [dtype_of(each.source.value if isinstance(each.source, Cast) else each) for each in (rows, columns)]
    bytes_, words = {"i8", "u8"}, {"i8", "u8", "i16"}
    for unit in machine.dots:
        if product.dtype in unit.sums and unit.factors == ("u8", "i8") and bytes_.issuperset(factors):
            if factors[0] != factors[1]:
                return DotPanels(unit, factors[0], factors[1])
            other, shift = ("u8", HALF) if factors[0] == "i8" else ("i8", -HALF)
            return DotPanels(unit, other, factors[1], shift)
        fits = words.issuperset(factors) if unit.factors == ("i16", "i16") else unit.factors == tuple(factors)
        if product.dtype in unit.sums and fits and unit.factors != ("u8", "i8"):
            return DotPanels(unit, *unit.factors)
    return None
