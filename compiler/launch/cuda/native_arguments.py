"""What machine code for a call with arrays on a GPU is given: it looks at the arguments, and into records and tuples among them. Whatever
differs from the call that it was made from goes the way of other calls."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.backends.llvm.types import F64, I32, I64, PTR
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.launch.cuda.native_plan import NativePlan
from compiler.launch.cuda.repeat import FLOATS, LARGEST, UpdatedArray
from compiler.launch.native_calls.arguments import require_type
from compiler.launch.native_calls.code import NULL, CallCode
from compiler.launch.native_calls.plan import Unplannable
from compiler.machines.access import ALIGNMENT
from runtime.calls.objects import offsets
from runtime.cuda.array import DeviceArray
from runtime.cuda.peers import EXCHANGES, Exchange
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import LEGACY, Stream
from runtime.dlpack import CUDA, type_code
from runtime.tensor import SharedElements, Tensor
from runtime.values import RecordValue

CONTEXT, RECORDING = "cuCtxGetCurrent", "cuStreamIsCapturing"
"""The driver's calls that tell where a call is made."""


class GivenValues:
    """The arguments of a call that is answered. `values`: those of the call that it is made from, what records and tuples hold one by one
    behind one another; `given`: the objects of these, `numbers`: addresses and floats by position."""

    def __init__(self, plan: NativePlan, code: CallCode, arguments: Sequence[Any], several: bool) -> None:
        self.plan, self.code, self.w, self.arguments, self.several = plan, code, code.w, arguments, several
        self.symbols: dict[str, int] = {}
        """Functions of other libraries, by the names that the code has for them."""
        self.values: list[Any] = []
        self.given: list[LlvmValue] = []
        self.numbers: dict[int, LlvmValue] = {}

    def take_all(self) -> None:
        given = self.code.given(len(self.arguments))
        self.require_stream()
        for each, value in zip(given, self.arguments, strict=True):
            self.take(each, value)

    # ---- what the code was made for ----

    def sure(self, condition: LlvmValue, otherwise: str = "refused") -> None:
        """The same as `CallCode.require`, where Python may have an error set."""
        going = self.w.label("going")
        self.w.branch_if(condition, going, otherwise)
        self.w.start(going)

    def field(self, of: LlvmValue, kind: type, name: str) -> LlvmValue:
        return self.code.at(of, offset_of(kind, name))

    def require_is(self, of: LlvmValue, kind: type, name: str, wanted: Any) -> None:
        """The field holds this very object."""
        held = self.w.load(PTR, self.field(of, kind, name))
        self.code.require(self.w.compare("eq", held, self.code.object(wanted)))

    def require_same(self, number: LlvmValue, wanted: int) -> None:
        self.code.require(self.w.compare("eq", number, constant(number.type, wanted)))

    def require_stream(self) -> None:
        """Nobody records the stream, and it is the peers' current one."""
        w, stream = self.w, self.plan.stream
        self.require_is(self.code.object(stream), Stream, "recording", None)
        for exchange in {id(each): each for each in map(_exchange, self.arguments) if each is not None}.values():
            current, state = w.alloca(PTR), w.alloca(I32)
            name = self.symbol("stream", exchange.functions.stream)
            ordinal = constant(I32, self.plan.gpu.device.ordinal)
            self.sure(w.compare("eq", self.code.call(name, I32, constant(I32, CUDA), ordinal, current), constant(I32, 0)))
            number = 0 if stream.number == LEGACY else stream.number
            self.require_same(w.load(I64, current), number)
            if number:
                self.require_same(self.code.call(RECORDING, I32, constant(I64, number), state), 0)
                self.require_same(w.load(I32, state), 0)

    def require_context(self) -> None:
        """This thread works in the device's context."""
        context = self.w.alloca(PTR)
        self.require_same(self.code.call(CONTEXT, I32, context), 0)
        self.require_same(self.w.load(I64, context), int(self.plan.gpu.device.context))

    def symbol(self, word: str, address: int) -> str:
        name = f"zyntax_{word}_{address:x}"
        self.symbols[name] = address
        return name

    def called(self, function: Any, argument: LlvmValue) -> LlvmValue:
        """What a callable of Python's gives for an argument."""
        return self.code.call("PyObject_Vectorcall", PTR, self.code.object(function), self.in_memory(argument), constant(I64, 1), NULL)

    def in_memory(self, value: LlvmValue) -> LlvmValue:
        cell = self.w.alloca(value.type)
        self.w.store(value, cell)
        return cell

    # ---- arguments ----

    def take(self, given: LlvmValue, value: Any) -> None:
        code, w = self.code, self.w
        kind = value.__class__
        if kind is tuple or issubclass(kind, RecordValue):
            require_type(code, given, kind)
            self.require_same(code.call("PyTuple_Size", I64, given), len(value))
            for place, part in enumerate(value):
                self.take(code.call("PyTuple_GetItem", PTR, given, constant(I64, place)), part)
            return
        position = len(self.values)
        self.values.append(value)
        self.given.append(given)
        if kind is bool:
            code.require(w.compare("eq", given, code.object(value)))
            return
        require_type(code, given, kind)
        exchange = _exchange(value)
        if exchange is not None:
            self.numbers[position] = self.take_peers(given, value, exchange)
        elif kind is Tensor:
            self.numbers[position] = self.take_tensor(given, value)
        elif kind in FLOATS:
            self.take_float(position, value)
        elif kind is int and -(1 << 63) <= value < 1 << 63:
            over = w.alloca(I32)
            number = code.call("PyLong_AsLongLongAndOverflow", I64, given, over)
            self.require_same(w.load(I32, over), 0)
            self.require_same(number, value)
        else:
            raise Unplannable(f"a {kind.__name__}")

    def take_float(self, position: int, value: float) -> None:
        code, w = self.code, self.w
        number = self.numbers[position] = code.call("PyFloat_AsDouble", F64, self.given[position])
        if self.several:
            self.require_same(w.value(I64, f"bitcast {number} to i64"), int(np.float64(value).view(np.int64)))
        code.require(w.compare("olt", number, constant(F64, LARGEST)))
        code.require(w.compare("ogt", number, constant(F64, -LARGEST)))

    def take_peers(self, given: LlvmValue, value: Any, exchange: Exchange) -> LlvmValue:
        """The address of another library's array."""
        from runtime.cuda.peers import lent

        code, w = self.code, self.w
        remote = lent(value)
        if remote is None:
            raise Unplannable("an array that is taken by a protocol")
        no = code.object(False)
        for attribute in exchange.false:
            held = code.call("PyObject_GetAttr", PTR, given, code.object(attribute))
            code.do("Py_DecRef", held)
            self.sure(w.compare("eq", held, no))
        for method in exchange.false_methods:
            held = self.called(method, given)
            code.do("Py_DecRef", held)
            self.sure(w.compare("eq", held, no))
        described = w.alloca(I64, 6)
        status = code.call(self.symbol("describe", exchange.functions.describe), I32, given, described)
        self.sure(w.compare("eq", status, constant(I32, 0)))
        kind, bits = type_code(remote.dtype)
        rank = len(remote.shape)
        self.require_same(w.load(I64, code.at(described, 8)), CUDA | remote.gpu.device.ordinal << 32)
        self.require_same(w.load(I64, code.at(described, 16)), rank | kind << 32 | bits << 40 | 1 << 48)
        self.require_same(w.load(I64, code.at(described, 40)), 0)
        if rank:
            extents, strides = (w.load(PTR, code.at(described, at)) for at in (24, 32))
            for axis, (extent, stride) in enumerate(zip(remote.shape, remote.strides, strict=True)):
                self.require_same(w.load(I64, code.at(extents, 8 * axis)), extent)
                if extent > 1 and 0 not in remote.shape:
                    self.require_same(w.load(I64, code.at(strides, 8 * axis)), stride)
        return self.aligned(w.load(I64, described), remote.address)

    def take_tensor(self, given: LlvmValue, value: Tensor) -> LlvmValue:
        """The address of a tensor of ours."""
        code, w, remote = self.code, self.w, value.remote
        assert isinstance(remote, OnGpu)
        there = w.load(PTR, self.field(given, Tensor, "remote"))
        require_type(code, there, OnGpu)
        if self.plan.named:
            self.require_is(there, OnGpu, "named", True)
        elements = w.load(PTR, self.field(there, OnGpu, "elements"))
        self.require_is(elements, DeviceArray, "stream", remote.elements.stream)
        self.require_is(elements, DeviceArray, "read_only", remote.elements.read_only)
        layout = w.load(PTR, self.field(elements, DeviceArray, "layout"))
        same = code.call("PyObject_RichCompareBool", I32, layout, code.object(remote.elements.layout), constant(I32, 2))
        self.sure(w.compare("eq", same, constant(I32, 1)))
        address = code.call("PyLong_AsUnsignedLongLong", I64, w.load(PTR, self.field(elements, DeviceArray, "pointer")))
        return self.aligned(address, remote.address)

    def aligned(self, address: LlvmValue, like: int) -> LlvmValue:
        """The address, which lies like this one."""
        self.require_same(self.w.binary("and", address, constant(I64, ALIGNMENT - 1)), like % ALIGNMENT)
        return address

    def require_apart(self, updated: UpdatedArray) -> None:
        """Nobody else has to be thought of: no other array of the call lies there, and no other stream's work."""
        code, w, position = self.code, self.w, updated.number
        begin, end = (w.add(self.numbers[position], constant(I64, bound)) for bound in updated.span)
        for other, *span in updated.others:
            low, high = (w.add(self.numbers[other], constant(I64, bound)) for bound in span)
            code.require(w.binary("or", w.compare("ule", end, low), w.compare("ule", high, begin)))
        if self.values[position].__class__ is Tensor:
            self.require_unknown_to_host(self.given[position])
            there = w.load(PTR, self.field(self.given[position], Tensor, "remote"))
            owner = w.load(PTR, self.field(w.load(PTR, self.field(there, OnGpu, "elements")), DeviceArray, "owner"))
            users = code.call("PyObject_GetAttr", PTR, owner, code.object("users"))
            self.sure(w.compare("ne", users, NULL))
            count = code.call("PyTuple_Size", I64, users)
            code.do("Py_DecRef", users)
            self.sure(w.compare("eq", count, constant(I64, 0)))

    def require_unknown_to_host(self, given: LlvmValue) -> None:
        """The host knows nothing of elements that other tensors view, too: it would be old."""
        code, w = self.code, self.w
        shared, nothing = w.load(PTR, self.field(given, Tensor, "_shared")), code.object(None)
        is_alone = w.compare("eq", shared, nothing)
        host = code.either(is_alone, lambda: nothing, lambda: w.load(PTR, self.field(shared, SharedElements, "host")))
        code.require(w.compare("eq", host, nothing))


def offset_of(kind: type, name: str) -> int:
    lies = offsets(kind)
    assert lies is not None
    return lies[name]


def _exchange(value: Any) -> Exchange | None:
    return EXCHANGES.get(value.__class__)
