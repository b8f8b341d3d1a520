"""The longest way through a host function: machine instructions and cycles, guessed from its HIR before LLVM has improved it.

An estimate to warn by, not a measurement: instructions are counted as a compiler of no great wit would make them, three to a cycle,
and what takes long (divisions, functions of floats) costs what tables of current x86-64 processors say. Memory is taken to be in the
first cache."""

from collections.abc import Mapping

from compiler.analysis.ranges import Ranges
from compiler.hir.control import Call, For, If, While
from compiler.hir.core import FLOAT_FUNCTIONS, Binary, Cast, Const, Unary, dtype_of
from compiler.hir.host import MATCHED, Checked, Clear, Copy, Element, Local, MatchBytes, Member, Narrow, Quotient, ReadBytes, pointee
from compiler.hir.instruction import Instruction, Region
from compiler.hir.layout import size_of
from compiler.hir.memory import Check, GetSlot, MakeSlot, SetSlot
from compiler.hir.module import HirModule
from compiler.hir.types import Pointer, is_float, is_wide
from compiler.source import Span
from runtime.records import frozen

A_CYCLE = 3.0
"""Plain instructions in a cycle."""

ELSEWHERE = 50
"""Instructions of a function that another module has, of which nothing else is known."""

DIVISION = {"float": 13.0, "int": 14.0, "wide": 45.0}
"""Cycles of a division until its result is there."""

BY_CONSTANT = 3.0
"""Cycles of an int division by a constant, which is a product."""

FUNCTION = 40.0
"""Cycles of `exp`, `log` and their like."""


@frozen
class Cost:
    """`lines`: the cycles of each place in the program, called functions at their own lines, where they have some in the same file."""

    instructions: int
    cycles: float
    lines: Mapping[Span | None, float]

    def __add__(self, other: "Cost") -> "Cost":
        lines = dict(self.lines)
        for span, cycles in other.lines.items():
            lines[span] = lines.get(span, 0.0) + cycles
        return Cost(self.instructions + other.instructions, self.cycles + other.cycles, lines)

    def times(self, count: int) -> "Cost":
        return Cost(self.instructions * count, self.cycles * count, {span: cycles * count for span, cycles in self.lines.items()})

    def placed(self, span: Span | None) -> "Cost":
        """What has no place of its own, or one in another file, lies there."""
        if span is None:
            return self
        lines: dict[Span | None, float] = {}
        for own, cycles in self.lines.items():
            line_span = span if own is None or own.path != span.path else own
            lines[line_span] = lines.get(line_span, 0.0) + cycles
        return Cost(self.instructions, self.cycles, lines)

    def costliest(self, count: int) -> list[tuple[Span | None, float]]:
        """The places that take longest, longest first."""
        return sorted(self.lines.items(), key=lambda line: -line[1])[:count]


NOTHING = Cost(0, 0.0, {})


@frozen
class Obstacle:
    """Why there is no longest way, in words that follow "because", and the loop or call in the program."""

    words: str
    span: Span | None


def worst_case(module: HirModule, name: str) -> Cost | None:
    """The cost of the longest way; None where a loop has no bound or a function comes back to itself."""
    return _Costs(module).function(name)


def obstacle(module: HirModule, name: str) -> Obstacle | None:
    """The first thing on the way that keeps a function from having a `worst_case`; None where it has one."""
    costs = _Costs(module)
    return costs.obstacle if costs.function(name) is None else None


def stack_bytes(module: HirModule, name: str) -> int | None:
    """Bytes of the locals alive at once on the deepest way down, without what LLVM adds for registers; None when a function comes back to
    itself."""
    known: dict[str, int | None] = {}

    def deepest(name: str) -> int | None:
        if name not in known:
            known[name] = None  # as seen from inside itself
            ops = [op for top in module.functions[name].body.body for op in top.walk()]
            below = [deepest(op.function) if op.function in module.functions else 0 for op in ops if isinstance(op, Call)]
            if None not in below:
                own = sum(size_of(op.type.pointee) for op in ops if isinstance(op, Local) and isinstance(op.type, Pointer))
                known[name] = own + max((size for size in below if size is not None), default=0)
        return known[name]

    return deepest(name)


class _Costs:
    def __init__(self, module: HirModule) -> None:
        self.module = module
        self.known: dict[str, Cost | None] = {}
        self.obstacle: Obstacle | None = None

    def _prevented(self, words: str, span: Span | None) -> Cost | None:
        """No cost, and why."""
        self.obstacle = self.obstacle or Obstacle(words, span)
        return None

    def function(self, name: str) -> Cost | None:
        if name not in self.known:
            self.known[name] = None  # as seen from inside itself
            function = self.module.functions[name]
            self.known[name] = self.region(function.body, Ranges(function))
        return self.known[name]

    def region(self, region: Region, ranges: Ranges) -> Cost | None:
        total = NOTHING
        for op in region.body:
            cost = self.instruction(op, ranges)
            if cost is None:
                return None
            total = total + cost
        return total

    def instruction(self, op: Instruction, ranges: Ranges) -> Cost | None:
        match op:
            case While():
                rounds = ranges.rounds(op)
                if rounds is None:
                    return self._prevented("nothing says how often this `while` runs", op.span)
                before, inside = self.region(op.before, ranges), self.region(op.body, ranges)
                return None if before is None or inside is None else (before + inside + _plain(op, 1)).times(rounds + 1)
            case For():
                turns = ranges.turns(op)
                if turns is None:
                    return self._prevented("nothing says how often this `for` runs", op.span)
                inside = self.region(op.body, ranges)
                return None if inside is None else (inside + _plain(op, 2)).times(turns)
            case If():
                branches = [self.region(branch, ranges) for branch in op.regions]
                if any(branch is None for branch in branches):
                    return None
                longest = max((branch for branch in branches if branch is not None), key=lambda branch: branch.cycles)
                return longest + _plain(op, 1)
            case Call():
                return self.call(op)
            case _:
                return _plain(op, _instructions(op), _extra(op))

    def call(self, op: Call) -> Cost | None:
        target = self.module.functions.get(op.function)
        if target is None or target.is_elsewhere:
            return _plain(op, ELSEWHERE)
        if op.function in self.known and self.known[op.function] is None:
            self._prevented("this call leads back to the function that it stands in", op.span)
        inside = self.function(op.function)
        return None if inside is None else inside.placed(op.span) + _plain(op, 2)


def _plain(op: Instruction, instructions: int, extra: float = 0.0) -> Cost:
    cycles = instructions / A_CYCLE + extra
    return Cost(instructions, cycles, {op.span: cycles} if cycles else {})


def _instructions(op: Instruction) -> int:
    """Machine instructions of one of the HIR; a check is a compare and a jump."""
    match op:
        case Const() | Member() | GetSlot() | SetSlot() | MakeSlot():
            return 0
        case Element():
            return 1 if op.site < 0 else 3
        case ReadBytes():
            return 1 if op.site < 0 else 4
        case MatchBytes():
            return (3 if op.site >= 0 else 0) + 4 * len(op.values) * (MATCHED // 32)
        case Checked():
            return 2 if not is_wide(dtype_of(op.left)) else 4
        case Check():
            return 2
        case Narrow():
            return 4
        case Quotient():
            return 8 if not is_wide(dtype_of(op.left)) else 20
        case Copy():
            return 2 + 2 * (size_of(pointee(op.to)) // 32)
        case Clear():
            return 1 + size_of(pointee(op.pointer)) // 32
        case Local():
            assert isinstance(op.type, Pointer)
            return 1 + size_of(op.type.pointee) // 32
        case Cast():
            return 6 if is_wide(dtype_of(op.value)) and is_float(op.to) else 1
        case _:
            return 2 if any(is_wide(dtype_of(r)) for r in op.results) else 1


def _extra(op: Instruction) -> float:
    """Cycles beyond those of plain instructions."""
    match op:
        case Quotient():
            return DIVISION["wide" if is_wide(dtype_of(op.left)) else "int"]
        case Binary(operator="div" | "rem", left=left) if is_float(dtype_of(left)):
            return DIVISION["float"]
        case Binary(operator="div" | "rem", right=right) | Checked(operation="div" | "rem", right=right):
            return BY_CONSTANT if isinstance(right.source, Const) else DIVISION["int"]
        case Unary(operator="sqrt" | "rsqrt"):
            return DIVISION["float"]
        case Unary(operator=operator) if operator in FLOAT_FUNCTIONS:
            return FUNCTION
        case Binary(operator="pow" | "atan2"):
            return 2 * FUNCTION
        case _:
            return 0.0
