"""Loop-invariant code moves out of loops: pure instructions to the outermost place where their operands are known. What could fault
when its loop doesn't run stays: loads, and integer division unless the divisor is a number that isn't zero."""

from collections.abc import Sequence

from compiler.hir.build import Builder
from compiler.hir.control import For, While
from compiler.hir.core import Binary, Const, dtype_of
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field


def hoist(function: HirFunction) -> HirFunction:
    """The function with invariants computed before their loops."""
    return _Hoist(function).run()


def may_move(op: Instruction) -> bool:
    """Computing it where it wasn't computed before changes nothing."""
    if op.effects is not Effect.PURE or op.regions or op.family.is_gpu:
        return False
    if isinstance(op, Binary) and op.operator in ("div", "rem") and not is_float(dtype_of(op.left)):
        divisor = op.right.source
        return isinstance(divisor, Const) and divisor.value != 0
    return True


@define(eq=False)
class _Hoist(Rebuild):
    depth: dict[str, int] = field(factory=dict, init=False)
    """How deep (in regions) each new value is made, by name."""
    places: list[tuple[Builder, bool]] = field(factory=list, init=False)
    """The builders of the regions around, outermost first, and whether each is a loop's body."""

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        level = self.level(into)
        if not may_move(op):
            results = self.around(op, into)
            for value in results:
                self.depth[value.name] = level
            return results
        new = self.renewed(op, into)
        wanted = max([self.depth.get(name, 0) for name in (*(v.name for v in new.operand_values), *new.symbols)], default=0)
        depth = level
        while depth > wanted and self.places[depth][1]:
            depth -= 1
        results = self.places[depth][0].emit(new, op.results[0].name if op.results else "").results
        for value in results:
            self.depth.setdefault(value.name, depth)
        return results

    def around(self, op: Instruction, into: Builder) -> Sequence[Value]:
        self.loop = isinstance(op, For | While)
        return self.copy(op, into)

    loop: bool = field(default=False, init=False)

    def level(self, into: Builder) -> int:
        """The depth of a builder; those of regions that have ended are forgotten."""
        parents = []
        around: Builder | None = into
        while around is not None:
            parents.append(around)
            around = around.parent
        parents.reverse()
        known = [builder for builder, _ in self.places]
        if known[: len(parents)] != parents or len(known) != len(parents):
            common = 0
            while common < min(len(known), len(parents)) and known[common] is parents[common]:
                common += 1
            del self.places[common:]
            for number in range(common, len(parents)):
                self.places.append((parents[number], number > 0 and self.loop))
                for parameter in parents[number].region.parameters:
                    self.depth[parameter.name] = number
        return len(parents) - 1
