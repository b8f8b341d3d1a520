"""A table of digits: how many elements a thread has along each axis of the results, and how many threads of a block stand along it."""

from math import gcd, prod

from compiler.schedule.gpu.derived.instances import DigitSpan
from compiler.schedule.gpu.derived.nest import ThreadNest
from runtime.records import frozen


@frozen
class ThreadTable:
    """`order`: axes by their digit in the thread's number, the fastest first. Where tiles don't divide an extent, the last of them are
    moved back so that they end with it: those threads compute elements that others have too, and no element needs a condition."""

    registers: tuple[int, ...]
    threads: tuple[int, ...]
    order: tuple[int, ...]
    turned: bool = False
    """Results go through tiles of shared memory, all of which are whole: the last tiles are moved back."""

    def words(self) -> tuple[str, ...]:
        """In words."""
        return (f"{' x '.join(map(str, self.registers))} elements a thread, {' x '.join(map(str, self.threads))} threads a block",)

    @property
    def block(self) -> int:
        return prod(self.threads)

    @property
    def tile(self) -> tuple[int, ...]:
        """A block's elements along each axis."""
        return tuple(registers * threads for registers, threads in zip(self.registers, self.threads, strict=True))

    def tile_unit(self, nest: ThreadNest, axis: int) -> int:
        """What the first elements of tiles are multiples of, where the last tile is moved back."""
        return gcd(self.tile[axis], nest.extents[axis])

    def blocks(self, nest: ThreadNest) -> tuple[int, ...]:
        """Blocks along each axis."""
        tiles = zip(nest.extents, self.registers, self.threads, strict=False)
        return tuple(-(-extent // (registers * threads)) for extent, registers, threads in tiles)

    def spans(self, nest: ThreadNest) -> tuple[DigitSpan, ...]:
        return spans_of(nest, self.registers)


def spans_of(nest: ThreadNest, registers: tuple[int, ...]) -> tuple[DigitSpan, ...]:
    """Where the first of so many elements may be."""
    spans = []
    for extent, each in zip(nest.extents, registers, strict=False):
        unit = gcd(each, extent - each)
        spans.append(DigitSpan(unit, 0, (extent - each) // unit))
    return tuple(spans)
