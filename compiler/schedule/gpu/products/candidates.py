"""Which ways to cut a product are worth a try on the device: those that are estimated to end so shortly after the first one that the
model may be wrong about them."""

from collections.abc import Iterator, Sequence

from compiler.schedule.gpu.products.tiling import Estimated, Tiling
from runtime.records import evolve

NEAR = 1.15
"""Of the first one's time."""
MOST = 6
LEAST = 6000.0
"""Nanoseconds below which a product is as long as its launch takes, however it is cut."""


def candidates(ranked: Sequence[Estimated]) -> tuple[Estimated, ...]:
    """Of ways, the earliest to end first, that first one and those near it, the most different first: of several sums, in
    one launch and in one for each, the earliest of both; one alone stands clear."""
    if ranked[0].nanoseconds < LEAST:
        return (ranked[0],)
    near = [candidate for candidate in ranked if candidate.nanoseconds <= NEAR * ranked[0].nanoseconds]
    tried = [*_different(near)]
    counts = dict.fromkeys(one.tiling.products for one in tried)
    first = [next(one for one in tried if one.tiling.products == products) for products in counts]
    return (*first, *(one for one in tried if one not in first))[:MOST]


def left_open(ranked: Sequence[Estimated]) -> Iterator[str]:
    """How much the model leaves open, in words; nothing where the way was given."""
    others = len(candidates(ranked)) - 1 if ranked else 0
    if others > 0:
        several = "1 other way is" if others == 1 else f"{others} other ways are"
        yield f"{several} estimated to be as fast within {NEAR - 1:.0%}: the first call with its sizes tries such ways, without `--no-tune`"


def _different(ranked: Sequence[Estimated]) -> Iterator[Estimated]:
    """First one of each shape, then those whose warpgroups share it in another way."""
    seen: set[Tiling] = set()
    alike = []
    for candidate in ranked:
        shape = evolve(candidate.tiling, groups=1, blocks=1, stages=0)
        if shape in seen:
            alike.append(candidate)
        else:
            seen.add(shape)
            yield candidate
    yield from alike
