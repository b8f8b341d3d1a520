"""A block's call made again: its launches with other addresses and floats, and nothing decided anew."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.codes.device_faults import DeviceTrouble
from compiler.launch.cuda.direct import DirectCall
from runtime.cuda.array import BorrowedMemory, DeviceArray
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.records import frozen
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
        empty = BorrowedMemory(like.device, None)
        return cls(result, number, spans[number], others, DeviceArray(empty, 0, like.shape, like.dtype, like.stream, like.strides))

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
        like = self.like
        elements = DeviceArray(BorrowedMemory(like.device, value), address, like.shape, like.dtype, like.stream, like.strides)
        return Tensor(None, OnGpu(elements, call.gpu, True))


@frozen
class RepeatedCall:
    """A call to be made again. `arguments` lack the addresses of arrays (`arrays`: their places, and whose they are among the values
    of the function), and floats."""

    call: DirectCall
    stream: Stream
    arguments: Sequence[Any]
    arrays: tuple[tuple[int, int], ...]
    floats: tuple[tuple[int, int, type], ...]
    updated: tuple[UpdatedArray, ...] = ()

    def __call__(self, addresses: Sequence[Any], values: Sequence[Any]) -> Any:
        """The function's value for arrays at these addresses and these numbers; None where it has to be made as the first time."""
        stream, call, updated = self.stream, self.call, self.updated
        if stream.recording is not None:
            return None
        for array in updated:
            if not array.is_apart(addresses, values[array.number]):
                return None
        arguments = [*self.arguments]
        for place, number in self.arrays:
            arguments[place] = addresses[number]
        for place, number, kind in self.floats:
            arguments[place] = kind(addresses[number])
        try:
            results: list[Any] = call.at_once(arguments, stream)
            for array in updated:
                results[array.result] = array.tensor(addresses[array.number], values[array.number], call)
            return call.value(results, stream, named=True)
        except DeviceTrouble:
            return None


def _span(array: DeviceArray) -> tuple[int, int]:
    low, count = array.span
    return low * array.itemsize, (low + count) * array.itemsize
