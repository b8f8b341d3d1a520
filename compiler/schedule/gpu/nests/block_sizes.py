"""What a thread or a block is enough for: how long loops are, and how large memories."""

from collections.abc import Mapping, Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.launches import LONG
from compiler.schedule.threads import BLOCK

THREAD_BYTES = 16 * 1024
"""Scratch memory that a thread may have: with more, its block has it."""


def fits_a_thread(memories: Sequence[Value]) -> bool:
    """Whether each thread can have memories like these of its own."""
    types = [mem_of(mem) for mem in memories]
    extents = [dim.value for type in types for dim in type.dims]
    return None not in extents and sum(bytes_of(t.dtype) * prod(dim.value or 0 for dim in t.dims) for t in types) <= THREAD_BYTES


def are_long(extents: Sequence[Affine]) -> bool:
    """Whether extents are surely worth a block's threads."""
    return all((extent.value or 0) >= LONG for extent in extents)


def threads_for_loops(extents: Sequence[Affine] | None, lanes: int) -> int:
    """Threads for loops of these extents: no more warps of so many lanes than the longest fills."""
    known = [extent.value for extent in extents] if extents is not None else [None]
    longest = max((value for value in known if value is not None), default=BLOCK)
    return BLOCK if None in known else min(BLOCK, max(lanes, -(-longest // lanes) * lanes))


def in_words(spreads: Mapping[For, Spread]) -> str:
    """The spread loops in words, each name once."""
    names = (", ".join(loop.written for loop in spread.loops) for spread in spreads.values())
    return f"the loop over {'; '.join(dict.fromkeys(names))}"
