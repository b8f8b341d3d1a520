"""Units that multiply matrices from the registers of a warp, a table each: which lane and register holds which element. `warp_mma`, the
emulator and schedules read these tables, so another unit is another table."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.types import U32, Tile, bytes_of
from runtime.records import frozen

Digit = tuple[int, int, int]
"""How many there are, and how far one is from the next, along the first axis of a matrix and along the second."""


def digits_of(number: Any, counts: Sequence[int]) -> list[Any]:
    """A number as digits, the fastest first: of an int, an array or a form. The last has no end."""
    digits = []
    for count in counts[:-1]:
        digits.append(number % count)
        number = number.floordiv(count) if isinstance(number, Affine) else number // count
    return [*digits, number] if counts else []


@frozen
class LaneMap:
    """Of a block of a matrix: the digits of a lane, of its registers, and of the elements of one, the fastest first. Operands have rows (or
    columns) by terms, sums rows by columns."""

    lanes: tuple[Digit, ...]
    registers: tuple[Digit, ...] = ()
    elements: tuple[Digit, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        digits = (*self.lanes, *self.registers, *self.elements)
        return 1 + sum((count - 1) * first for count, first, _ in digits), 1 + sum((count - 1) * second for count, _, second in digits)

    @property
    def count(self) -> int:
        """Registers of a lane."""
        return prod(count for count, _, _ in self.registers)

    def position(self, lane: Any, registers: Sequence[Any] = (), element: Any = 0) -> tuple[Any, Any]:
        """Where an element lies, whose register is given by its digits, and whose lane by its number or its digits."""
        lanes = lane if isinstance(lane, tuple) else digits_of(lane, [count for count, _, _ in self.lanes])
        known = [*zip(lanes, self.lanes, strict=True)]
        known += zip(registers or [0] * len(self.registers), self.registers, strict=True)
        known += zip(digits_of(element, [count for count, _, _ in self.elements]), self.elements, strict=True)
        return sum(digit * first for digit, (_, first, _) in known), sum(digit * second for digit, (_, _, second) in known)

    def of_register(self, register: Any) -> list[Any]:
        """The digits of a register's number."""
        return digits_of(register, [count for count, _, _ in self.registers])


@frozen
class WarpKind:
    """What a warp multiplies from registers: the hardware's name of the operands' type, the type of sums, how deep an instruction may be;
    where the elements of the least block of both operands and of the sums lie, of whose registers the first digit is neighbours of a
    vector; whether operands are cut to tf32, and whether `ldmatrix` brings them."""

    word: str
    sums: str
    depths: tuple[int, ...]
    a: LaneMap
    b: LaneMap
    total: LaneMap
    cut: bool = False
    by_matrix: bool = True

    @property
    def lanes(self) -> int:
        """Of a warp."""
        return prod(count for count, _, _ in self.total.lanes)

    def blocks(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """Least blocks of a product along rows, columns and terms."""
        rows, columns, depth = shape
        return rows // self.a.shape[0], columns // self.b.shape[0], depth // self.a.shape[1]

    def is_whole(self, shape: Sequence[int]) -> bool:
        """Whether a product consists of blocks."""
        rows, columns, _ = shape
        return not (rows % self.a.shape[0] or columns % self.b.shape[0]) and shape[2] in self.depths

    def sums_of(self, shape: Sequence[int], names: Sequence[str] = ("c", "h", "r", "simd")) -> Tile:
        """A lane's sums: blocks of columns, its registers of a block but for neighbours, blocks of rows, neighbours."""
        (pairs, _, _), (others, _, _) = self.total.registers
        rows, columns, _ = self.blocks(shape)
        return Tile(self.sums, tuple(zip(names, (columns, others, rows, pairs), strict=True)))


def register_of(dtype: str) -> Tile:
    """The type of a register of operands: one f64, or as many elements as four bytes hold."""
    return Tile("f64") if dtype == "f64" else U32


def in_register(dtype: str) -> int:
    """Elements of an operand in a register."""
    return max(1, 4 // bytes_of(dtype))


def _mma_sync(dtype: str, word: str, sums: str, *depths: int, cut: bool = False) -> WarpKind:
    """Four lanes have registers side by side along the terms, eight such fours rows, or columns; rows come in two halves."""
    each = in_register(dtype)
    lanes, elements = ((4, 0, each), (8, 1, 0)), ((each, 0, 1),)
    a, b = LaneMap(lanes, ((2, 8, 0),), elements), LaneMap(lanes, (), elements)
    total = LaneMap(((4, 0, 2), (8, 1, 0)), ((2, 0, 1), (2, 8, 0)))
    return WarpKind(word, sums, depths, a, b, total, cut, by_matrix=dtype != "f64")


WARP_KINDS = {
    "f16": _mma_sync("f16", "f16", "f32", 16),
    "bf16": _mma_sync("bf16", "bf16", "f32", 16),
    "i8": _mma_sync("i8", "s8", "i32", 32),
    "u8": _mma_sync("u8", "u8", "i32", 32),
    "f32": _mma_sync("f32", "tf32", "f32", 8, cut=True),
    "f64": _mma_sync("f64", "f64", "f64", 4, 8, 16),
}
"""Of `mma.sync`, by the dtype of the operands; of f32 only the bits count that tf32 has."""

WARP_OF_GROUP = (4, 16, 0)
"""The digit of a warp in a warpgroup: each has 16 rows."""

WARPGROUP_SUMS = LaneMap((*WARP_KINDS["bf16"].total.lanes, WARP_OF_GROUP), WARP_KINDS["bf16"].total.registers)
"""Sums of 64 rows and 8 columns on a warpgroup."""


def with_neighbouring_rows(lanes: LaneMap) -> LaneMap:
    """The same where the matrix's rows are numbered so that a lane has neighbours: any order does, if both sides have it."""
    changed = {(8, 1, 0): (8, 2, 0), (2, 8, 0): (2, 1, 0)}
    lane, register = (tuple(changed.get(digit, digit) for digit in digits) for digits in (lanes.lanes, lanes.registers))
    return LaneMap(lane, register, lanes.elements)


def warpgroup_rows(dtype: str) -> LaneMap:
    """The first operand of a warpgroup's product from registers: 64 rows, as many terms as 32 bytes hold."""
    rows = WARP_KINDS[dtype].a if dtype in WARP_KINDS else WARP_KINDS["i8"].a
    return LaneMap((*rows.lanes, WARP_OF_GROUP), (*rows.registers, (2, 0, rows.shape[1])), rows.elements)


MMA_SYNC = "mma.sync"

REGISTER_UNITS: dict[str, Mapping[str, WarpKind]] = {MMA_SYNC: WARP_KINDS}
"""By name."""
