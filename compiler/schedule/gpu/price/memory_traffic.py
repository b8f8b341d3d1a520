"""What a block reads and writes of a memory: which sectors it touches, how its warps' accesses lie in them, and how that grows with the
turns of the loops around."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from math import inf, prod

from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.instruction import Instruction
from compiler.hir.types import Mem, bytes_of
from compiler.hir.words import WORD, LoadWords, StoreWords
from compiler.machines.access import ALIGNMENT
from compiler.schedule.gpu.price.lane_numbers import Moves
from runtime.lazy_numpy import Array, np
from runtime.records import Factory, define, frozen

SECTOR, LINE = 32, 128
"""Bytes that the caches read at a time, and bytes of a line."""
CACHED = 64
"""Bytes that the first cache hands out in a cycle."""
BANKS = 32
"""Of shared memory, of a word each."""

Loops = tuple[tuple[str, float], ...]
"""By their variables, and how many turns they have, the outermost first."""


@frozen
class AccessShape:
    """An access of a thread: of `wide` bytes each time. `steps`: of each axis of registers how often, and how many bytes on each time."""

    wide: int
    steps: tuple[tuple[float, int], ...]

    @property
    def times(self) -> float:
        return prod(count for count, _ in self.steps)


def shape_of(op: Instruction, mem: Mem, index: Sequence[Affine], strides: Sequence[int], axes: Mapping[str, int]) -> AccessShape:
    size = bytes_of(mem.dtype)
    names = [axis for axis in dict.fromkeys(name for form in index for name in form.names) if axis in axes]
    bytes_on = {axis: size * sum(form.coefficient(axis) * stride for form, stride in zip(index, strides, strict=True)) for axis in names}
    along = next((axis for axis in names if bytes_on[axis] == size), None)
    wide = size
    match op:
        case LoadWords(count=count):
            wide = WORD * count
        case StoreWords(values=values):
            wide = WORD * len(values)
        case AsyncCopy(bytes=count):
            wide = count
        case _ if along is not None:
            wide = getattr(op, "align", None) or _vector(mem, index, along, axes[along])
    steps = [(axes[axis] * size / wide, wide) if axis == along else (float(axes[axis]), abs(bytes_on[axis])) for axis in names]
    return AccessShape(wide, tuple(steps))


def _vector(mem: Mem, index: Sequence[Affine], along: str, extent: int) -> int:
    """Bytes of an access of several elements along an axis."""
    size, known, count = bytes_of(mem.dtype), alignment(mem, [form.without(along) for form in index]), 1
    while count * 2 * size <= min(ALIGNMENT, known) and extent % (count * 2) == 0 and known % (count * 2 * size) == 0:
        count *= 2
    return count * size


@define
class MemoryTraffic:
    """`bytes` of the whole memory. Of a block: `run` bytes that lie together, `stored` sectors that stores ask of the second cache,
    `wavefronts` of the first, and the `widest` access of a thread."""

    bytes: int
    run: float = 0.0
    stored: float = 0.0
    wavefronts: float = 0.0
    widest: int = 0
    places: dict[Loops, list[tuple[Array, float]]] = Factory(dict)
    """Sectors that are touched in the first turn, and how many times as many in all turns, by the loops around."""

    @property
    def touched(self) -> float:
        """Bytes of all sectors that the block touches: what two loops of as many turns read is the same."""
        alike: dict[tuple[float, ...], list[tuple[Array, float]]] = {}
        for loops, places in self.places.items():
            alike.setdefault(tuple(turns for _, turns in loops), []).extend(places)
        return float(min(sum(map(_bytes, alike.values())), self.bytes + SECTOR))

    @property
    def again(self) -> Iterator[tuple[float, float]]:
        """Bytes that loops one behind the other touch again, and how many of them lie between the two times."""
        alike: dict[tuple[float, ...], list[Loops]] = {}
        for loops in self.places:
            alike.setdefault(tuple(turns for _, turns in loops), []).append(loops)
        for each in alike.values():
            bytes = sum(_bytes(self.places[loops]) for loops in each) - _bytes([*chain.from_iterable(map(self.places.__getitem__, each))])
            around = takewhile(lambda digits: len({*digits}) == 1, zip(*each, strict=True))
            if bytes:
                yield bytes, bytes / (len(each) - 1) / prod(turns for (_, turns), *_ in around)

    def count(
        self, addresses: Array | None, active: Array, shape: AccessShape, moves: Moves, turns: Mapping[str, float], weight: float,
        stores: bool, share: float,
    ) -> None:  # fmt: skip
        """Adds an access. `addresses` of all threads, a line a warp, None where data say them; `active` threads alike; `weight`: how often
        the threads come by; `share`: how much of the access they make."""
        if addresses is None:  # as for addresses that have nothing to do with each other
            lanes = float(active.sum())
            asked, sectors, wavefronts, run = np.arange(int(lanes)), lanes, lanes, float(SECTOR)
            moves = dict.fromkeys(turns)
        else:
            places = np.where(active, addresses // SECTOR, -LINE)
            sectors, lines = (float(_firsts(places // part)[1].sum()) for part in (1, LINE // SECTOR))
            wavefronts = max(sectors * SECTOR / CACHED, lines, float(active.any(axis=1).sum()))
            asked = np.unique(places[places >= 0])
            run = SECTOR * float(asked.size) / (1 + np.count_nonzero(np.diff(asked) > 1))
        by_turns = [(turns[name], inf if step is None else abs(step)) for name, step in moves.items() if step != 0 and name in turns]
        growth, run = _grown(run, [*((count, float(step)) for count, step in shape.steps if step), *by_turns])
        repeats = weight * shape.times * share
        self.wavefronts += wavefronts * repeats
        self.stored += sectors * repeats if stores else 0.0
        self.run, self.widest = max(self.run, run), max(self.widest, shape.wide)
        self.places.setdefault(tuple(turns.items()), []).append((asked, growth * share))


def _bytes(places: Sequence[tuple[Array, float]]) -> float:
    """Of sectors that are touched in the same turns."""
    return float(np.unique(np.concatenate([first for first, _ in places])).size * max(growth for _, growth in places) * SECTOR)


def _grown(run: float, steps: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """How many times as much is touched by accesses that are repeated, each so often and so many bytes on, beginning with the nearest; and
    the run that it becomes."""
    growth = 1.0
    for count, step in sorted(steps, key=lambda part: part[1]):
        if step > run:
            growth *= count
        else:
            longer = run + (count - 1) * step
            growth, run = growth * longer / run, longer
    return growth, run


def bank_cycles(addresses: Array | None, active: Array, wide: int) -> float:
    """Cycles of shared memory for an access of all warps: as many as words are asked of one bank."""
    if addresses is None:
        return float(4 * len(active))
    words, first = _firsts(np.where(active, addresses // WORD, -1))
    banks = (np.arange(len(words))[:, None] * BANKS + words % BANKS)[first]
    asked = np.bincount(banks, minlength=len(words) * BANKS).reshape(-1, BANKS)
    return float(asked.max(axis=1).sum() * max(1, wide // WORD))


def _firsts(lines: Array) -> tuple[Array, Array]:
    """Each line in order, and where a number comes for the first time in its line; numbers below 0 don't count."""
    ordered = np.sort(lines, axis=1)
    return ordered, (np.diff(ordered, axis=1, prepend=-2) > 0) & (ordered >= 0)
