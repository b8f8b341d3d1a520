"""What a function of host code launches, as machine code makes it again: learnt from one run of a straight function (see
`backends.host.straight_functions`), in which each array comes from an argument or from an earlier launch."""

from collections.abc import Sequence
from typing import Any

from compiler.launch.cuda.direct import BlockCall
from compiler.launch.cuda.memory import CallMemory
from compiler.launch.cuda.native_plan import GivenAddress, GivenFloat, GivenValue, NativePlan, NewArray, NewRecord, RoomAddress, launches_of
from compiler.launch.cuda.repeat import FLOATS, UpdatedArray, span_of, without_memory
from compiler.launch.cuda.sequences import CallSequence, SequencePart
from compiler.launch.native_calls.plan import Unplannable
from compiler.machines.access import ALIGNMENT
from runtime.cuda.array import DeviceArray
from runtime.cuda.remote import OnGpu
from runtime.records import Factory, define
from runtime.tensor import Tensor
from runtime.values import RecordValue

Span = tuple[int, int]
"""Where elements lie, in bytes from an argument's address on."""


def look_at(value: Any, key: list[Any], inside: list[Any]) -> bool:
    """Adds what of an argument decides a run to its key, and the tensors and numbers in it; False where it is none that machine code looks
    at: what is on the host, or a container that may grow."""
    kind = value.__class__
    if kind is Tensor:
        remote = value.remote
        if remote.__class__ is not OnGpu:
            return False
        elements = remote.elements
        key += (elements.layout, elements.stream, elements.pointer % ALIGNMENT, elements.read_only)
    elif kind in FLOATS:
        key.append(kind)
    elif kind is int or kind is bool:
        key += (kind, value)
    elif kind is tuple or issubclass(kind, RecordValue):
        key += (kind, len(value))
        return all(look_at(part, key, inside) for part in value)
    else:
        return False
    inside.append(value)
    return True


def with_own_floats(value: Any) -> Any:
    """The same value with floats that are objects of their own, by which they are known where they come to launches."""
    kind = value.__class__
    if kind is float:
        return float.fromhex(value.hex())
    if kind in FLOATS:
        return kind(value)
    if kind is tuple or issubclass(kind, RecordValue):
        return kind([with_own_floats(part) for part in value])
    return value


def plan_of_run(calls: Sequence[BlockCall], inside: Sequence[Any], value: Any) -> NativePlan:
    """`calls`: at least one; `inside`: the tensors and numbers in the arguments; `value`: what the run gave. Raises Unplannable."""
    return _Run(calls, inside, calls[0]).plan(value)


@define(eq=False)
class _Run:
    """`first`: whose stream and GPU all calls have. `makers`: what made memory, by its owner's identity: the number of the call, and which
    of its results; `owners`: the argument that has memory, None where there are several."""

    calls: Sequence[BlockCall]
    inside: Sequence[Any]
    first: BlockCall
    makers: dict[int, tuple[int, int]] = Factory(dict)
    owners: dict[int, int | None] = Factory(dict)
    updated: dict[int, list[tuple[int, Span, Span]]] = Factory(dict)
    """Of each argument that is changed: other arguments of such a call, and where elements of both lie."""

    def plan(self, value: Any) -> NativePlan:
        for number, each in enumerate(self.inside):
            if each.__class__ is Tensor:
                identity = id(self.array(each).owner)
                self.owners[identity] = None if identity in self.owners else number
        parts = [self.part(number, call) for number, call in enumerate(self.calls)]
        made: list[tuple[tuple[int, int], CallMemory]] = []
        shape = self.value(value, made)
        escaped = tuple(maker for maker, _ in made)
        sequence = CallSequence(tuple(parts), escaped, False, self.first.stream)
        zeros, bytes = sequence.zeros(), sequence.bytes
        rooms = [*([bytes] if bytes else []), *[sequence.memory(*maker).bytes for maker in escaped]]
        first = len(rooms) - len(escaped)
        places = [RoomAddress(first + number) for number in range(len(escaped))]
        given = [GivenAddress(number) for number in range(len(self.inside))]
        placed = sequence.placed(given, RoomAddress(0), zeros.pointer if zeros else 0, *places)
        launches = [each for part, arguments in zip(parts, placed, strict=True) for each in launches_of(part.call, arguments)]
        updated = [self.changed(number, others) for number, others in self.updated.items()]
        return NativePlan(
            self.first.call.gpu, self.first.stream, rooms, launches, _in_rooms(shape, first), (sequence, zeros), False, updated, True
        )  # fmt: skip

    def array(self, tensor: Tensor) -> DeviceArray:
        """Its elements, which lie where all work is."""
        remote = tensor.remote
        if not isinstance(remote, OnGpu) or remote.gpu is not self.first.call.gpu or remote.elements.stream is not self.first.stream:
            raise Unplannable("an array that lies elsewhere")
        return remote.elements

    # ---- launches ----

    def part(self, number: int, each: BlockCall) -> SequencePart:
        call, slots = each.call, each.call.bound.slots
        if not call.unwatched or each.stream is not self.first.stream or call.gpu is not self.first.call.gpu:
            raise Unplannable("launches that report something, or on another stream")
        if any(plan.scalar or plan.group for plan in call.plans):
            raise Unplannable("a number that is waited for")
        arguments, arrays, made = [*call.bound.numbers], [], []
        for position, name in slots.tensors:
            source = self.source(each.given[name])
            if isinstance(source, tuple):
                made.append((position, *source))
            else:
                arrays.append((position, source))
        for position, name in slots.scalars:
            arguments[position] = self.scalar(each.given[name])
        self.note_updates(each)
        for index, (memory, result) in enumerate(zip(call.results, each.results, strict=True)):
            if memory is not None:
                self.makers[id(self.array(result).owner)] = number, index
        return SequencePart(call, arguments, tuple(arrays), tuple(made))

    def source(self, tensor: Tensor) -> tuple[int, int] | int:
        """Which result of an earlier call, or which argument, a tensor is, or is in another shape."""
        array = self.array(tensor)
        themselves = [number for number, each in enumerate(self.inside) if each is tensor]
        if len(themselves) == 1:
            return themselves[0]
        maker, number = self.makers.get(id(array.owner)), self.owners.get(id(array.owner))
        source = number if maker is None else maker
        if source is None:
            raise Unplannable("an array that isn't known to be one argument's")
        whole = self.calls[source[0]].results[source[1]] if isinstance(source, tuple) else self.inside[source]
        if self.array(whole).pointer != array.pointer:
            raise Unplannable("a part of another array")
        return source

    def scalar(self, value: Any) -> Any:
        """A float that came as an argument is another one each time; others follow from sizes and ints."""
        if isinstance(value, float) or value.__class__ in FLOATS:
            for number, each in enumerate(self.inside):
                if each is value:
                    return GivenFloat(number, value.__class__)
        return value

    def note_updates(self, each: BlockCall) -> None:
        names = {plan.input for plan in each.call.plans if plan.input is not None}
        tensors = {name: each.given[name] for _, name in each.call.bound.slots.tensors}
        spans = {name: (self.source(tensor), span_of(self.array(tensor))) for name, tensor in tensors.items()}
        for name in names:
            source, span = spans[name]
            if isinstance(source, int):
                others = [(other, span, theirs) for other, theirs in spans.values() if isinstance(other, int) and other != source]
                self.updated.setdefault(source, []).extend(others)

    def changed(self, number: int, others: Sequence[tuple[int, Span, Span]]) -> UpdatedArray:
        """An argument that is changed: all that calls change of it lies apart from what they have of other arguments."""
        array = self.array(self.inside[number])
        if array.owner.users:
            raise Unplannable("an array that others work with")
        own = min((low for _, (low, _), _ in others), default=0), max((high for _, (_, high), _ in others), default=0)
        rest = {(other, *theirs) for other, _, theirs in others}
        return UpdatedArray(-1, number, own, tuple(sorted(rest)), without_memory(array))

    # ---- the value ----

    def value(self, value: Any, made: list[tuple[tuple[int, int], CallMemory]]) -> Any:
        """The parts of the value, with numbers of what was made for its memory."""
        kind = value.__class__
        if value is None:
            return None
        if kind is tuple:
            return tuple([self.value(part, made) for part in value])
        if issubclass(kind, RecordValue):
            return NewRecord(kind, tuple([self.value(part, made) for part in value]))
        if kind is Tensor or kind in FLOATS:
            numbers = [number for number, each in enumerate(self.inside) if each is value]
            if len(numbers) == 1:
                return GivenValue(numbers[0])
            if kind is Tensor and not numbers:
                return self.new(value, made)
        raise Unplannable("a value that isn't made of arrays alone")

    def new(self, tensor: Tensor, made: list[tuple[tuple[int, int], CallMemory]]) -> NewArray:
        array, maker = self.array(tensor), self.makers.get(id(self.array(tensor).owner))
        if maker is None or maker != self.source(tensor) or any(maker == other for other, _ in made) or array.read_only:
            raise Unplannable("a view of what is elsewhere, too")
        memory = CallMemory(array.shape, array.dtype, array.strides, array.bytes)
        made.append((maker, memory))
        return NewArray(len(made) - 1, memory)


def _in_rooms(value: Any, first: int) -> Any:
    """The value, whose memory begins with this room."""
    match value:
        case NewArray(number, memory):
            return NewArray(first + number, memory)
        case NewRecord(kind, parts):
            return NewRecord(kind, tuple([_in_rooms(part, first) for part in parts]))
        case tuple():
            return tuple([_in_rooms(part, first) for part in value])
    return value
