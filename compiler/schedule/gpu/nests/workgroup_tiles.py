"""Leading loops on blocks whose shape a program gives (`@workgroup`)."""

from collections.abc import Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.schedule.gpu.nests.cooperate import Cooperation
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.stages import Dims, iterations
from runtime.records import frozen


@frozen(eq=False)
class Tiles:
    """A leading nest on blocks of the shape that the program gives: x along the last loop, y along the one before, z before that."""

    nest: Spread
    block: Dims

    @property
    def widths(self) -> list[int]:
        """Threads along each loop; what the block has beyond the loops lies along the first."""
        extents = [*reversed(self.block)][-len(self.nest.loops) :]
        spare = prod(self.block) // prod(extents)
        widths = [1] * (len(self.nest.loops) - len(extents)) + extents
        return [widths[0] * spare, *widths[1:]]

    @property
    def blocks(self) -> tuple[Affine, ...]:
        """Blocks along each loop."""
        return tuple(iterations(loop).ceildiv(width) for loop, width in zip(self.nest.loops, self.widths, strict=True))

    def inside(self, work: Cooperation, counts: Sequence[Value], b: Builder) -> Value:
        """Binds the loops' variables; whether they are inside the loops."""
        thread, block = work.thread, work.start.number
        all_inside: Value | None = None
        for loop, count, width in reversed([*zip(self.nest.loops, counts, self.widths, strict=True)]):
            along = b.const(width, "index")
            number, thread = b.op("rem", thread, along), b.op("div", thread, along)
            if loop is not self.nest.outer:
                wide = b.op("div", b.add(count, b.const(width - 1, "index")), along)
                wide = b.op("max", wide, b.const(1, "index"))
                block, tile = b.op("div", block, wide), b.op("rem", block, wide)
            else:
                tile = block
            position = b.add(b.mul(tile, along), number)
            work.variable(loop, position, b)
            inside = b.op("lt", position, count)
            all_inside = b.both(all_inside, inside)
        assert all_inside is not None
        return all_inside
