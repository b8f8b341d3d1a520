"""Machine code for calls with arrays on a GPU that came again: it looks at the arguments, takes memory, launches, and makes the value. No
Python function is called in between. Whatever differs from the call that it was made from goes the way of other calls, and so does a
launch that the driver refuses: that way tells what is wrong."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from compiler.backends.llvm.types import F32, I8, I32, I64, PTR
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.codes.device_faults import DeviceTrouble, diagnostic
from compiler.diagnostics import ZyntaxError
from compiler.launch.cuda.calls import PlannedCall
from compiler.launch.cuda.maps import LaunchMap
from compiler.launch.cuda.native_arguments import CONTEXT, RECORDING, GivenValues
from compiler.launch.cuda.native_plan import (
    GivenAddress,
    GivenFloat,
    GivenValue,
    MapOf,
    NativeLaunch,
    NativePlan,
    NewArray,
    NewRecord,
    RoomAddress,
)
from compiler.launch.cuda.repeat import UpdatedArray
from compiler.launch.native_calls import results
from compiler.launch.native_calls.answers import answer, new_code
from compiler.launch.native_calls.code import NULL, CallCode
from compiler.launch.native_calls.plan import Unplannable
from compiler.launch.native_calls.results import HeldMemory
from compiler.launch.watch import WATCHED
from runtime.calls import arrays
from runtime.calls.answering import NEXT, SLOWLY
from runtime.calls.objects import offsets
from runtime.cuda.array import BorrowedMemory, DeviceArray
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import PER_THREAD, Stream
from runtime.cuda.tensor_map import SIZE
from runtime.tensor import SharedElements, Tensor
from runtime.unawaited import READING
from runtime.unread import UNREAD, VOID

LAUNCH = "cuLaunchKernelEx"
"""The driver's call that launches."""

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


class _GpuCall(GivenValues):
    def __init__(self, plan: NativePlan, code: CallCode, arguments: Sequence[Any], several: bool) -> None:
        super().__init__(plan, code, arguments, several)
        self.held = HeldMemory(code)
        self.rooms: list[tuple[LlvmValue, LlvmValue, LlvmValue]] = []
        """Of memory that the call took: the buffer, its address as Python's int, and as a number."""

    def emit(self, unawaited: object) -> None:
        code, w = self.code, self.w
        updated = [*self.plan.updated, *[part for part in _parts(self.plan.value) if isinstance(part, UpdatedArray)]]
        is_run = self.plan.is_run
        for dictionary in (unawaited, READING, VOID, *([UNREAD] if updated or is_run else ()), *([WATCHED] if is_run else ())):
            code.require_empty(dictionary)
        code.require(code.is_unforked())
        self.take_all()
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

    # ---- memory and the value ----

    def room(self, size: int) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
        """A block of the pool that lies idle, else a new one; where there is none, the call goes the other way."""
        code, w, stream = self.code, self.w, self.plan.stream
        if not size:
            raise Unplannable("no memory at all")
        shelf = self.plan.gpu.pool.shelf_for(size, stream)
        count = code.call("PyList_Size", I64, code.object(shelf.idle))
        none_idle = w.compare("eq", count, constant(I64, 0))
        nothing, users = code.object(None), code.object(())
        buffer = self.new(DeviceBuffer, _shelf=nothing, size=code.object(size), stream=code.object(stream), users=users)
        idle, fetched = code.object(shelf.idle.pop), code.object(partial(self.plan.gpu.pool.fetch, shelf, size, stream))
        way = code.either(none_idle, lambda: fetched, lambda: idle)
        address = code.call("PyObject_Vectorcall", PTR, way, NULL, constant(I64, 0), NULL)
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
            case GivenValue(position):
                return self.given[position]
            case NewRecord(kind, parts):
                return NewRecord(kind, tuple(map(self.value, parts)))
            case None:
                return self.code.object(None)
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
        gpu, named = code.object(self.plan.gpu), code.object(self.plan.named)
        remote = self.new(OnGpu, elements=elements, gpu=gpu, layout=code.object(layout), named=named)
        nothing = code.object(None)
        return self.new(Tensor, _array=nothing, _shared=nothing, device_copy=nothing, filled=nothing, remote=remote)

    def joined(self, value: Any) -> LlvmValue:
        code = self.code
        if isinstance(value, NewRecord):
            parts = self.joined(value.parts)
            made = code.either(code.w.compare("ne", parts, NULL), lambda: self.called(value.kind, parts), lambda: NULL)
            code.do("Py_DecRef", parts)
            return made
        if isinstance(value, tuple):
            return results.tuple_of(code, [self.joined(part) for part in value])
        return code.new_reference(value) if value in (*self.given, code.object(None)) else value

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
        reached, answer = self.in_memory(constant(I64, 0)), self.in_memory(constant(I32, 0))
        thread = code.call("PyEval_SaveThread", PTR)
        for place, (configuration, handle, parameters) in enumerate(prepared):
            status = code.call(LAUNCH, I32, configuration, constant(I64, handle), parameters, NULL)
            if plan.is_run:
                w.store(constant(I64, place), reached)
                w.store(status, answer)
            self.sure(w.compare("eq", status, constant(I32, 0)), refused)
        code.do("PyEval_RestoreThread", thread)
        w.branch(launched)
        w.start(refused)
        code.do("PyEval_RestoreThread", thread)
        if plan.is_run:
            # what was launched may have changed arrays: it isn't launched once more
            going = w.label("stopped")
            w.branch_if(w.compare("eq", w.load(I64, reached), constant(I64, 0)), "failed", going)
            w.start(going)
            number = code.call("PyLong_FromLongLong", PTR, w.load(I64, reached))
            self.held.hold(number, "Py_DecRef", "raised")
            status = code.call("PyLong_FromLongLong", PTR, w.convert("sext", w.load(I32, answer), "i64"))
            self.held.hold(status, "Py_DecRef", "raised")
            stopped = results.tuple_of(code, [code.new_reference(number), code.new_reference(status)])
            self.held.hold(stopped, "Py_DecRef", "raised")
            self.called(partial(tell_refused, plan), stopped)
            w.branch("raised")
        else:
            w.branch("failed")
        w.start(launched)
        sites = code.object(tuple(launch.plan.site for launch in plan.launches))
        noted = self.called(plan.stream.launched.extend, sites)
        self.sure(w.compare("ne", noted, NULL), "raised")
        code.do("Py_DecRef", noted)

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

    def converted(self, number: LlvmValue, kind: type, name: str) -> LlvmValue:
        if name not in ("f32", "f64"):
            raise Unplannable(f"a float as {name}")
        if kind is np.float32 or name == "f32":
            number = self.w.value(F32, f"fptrunc {number} to float")
        return number if name == "f32" else self.w.convert("fpext", number, "double")


def tell_refused(plan: NativePlan, stopped: tuple[int, int]) -> None:
    """Raises what the program's own way would at the launch of this number, for which the driver has this answer. Raises ZyntaxError."""
    number, status = stopped
    launch = plan.launches[number]
    plan.stream.launched.extend([before.plan.site for before in plan.launches[:number]])
    device = launch.plan.device
    trouble = device.error(launch.plan.call, device.api.CUresult(status), launch.plan.described())
    assert isinstance(launch.call, PlannedCall)
    raise ZyntaxError(diagnostic(trouble, launch.call.compute.span))


def _parts(value: Any) -> list[Any]:
    """All that is in records and tuples."""
    if isinstance(value, NewRecord):
        return _parts(value.parts)
    return [part for inner in value for part in _parts(inner)] if isinstance(value, tuple) else [value]
