"""What a call that came again does, as machine code does it: which memory it takes, what it launches on which addresses, and what of that
is its value. A layout, a size and an int are the same at each call; addresses and floats are not."""

from collections.abc import Sequence
from typing import Any

from compiler.launch.cuda.direct import DirectCall
from compiler.launch.cuda.maps import LaunchMap
from compiler.launch.cuda.memory import CallMemory, LastingZeros
from compiler.launch.cuda.repeat import RepeatedCall, UpdatedArray
from compiler.launch.cuda.sequences import CallSequence
from compiler.launch.native_calls.plan import Unplannable
from compiler.lowering.result_plan import grouped
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.stream import Stream
from runtime.records import field, frozen
from runtime.tuples import as_tuple


@frozen
class GivenAddress:
    """The address of the array that the function is given at this position."""

    position: int


@frozen
class GivenFloat:
    """The float at this position, converted to `kind` first."""

    position: int
    kind: type


@frozen
class RoomAddress:
    """An address in memory that the call takes: which of it, and how many bytes behind its beginning."""

    room: int
    offset: int = 0

    def __add__(self, bytes: int) -> "RoomAddress":
        return RoomAddress(self.room, self.offset + bytes)


@frozen(eq=False)
class MapOf:
    """The tensor map of the array at an address, which is one of the above, or a number."""

    map: LaunchMap
    address: Any


@frozen(eq=False)
class NativeLaunch:
    """A launch. `arguments`: all of the kernel's, each a number that stays the same, or where it comes from; `call`: whose launch it is."""

    plan: CheckedLaunch
    arguments: tuple[Any, ...] = field(converter=as_tuple)
    call: DirectCall


@frozen(eq=False)
class NewArray:
    """A part of the value: an array in memory that the call takes."""

    room: int
    memory: CallMemory


@frozen(eq=False)
class GivenValue:
    """A part of the value: what the function is given at this position."""

    position: int


@frozen(eq=False)
class NewRecord:
    """A part of the value: a record of this class."""

    kind: type
    parts: tuple[Any, ...]


@frozen(eq=False)
class NativePlan:
    """`rooms`: the bytes of each piece of memory that the call takes; those in no part of `value` are given back behind the launches.
    `value`: a NewArray, an UpdatedArray, a GivenValue, None, or a record or tuple of such values. `updated`: arrays that are changed, too.
    `kept`: what must live as long as the plan does."""

    gpu: Gpu
    stream: Stream
    rooms: tuple[int, ...] = field(converter=as_tuple)
    launches: tuple[NativeLaunch, ...] = field(converter=as_tuple)
    value: Any
    kept: Any = None
    named: bool = True
    """See `RepeatedCall`."""
    updated: tuple[UpdatedArray, ...] = field(default=(), converter=as_tuple)
    is_run: bool = False
    """Whether it is the run of a function of host code."""


def plan_of(call: RepeatedCall | CallSequence) -> NativePlan:
    """Raises Unplannable."""
    return _plan_of_sequence(call) if isinstance(call, CallSequence) else _plan_of_call(call)


def _plan_of_call(repeat: RepeatedCall) -> NativePlan:
    call, stream = repeat.call, repeat.stream
    if not call.unwatched:
        raise Unplannable("launches that report something")
    if any(plan.scalar for plan in call.plans):
        raise Unplannable("a number that is waited for")
    if repeat.updated and len(call.steps) != 1:
        raise Unplannable("an update by several launches, of which one may fail")
    rooms: list[int] = []

    def room(memory: CallMemory) -> RoomAddress:
        rooms.append(memory.bytes)
        return RoomAddress(len(rooms) - 1)

    zeros = [call.gpu.zeros(memory.bytes, stream) if isinstance(memory, LastingZeros) else None for memory in call.workspaces]
    results = [None if memory is None else room(memory) for memory in call.results]
    scratch = [room(memory) if zeroed is None else zeroed.pointer for memory, zeroed in zip(call.workspaces, zeros, strict=True)]
    arguments = [*repeat.arguments]
    for position, number in repeat.arrays:
        arguments[position] = GivenAddress(number)
    for position, number, kind in repeat.floats:
        arguments[position] = GivenFloat(number, kind)
    for position, index in call.bound.slots.results:
        arguments[position] = results[index]
    for position, index in call.bound.slots.workspaces:
        arguments[position] = scratch[index]
    parts: list[Any] = [
        None if address is None or memory is None else NewArray(address.room, memory)
        for address, memory in zip(results, call.results, strict=True)
    ]
    for updated in repeat.updated:
        parts[updated.result] = updated
    value = parts[0] if len(parts) == 1 and call.plans[0].group == 0 else grouped(call.plans, parts)
    return NativePlan(call.gpu, stream, rooms, launches_of(call, arguments), value, (call, zeros), repeat.named)


def _plan_of_sequence(sequence: CallSequence) -> NativePlan:
    gpu, stream = sequence.parts[0].call.gpu, sequence.stream
    zeros = sequence.zeros()
    memories = [sequence.memory(*value) for value in sequence.values]
    bytes = sequence.bytes
    rooms = [*([bytes] if bytes else []), *[memory.bytes for memory in memories]]
    first = len(rooms) - len(memories)
    count = 1 + max((number for part in sequence.parts for _, number in part.arrays), default=0)
    places = [RoomAddress(first + number) for number in range(len(memories))]
    placed = sequence.placed([GivenAddress(number) for number in range(count)], RoomAddress(0), zeros.pointer if zeros else 0, *places)
    launches = [launch for part, arguments in zip(sequence.parts, placed, strict=True) for launch in launches_of(part.call, arguments)]
    parts = tuple(NewArray(first + number, memory) for number, memory in enumerate(memories))
    return NativePlan(gpu, stream, rooms, launches, parts if sequence.several else parts[0], (sequence, zeros))


def launches_of(call: DirectCall, arguments: Sequence[Any]) -> list[NativeLaunch]:
    return [
        NativeLaunch(step.plan, [*arguments, *step.after, *[MapOf(map, arguments[map.place]) for map in step.maps.maps], 0], call)
        for step in call.steps
    ]
