"""Loops that look whether the run is to stop, so that Ctrl-C ends what a program never would.

A run is stopped by filling the record's word for the lowest address of the stack with ones, which calls of functions that call themselves
look at already. Loops that are over soon don't look: of those with a bound only the ones that take long, and each of their turns
doesn't."""

from collections.abc import Mapping

from compiler.analysis.ranges import Ranges
from compiler.hir.control import Call, For, If, While
from compiler.hir.instruction import Instruction, Region
from compiler.hir.module import HirFunction, HirModule

SOON = 1 << 26
"""Instructions that a loop may take without looking: some hundredths of a second."""


def polled(module: HirModule) -> Mapping[str, frozenset[int]]:
    """The loops that look, by their identity, of the functions that the program's text declares; others, the engine's for instance, are
    known to end."""
    counts = _Counts(module)
    for name, function in module.functions.items():
        if not function.is_elsewhere:
            counts.function(name)
    return {name: frozenset(loops) for name, loops in counts.polled.items()}


class _Counts:
    def __init__(self, module: HirModule) -> None:
        self.module = module
        self.known: dict[str, int] = {}
        self.polled: dict[str, set[int]] = {}

    def function(self, name: str) -> int:
        """Instructions of a call, until it looks: no more than SOON."""
        if name not in self.known:
            self.known[name] = 1  # as seen from inside itself, whose calls look
            function = self.module.functions[name]
            if not function.is_elsewhere:
                self.known[name] = min(SOON, self._region(function.body, function, Ranges(function)))
        return self.known[name]

    def _region(self, region: Region, function: HirFunction, ranges: Ranges) -> int:
        return sum(self._instruction(op, function, ranges) for op in region.body)

    def _instruction(self, op: Instruction, function: HirFunction, ranges: Ranges) -> int:
        match op:
            case Call():
                return 1 + self.function(op.function)
            case If():
                return 1 + max((self._region(branch, function, ranges) for branch in op.regions), default=0)
            case For() | While():
                inside = 1 + sum(self._region(region, function, ranges) for region in op.regions)
                turns = ranges.turns(op) if isinstance(op, For) else ranges.rounds(op)
                if function.span is None or (turns is not None and turns * inside <= SOON):
                    return inside if turns is None else min(SOON, turns * inside)
                self.polled.setdefault(function.name, set()).add(id(op))
                return inside
            case _:
                return 1
