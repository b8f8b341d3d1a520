"""Machine code for calls with arrays on a GPU that came again: it looks at the arguments, takes memory, launches, and makes the value. No
Python function is called in between. Whatever differs from the call that it was made from goes the way of other calls, and so does a
launch that the driver refuses: that way tells what is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.backends.llvm.types import F32, F64, I8, I32, I64, PTR
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.codes.device_faults import DeviceTrouble
from compiler.launch.cuda.maps import LaunchMap
from compiler.launch.cuda.native_plan import GivenAddress, GivenFloat, MapOf, NativeLaunch, NativePlan, NewArray, RoomAddress
from compiler.launch.cuda.repeat import LARGEST, UpdatedArray
from compiler.launch.native_calls import results
from compiler.launch.native_calls.answers import answer, new_code
from compiler.launch.native_calls.arguments import require_type
from compiler.launch.native_calls.code import NULL, CallCode
from compiler.launch.native_calls.plan import Unplannable
from compiler.launch.native_calls.results import HeldMemory
from compiler.machines.access import ALIGNMENT
from runtime.calls import arrays
from runtime.calls.answering import NEXT, SLOWLY
from runtime.calls.objects import offsets
from runtime.cuda.array import BorrowedMemory, DeviceArray
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.peers import EXCHANGES, Exchange
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import LEGACY, PER_THREAD, Stream
from runtime.cuda.tensor_map import SIZE
from runtime.dlpack import CUDA, type_code
from runtime.tensor import SharedElements, Tensor
from runtime.unawaited import READING
from runtime.unread import UNREAD, VOID

LAUNCH, CONTEXT, RECORDING = "cuLaunchKernelEx", "cuCtxGetCurrent", "cuStreamIsCapturing"
"""The driver's calls that machine code makes."""

EARLY = 6
"""The driver's number of the attribute of launches that may begin early."""

CLASSES = (BorrowedMemory, DeviceArray, DeviceBuffer, OnGpu, SharedElements, Stream, Tensor)
"""Those whose fields machine code knows."""


def answer_calls(plan: NativePlan, values: Sequence[Any], several: bool, unawaited: object, target: Any, lies: Mapping[str, int]) -> None:
    """Has machine code answer calls of `target` like this one, with these values (of a function of `several` blocks, where floats stay the
    same, too). Raises Unplannable."""
    driver = plan.gpu.device.driver.addresses((LAUNCH, CONTEXT, RECORDING))
    if driver is None or not arrays.is_known() or any(offsets(kind) is None for kind in CLASSES):
        raise Unplannable("an interpreter or a driver that isn't known")
    if plan.stream.number == PER_THREAD:
        raise Unplannable("a stream that is another one in each thread")
    code = _GpuCall(plan, new_code(), values, several)
    code.emit(unawaited)
    answer(target, lies, code.code, {**driver, **code.symbols}, plan)


class _GpuCall:
    def __init__(self, plan: NativePlan, code: CallCode, values: Sequence[Any], several: bool) -> None:
        self.plan, self.code, self.w, self.values, self.several = plan, code, code.w, values, several
        self.held = HeldMemory(code)
        self.symbols: dict[str, int] = {}
        """Functions of other libraries, by the names that the code has for them."""
        self.given: list[LlvmValue] = []
        self.numbers: dict[int, LlvmValue] = {}
        """Addresses and floats by position."""
        self.rooms: list[tuple[LlvmValue, LlvmValue, LlvmValue]] = []
        """Of memory that the call took: the buffer, its address as Python's int, and as a number."""

    def emit(self, unawaited: object) -> None:
        code, w = self.code, self.w
        self.given = code.given(len(self.values))
        updated = [part for part in _parts(self.plan.value) if isinstance(part, UpdatedArray)]
        for dictionary in (unawaited, READING, VOID, *([UNREAD] if updated else ())):
            code.require_empty(dictionary)
        code.require(code.is_unforked())
        self.require_stream()
        for position, value in enumerate(self.values):
            self.take(position, value)
        self.require_context()
        for part in updated:
            self.require_apart(part)
        self.rooms = [self.room(size) for size in self.plan.rooms]
        value = self.value(self.plan.value)
        self.launch()
        for part in updated:
            if self.values[part.number].__class__ is Tensor:
                self.forget_host(self.given[part.number])
        self.held.give_back(but=_parts(value))
        w.ret(self.joined(value))
        w.start("raised")
        self.held.give_back()
        w.ret(NULL)
        w.start("failed")
        code.do("PyErr_Clear")
        self.held.give_back()
        w.branch("slow")
        w.start("refused")
        code.do("PyErr_Clear")
        w.branch("otherwise")
        code.end(SLOWLY, "slow")
        code.end(NEXT, "otherwise")

    # ---- what the code was made for ----

    def sure(self, condition: LlvmValue, otherwise: str = "refused") -> None:
        """The same as `CallCode.require`, where Python may have an error set."""
        going = self.w.label("going")
        self.w.branch_if(condition, going, otherwise)
        self.w.start(going)

    def field(self, of: LlvmValue, kind: type, name: str) -> LlvmValue:
        return self.code.at(of, _offset(kind, name))

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
        for exchange in {id(each): each for each in map(_exchange, self.values) if each is not None}.values():
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

    # ---- arguments ----

    def take(self, position: int, value: Any) -> None:
        code, w, given = self.code, self.w, self.given[position]
        exchange = _exchange(value)
        if value.__class__ is bool:
            code.require(w.compare("eq", given, code.object(value)))
            return
        require_type(code, given, value.__class__)
        if exchange is not None:
            self.numbers[position] = self.take_peers(given, value, exchange)
        elif value.__class__ is Tensor:
            self.numbers[position] = self.take_tensor(given, value)
        elif value.__class__ is float:
            self.take_float(position, value)
        elif value.__class__ is int and -(1 << 63) <= value < 1 << 63:
            over = w.alloca(I32)
            number = code.call("PyLong_AsLongLongAndOverflow", I64, given, over)
            self.require_same(w.load(I32, over), 0)
            self.require_same(number, value)
        else:
            raise Unplannable(f"a {value.__class__.__name__}")

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

    # ---- memory and the value ----

    def room(self, size: int) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
        """A block of the pool that lies idle; where there is none, the pool is asked for one the other way."""
        code, w, stream = self.code, self.w, self.plan.stream
        if not size:
            raise Unplannable("no memory at all")
        shelf = self.plan.gpu.pool.shelf_for(size, stream)
        count = code.call("PyList_Size", I64, code.object(shelf.idle))
        self.sure(w.compare("ne", count, constant(I64, 0)), "failed")
        nothing, users = code.object(None), code.object(())
        buffer = self.new(DeviceBuffer, _shelf=nothing, size=code.object(size), stream=code.object(stream), users=users)
        address = code.call("PyObject_Vectorcall", PTR, code.object(shelf.idle.pop), NULL, constant(I64, 0), NULL)
        self.held.hold(address, "Py_DecRef", "failed")
        self.put(buffer, DeviceBuffer, "pointer", address)
        self.put(buffer, DeviceBuffer, "_shelf", code.object(shelf))
        code.do("Py_DecRef", nothing)
        return buffer, address, code.call("PyLong_AsUnsignedLongLong", I64, address)

    def new(self, kind: type, **fields: LlvmValue) -> LlvmValue:
        """An object with these fields."""
        instance = self.code.call("PyType_GenericAlloc", PTR, self.code.object(kind), constant(I64, 0))
        self.held.hold(instance, "Py_DecRef", "failed")
        for name, value in fields.items():
            self.put(instance, kind, name, value)
        return instance

    def put(self, into: LlvmValue, kind: type, name: str, value: LlvmValue) -> None:
        self.w.store(self.code.new_reference(value), self.field(into, kind, name))

    def value(self, value: Any) -> Any:
        """The objects of the value, in tuples as it has them: new ones, or those given."""
        code = self.code
        match value:
            case tuple():
                return tuple(map(self.value, value))
            case UpdatedArray(number=position) if self.values[position].__class__ is Tensor:
                return self.given[position]
            case UpdatedArray(number=position, like=like):
                nobody, device = code.object(()), code.object(self.plan.gpu.device)
                owner = self.new(BorrowedMemory, device=device, owner=self.given[position], users=nobody)
                address = code.call("PyLong_FromUnsignedLongLong", PTR, self.numbers[position])
                self.held.hold(address, "Py_DecRef", "failed")
                return self.tensor(owner, address, like.dtype, like.shape, like.strides, like.layout)
            case NewArray(room, memory):
                buffer, address, _ = self.rooms[room]
                stream = self.plan.stream
                like = DeviceArray(DeviceBuffer(None, 0, 0, stream), 0, memory.shape, memory.dtype, stream, memory.strides)
                return self.tensor(buffer, address, memory.dtype, memory.shape, memory.strides, like.layout)
        raise AssertionError(value)

    def tensor(self, owner: LlvmValue, address: LlvmValue, dtype: str, shape: Any, strides: Any, layout: Any) -> LlvmValue:
        code = self.code
        elements = self.new(
            DeviceArray,
            owner=owner,
            pointer=address,
            read_only=code.object(False),
            stream=code.object(self.plan.stream),
            dtype=code.object(dtype),
            shape=code.object(shape),
            strides=code.object(strides),
            layout=code.object(layout),
        )
        remote = self.new(OnGpu, elements=elements, gpu=code.object(self.plan.gpu), named=code.object(self.plan.named))
        nothing = code.object(None)
        return self.new(Tensor, _array=nothing, _shared=nothing, device_copy=nothing, filled=nothing, remote=remote)

    def joined(self, value: Any) -> LlvmValue:
        if isinstance(value, tuple):
            return results.tuple_of(self.code, [self.joined(part) for part in value])
        return self.code.new_reference(value) if value in self.given else value

    def forget_host(self, given: LlvmValue) -> None:
        """What the host knows of the elements is old."""
        field = self.field(given, Tensor, "_array")
        before = self.w.load(PTR, field)
        self.w.store(self.code.new_reference(self.code.object(None)), field)
        self.code.do("Py_DecRef", before)

    # ---- launches ----

    def launch(self) -> None:
        """All launches, while other threads of Python's may run."""
        code, w, plan = self.code, self.w, self.plan
        prepared = [(self.configuration(launch), int(launch.plan.kernel.handle), self.parameters(launch)) for launch in plan.launches]
        refused, launched = w.label("refused"), w.label("launched")
        thread = code.call("PyEval_SaveThread", PTR)
        for configuration, handle, parameters in prepared:
            status = code.call(LAUNCH, I32, configuration, constant(I64, handle), parameters, NULL)
            self.sure(w.compare("eq", status, constant(I32, 0)), refused)
        code.do("PyEval_RestoreThread", thread)
        w.branch(launched)
        w.start(refused)
        code.do("PyEval_RestoreThread", thread)
        w.branch("failed")
        w.start(launched)
        sites = code.object(tuple(launch.plan.site for launch in plan.launches))
        noted = self.called(plan.stream.launched.extend, sites)
        self.sure(w.compare("ne", noted, NULL), "raised")
        code.do("Py_DecRef", noted)

    def called(self, function: Any, argument: LlvmValue) -> LlvmValue:
        """What a callable of Python's gives for an argument."""
        return self.code.call("PyObject_Vectorcall", PTR, self.code.object(function), self.in_memory(argument), constant(I64, 1), NULL)

    def configuration(self, launch: NativeLaunch) -> LlvmValue:
        """The driver's launch configuration, which stays the same."""
        plan, module = launch.plan, self.code.module
        if plan.ordinary is None or len(plan.block) != 3:
            raise Unplannable("a launch that isn't an ordinary one")
        attributes = "null"
        if plan.early:
            attributes = f"@{module.unique('attributes')}"
            module.globals.append(f"{attributes} = private constant [18 x i32] [i32 {EARLY}, i32 0, i32 1{', i32 0' * 15}]")
        shape = ", ".join(f"i32 {number}" for number in (*plan.grid, *plan.block, plan.shared, 0))
        name = f"@{module.unique('configuration')}"
        written = f"{{ [8 x i32] [{shape}], i64 {self.plan.stream.number}, ptr {attributes}, i32 {int(plan.early)}, i32 0 }}"
        module.globals.append(f"{name} = private constant {{ [8 x i32], i64, ptr, i32, i32 }} {written}")
        return LlvmValue(PTR, name)

    def parameters(self, launch: NativeLaunch) -> LlvmValue:
        """Where the kernel's arguments lie, one after the other."""
        w, parameters = self.w, launch.plan.arguments.parameters
        if len(parameters) != len(launch.arguments):
            raise Unplannable("a launch with other arguments")
        places = w.alloca(PTR, max(2, len(parameters)))
        for number, (parameter, argument) in enumerate(zip(parameters, launch.arguments, strict=True)):
            match argument:
                case GivenAddress() | RoomAddress():
                    held = self.in_memory(self.address(argument))
                case GivenFloat(position, kind):
                    held = self.in_memory(self.converted(self.numbers[position], kind, parameter.name))
                case MapOf(map, address):
                    held = self.map(map, address)
                case _:
                    held = self.code.data(parameter.packed(argument), parameter.alignment)
            w.store(held, self.code.at(places, 8 * number))
        return places

    def address(self, source: GivenAddress | RoomAddress | int) -> LlvmValue:
        match source:
            case GivenAddress(position):
                return self.numbers[position]
            case RoomAddress(room, offset):
                return self.w.add(self.rooms[room][2], constant(I64, offset))
            case int():
                return constant(I64, source)

    def map(self, map: LaunchMap, source: GivenAddress | RoomAddress | int) -> LlvmValue:
        """A copy of the tensor map of the array at an address: one that came before, or a new one."""
        code, w, device = self.code, self.w, self.plan.gpu.device

        def encoded(address: int) -> bytes | None:
            try:
                return map.of(device, address)
            except DeviceTrouble:
                return None

        address = code.call("PyLong_FromUnsignedLongLong", PTR, self.address(source))
        self.held.hold(address, "Py_DecRef", "failed")
        known = code.call("PyDict_GetItemWithError", PTR, code.object(map.known), address)

        written = code.either(w.compare("ne", known, NULL), lambda: code.new_reference(known), lambda: self.called(encoded, address))
        self.held.hold(written, "Py_DecRef", "raised")
        self.sure(w.compare("ne", written, code.object(None)), "failed")
        copied = w.alloca(I8, SIZE, 64)
        results.copy(code, copied, code.call("PyBytes_AsString", PTR, written), constant(I64, SIZE))
        return copied

    def in_memory(self, value: LlvmValue) -> LlvmValue:
        cell = self.w.alloca(value.type)
        self.w.store(value, cell)
        return cell

    def converted(self, number: LlvmValue, kind: type, name: str) -> LlvmValue:
        if name not in ("f32", "f64"):
            raise Unplannable(f"a float as {name}")
        if kind is np.float32 or name == "f32":
            number = self.w.value(F32, f"fptrunc {number} to float")
        return number if name == "f32" else self.w.convert("fpext", number, "double")


def _offset(kind: type, name: str) -> int:
    lies = offsets(kind)
    assert lies is not None
    return lies[name]


def _exchange(value: Any) -> Exchange | None:
    return EXCHANGES.get(value.__class__)


def _parts(value: Any) -> list[Any]:
    """All that is in tuples."""
    return [part for inner in value for part in _parts(inner)] if isinstance(value, tuple) else [value]
