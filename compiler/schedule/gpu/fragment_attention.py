"""Attention as warps take it on every processor from sm_80 on, by products of registers (`attention_fragments.py` builds the launch). Rows
of a block are 16 for each warp; heads that share keys and values are rows beside each other where queries are few. Warps that rows don't
need share the keys of a tile, and blocks the tiles, where there would be too few of them."""

from math import isqrt

from attrs import asdict

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import union_axes
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.attention_field import AttentionField, Packed, attention_field
from compiler.schedule.gpu.boxed_operands import divides
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.shared_tiles import CHUNK, padded
from compiler.schedule.gpu.visible import Visible
from runtime.records import frozen

WARP_ROWS = 16
"""Queries of a warp."""
WARPS = 4
TERMS = ((128, 64), (256, 32))
"""Elements of a query or value, and keys of a tile: scores and sums are in registers."""
STAGES = 2
"""Tiles of keys and values that are on their way or in use."""
FEW = 64
"""Queries up to which heads are rows beside them."""
RESIDENT = 2
"""Blocks of a multiprocessor: so many registers a thread has, and so many blocks run at a time."""
JOINS = 2
"""Parts that the last block joins in the time that one takes for a tile: 2.6 on an H200. With the square root of so many tiles as parts,
walks and joins take least together."""


@frozen(eq=False, kw_only=True)
class FragmentAttention(AttentionField):
    """`down` warps along the rows of a block, `across` along the keys of a tile."""

    down: int
    across: int

    @property
    def rows(self) -> int:
        return WARP_ROWS * self.down

    @property
    def threads(self) -> int:
        return 32 * self.down * self.across

    @property
    def words(self) -> tuple[str, ...]:
        lines = [f"{self.rows} rows and tiles of {self.terms} keys a block, on the tensor cores"]
        if self.packed is not None:
            lines.append(f"{self.packed.together or 'all'} of {self.packed.axis} are rows beside each other: they share keys and values")
        if self.across > 1:
            lines.append(f"{self.across} warps share the keys of a tile")
        if self.parts > 1:
            lines.append(f"up to {self.parts} blocks share the keys, the last of them joins their sums")
        return tuple(lines)


def fragment_attention(field: HirFunction, facts: Facts) -> FragmentAttention | None:
    """The field as attention for warps; None where they don't take it."""
    if not facts.machine.has(Feature.ASYNC_COPIES) or (field.kernel_info is not None and field.kernel_info.tensor_cores is False):
        return None
    attention = attention_field(field, facts)
    if attention is None or any(not divides(CHUNK, field.axes[axis]) for axis in (attention.inner, attention.value.axis)):
        return None
    terms = next(number for most, number in TERMS if max(attention.depth, attention.width) <= most)
    queries = facts.about(field.axes[attention.query.axis])
    packed = _packed(field, attention) if queries <= FEW else None
    heads = 1 if packed is None else packed.together or facts.about(field.axes[packed.axis])
    rows = queries * heads
    down = next((n for n in (1, 2) if rows <= n * WARP_ROWS), WARPS)
    across = WARPS // down
    if attention.width % (8 * across) or terms // across < WARP_ROWS:
        down, across = WARPS, 1
    others = [axis for axis in field.axes if axis not in (attention.inner, attention.along, attention.query.axis, attention.value.axis)]
    blocks = -(-rows // (WARP_ROWS * down))
    for axis in others:
        blocks *= -(-facts.about(field.axes[axis]) // (heads if packed is not None and axis == packed.axis else 1))
    parts = min(RESIDENT * facts.processors // max(1, blocks), isqrt(JOINS * (facts.about(field.axes[attention.along]) // terms)))
    known = asdict(attention, recurse=False) | {"terms": terms, "parts": max(1, parts)}
    if packed is not None:
        known["packed"] = packed
        known["visible"] = Visible((), tuple(attention.exponent.guards))
    candidate = FragmentAttention(**known, down=down, across=across)
    return candidate if _bytes(candidate) <= facts.machine.stage_shared else None


def _bytes(attention: FragmentAttention) -> int:
    tiles = attention.rows * padded(attention.depth) + STAGES * attention.terms * (padded(attention.depth) + padded(attention.width))
    return 2 * tiles + (4 * attention.across * attention.rows * (attention.width + CHUNK) if attention.across > 1 else 0)


def _packed(field: HirFunction, attention: AttentionField) -> Packed | None:
    """Heads whose keys and values are the same: an axis that neither has, or has only as a quotient by one number."""
    varying = {axis for value in (*attention.exponent.factors, *attention.exponent.divisors) for axis, _ in union_axes(value)}
    loads = (attention.key.load, attention.value.load)
    for axis in field.axes:
        if axis in (attention.inner, attention.along, attention.query.axis, attention.value.axis) or axis in varying:
            continue
        divisors = {number for load in loads for number in _divisors(load, axis)}
        if divisors == {0}:
            return Packed(axis, None)
        if len(divisors) == 1 and 1 < (together := next(iter(divisors))) <= FEW:
            return Packed(axis, together)
    return None


def _divisors(load: Load, axis: str) -> set[int]:
    """What an axis is divided by in an index; 0 where it isn't there, 1 where it is as it is."""
    divisors: set[int] = set()
    for form in load.index:
        for symbol, _ in form.terms:
            if symbol == axis:
                divisors.add(1)
            elif isinstance(symbol, FloorDiv) and axis in symbol.numerator.names:
                divisors.add(symbol.divisor if symbol.numerator == Affine.of(axis) else 1)
    return divisors or {0}
