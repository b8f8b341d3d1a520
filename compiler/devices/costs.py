"""What a run of a block on a device costs: a call, the bytes copied there, and the work at the device's pace. Where earlier runs of
the block were measured, they count instead of the estimate, and correct it for other sizes."""

from collections.abc import Mapping
from functools import partial
from math import log

from compiler.analysis.work import Work, work_of
from compiler.launch.cache import MEASURED, Cache
from compiler.launch.kernels import BuiltKernel
from compiler.launch.plan import grid_of
from compiler.lowering.launch import LaunchSizes
from runtime.records import Factory, define, frozen

MEASURED_RUNS = 3
"""Runs of a block in one size on one device that are measured; the quickest counts."""


@frozen
class Rates:
    """A device's pace: seconds of a call, and of a copy of next to nothing; bytes a second copied to it and from it, bytes of its memory
    and operations a second."""

    call: float
    copy: float
    copy_to: float
    copy_from: float
    memory: float
    arithmetic: float

    def copying_to(self, size: int) -> float:
        """Seconds of bringing that many bytes from the host."""
        return self.copy + size / self.copy_to

    def copying_from(self, size: int) -> float:
        """Seconds of fetching that many bytes to the host."""
        return self.copy + size / self.copy_from

    def running(self, work: Work) -> float:
        """Seconds of a run that does nothing but its work, memory and arithmetic side by side."""
        return self.call + max(work.bytes / self.memory, work.operations / self.arithmetic)


@define
class MeasuredRuns:
    """The runs of a block in one size: how many there were, the seconds that were estimated, and the quickest."""

    estimated: float
    runs: int = 0
    seconds: float = float("inf")

    def add(self, seconds: float) -> None:
        self.runs += 1
        self.seconds = min(self.seconds, seconds)


@define(eq=False)
class History:
    """The runs of one kernel on one device: those that were measured, by their work. `compiled`: there were any; `unable`: the device can't
    run it."""

    compiled: bool = False
    unable: bool = False
    _sizes: Cache[Work, MeasuredRuns] = Factory(partial(Cache, MEASURED))

    def of(self, work: Work, estimated: float) -> MeasuredRuns:
        return self._sizes.of(work, lambda: MeasuredRuns(estimated))

    def running(self, work: Work, estimated: float) -> tuple[float, bool]:
        """Seconds of a run, and whether runs of this size were measured: else the estimate, as far off as at the nearest size."""
        known = self._sizes.get(work)
        if known is not None and known.runs:
            return known.seconds, True
        nearest = min(
            ((size, runs) for size, runs in self._sizes.items() if runs.runs), key=lambda pair: _distance(pair[0], work), default=None
        )
        return estimated * nearest[1].seconds / nearest[1].estimated if nearest is not None else estimated, False


def _distance(a: Work, b: Work) -> float:
    return abs(log((1 + a.operations + a.bytes) / (1 + b.operations + b.bytes)))


def work_at(built: BuiltKernel, shapes: Mapping[str, tuple[int, ...]], sizes: LaunchSizes) -> Work:
    """The work of a launch."""
    parameters = built.nest.parameters
    known = {parameters[position].name: value for position, value in sizes.size_arguments.items()}
    arguments = len(built.lowered.plan.arguments)
    if len(parameters) > arguments:
        grid = grid_of(built, shapes, sizes)
        known |= {parameter.name: value for parameter, value in zip(parameters[arguments:], grid, strict=True)}
    return work_of(built.nest, known)
