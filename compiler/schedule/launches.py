"""Kernels on devices that run threads: launches in order, how many blocks each has, and the memory that they share."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from compiler.diagnostics import ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Const, Index
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.shared_memory import SharedUse, laid_out, over_limit, shared_uses
from compiler.hir.types import Mem
from compiler.schedule.merge_sort import passes
from compiler.schedule.table import Unheeded
from runtime.records import frozen

SHARED_ALIGN = SharedUse("", 0).align
"""Of each shared memory whose size only the launch knows, in bytes."""


@frozen
class LaunchSizedShared:
    """A shared memory whose extents only the launch knows; `width` is the bytes of an element."""

    name: str
    dims: tuple[Affine, ...]
    width: int

    def use(self, sizes: Mapping[str, int]) -> SharedUse:
        return SharedUse(self.name, prod(max(0, dim.evaluate(sizes.__getitem__)) for dim in self.dims) * self.width)


@frozen
class Launch:
    """One launch: a function in form C, and the forms whose product is the number of iterations that blocks share."""

    function: HirFunction
    counts: tuple[Affine, ...]
    before: tuple[Instruction, ...]
    """Pure instructions on the kernel's parameters that the counts may name."""
    share: int = 1
    """Iterations of a block: the number of its threads where each does one, 1 where a block does one together."""
    shared: tuple[LaunchSizedShared, ...] = ()
    """Memories that lie one behind the other in the block's dynamic shared memory."""
    forms: tuple[tuple[str, HirFunction], ...] = ()
    """What the function was made from, by the passes that made it, the first first: tiles, and roles."""
    nanoseconds: float | None = None
    """About how long it takes, where a model of its own says that."""

    def iterations(self, sizes: Mapping[str, int]) -> int:
        """How many iterations there are, for these values of the function's `index` parameters."""
        known = self._known(sizes)
        return prod(max(0, count.evaluate(known.__getitem__)) for count in self.counts)

    def shared_bytes(self, sizes: Mapping[str, int], limit: int, device: str) -> int:
        """Bytes of dynamic shared memory a block. Raises ZyntaxError (0503) where a block on the device can't have that, its other
        shared memory, or both."""
        known = self._known(sizes) if self.shared else {}
        uses = [variable.use(known) for variable in self.shared]
        if (over := over_limit(self.function, limit, device, uses)) is not None:
            raise ZyntaxError(over)
        return laid_out(uses)

    def _known(self, sizes: Mapping[str, int]) -> dict[str, int]:
        known = dict(sizes)
        for op in self.before:
            _evaluate(op, known)
        return known

    def blocks(self, sizes: Mapping[str, int]) -> int:
        """How many blocks run; 0: there is nothing to do."""
        return -(-self.iterations(sizes) // self.share)

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block."""
        info = self.function.kernel_info
        assert info is not None and info.workgroup is not None
        return info.workgroup


@frozen
class SortPasses:
    """The passes of a sort: there and back, again and again, until the runs are as long as `extent`."""

    there: Launch
    back: Launch
    extent: Affine


@frozen
class Either:
    """One thing done in two ways: a block an iteration, or a thread an iteration. Blocks where the loops that their threads share (of at
    most `extents` iterations) are long enough for a warp, and memory is contiguous along them or there are few iterations; threads
    otherwise. It depends on nothing but sizes."""

    blocks: Launch
    threads: Launch
    extents: tuple[Affine, ...]
    contiguous: bool

    def chosen(self, sizes: Mapping[str, int]) -> Launch:
        known = self.blocks._known(sizes)
        longest = max(extent.evaluate(known.__getitem__) for extent in self.extents)
        iterations = self.blocks.iterations(sizes)
        if longest < LONG or iterations >= MOST_BLOCKS or (not self.contiguous and iterations >= MANY):
            return self.threads
        return self.blocks


@frozen
class CountedSort:
    """A sort by digits, the lowest first: the digits of all passes are counted, then each pass goes to the second memories or back.
    Lines of fewer than `fewest` elements are filled and merged."""

    extent: Affine
    fill: tuple[Launch | Either, ...]
    """What stores the elements that the first pass computes by itself."""
    merges: SortPasses | None
    """None where lines are known to be long."""
    clear: Launch
    count: Launch
    first: Launch
    back: Launch | None
    there: Launch | None
    """None where one pass or two do."""
    shifts: tuple[int, ...]
    """Where the digit of each pass begins."""
    fewest: int

    def steps(self, sizes: Mapping[str, int]) -> Iterator[tuple[Launch, tuple[int, ...]]]:
        extent = self.extent.evaluate(sizes.__getitem__)
        if self.merges is not None and extent < self.fewest:
            for stage in self.fill:
                yield stage if isinstance(stage, Launch) else stage.chosen(sizes), ()
            for there, back in passes(extent):
                yield self.merges.there, (there,)
                yield self.merges.back, (back,)
            return
        yield self.clear, ()
        yield self.count, ()
        for number, shift in enumerate(self.shifts):
            away = self.first if number == 0 else self.there
            launch = self.back if number % 2 else away
            assert launch is not None
            yield launch, (number, shift)


Stage = Launch | SortPasses | CountedSort | Either

LONG = 32
"""Iterations of a loop that are worth a block's threads."""
MANY = 1 << 14
"""Iterations with which a thread each fills a large GPU by half or more."""
MOST_BLOCKS = 1 << 31
"""Blocks that no grid has along x."""


@frozen
class Unit:
    """A parameter that counts a size in units: its place, its name, and the size's."""

    place: int
    name: str
    size: str
    unit: int


@frozen
class Product:
    """A further parameter, behind a kernel's own: the product of two forms of sizes, counted in units of what divides it."""

    name: str
    factors: tuple[Affine, Affine]
    unit: int

    def value(self, sizes: Mapping[str, int]) -> int:
        first, second = (max(0, form.evaluate(sizes.__getitem__)) for form in self.factors)
        return first * second // self.unit


@frozen
class CopyStage:
    """A stage, by its number, that does nothing but fill workspaces, by theirs. Stages with the same key fill alike."""

    key: Hashable
    stage: int
    workspaces: tuple[int, ...]


@frozen
class Launches:
    """A kernel as launches in order, and the workspaces that they share: memory parameters behind the kernel's own."""

    stages: tuple[Stage, ...]
    workspaces: tuple[Mem, ...]
    words: tuple[str, ...] = ()
    """What was chosen, and why."""
    units: tuple[Unit, ...] = ()
    """Parameters that count a size in units of what divides it."""
    products: tuple[Product, ...] = ()
    """Parameters between the kernel's own and the workspaces."""
    zeros: frozenset[int] = frozenset()
    """Workspaces that are zeros before the first launch and after the last."""
    covered: frozenset[str] = frozenset()
    """Results, by the names of the kernel's parameters, all of whose elements are stored, although the nest leaves some at 0."""
    heeded: frozenset[tuple[str, str]] = frozenset()
    """Annotations of loops that the schedule says it follows, by name and axis."""
    unheeded: tuple[Unheeded, ...] = ()
    """What of the program's annotations it doesn't follow."""
    copies: tuple[CopyStage, ...] = ()
    """Stages that other launches of the same field may have, too."""

    def counted(self, arguments: Sequence[Any], sizes: Mapping[str, int]) -> tuple[list[Any], dict[str, int]]:
        """The arguments and the values of `index` parameters as these launches take them."""
        counted, known = list(arguments), self.counted_sizes(sizes)
        for unit in self.units:
            counted[unit.place] = known[unit.name]
        return [*counted, *(known[product.name] for product in self.products)], known

    def counted_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The values of `index` parameters as these launches take them."""
        known = {**sizes, **{unit.name: sizes[unit.size] // unit.unit for unit in self.units}}
        for product in self.products:
            known[product.name] = product.value(known)
        return known

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch once."""
        return tuple(launch for stage in self.stages for launch in _launches(stage))

    def fits(self, most: int) -> bool:
        """Whether no block wants more than so many bytes of shared memory of constant size."""
        return all(laid_out(shared_uses(launch.function)) <= most for launch in self.launches)

    def steps(self, sizes: Mapping[str, int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """What is launched, in order: the number of a launch in `launches`, and the values behind its ordinary arguments."""
        number = 0
        for stage in self.stages:
            match stage:
                case Launch():
                    yield number, ()
                case Either():
                    yield number + _launches(stage).index(stage.chosen(sizes)), ()
                case SortPasses():
                    for there, back in passes(stage.extent.evaluate(sizes.__getitem__)):
                        yield number, (there,)
                        yield number + 1, (back,)
                case CountedSort():
                    own = _launches(stage)
                    for launch, after in stage.steps(sizes):
                        yield number + next(position for position, own_launch in enumerate(own) if own_launch is launch), after
            number += len(_launches(stage))


def _launches(stage: Stage) -> tuple[Launch, ...]:
    match stage:
        case SortPasses(there=there, back=back):
            return there, back
        case CountedSort():
            parts = (*stage.fill, stage.merges, stage.clear, stage.count, stage.first, stage.back, stage.there)
            return tuple(launch for part in parts if part is not None for launch in _launches(part))
        case Either(blocks=blocks, threads=threads):
            return blocks, threads
        case _:
            return (stage,)


def _evaluate(op: Instruction, known: dict[str, int]) -> None:
    """Index arithmetic of the launch on the host; other pure values don't decide on numbers of threads."""
    match op:
        case Index(of=of) if known.keys() >= set(of.names):
            known[op.result.name] = of.evaluate(lambda name: known[name])
        case Const(value=value):
            known[op.result.name] = int(value) if value == value and abs(value) < 2**63 else 0
        case Cast(value=value) if value.name in known:
            known[op.result.name] = known[value.name]
        case Binary(operator=operator, left=left, right=right) if left.name in known and right.name in known:
            a, c = known[left.name], known[right.name]
            results = {"add": a + c, "sub": a - c, "mul": a * c, "min": min(a, c), "max": max(a, c)}
            if operator in results:
                known[op.result.name] = results[operator]
            elif operator in ("div", "rem") and c:
                quotient = abs(a) // abs(c) * (1 if (a < 0) == (c < 0) else -1)
                known[op.result.name] = quotient if operator == "div" else a - c * quotient
        case _:
            pass
