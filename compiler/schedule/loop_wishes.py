"""What a program says of its loops, on the CPU: `@vectorize` and `@unroll` replace entries of a field's table, `@parallel` shares an axis
out to threads. (`@serial` isn't here: its axes are those in written order, which tables leave alone.) What can't be done is left undone,
with the reason."""

from collections.abc import Iterable, Iterator, Sequence

from compiler.analysis.lift import wish_of
from compiler.hir.control import MOST_UNROLLED, For
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction, LoopWish
from compiler.hir.types import Tile
from compiler.schedule.table import Unheeded
from compiler.schedule.tile_sizes import MOST_REGISTERS, named, tile_of, untiled
from runtime.records import Factory, define

Tiles = dict[str, tuple[int, int]]
"""Registers and lanes by axis."""


@define(eq=False)
class LoopWishes:
    """The wishes for a field's axes. `ordered`: axes in written order; `reduced`: those that a reduction runs along."""

    field: HirFunction
    ordered: Sequence[str]
    reduced: frozenset[str]
    unheeded: list[Unheeded] = Factory(list)

    def vectors(self, tiles: Tiles, votes: dict[str, int], usual: int) -> None:
        """Gives lanes to the axes for which the program wants them, and takes them from axes that share values with those. `usual`: lanes
        of a vector of the machine."""
        chosen: list[str] = []
        for wish in self.field.loops:
            if wish.vectorize is None:
                continue
            axis, lanes = wish.axis, wish.vectorize or usual
            why = self._no_vector(axis, lanes, votes)
            if other := next((other for other in chosen if self._together(axis, other)), None):
                why = f"the vectors of what it computes lie along `{self._loop(other)}`"
            if why:
                self.unheeded.append(Unheeded("vectorize", wish.loop, why))
                continue
            for other, (registers, width) in tiles.items():
                if other != axis and width > 1 and self._together(axis, other):
                    tiles[other] = (registers, 1)
            registers = tiles.get(axis, (1, 1))[0]
            extent = self.field.axes[axis].value
            tiles[axis] = (registers if extent is None or registers * lanes <= extent else 1, lanes)
            chosen.append(axis)

    def _no_vector(self, axis: str, lanes: int, votes: dict[str, int]) -> str:
        extent = self.field.axes[axis].value
        if lanes == 1:
            return ""
        if axis in self.ordered:
            return "its turns go on from one another in the order that is written"
        if extent is not None and extent < lanes:
            return f"the loop has {extent} turns, fewer than {lanes}"
        if votes[axis] <= 0:
            return "memory isn't contiguous along it: each lane would be fetched by itself"
        return ""

    def _together(self, axis: str, other: str) -> bool:
        """Whether something is computed along both."""
        return any(axis in axes and other in axes for axes in map(_axes_of, self.field.body.body))

    def _loop(self, axis: str) -> str:
        return next(wish.loop for wish in self.field.loops if wish.axis == axis)

    def sizes(self, tiles: Tiles) -> None:
        """Gives axes registers, and fewer lanes where these have to divide the size, as `@tile` says."""
        wide = {wish.axis for wish in self.field.loops if wish.vectorize is not None}
        left: dict[str, str] = {}
        for axis, size in tile_of(self.field).items():
            lanes = tiles.get(axis, (1, 1))[1]
            while size % lanes and axis not in wide:
                lanes //= 2
            extent = self.field.axes[axis].value
            if axis in self.ordered or (axis in self.reduced and lanes == 1):
                left[axis] = "its terms are added one after the other"
            elif size % lanes or size // lanes > MOST_REGISTERS:
                left[axis] = f"a tile has {f'multiples of {lanes}' if lanes > 1 else '1'} to {MOST_REGISTERS * lanes} elements"
            elif extent is not None and extent < size:
                left[axis] = f"the loop has {extent} turns"
            else:
                tiles[axis] = (size // lanes, lanes)
        if any(width > 1 for _, width in tiles.values()):
            narrowest = min(width for _, width in tiles.values() if width > 1)
            for axis, (registers, width) in tiles.items():
                if width > narrowest:
                    tiles[axis] = (registers * (width // narrowest), narrowest)
        for axis, why in left.items():
            self.unheeded.append(Unheeded("tile", named(self.field, axis), why))
        self.unheeded += untiled(self.field, self.field.axes, "")

    def written_out(self, tiles: Tiles) -> tuple[tuple[str, int], ...]:
        """Gives registers to axes whose loops are to be written out, where results or vectors lie along them. Gives the loops of the other
        ones, with their turns (0: all)."""
        loops: list[tuple[str, int]] = []
        for wish in self.field.loops:
            if wish.unroll is None:
                continue
            axis, turns = wish.axis, wish.unroll
            lanes = tiles.get(axis, (1, 1))[1]
            extent = self.field.axes[axis].value
            turns = turns or (extent or 0) // lanes
            while extent is not None and lanes > 1 and turns * lanes > extent and wish.vectorize is None:
                lanes //= 2
            if why := no_unrolling(turns, extent, lanes):
                self.unheeded.append(Unheeded("unroll", wish.loop, why))
            elif axis in self.ordered or (axis in self.reduced and lanes == 1):
                loops.append((axis, turns))
            else:
                tiles[axis] = (turns, lanes)
        return tuple(loops)

    def threads(self, order: list[str], threaded: list[str], most: int, joined: frozenset[str]) -> list[str]:
        """The axes that are shared out to threads, with those for which the program wants it; `order` is that of the loops, `threaded`
        would be chosen otherwise; turns are `joined` along axes of sums and running values."""
        for wish in self.field.loops:
            axis = wish.axis
            if not wish.parallel or axis in threaded:
                continue
            leading = order[: order.index(axis) + 1]
            if len(leading) <= most and not any(a in joined or a in self.ordered for a in leading):
                threaded = leading
                continue
            if axis in self.ordered:
                why = "its sum keeps the order that is written"
            elif axis in joined and threaded:
                names = " and ".join(f"`{axis}`" for axis in threaded)
                why = f"threads share the loop over {names} already, and each adds up its own results"
            else:
                why = f"at most {most} loops around each other are shared out to threads"
            self.unheeded.append(Unheeded("parallel", wish.loop, why))
        return threaded


def no_unrolling(turns: int, known: int | None, lanes: int = 1) -> str:
    """Why so many turns of a loop, each of so many lanes, can't be written out; empty if they can. `known`: how many it has, where that is
    known."""
    if turns == 0:
        return "how many turns the loop has is only known as it runs: say how many of them, `@unroll(4)`"
    if turns > MOST_UNROLLED:
        return f"at most {MOST_UNROLLED} turns are written out"
    if known is not None and turns * lanes > known:
        return f"the loop has {known} {'turn' if known == 1 else 'turns'}, fewer than {turns}{f' vectors of {lanes}' if lanes > 1 else ''}"
    return ""


def no_unrolling_of(op: For) -> str:
    """The same of the turns that a loop of a nest is marked with."""
    turns = op.mark("unroll")
    extent = (op.high - op.low).ceildiv(op.step).value if op.step > 0 else (op.low - op.high).ceildiv(-op.step).value
    return no_unrolling((extent or 0) if turns is True else turns if isinstance(turns, int) else 0, extent)


def in_words(function: HirFunction, wishes: Iterable[LoopWish], unheeded: Iterable[Unheeded]) -> Iterator[str]:
    """What a schedule follows of the annotations of a block and its loops, and what it doesn't, with the reason."""
    tile = () if function.kernel_info is None else function.kernel_info.tile
    left = {(each.annotation, each.loop): each.why for each in unheeded}
    for wish in wishes:
        said = [name for name in ("serial", "parallel") if getattr(wish, name)]
        sizes = {name: size for name, size in (("unroll", wish.unroll), ("vectorize", wish.vectorize)) if size is not None}
        for name in (*said, *sizes):
            if (name, wish.loop) not in left:
                yield f"`@{name}{f'({sizes[name]})' if sizes.get(name) else ''}` of the loop over {wish.loop} is followed"
    follows = [f"{name}={size}" for name, size in tile if not {("tile", name), ("tile", "")} & left.keys()]
    if follows:
        yield f"`@tile({', '.join(follows)})` is followed"
    for (name, loop), why in left.items():
        place = "" if not loop else f" along {loop}" if name == "tile" else f" of the loop over {loop}"
        yield f"`@{name}`{place} isn't followed: {why}"


def wishes_of(nest: HirFunction) -> list[LoopWish]:
    """What the program says of the loops of a nest."""
    loops = [op for top in nest.body.body for op in top.walk() if isinstance(op, For)]
    return [wish for op in loops if (wish := wish_of(op, LoopWish(op.variable.name, op.written))) is not None]


def _axes_of(op: object) -> set[str]:
    if not isinstance(op, Store | Reduce | Contract | Scan):
        return set()
    return {axis for value in op.operand_values if isinstance(value.type, Tile) for axis in value.type.axis_names}
