"""Candidates on a GPU: bursts of a planned call's launches, recorded as a graph, so that the host's pace doesn't matter. They read the
call's own inputs and copies of them in turn, as many as the L2 cache doesn't hold, and write memory of their own."""

from collections.abc import Callable, Mapping
from typing import Any

from compiler.launch.cuda.calls import GpuRun, PlannedCall
from compiler.launch.cuda.graphs import recorded
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import saved
from runtime.cuda.graph import Graph
from runtime.cuda.stream import Stream
from runtime.records import frozen

BURST, MOST = 3e-3, 20
"""Seconds of a burst, and launches."""
BEFORE = 3
"""Launches of a candidate before its times count."""
CACHES = 2
"""Sizes of the L2 cache that all copies of the inputs fill together."""


def may_be_tried(call: PlannedCall, stream: Stream) -> bool:
    """Whether a call's launches can be run again and again: they change nothing, report nothing, and aren't being recorded."""
    device = call.gpu.device
    if call.updated or call.loaded.recording or not call.steps or stream.recording is not None or device.captures:
        return False
    return int(device.call("cuStreamIsCapturing", stream.handle)) == 0


class Trials:
    """The inputs of a call, on its stream, for all candidates."""

    def __init__(self, call: PlannedCall, given: Mapping[str, Any], values: Mapping[str, Any], stream: Stream) -> None:
        self.gpu, self.given, self.stream = call.gpu, given, stream
        self.run = GpuRun(call, given, values, stream)
        size = sum(memory.bytes for memory in self.run.memory.values())
        copies = min(MOST, CACHES * self.gpu.device.properties.l2_cache // max(size, 1))
        self.turns = [self.run.memory, *(self._copied() for _ in range(copies))]

    def _copied(self) -> dict[str, DeviceArray]:
        return {name: self._copy(elements) for name, elements in self.run.memory.items()}

    def _copy(self, elements: DeviceArray) -> DeviceArray:
        room = self.gpu.allocate(elements.span[1] * elements.itemsize, self.stream)
        return saved(elements, room, self.stream)

    def candidate(self, call: PlannedCall) -> "TimedCandidate":
        """A call for the same inputs, ready to be timed."""
        scratch = [memory.take(self.gpu, self.stream) for memory in call.workspaces]
        results, room = ([elements.pointer for elements in each] for each in (self.run.made, scratch))
        turns = []
        for memory in self.turns:
            turns.append(call.bound.filled(_addresses(memory), self.run.packed, results, room, self.given))
        once = self._recorded(call, turns[:1])
        passed = min(self.seconds(once), self.seconds(once))
        repeats = max(1, min(MOST, int(BURST / max(passed, 1e-7))))
        burst = once if repeats == 1 else self._recorded(call, [turns[number % len(turns)] for number in range(repeats)])
        return TimedCandidate(self, burst, repeats, scratch)

    def _recorded(self, call: PlannedCall, launches: list[list[Any]]) -> Graph:
        def launch(stream: Stream) -> None:
            for arguments in launches:
                call.launch_each(arguments, stream)

        return recorded(self.gpu, launch)

    def seconds(self, graph: Graph) -> float:
        """Between events on the device."""
        begin = self.stream.record(timing=True)
        graph(self.stream)
        end = self.stream.record(timing=True)
        end.synchronize()
        return end.milliseconds_since(begin) / 1e3


@frozen(eq=False)
class TimedCandidate:
    """A burst of one candidate's launches. It holds the memory that they use besides the call's own."""

    trials: Trials
    burst: Graph
    repeats: int
    scratch: list[DeviceArray]

    def __call__(self) -> float:
        """Seconds of one launch."""
        return self.trials.seconds(self.burst) / self.repeats


def _addresses(memory: Mapping[str, DeviceArray]) -> Callable[[str], int]:
    return lambda name: memory[name].pointer
