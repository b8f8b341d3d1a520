"""What a nest is: loops, operands, what they compute in float64, and what that needs at least."""

import ast
import math
import random
from collections.abc import Callable, Mapping, Sequence
from textwrap import dedent
from typing import Any, TypeVar

from attrs import Factory, field, frozen

T = TypeVar("T")

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1, "u32": 4}
FLOATS = ("f64", "f32", "f16", "bf16")
INTS = ("i64", "i32", "i16", "i8", "u8")
DTYPES = (*FLOATS, *INTS)

GATHERED = {"i8": "i32", "i16": "i32", "u8": "u32"}
"""What a variable becomes that gathers elements of these types."""

TOLERANCE = {"f64": 1e-9, "f32": 2e-4, "f16": 2e-2, "bf16": 1e-1}
"""Of an element's error, over its size plus that of a usual element; ints are exact. Floats of 16 bits round after each operation."""

FUNCTION_SLOTS = 8
"""Issue slots of `exp` and its like, against one of an addition or a fused product."""

ODD = 1 / 3
"""Share of the nests whose extents are odd or prime."""


@frozen
class Operand:
    """An input. `dims`: forms of sizes. `content`: `normal` numbers, `share` (0 to 1), `whole` ones below 4, `table` (below the size
    `below`: indices), `pointers` (rising from 0 to that size). `layout`: `rows`, `columns` (the last two axes change places in
    memory) or `padded` (rows have a gap)."""

    dims: tuple[str, ...]
    dtype: str
    content: str = "normal"
    layout: str = "rows"
    below: str = ""


@frozen
class Lookups:
    """Accesses whose places data decide: how many, to a table of how many entries of how many bytes; whether they change them, and whether
    only `few` do, as the largest of what came so far seldom changes."""

    count: float
    entries: int
    entry_bytes: int
    updates: bool = False
    few: bool = False

    @property
    def changes(self) -> bool:
        """Whether most accesses change what they find."""
        return self.updates and not self.few

    def words(self, element: int, widest: int = 16) -> tuple[int, int]:
        """Bytes of a word that is accessed at once, and how many aligned words an entry touches at most. Of an entry that is changed,
        elements, of 32 bits at least."""
        if self.changes:
            return max(4, element), max(1, self.entry_bytes // element)
        if self.entry_bytes <= widest and widest % self.entry_bytes == 0:
            return self.entry_bytes, 1
        return widest, -(-(self.entry_bytes + widest - math.gcd(self.entry_bytes, widest)) // widest)


Reference = Callable[..., Any]
"""Takes a library of arrays (`bench.nests.arrays`), a mapping of inputs in float64 (of indices in i64) and sizes; gives the result."""


@frozen
class BenchNest:
    """`operations`: twice the issue slots of `unit`, whose rate limits them; `extremes`: those of minima and maxima among them, which may
    have other units. `touched`: bytes that are read or written at least, where that is less than all of every operand. `lookups`: what
    data decide of its addresses. `lengths`: how many inner loops have a length that data decide. `stated`: whether the program has to say
    the result's shape."""

    family: str
    kind: str
    dtype: str
    sizes: Mapping[str, int]
    operands: Mapping[str, Operand]
    result_dims: tuple[str, ...]
    result_dtype: str
    loops: str = field(converter=lambda text: dedent(text).strip())
    reference: Reference = field(repr=False)
    operations: float = 0.0
    unit: str = "f32"
    touched: float | None = None
    lookups: Lookups | None = None
    lengths: int = 0
    extremes: float = 0.0
    stated: bool = False
    zeroed: bool = False
    named: bool = False
    seed: int = -1
    notes: Mapping[str, Any] = field(default=Factory(dict))

    def extent(self, form: str) -> int:
        return extent_of(form, self.sizes)

    def shape(self, dims: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.extent(dim) for dim in dims)

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.loops)

    @property
    def bytes(self) -> float:
        """Of each element that the result needs, once."""
        return self.operand_bytes if self.touched is None else self.touched

    @property
    def operand_bytes(self) -> float:
        """Of all operands and the result."""
        operands = sum(math.prod(self.shape(one.dims)) * BYTES[one.dtype] for one in self.operands.values())
        return operands + math.prod(self.shape(self.result_dims)) * BYTES[self.result_dtype]

    @property
    def tolerance(self) -> float:
        kinds = [one.dtype for one in self.operands.values() if one.content not in ("table", "pointers")]
        return max(TOLERANCE.get(kind, 0.0) for kind in (*kinds, self.result_dtype))


def extent_of(form: str, sizes: Mapping[str, int]) -> int:
    return int(number_of(form, sizes))


def number_of(form: str, known: Mapping[str, float]) -> float:
    return float(eval(form, {"__builtins__": {}}, dict(known)))


def slots(expression: str) -> int:
    """Issue slots that an expression takes for each element; a product that is added counts once."""
    count = 0
    for node in ast.walk(ast.parse(expression)):
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub(), left=left, right=right):
                count += 0 if any(isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult) for side in (left, right)) else 1
            case ast.BinOp(op=ast.Div()):
                count += FUNCTION_SLOTS
            case ast.Call(func=ast.Name(id="max" | "min" | "abs")) | ast.Compare():
                count += 1
            case ast.Call(func=ast.Name(id=name)) if name not in BYTES:
                count += FUNCTION_SLOTS
            case ast.BinOp():
                count += 1
    return count


def extremes(expression: str) -> int:
    """How many of the slots are minima and maxima."""
    calls = [node.func for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Call)]
    return sum(isinstance(name, ast.Name) and name.id in ("max", "min") for name in calls)


def unit_of(dtype: str) -> str:
    """In which plain arithmetic of a type is done."""
    return dtype if dtype in ("f64", "i64") else "i32" if dtype in INTS else "f32"


class Chance:
    """The choices of a seed: what all families share, and helpers."""

    def __init__(self, seed: int, least: float, most: float) -> None:
        self.random = random.Random(f"nest {seed}")
        self.traffic = math.exp(self.random.uniform(math.log(least), math.log(most)))
        self.odd = self.random.random() < ODD
        self.named = self.random.random() < 0.5

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def between(self, low: float, high: float) -> float:
        """Log-uniform."""
        return math.exp(self.random.uniform(math.log(low), math.log(high)))

    def extent(self, wanted: float) -> int:
        """Near what is wanted: an odd or prime number, or one that a power of two divides."""
        number = max(1, round(wanted))
        if self.odd:
            number |= 1
            if self.random.random() < 0.5:
                while any(number % factor == 0 for factor in range(3, math.isqrt(number) + 1, 2)):
                    number += 2
            return number
        step = 1 << max(0, min(6, number.bit_length() - 3))
        return max(step, round(number / step) * step)

    def extents(self, elements: float, rank: int, last: float = 16) -> list[int]:
        """So many extents whose product is near that; the last is at least `last` where that is possible."""
        weights = [self.random.uniform(0.4, 1.6) for _ in range(rank)]
        chosen: list[int] = []
        for position in reversed(range(rank)):
            rest = max(1.0, elements / math.prod(chosen))
            wanted = rest ** (weights[position] / sum(weights[: position + 1]))
            chosen.append(self.extent(max(wanted, min(last, rest)) if position == rank - 1 else wanted))
        return chosen[::-1]

    def layout(self) -> str:
        return self.pick(("rows", "rows", "rows", "columns", "padded"))

    def order(self, count: int) -> list[int]:
        """Some order of so many axes, not the plain one."""
        order = list(range(count))
        while order == list(range(count)):
            self.random.shuffle(order)
        return order

    def content(self, dtype: str) -> str:
        return "normal" if dtype in FLOATS else "whole"
