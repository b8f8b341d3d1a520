"""Numbers that the threads of a block compute for indices, bounds and conditions: those that follow from where a thread and its block
stand, and from sizes. What memory holds isn't known."""

from collections.abc import Mapping
from math import prod

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import Binary, Cast, Compare, Const, InBounds, Index, Select, Unary, dtype_of
from compiler.hir.gpu import GridIndex, WarpIndex
from compiler.hir.instruction import Instruction
from compiler.hir.types import is_float
from runtime.lazy_numpy import Array, np
from runtime.records import frozen

ELSEWHERE = None
"""How far a turn of a loop moves a number of which nothing else is known than that it moves."""

Moves = Mapping[str, int | None]

OPERATORS = {
    "min": "minimum", "max": "maximum", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "shl": "left_shift",
    "shr": "right_shift", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
"""Operators of the HIR by NumPy's names; sums, products and quotients apart."""


@frozen(eq=False)
class Known:
    """A number of each thread, or one that all have, and by how much a turn moves it of each loop around, by the loop's variable."""

    numbers: Array
    moves: Moves = {}
    share: float = 1.0
    """Of a condition: for how many of the elements along axes of registers it holds, where it holds for the first."""


class LaneNumbers:
    """`numbers`: what is known of values, by name. Axes of registers are at their beginning."""

    def __init__(self, sizes: Mapping[str, int], axes: Mapping[str, int], block: tuple[int, int, int], place: int, lanes: int) -> None:
        self.axes, self.block, self.place, self.lanes = axes, block, place, lanes
        self.thread = np.arange(prod(block))
        self.numbers: dict[str, Known] = {name: Known(np.array(size)) for name, size in sizes.items()}

    def number(self, form: Affine) -> int:
        """The value of an extent; 1 where it isn't known."""
        known = self.form(form)
        return 1 if known is None else max(1, int(np.max(known.numbers)))

    def form(self, form: Affine) -> Known | None:
        moves: dict[str, int | None] = {}
        total: Array = np.array(form.constant)
        for symbol, factor in form.terms:
            if isinstance(symbol, FloorDiv):
                inner = self.form(symbol.numerator)
                if inner is None:
                    return None
                total = total + factor * (inner.numbers // symbol.divisor)
                add_moves(moves, {name: _divided(step, symbol.divisor) for name, step in inner.moves.items()}, factor)
            elif (known := self.numbers.get(symbol)) is not None:
                total = total + factor * known.numbers
                add_moves(moves, known.moves, factor)
            elif symbol not in self.axes:
                return None
        return Known(total, moves)

    def follow(self, op: Instruction) -> bool:
        """Whether the numbers of an instruction's result are known; it then remembers them."""
        known = self._evaluated(op) if len(op.results) == 1 else None
        if known is not None:
            self.numbers[op.results[0].name] = known
        return known is not None

    def _evaluated(self, op: Instruction) -> Known | None:
        match op:
            case Const(value=value):
                return Known(np.array(int(value))) if isinstance(value, int) and abs(value) < 2**62 else None
            case Index(of=of):
                return self.form(of)
            case GridIndex():
                return self._in_grid(op)
            case WarpIndex(operator=operator):
                return Known({"lane": self.thread % self.lanes, "warp": self.thread // self.lanes}.get(operator, np.array(0)))
            case InBounds(of=of, below=below):
                return self._inside(of, below)
            case Cast(value=value) if not is_float(op.to):
                return self.numbers.get(value.name)
            case Unary(operator="not", value=value) if dtype_of(value) == "i1" and (known := self.numbers.get(value.name)) is not None:
                return Known(~known.numbers.astype(bool))
            case Binary(left=left, right=right) | Compare(left=left, right=right):
                a, c = self.numbers.get(left.name), self.numbers.get(right.name)
                return None if a is None or c is None else _combined(op.operator, a, c)
            case Select(condition=condition, then=then, otherwise=otherwise):
                which, a, c = (self.numbers.get(value.name) for value in (condition, then, otherwise))
                if which is None or a is None or c is None:
                    return None
                return Known(np.where(which.numbers, a.numbers, c.numbers), _elsewhere(which, a, c))
        return None

    def _inside(self, of: Affine, below: Affine) -> Known | None:
        place, extent = self.form(of), self.form(below)
        if place is None or extent is None:
            return None
        steps = [np.arange(self.axes[name]) * of.coefficient(name) for name in of.names if name in self.axes]
        on = np.add.outer(steps[0], steps[1]).ravel() if len(steps) == 2 else steps[0] if len(steps) == 1 else np.zeros(1, np.int64)
        first = (place.numbers >= 0) & (place.numbers < extent.numbers)
        every = np.add.outer(place.numbers, on)
        inside = (every >= 0) & (every < np.expand_dims(extent.numbers, -1))
        return Known(first, share=float(inside[first].mean()) if first.any() else 1.0)

    def _in_grid(self, op: GridIndex) -> Known:
        x, y, _ = self.block
        match op.operator:
            case "thread_idx":
                return Known({"x": self.thread % x, "y": self.thread // x % y, "z": self.thread // (x * y)}[op.dim])
            case "block_idx":
                return Known(np.array(self.place if op.dim == "x" else 0))
            case "block_dim":
                return Known(np.array(self.block["xyz".index(op.dim)]))
        return Known(np.array(1))


def add_moves(moves: dict[str, int | None], further: Moves, factor: int) -> None:
    for name, step in further.items():
        before = moves.get(name, 0)
        moves[name] = ELSEWHERE if step is None or before is None else before + factor * step


def _divided(step: int | None, divisor: int) -> int | None:
    return step // divisor if step is not None and step % divisor == 0 else ELSEWHERE


def _elsewhere(*known: Known) -> Moves:
    return {name: ELSEWHERE for each in known for name in each.moves}


def _combined(operator: str, a: Known, c: Known) -> Known | None:
    left, right = a.numbers, c.numbers
    moves: dict[str, int | None] = {}
    match operator:
        case "add" | "sub":
            add_moves(moves, a.moves, 1)
            add_moves(moves, c.moves, 1 if operator == "add" else -1)
            return Known(left + right if operator == "add" else left - right, moves)
        case "mul":
            for known, other in ((a, c), (c, a)):
                factor = int(other.numbers) if np.ndim(other.numbers) == 0 and not other.moves else None
                add_moves(moves, _elsewhere(known) if factor is None else known.moves, factor or 0)
            return Known(left * right, moves)
        case "div" | "rem" if np.all(right):
            return Known(left // right if operator == "div" else left % right, _elsewhere(a, c))
        case _ if operator in OPERATORS:
            return Known(getattr(np, OPERATORS[operator])(left, right), _elsewhere(a, c), min(a.share, c.share))
    return None
