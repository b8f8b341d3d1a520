"""A block's call made again: its launches with other addresses and floats, and nothing decided anew."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field

from compiler.codes.device_faults import DeviceTrouble
from compiler.launch.cuda.direct import DirectCall
from compiler.launch.cuda.memory import CallMemory
from runtime.cuda.array import BorrowedMemory, DeviceArray
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.records import define, frozen
from runtime.tensor import Tensor


@frozen
class UpdatedArray:
    """An array that a call updates: the number of its result, and of the array among the function's values. `span`: the bytes that its
    elements take, from its address on; `others`: the same of the function's other arrays, which must lie apart."""

    result: int
    number: int
    span: tuple[int, int]
    others: tuple[tuple[int, int, int], ...]
    like: DeviceArray

    @classmethod
    def of(cls, result: int, number: int, elements: Mapping[int, DeviceArray]) -> "UpdatedArray":
        spans = {one: _span(array) for one, array in elements.items()}
        others = tuple((one, *span) for one, span in spans.items() if one != number)
        like = elements[number]
        return cls(result, number, spans[number], others, like.elsewhere(BorrowedMemory(like.device, None), 0))

    def is_apart(self, addresses: Sequence[Any], value: Any) -> bool:
        """Whether nobody else has to be thought of: no other array of the call lies there, and no other stream's work."""
        if value.__class__ is Tensor and value.remote.elements.owner.users:  # type: ignore[union-attr]
            return False
        begin, end = addresses[self.number] + self.span[0], addresses[self.number] + self.span[1]
        return all(end <= addresses[other] + low or addresses[other] + high <= begin for other, low, high in self.others)

    def tensor(self, address: int, value: Any, call: DirectCall) -> Tensor:
        """The caller's array after the call, as the program's value."""
        if value.__class__ is Tensor:
            value.changed_there()
            return value
        owner = BorrowedMemory(call.gpu.device, value)
        return Tensor(None, OnGpu(self.like.elsewhere(owner, address), call.gpu, True))


@frozen
class OneLaunch:
    """A call that is one launch and gives one array, as most are: `arguments` with all that lies behind the call's own. `memory` and
    `place`: of the array that it makes, None where it updates one, and where its address stands."""

    plan: CheckedLaunch
    arguments: Sequence[Any]
    memory: CallMemory | None
    place: int
    like: DeviceArray | None

    @classmethod
    def of(cls, call: DirectCall, stream: Stream, arguments: Sequence[Any]) -> "OneLaunch | None":
        if len(call.steps) != 1 or len(call.plans) != 1 or call.workspaces or call.steps[0].maps.maps:
            return None
        if call.plans[0].scalar or call.plans[0].group:
            return None
        (step,), (memory,) = call.steps, call.results
        whole = [*arguments, *step.after, 0]
        if memory is None:
            return cls(step.plan, whole, None, 0, None)
        nowhere = DeviceBuffer(None, 0, 0, stream)
        like = DeviceArray(nowhere, 0, memory.shape, memory.dtype, stream, memory.strides)
        return cls(step.plan, whole, memory, call.bound.slots.results[0][0], like)


@define(eq=False)
class RepeatedCall:
    """A call to be made again. `arguments` lack the addresses of arrays (`arrays`: their places, and whose they are among the values
    of the function), and floats."""

    call: DirectCall
    stream: Stream
    arguments: Sequence[Any]
    arrays: tuple[tuple[int, int], ...]
    floats: tuple[tuple[int, int, type], ...]
    updated: tuple[UpdatedArray, ...] = ()
    _one: OneLaunch | None = field(init=False)

    @_one.default
    def _(self) -> OneLaunch | None:
        return OneLaunch.of(self.call, self.stream, self.arguments)

    def __call__(self, addresses: Sequence[Any], values: Sequence[Any]) -> Any:
        """The function's value for arrays at these addresses and these numbers; None where it has to be made as the first time."""
        stream, one, updated = self.stream, self._one, self.updated
        if stream.recording is not None:
            return None
        for array in updated:
            if not array.is_apart(addresses, values[array.number]):
                return None
        arguments = [*(self.arguments if one is None else one.arguments)]
        for place, number in self.arrays:
            arguments[place] = addresses[number]
        for place, number, kind in self.floats:
            arguments[place] = kind(addresses[number])
        try:
            return self._launched(arguments, addresses, values) if one is None else self._launch(one, arguments, addresses, values)
        except DeviceTrouble:
            return None

    def _launch(self, one: OneLaunch, arguments: list[Any], addresses: Sequence[Any], values: Sequence[Any]) -> Tensor:
        call, stream, memory, like = self.call, self.stream, one.memory, one.like
        if memory is None or like is None:
            one.plan.launch(stream, *arguments)
            (array,) = self.updated
            return array.tensor(addresses[array.number], values[array.number], call)
        buffer = call.gpu.pool.allocate(memory.bytes, stream)
        arguments[one.place] = buffer.pointer
        one.plan.launch(stream, *arguments)
        return Tensor(None, OnGpu(like.elsewhere(buffer, buffer.pointer), call.gpu, True))

    def _launched(self, arguments: list[Any], addresses: Sequence[Any], values: Sequence[Any]) -> Any:
        call = self.call
        results: list[Any] = call.at_once(arguments, self.stream)
        for array in self.updated:
            results[array.result] = array.tensor(addresses[array.number], values[array.number], call)
        return call.value(results, self.stream, named=True)


def _span(array: DeviceArray) -> tuple[int, int]:
    low, count = array.span
    return low * array.itemsize, (low + count) * array.itemsize
