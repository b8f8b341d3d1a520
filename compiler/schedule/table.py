"""A schedule as data: for each axis of a field, the loop its outer digit becomes and the static digits that stay axes of tiles.

An axis `j` with the digits (2, 16) is the number `j = 32*j0 + 16*j1 + simd`: `j0` is a loop, bound to a place, `j1` counts
registers, `simd` the lanes of a vector."""

from math import prod

from compiler.hir.affine import Affine, AffineLike
from compiler.machines.gpu import GpuMachine
from compiler.machines.nvidia import PORTABLE
from runtime.records import evolve, field, frozen
from runtime.tuples import as_tuple

SIMD = "simd"
"""Name of the one tile axis that is a vector."""

NARROW = 2
"""Vectors that the end of an axis keeps in flight."""


@frozen
class AxisPlan:
    """`place` of the loop over the axis's outer digit: "thread", "time", "block" of a grid; or "once": no loop, one tile is the axis.
    `registers` and `lanes` are the extents of its tile digits, 1 for none. On a GPU `threads` of the block stand side by side along the
    axis, in dimension `dim` of the block (0: neighbours are lanes of a warp): `j = tile*j0 + threads*lanes*j1 + lanes*thread + simd`;
    `beside`: a thread's registers are neighbours instead, and those of the next thread lie behind them. Where order matters, `warps` of
    such runs of threads and registers lie one behind the other in a tile."""

    axis: str
    place: str = "time"
    registers: int = 1
    lanes: int = 1
    digit: str = "r"
    """Tells the register digits of two plans of one axis apart."""
    threads: int = 1
    dim: int = 0
    warps: int = 1
    beside: bool = False
    overlap: int = 0
    """Elements of its tile that the next one has, too."""
    simd: str = SIMD
    """The axis that is its vector: those of another number of lanes have another name."""

    @property
    def tile(self) -> int:
        """Elements of the axis that one iteration of its loop covers."""
        return self.run * self.warps - self.overlap

    @property
    def run(self) -> int:
        """Elements that lie together before those of the next warp."""
        return self.registers * self.lanes * self.threads

    @property
    def step(self) -> int:
        """Elements from a thread's first to the next thread's."""
        return self.lanes * (self.registers if self.beside else 1)

    def is_ragged(self, extent: Affine) -> bool:
        """Whether the tile is not known to divide the extent."""
        return any(number % self.tile for number in (extent.constant, *(coefficient for _, coefficient in extent.terms)))

    def narrowed(self) -> "AxisPlan":
        """The plan for the end of the axis, where a tile of many vectors would be mostly empty."""
        few = self.lanes > 1 and self.registers > NARROW
        return evolve(self, registers=NARROW, digit="n") if few else self

    def digits(self) -> tuple[tuple[str, int, int], ...]:
        """Tile digits as (name, extent, stride)."""
        digits = []
        if self.registers > 1:
            digits.append((f"{self.axis}_{self.digit}", self.registers, self.lanes * (1 if self.beside else self.threads)))
        if self.lanes > 1:
            digits.append((self.simd, self.lanes, 1))
        return tuple(digits)

    def form(self, loop: AffineLike) -> Affine:
        """The axis as an affine form of its outer digit (a loop variable, or a form of one) and the static digits."""
        form = Affine.of(loop) * self.tile
        for name, _, stride in self.digits():
            form = form + Affine.of(name) * stride
        return form

    def within(self) -> Affine:
        """The part of the form that the digits make: the place of an element inside a tile."""
        form = Affine()
        for name, _, stride in self.digits():
            form = form + Affine.of(name) * stride
        return form

    def __str__(self) -> str:
        words = [f"{self.axis}: {self.place}"]
        if self.threads > 1:
            words.append(f"threads {self.threads} along {'xyz'[self.dim]}")
        if self.warps > 1:
            words.append(f"warps {self.warps}")
        if self.registers > 1:
            words.append(f"registers {self.registers}{' side by side' if self.beside else ''}")
        if self.lanes > 1:
            words.append(f"simd {self.lanes}")
        return ", ".join(words)


@frozen
class LoopSplit:
    """Blocks of a GPU that share the loop over an axis, at most `parts` for each result."""

    axis: str
    parts: int


@frozen
class Unheeded:
    """An annotation that a schedule doesn't follow, and why. `loop`: the variable of the loop it stands before; empty for the block's."""

    annotation: str
    loop: str
    why: str


@frozen
class Table:
    """Axis plans in the order of their loops, outermost first; `reasons` say in words what was chosen and why."""

    plans: tuple[AxisPlan, ...] = field(converter=as_tuple)
    reasons: tuple[str, ...] = field(default=(), converter=as_tuple)

    block: tuple[int, ...] = (1,)
    """Threads of a block along x, y, z."""
    resident: int | None = None
    """Blocks that a multiprocessor of a GPU shall have at a time: registers are kept to that."""
    split: LoopSplit | None = None
    machine: GpuMachine = PORTABLE
    """Whose blocks these are, where they are those of a GPU."""
    written_out: frozenset[str] = frozenset()
    """Axes whose loops have a constant number of turns, each with code of its own: what several turns load is loaded once."""
    cluster: int = 1
    """Blocks that share a tile: each has its part of the axes whose place is "once", one behind the other."""
    unrolled: tuple[tuple[str, int], ...] = ()
    """Axes of whose loops so many turns are written out, as the program says; 0: all."""
    unheeded: tuple[Unheeded, ...] = field(default=(), converter=as_tuple)
    rows: str | None = None
    """The axis whose registers are rows of a product's block: what is left at its end goes row by row."""

    masked_bits: int = 8
    """Bits of the narrowest elements of which vectors are loaded and stored under a mask."""
    halves: bool = False
    """Whether half a vector may take half the time of a whole one."""

    def __getitem__(self, axis: str) -> AxisPlan:
        return next(plan for plan in self.plans if plan.axis == axis)

    def __contains__(self, axis: str) -> bool:
        return any(plan.axis == axis for plan in self.plans)

    @property
    def threads(self) -> int:
        return prod(self.block)

    def order(self, axis: str) -> int:
        return next(number for number, plan in enumerate(self.plans) if plan.axis == axis)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.plans), *(f"  because {reason}" for reason in self.reasons)])
