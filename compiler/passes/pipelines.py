"""The way of a kernel before any target is chosen, as a visible list: what runs, in which order, under which name. `--time-passes` prints
it; each target has a list that begins with it (`compiler/targets`), and `--emit hir-after=NAME` stops at a name of that."""

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter

from compiler.hir.module import Form, HirFunction
from compiler.passes.arrays_to_slots import arrays_to_slots
from compiler.passes.canonicalize import canonicalize
from compiler.passes.cse import cse
from compiler.passes.dce import dce
from compiler.passes.hoist import hoist
from compiler.passes.slots_to_carried import slots_to_carried
from compiler.passes.stop_at_faults import stop_at_faults
from compiler.passes.threads_to_loops import threads_to_loops
from runtime.records import Factory, define, frozen

Pass = Callable[[HirFunction], HirFunction]


@frozen
class NamedPass:
    name: str
    run: Pass


def _loops_of_threads(function: HirFunction) -> HirFunction:
    return threads_to_loops(function) if function.form is Form.THREAD else function


NEST: tuple[NamedPass, ...] = (
    NamedPass("arrays-to-slots", arrays_to_slots),  # first: variables of a thread may live across its barriers
    NamedPass("threads-to-loops", _loops_of_threads),  # of custom kernels, since the others know loops only
    NamedPass("slots-to-carried", slots_to_carried),
    NamedPass("canonicalize", canonicalize),
    NamedPass("cse", cse),
    NamedPass("hoist", hoist),  # after cse: equal values that stood in two loops move once
    NamedPass("stop-at-faults", stop_at_faults),  # after hoist: what checks compare with is known before their loops
    NamedPass("dce", dce),
)
"""From what lowering made to a clean nest, before analysis lifts it and a schedule places it."""


@define
class PassTimes:
    """Seconds by pass name, summed over all kernels of a compilation."""

    seconds: dict[str, float] = Factory(dict)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def run_passes(function: HirFunction, passes: Iterable[NamedPass], times: PassTimes | None = None) -> Iterator[tuple[str, HirFunction]]:
    """Each pass's name and the function after it, in order."""
    for step in passes:
        started = perf_counter()
        function = step.run(function)
        if times is not None:
            times.add(step.name, perf_counter() - started)
        yield step.name, function
