"""CUDA graphs: a sequence of launches and copies recorded once from a stream, then launched whole for a fraction of the cost. The
arguments of recorded launches can be changed between launches of the graph."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from runtime.cuda.arguments import Arguments
from runtime.cuda.errors import CudaError
from runtime.cuda.launch import CheckedLaunch, Shape
from runtime.cuda.stream import Stream
from runtime.records import frozen


@frozen
class RecordedLaunch:
    """A recorded launch. Without a node (it lies behind a fork, say) it can't be changed."""

    plan: CheckedLaunch
    values: tuple[Any, ...]
    grid: Shape
    node: Any


class Recording:
    """`with Recording(stream) as recording: ...` puts what happens on the stream into `recording.graph()` instead of running it."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.device = stream, stream.device
        self.steps: list[RecordedLaunch] = []
        self.kept: list[Any] = []
        self._raw: Any = None

    def __enter__(self) -> "Recording":
        if self.stream.recording is not None:
            raise ValueError("the stream is being recorded already")
        mode = self.device.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self.device.call("cuStreamBeginCapture", self.stream.handle, mode)
        self.stream.recording = self
        self.device.captures += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stream.recording = None
        self.device.captures -= 1
        self.stream.forget_kernels()
        try:
            self._raw = self.device.call("cuStreamEndCapture", self.stream.handle)
        except CudaError:
            # what broke the recording says more than that it is broken
            if error is None:
                raise

    def __del__(self) -> None:
        if self._raw is not None:
            self.device.release("cuGraphDestroy", self._raw)

    def keep(self, memory: Any) -> None:
        """Keep memory alive that the graph uses."""
        self.kept.append(memory)

    def launched(self, plan: CheckedLaunch, values: tuple[Any, ...]) -> None:
        """Called after a launch on the stream."""
        nodes = self.device.call("cuStreamGetCaptureInfo", self.stream.handle)[3]
        self.steps.append(RecordedLaunch(plan, values, plan.grid, nodes[0] if nodes is not None and len(nodes) == 1 else None))

    def graph_handle(self) -> Any:
        if self._raw is None:
            raise ValueError("the recording has not ended, or ended with an error")
        return self._raw

    def graph(self) -> "Graph":
        """The recorded graph, ready to be launched, as often as wanted."""
        return Graph(self)


class Graph:
    """An executable graph. It keeps the kernels and the memory of its steps alive."""

    def __init__(self, recording: Recording) -> None:
        self._executable: Any = None
        self.device = recording.device
        self.recording = self._latest = recording
        self.steps = list(recording.steps)
        self._executable = self.device.call("cuGraphInstantiate", recording.graph_handle(), 0)
        self._arguments: dict[int, Arguments] = {}
        self._note_memory()

    def __del__(self) -> None:
        if self._executable is not None:
            self.device.release("cuGraphExecDestroy", self._executable)

    def __call__(self, stream: Stream) -> None:
        """Launch all steps."""
        self.device.call("cuGraphLaunch", self._executable, stream.handle)
        stream.launched.extend(self._sites)
        for memory in self._memory:
            if memory.stream is not stream:
                memory.used_on(stream)

    def _note_memory(self) -> None:
        self._sites = tuple(dict.fromkeys(step.plan.site for step in self.steps))
        values = [value for step in self.steps for value in step.values] + self._latest.kept
        self._memory = list({id(value): value for value in values if hasattr(value, "used_on")}.values())

    def change(self, index: int, values: Sequence[Any], grid: Sequence[int] | None = None) -> None:
        """Other arguments, and another grid if given, for the launch recorded as number `index`."""
        step = self.steps[index]
        if step.node is None:
            raise ValueError(f"the launch of {step.plan.site} can't be told apart in this graph: record it again")
        plan = step.plan
        changed = RecordedLaunch(plan, tuple(values), step.grid if grid is None else plan.checked_grid(grid), step.node)
        arguments = self._arguments.get(index)
        if arguments is None:
            arguments = self._arguments[index] = Arguments([each.name for each in plan.arguments.parameters])
        arguments.pack(changed.values)
        node = self.device.api.CUDA_KERNEL_NODE_PARAMS()
        node.func = plan.kernel.handle
        node.gridDimX, node.gridDimY, node.gridDimZ = changed.grid
        node.blockDimX, node.blockDimY, node.blockDimZ = plan.block
        node.sharedMemBytes = plan.shared
        node.kernelParams = arguments.address
        self.device.call("cuGraphExecKernelNodeSetParams", self._executable, step.node, node, context=f"kernel {plan.site}")
        self.steps[index] = changed
        self._note_memory()

    def replace(self, recording: Recording) -> None:
        """The same steps recorded anew, with any other arguments; CudaError when the sequence is another one."""
        raw = recording.graph_handle()
        self.device.call("cuGraphExecUpdate", self._executable, raw, context="the new recording has other steps")
        # nodes belong to the graph that the executable was made from
        self.steps = [
            RecordedLaunch(new.plan, new.values, new.grid, old.node) for old, new in zip(self.steps, recording.steps, strict=True)
        ]
        self._latest = recording
        self._note_memory()
