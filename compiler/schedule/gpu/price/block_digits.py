"""The digits of a block table as they are chosen, tried on a device and kept."""

from compiler.schedule.table import Table
from runtime.records import evolve, frozen


@frozen
class BlockDigits:
    """The digits of a block table that were chosen for a rule's: of each plan, in their order, threads, registers and lanes; the block; how
    many blocks share a sum, and how many a multiprocessor has, 0: nothing is said."""

    plans: tuple[tuple[int, int, int], ...]
    block: tuple[int, ...]
    parts: int
    resident: int

    def words(self) -> tuple[str, ...]:
        parts = f", {self.parts} blocks share each sum" if self.parts else ""
        return (f"blocks of {' x '.join(map(str, self.block))} threads{parts}",)

    def of(self, rule: Table) -> Table:
        """The rule's table with these digits; itself where it has other plans."""
        if len(rule.plans) != len(self.plans):
            return rule
        digits = zip(rule.plans, self.plans, strict=True)
        plans = [evolve(plan, threads=threads, registers=registers, lanes=lanes) for plan, (threads, registers, lanes) in digits]
        split = evolve(rule.split, parts=self.parts) if rule.split is not None and self.parts else rule.split
        return evolve(rule, plans=plans, block=self.block, split=split, resident=self.resident or None)


def digits_of(table: Table) -> BlockDigits:
    plans = tuple((plan.threads, plan.registers, plan.lanes) for plan in table.plans)
    return BlockDigits(plans, table.block, table.split.parts if table.split is not None else 0, table.resident or 0)
