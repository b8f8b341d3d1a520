"""Candidates on a GPU: bursts of a planned call's launches, recorded as a graph, so that the host's pace doesn't matter. They read the
call's own inputs and copies of them in turn, as many as the L2 cache doesn't hold, and write memory of their own."""

from collections.abc import Mapping
from typing import Any

from compiler.launch.cuda.calls import PlannedCall, Run
from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import saved
from runtime.cuda.graph import Graph, Recording
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
        self.run = Run(call, given, values, stream)
        size = sum(one.bytes for one in self.run.memory.values())
        copies = min(MOST, CACHES * self.gpu.device.properties.l2_cache // max(size, 1))
        self.turns = [self.run.memory, *(self._copied() for _ in range(copies))]

    def _copied(self) -> dict[str, DeviceArray]:
        return {name: self._copy(elements) for name, elements in self.run.memory.items()}

    def _copy(self, elements: DeviceArray) -> DeviceArray:
        room = self.gpu.allocate(elements.span[1] * elements.itemsize, self.stream)
        return saved(elements, room, self.stream)

    def candidate(self, call: PlannedCall) -> "Candidate":
        """A call for the same inputs, ready to be timed."""
        scratch = [memory.take(self.gpu, self.stream) for memory in call.workspaces]
        turns = []
        for memory in self.turns:
            arguments = [*call.arguments]
            for place, name in call.filled.tensors:
                arguments[place] = memory[name].pointer
            for place, name in call.filled.packed:
                arguments[place] = self.run.packed(name)
            for place, index in call.filled.results:
                arguments[place] = self.run.made[index].pointer
            for place, index in call.filled.workspaces:
                arguments[place] = scratch[index].pointer
            for place, name in call.filled.scalars:
                arguments[place] = self.given[name]
            turns.append(arguments)
        once = self._recorded(call, turns[:1])
        passed = min(self.seconds(once), self.seconds(once))
        repeats = max(1, min(MOST, int(BURST / max(passed, 1e-7))))
        burst = once if repeats == 1 else self._recorded(call, [turns[number % len(turns)] for number in range(repeats)])
        return Candidate(self, burst, repeats, scratch)

    def _recorded(self, call: PlannedCall, launches: list[list[Any]]) -> Graph:
        # on a stream of its own: what others launch meanwhile must not get in, and the legacy stream can't be recorded
        stream = self.gpu.new_stream()
        with Recording(stream) as recording:
            for arguments in launches:
                call.launch_each(arguments, stream)
        return recording.graph()

    def seconds(self, graph: Graph) -> float:
        """Between events on the device."""
        begin = self.stream.record(timing=True)
        graph(self.stream)
        end = self.stream.record(timing=True)
        end.synchronize()
        return end.milliseconds_since(begin) / 1e3


@frozen(eq=False)
class Candidate:
    """A burst of one candidate's launches. It holds the memory that they use besides the call's own."""

    trials: Trials
    burst: Graph
    repeats: int
    scratch: list[DeviceArray]

    def __call__(self) -> float:
        """Seconds of one launch."""
        return self.trials.seconds(self.burst) / self.repeats
