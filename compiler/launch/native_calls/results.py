"""Memory of a launch in machine code, and the value that Python gets: new arrays, numbers, scratch memory, tuples."""

from collections.abc import Sequence

from compiler.backends.llvm.types import I1, I8, I32, I64, PTR, vector
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.launch.native_calls.arguments import DOUBLE, fields_of_tensors
from compiler.launch.native_calls.code import NULL, CallCode
from compiler.launch.native_calls.numbers import WholeNumber
from compiler.lowering.result_plan import ResultPlan
from compiler.typed_ast.types import DType
from runtime import buffers
from runtime.calls import arrays
from runtime.records import frozen
from runtime.tensor import Tensor, numpy_dtype

NUMBER_BYTES = 16
"""Room for a result that is one number of any type."""


@frozen(eq=False)
class Room:
    """Memory of a launch: its address, and the array whose memory it is, where there is one."""

    data: LlvmValue
    array: LlvmValue | None = None


@frozen(eq=False)
class Part:
    """A result that is a part of the value."""

    plan: ResultPlan
    room: Room


class HeldMemory:
    """What the call holds and gives back where it fails: arrays, and memory of C's."""

    def __init__(self, code: CallCode) -> None:
        self.code = code
        self._cells: list[tuple[LlvmValue, str, str]] = []

    def hold(self, address: LlvmValue, given_back_by: str, failed: str) -> None:
        """Goes to the block `failed` where there is none."""
        w = self.code.w
        cell = w.alloca(PTR)
        w.at_entry(f"store ptr null, {cell}")
        self._cells.append((cell, given_back_by, address.text))
        w.store(address, cell)
        going = w.label("held")
        w.branch_if(w.compare("eq", address, NULL), failed, going)
        w.start(going)

    def give_back(self, only: str = "", but: Sequence[LlvmValue] = ()) -> None:
        """All of it, or what is given back by `only` this function, but not these."""
        w = self.code.w
        excluded = {address.text for address in but}
        for cell, function, text in self._cells:
            if (not only or function == only) and text not in excluded:
                address = w.load(PTR, cell)
                with w.when(w.compare("ne", address, NULL)):
                    self.code.do(function, address)


def new_array(code: CallCode, plan: ResultPlan, extents: Sequence[WholeNumber], count: WholeNumber, held: HeldMemory, failed: str) -> Room:
    """A new array, uninitialised. Large ones are the run time's, which keeps their memory for the next."""
    w = code.w
    dtype = numpy_dtype(plan.dtype.value)
    descriptor = code.object(dtype)
    shape = w.alloca(I64, max(1, len(extents)))
    for axis, extent in enumerate(extents):
        w.store(extent.value, code.at(shape, 8 * axis))

    def small() -> LlvmValue:
        code.do("Py_IncRef", descriptor)  # the new array takes it
        none, zero = NULL, constant(I32, 0)
        rank = constant(I32, len(extents))
        return code.call("PyArray_NewFromDescr", PTR, code.object(_ndarray()), descriptor, rank, shape, none, none, zero, none)

    def large() -> LlvmValue:
        form = code.text("((" + "L" * len(extents) + ")O)")
        code.module.declare("PyObject_CallFunction", "ptr (ptr, ptr, ...)")
        given = ", ".join(map(str, [code.object(buffers.empty), form, *(extent.value for extent in extents), descriptor]))
        return w.value(PTR, f"call ptr (ptr, ptr, ...) @PyObject_CallFunction({given})")

    if extents:
        limit = constant(I64, -(-buffers.SMALL // dtype.itemsize))
        array = code.either(w.compare("slt", count.value, limit), small, large)
    else:
        array = small()
    held.hold(array, "Py_DecRef", failed)
    return Room(w.load(PTR, code.at(array, arrays.DATA)), array)


def _ndarray() -> type:
    import numpy as np

    return np.ndarray


def new_number(code: CallCode) -> Room:
    """Room for a number."""
    return Room(code.w.alloca(I8, NUMBER_BYTES, NUMBER_BYTES))


def scratch(code: CallCode, count: WholeNumber, width: int, held: HeldMemory, failed: str) -> LlvmValue:
    """Scratch memory for so many elements."""
    w = code.w
    size = w.mul(w.intrinsic("umax", count.value, constant(I64, 1)), constant(I64, width))
    address = code.call("malloc", PTR, size)
    held.hold(address, "free", failed)
    return address


LEAST_LINE = 256
"""Bytes of a line of a result from which zeros are written around its inside alone."""


@frozen
class Around:
    """Where zeros of a result of these extents are needed: outside of `inside`, from where on and up to where elements are written along
    each dimension. An element has so many bytes."""

    extents: Sequence[WholeNumber]
    inside: Sequence[Sequence[WholeNumber]]
    width: int


def clear(code: CallCode, room: Room, size: LlvmValue, unless: Sequence[WholeNumber], around: Around) -> None:
    """Fills with zeros, but not where there are numbers `unless` and all of them are at least 0."""
    w = code.w
    keep = None
    for number in unless:
        keep = w.both(keep, w.compare("sge", number.value, constant(I64, 0)))
    fill = w.true() if keep is None else w.binary("xor", keep, w.true())
    long = w.binary("and", fill, constant(I1, 0))
    if around.inside:
        long = w.binary("and", fill, w.compare("sge", around.extents[-1].value, constant(I64, -(-LEAST_LINE // around.width))))
        with w.when(long):
            _clear_around(code, room, around)
    with w.when(w.binary("and", fill, w.binary("xor", long, w.true()))):
        _fill(code, room.data, size)


def _clear_around(code: CallCode, room: Room, around: Around) -> None:
    """Line after line, each before and behind the inside, or all of it."""
    w, zero = code.w, constant(I64, 0)
    *outer, length = (extent.value for extent in around.extents)
    bounds = [[w.intrinsic("smax", number.value, zero) for number in side] for side in around.inside]
    lines = constant(I64, 1)
    for extent in outer:
        lines = w.mul(lines, extent)
    low, high = (w.intrinsic("smin", bound, length) for bound in bounds[-1])
    with w.loop(zero, lines) as line:
        outside, rest = w.binary("and", w.true(), constant(I1, 0)), line
        for extent, (first, behind) in reversed([*zip(outer, bounds, strict=False)]):
            digit, rest = w.binary("urem", rest, extent), w.binary("udiv", rest, extent)
            misses = w.binary("or", w.compare("slt", digit, first), w.compare("sge", digit, behind))
            outside = w.binary("or", outside, misses)
        start = w.offset(room.data, w.mul(line, w.mul(length, constant(I64, around.width))), I8)
        _fill(code, start, w.mul(w.select(outside, length, low), constant(I64, around.width)))
        begin = w.select(outside, length, high)
        part = w.offset(start, w.mul(begin, constant(I64, around.width)), I8)
        _fill(code, part, w.mul(w.sub(length, begin), constant(I64, around.width)))


def _fill(code: CallCode, start: LlvmValue, size: LlvmValue) -> None:
    code.module.declare("llvm.memset.p0.i64", "void (ptr, i8, i64, i1)")
    code.w.call_void("llvm.memset.p0.i64", start, constant(I8, 0), size, constant(vector("i1"), 0))


def copy(code: CallCode, target: LlvmValue, source: LlvmValue, size: LlvmValue) -> None:
    code.module.declare("llvm.memcpy.p0.p0.i64", "void (ptr, ptr, i64, i1)")
    code.w.call_void("llvm.memcpy.p0.p0.i64", target, source, size, constant(vector("i1"), 0))


def number_of(code: CallCode, room: Room, dtype: DType) -> LlvmValue:
    """Python's own number for i64, f64 and bool, else NumPy's scalar."""
    w = code.w
    match dtype:
        case DType.I64:
            return code.call("PyLong_FromLongLong", PTR, w.load(I64, room.data))
        case DType.F64:
            return code.call("PyFloat_FromDouble", PTR, w.load(DOUBLE, room.data))
        case DType.BOOL:
            set_ = w.compare("ne", w.load(I8, room.data), constant(I8, 0))
            return code.call("PyBool_FromLong", PTR, w.convert("zext", set_, "i64"))
    return code.call("PyArray_Scalar", PTR, room.data, code.object(numpy_dtype(dtype.value)), NULL)


def object_of(code: CallCode, part: Part) -> LlvmValue:
    """The object of Python's for a part of the value."""
    if part.plan.scalar:
        return number_of(code, part.room, part.plan.dtype)
    assert part.room.array is not None
    if part.plan.input is not None:
        code.do("Py_IncRef", part.room.array)
    return part.room.array


def tensor_of(code: CallCode, array: LlvmValue) -> LlvmValue:
    """A tensor, which takes its array; NULL with an error set where there is none."""
    w, lies = code.w, fields_of_tensors()
    tensor = code.call("PyType_GenericAlloc", PTR, code.object(Tensor), constant(I64, 0))

    def give_up() -> LlvmValue:
        code.do("Py_DecRef", array)
        return NULL

    def fill() -> LlvmValue:
        for name, place in lies.items():
            w.store(array if name == "_array" else code.new_reference(code.object(None)), code.at(tensor, place))
        return tensor

    return code.either(w.compare("eq", tensor, NULL), give_up, fill)


def tuple_of(code: CallCode, values: Sequence[LlvmValue]) -> LlvmValue:
    """A tuple, which takes its values; NULL with an error set where one of them is NULL."""
    w = code.w
    tuple_ = code.call("PyTuple_New", PTR, constant(I64, len(values)))
    failed = w.compare("eq", tuple_, NULL)
    for value in values:
        failed = w.binary("or", failed, w.compare("eq", value, NULL))

    def give_up() -> LlvmValue:
        for value in [*values, tuple_]:
            with w.when(w.compare("ne", value, NULL)):
                code.do("Py_DecRef", value)
        return NULL

    def fill() -> LlvmValue:
        for number, value in enumerate(values):
            code.call("PyTuple_SetItem", I32, tuple_, constant(I64, number), value)
        return tuple_

    return code.either(failed, give_up, fill)
