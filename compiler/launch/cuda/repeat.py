"""A block's call made again: its launches with other addresses and floats, and nothing decided anew."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.codes.device_faults import DeviceTrouble
from compiler.diagnostics import Diagnostic
from compiler.launch.cuda.direct import DirectCall, LaterFault
from runtime.cuda.array import BorrowedMemory, DeviceArray
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.records import define, field, frozen
from runtime.tensor import Tensor
from runtime.unread import UNREAD

LARGEST = 3e38
"""Below it a float of Python's has a counterpart in f32; others are left to the program's conversions."""

FLOATS = (float, np.float32, np.float64)

FailedCall = Callable[[Sequence[Any], Diagnostic], BaseException]
"""Takes the function's values, and what the device says of the check."""


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
        spans = {index: span_of(array) for index, array in elements.items()}
        others = tuple((index, *span) for index, span in spans.items() if index != number)
        return cls(result, number, spans[number], others, without_memory(elements[number]))

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
    failed: FailedCall | None = None
    """Makes the error of a call whose check failed; without it checks are waited for."""
    held: int = 0
    """Bytes of the arrays."""
    named: bool = True
    """Whether arrays and results are those of a caller, and none merely lie where they were made."""
    times: int = field(default=0, init=False)
    """How often it came again."""

    def __call__(self, addresses: Sequence[Any], values: Sequence[Any]) -> Any:
        """The function's value for arrays at these addresses and these numbers; None where it has to be made as the first time."""
        call, stream = self.call, self.stream
        if stream.recording is not None or (self.updated and UNREAD):
            return None
        if not all(array.is_apart(addresses, values[array.number]) for array in self.updated):
            return None
        arguments = [*self.arguments]
        for position, number in self.arrays:
            arguments[position] = addresses[number]
        for position, number, kind in self.floats:
            arguments[position] = kind(addresses[number])
        try:
            results: list[Any] | None = call.again(arguments, stream, self.later(values))
        except DeviceTrouble:
            return None
        if results is None:
            return None
        for array in self.updated:
            results[array.result] = array.tensor(addresses[array.number], values[array.number], call)
        return call.value(results, stream, named=self.named)

    def later(self, values: Sequence[Any]) -> LaterFault | None:
        failed = self.failed
        return None if failed is None else LaterFault(lambda reported: failed(values, reported), self.held)


def without_memory(array: DeviceArray) -> DeviceArray:
    """An array of nothing, laid out as this one."""
    return array.elsewhere(BorrowedMemory(array.device, None), 0)


def span_of(array: DeviceArray) -> tuple[int, int]:
    low, count = array.span
    return low * array.itemsize, (low + count) * array.itemsize
