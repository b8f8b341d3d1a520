"""Kernels on devices that run threads: launches in order, how many blocks each has, and the memory that they share."""

from collections.abc import Iterator, Mapping
from math import prod

from attrs import frozen

from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Const, Index
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from compiler.schedule.merge_sort import passes


@frozen
class Launch:
    """One launch: a function in form C, and the forms whose product is the number of iterations that blocks share."""

    function: HirFunction
    counts: tuple[Affine, ...]
    before: tuple[Instruction, ...]
    """Pure instructions on the kernel's parameters that the counts may name."""
    share: int = 1
    """Iterations of a block: the number of its threads where each does one, 1 where a block does one together."""

    def iterations(self, sizes: Mapping[str, int]) -> int:
        """How many iterations there are, for these values of the function's `index` parameters."""
        known = dict(sizes)
        for op in self.before:
            _evaluate(op, known)
        return prod(max(0, count.evaluate(lambda name: known[name])) for count in self.counts)

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
class Launches:
    """A kernel as launches in order, and the workspaces that they share: memory parameters behind the kernel's own."""

    stages: tuple[Launch | SortPasses, ...]
    workspaces: tuple[Mem, ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch once."""
        return tuple(one for stage in self.stages for one in ((stage.there, stage.back) if isinstance(stage, SortPasses) else (stage,)))

    def steps(self, sizes: Mapping[str, int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """What is launched, in order: the number of a launch in `launches`, and the values behind its ordinary arguments."""
        number = 0
        for stage in self.stages:
            if isinstance(stage, Launch):
                yield number, ()
                number += 1
                continue
            for there, back in passes(stage.extent.evaluate(sizes.__getitem__)):
                yield number, (there,)
                yield number + 1, (back,)
            number += 2


def _evaluate(op: Instruction, known: dict[str, int]) -> None:
    """Index arithmetic of the launch on the host; other pure values don't decide on numbers of threads."""
    match op:
        case Index(of=of) if known.keys() >= set(of.names):
            known[op.result.name] = of.evaluate(lambda name: known[name])
        case Const(value=value):
            known[op.result.name] = int(value) if value == value and abs(value) < 2**63 else 0
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
