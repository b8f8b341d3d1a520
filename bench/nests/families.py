"""The nest of a seed."""

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


def nest_of(seed: int, least: float, most: float, family: str | None = None) -> BenchNest:
    """The nest of a seed, which moves between `least` and `most` bytes; seeds that follow each other take families in turn."""
    family = family or list(FAMILIES)[seed % len(FAMILIES)]
    chance = Chance(seed, least, most)
    return evolve(FAMILIES[family](chance), seed=seed, named=chance.named)
