"""Calls that come back. A function that is nothing but compute blocks, called from Python with arrays on one GPU that are laid out as
before, needs nothing decided anew: what its first call did is launched again, with other addresses. Everything that the way through
the program looks at is part of what calls are known by: dtypes, extents, strides, alignment, devices, streams, and numbers that may
decide a kernel. Calls that differ in anything else take that way again: errors, work of futures, other streams."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import ref

from compiler.codes.device_faults import DeviceTrouble
from compiler.launch.cache import FUNCTION_CALLS, Cache
from compiler.launch.cuda.direct import GPU_CALLS, BlockCall
from compiler.launch.cuda.kept import KeptCalls
from compiler.launch.cuda.repeat import FLOATS, LARGEST, FailedCall, RepeatedCall, UpdatedArray
from compiler.launch.cuda.sequences import CallSequence, SequencePart
from compiler.launch.returning import Returning
from compiler.machines.access import ALIGNMENT
from runtime.cuda.gpu import Gpu
from runtime.cuda.peers import GLANCES
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import Stream
from runtime.futures import under_way
from runtime.records import Factory, define
from runtime.tensor import Tensor
from runtime.unawaited import Unawaited
from runtime.unread import VOID

COMES_AGAIN, COMES_AGAIN_FROM_HOST = 3, 32
"""How often a call comes again before machine code answers it: it takes some milliseconds, and a program's host code has many blocks."""

MACHINE_CODES = 8
"""Calls of a function that machine code answers."""

CallKey = tuple[Any, ...]


@define(eq=False)
class Repeats:
    """The calls of one function. `target` is what Python calls, `offsets` where its fields for machine code lie; None where it has none."""

    function: Returning
    unawaited: Unawaited
    target: "ref[Any]"
    offsets: Mapping[str, int] | None
    kept: KeptCalls | None = None
    """Of other processes; None where the program may be another one later, and for functions of several blocks."""
    failed: FailedCall | None = None
    from_host: bool = False
    """Whether host code calls: arrays may be what other blocks made, and results are."""
    answered: int = 0
    """How many calls machine code answers."""
    _known: Cache[CallKey, RepeatedCall | CallSequence | None] = Factory(partial(Cache, FUNCTION_CALLS))

    def again(self, values: Sequence[Any]) -> Any:
        """The value of a call that came before in all but addresses and, where it is one block, floats, else None."""
        glanced = glance(values, self.function.several, self.from_host)
        if glanced is None:
            return None
        repeat = self._known.get(glanced[0])
        if repeat is None or under_way() or self.unawaited or VOID:
            return None
        repeat.times += 1
        if repeat.times == (COMES_AGAIN_FROM_HOST if self.from_host else COMES_AGAIN):
            self._answer(repeat, values)
        return repeat(glanced[1], values)

    def _answer(self, call: RepeatedCall | CallSequence, values: Sequence[Any]) -> None:
        """Has machine code answer calls like this one from now on, where it can."""
        target = self.target()
        if self.offsets is None or target is None or self.answered >= MACHINE_CODES:
            return
        from compiler.launch.cuda.native import answer_calls
        from compiler.launch.cuda.native_plan import plan_of
        from compiler.launch.native_calls.plan import Unplannable

        with suppress(Unplannable, *DeviceTrouble):
            answer_calls(plan_of(call), values, self.function.several, self.unawaited.futures, target, self.offsets)
            self.answered += 1

    def first(self, values: Sequence[Any], given: Sequence[Any], call: Callable[..., Any]) -> Any:
        """The function's value for these, `given` as the program takes them; the call is kept where it may come back."""
        glanced = glance(values, self.function.several, self.from_host)
        if glanced is None or glanced[0] in self._known:
            return call(*given)
        if (value := self._as_elsewhere(*glanced, values, given)) is not None:
            return value
        with GPU_CALLS.watched() as calls:
            value = call(*given)
        there = [call for call in calls if call is not None]
        if self.function.several:
            self._known.keep(glanced[0], self._sequence(there, values, given, value) if len(there) == len(calls) else None)
            return value
        repeat = self._repeat(there[0], values, given) if len(there) == len(calls) == 1 else None
        self._known.keep(glanced[0], repeat)
        if repeat is not None and self.kept is not None and there[0].call.lasting and there[0].call.unwatched and not repeat.updated:
            self.kept.keep(repeat, given)
        return value

    def _as_elsewhere(self, key: CallKey, addresses: Sequence[Any], values: Sequence[Any], given: Sequence[Any]) -> Any:
        """The value by what another process made of such a call, else None."""
        home = _home_of(values, given) if self.kept is not None else None
        if home is None or self.kept is None or under_way() or self.unawaited:
            return None
        try:
            repeat = self.kept.find(given, *home)
        except DeviceTrouble:
            return None
        if repeat is None:
            return None
        self._known.keep(key, repeat)
        return repeat(addresses, values)

    def _sequence(self, calls: Sequence[BlockCall], values: Sequence[Any], given: Sequence[Any], value: Any) -> CallSequence | None:
        """All blocks' calls again, if each takes only the function's own arrays, as they came, and what those before it made, on one
        stream that lasts; and they made the function's value, or all of a tuple."""
        arrays_given = [id(each) for each in given if isinstance(each, Tensor)]
        if not calls or len(given) != self.function.count or len(set(arrays_given)) < len(arrays_given):
            return None  # of two arrays that are one, it can't be known which is meant
        stream, gpu = calls[0].stream, calls[0].call.gpu
        makers = {id(result): (number, index) for number, each in enumerate(calls) for index, result in enumerate(each.results)}
        sources = [makers.get(id(each)) for each in (value if value.__class__ is tuple else (value,))]
        wanted = tuple(each for each in sources if each is not None)
        if not wanted or len(set(wanted)) < len(sources) or not lasts(stream, gpu):
            return None
        parts: list[SequencePart] = []
        for number, each in enumerate(calls):
            call, slots = each.call, each.call.bound.slots
            if not call.direct or each.stream is not stream or call.gpu is not gpu or any(plan.scalar or plan.group for plan in call.plans):
                return None
            arguments, arrays, earlier = [*call.bound.numbers], [], []
            for position, name in slots.tensors:
                tensor = each.given[name]
                maker = makers.get(id(tensor))
                own = next((n for n, mine in enumerate(given) if mine is tensor), None)
                if maker is not None and maker[0] < number:
                    earlier.append((position, *maker))
                elif own is not None and _lies_there(values[own], given[own], gpu, stream):
                    arrays.append((position, own))
                else:
                    return None
            for position, name in slots.scalars:
                arguments[position] = each.given[name]
            parts.append(SequencePart(call, arguments, tuple(arrays), tuple(earlier)))
        return CallSequence(tuple(parts), wanted, value.__class__ is tuple, stream)

    def _repeat(self, block_call: BlockCall, values: Sequence[Any], given: Sequence[Any]) -> RepeatedCall | None:
        """The call again, if all that it takes are the function's own arrays and numbers, as they came, on one stream that lasts."""
        call, stream, own = block_call.call, block_call.stream, self.function.parameters
        if not call.comes_back or not lasts(stream, call.gpu):
            return None
        if any(plan.scalar and self.function.number not in ("", plan.dtype.value) for plan in call.plans):
            return None  # the program converts it
        if not set(block_call.given) <= {*own, *self.function.sizes} or len(given) != self.function.count:
            return None
        arrays = []
        for position, name in call.bound.slots.tensors:
            number = own.get(name)
            if number is None or block_call.given[name] is not given[number]:
                return None
            if not _lies_there(values[number], given[number], call.gpu, stream):
                return None
            arrays.append((position, number))
        arguments, floats = [*call.bound.numbers], []
        for position, name in call.bound.slots.scalars:
            number = own.get(name)
            if number is None or block_call.given[name].__class__ not in FLOATS:
                return None
            if values[number].__class__ is float:
                floats.append((position, number, block_call.given[name].__class__))
            else:
                arguments[position] = block_call.given[name]
        if not arrays:
            return None
        elements = {number: given[number].remote.elements for _, number in arrays}
        updated = {index: own[plan.input] for index, plan in enumerate(call.plans) if plan.input is not None}
        arrays_updated = tuple(UpdatedArray.of(*each, elements) for each in updated.items())
        held = sum(array.bytes for array in elements.values())
        return RepeatedCall(call, stream, arguments, tuple(arrays), tuple(floats), arrays_updated, self.failed, held, not self.from_host)


def _home_of(values: Sequence[Any], given: Sequence[Any]) -> tuple[Gpu, Stream] | None:
    """The GPU and the stream of all arrays of a call that may come back."""
    remotes = [tensor.remote for tensor in given if isinstance(tensor, Tensor)]
    if not remotes or remotes[0].__class__ is not OnGpu:
        return None
    gpu, stream = remotes[0].gpu, remotes[0].elements.stream
    arrays = [(value, tensor) for value, tensor in zip(values, given, strict=True) if isinstance(tensor, Tensor)]
    return (gpu, stream) if lasts(stream, gpu) and all(_lies_there(value, tensor, gpu, stream) for value, tensor in arrays) else None


def lasts(stream: Stream, gpu: Gpu) -> bool:
    return stream is gpu.stream or stream.number in gpu.device.lasting_streams


def _lies_there(value: Any, given: Tensor, gpu: Gpu, stream: Stream) -> bool:
    """Whether a call's array lies on this GPU, for work on this stream. One that was taken by a protocol doesn't: both sides wait for
    each other at each call, and the memory is kept till our work is done."""
    remote = given.remote
    if remote.__class__ is not OnGpu or remote.gpu is not gpu or remote.elements.stream is not stream:
        return False
    return given is value or not remote.elements.owner.users


def glance(values: Sequence[Any], several: bool, unnamed: bool = False) -> tuple[CallKey, list[Any]] | None:
    """What of a call's values decides how it is made (of `several` blocks, floats too), and what it is made with: addresses and numbers.
    None for what has to be looked at properly, such as results of blocks unless they are taken `unnamed`."""
    key: list[Any] = []
    addresses: list[Any] = []
    for value in values:
        kind = value.__class__
        if (look := GLANCES.get(kind)) is not None:
            looks = look(value)
            if looks is None:
                return None
            layout, address = looks
            key += (layout, address % ALIGNMENT)
        elif kind is Tensor:
            remote = value.remote
            if remote.__class__ is not OnGpu or not (unnamed or remote.named):
                return None
            elements = remote.elements
            address = elements.pointer
            key += (elements.layout, elements.stream, address % ALIGNMENT, elements.read_only)
        elif kind is float:
            if not -LARGEST < value < LARGEST:
                return None
            # zeros of both signs are equal, and not the same
            key.append(value.hex() if several else float)
            address = value
        elif kind is int or kind is bool:
            key += (kind, value)
            address = value
        else:
            return None
        addresses.append(address)
    return tuple(key), addresses
