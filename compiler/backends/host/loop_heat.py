"""When a loop of host code is hot."""

from collections.abc import Callable
from time import perf_counter

from runtime.records import define

TURNS = 1 << 10
"""Turns between two looks at whether a loop goes on natively."""

SECONDS, MANY_TURNS = 0.02, 1 << 18
"""From when on a loop is hot: the time since it began, or turns in all. It takes some tens of milliseconds to make its code."""


@define(eq=False)
class LoopHeat:
    """Whether a loop goes on natively. `prepare` makes its function ready, or says that it has no native form; `eager`: as soon as can
    be."""

    prepare: Callable[[], bool] | None = None
    eager: bool = False
    ready: bool | None = None
    turns: int = 0

    def __call__(self, began: float) -> bool:
        """Asked behind some turns of a loop that began then."""
        if self.ready is None:
            self.turns += TURNS
            if not self.eager and self.turns < MANY_TURNS and perf_counter() - began < SECONDS:
                return False
            self.ready = self.prepare is not None and self.prepare()
        return self.ready
