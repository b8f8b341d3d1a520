"""The nest of a seed."""

import math

from attrs import evolve

from bench.nests.elementwise import gather, maps, transposes, windows
from bench.nests.form import BenchNest, Chance
from bench.nests.mixed import mixtures, recurrences, triangles
from bench.nests.sums import columns, products, ragged, rows, scatter

FAMILIES = {
    "maps": maps,
    "windows": windows,
    "products": products,
    "rows": rows,
    "columns": columns,
    "ragged": ragged,
    "scatter": scatter,
    "gather": gather,
    "recurrences": recurrences,
    "transposes": transposes,
    "triangles": triangles,
    "mixtures": mixtures,
}


def nest_of(seed: int, least: float, most: float, family: str | None = None, work: float = math.inf) -> BenchNest:
    """The nest of a seed, which moves between `least` and `most` bytes; seeds that follow each other take families in turn. One that
    needs more operations than `work` is drawn again with fewer bytes."""
    family = family or list(FAMILIES)[seed % len(FAMILIES)]
    while True:
        chance = Chance(seed, least, most)
        nest = FAMILIES[family](chance)
        if nest.operations <= work or most <= least:
            return evolve(nest, seed=seed, named=chance.named)
        most = max(least, most / 2)
