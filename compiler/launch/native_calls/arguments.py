"""Arguments in machine code: an object of Python's is looked at and taken, or the call is handed on."""

from collections.abc import Callable, Mapping

import numpy as np

from compiler.backends.llvm.types import I8, I32, I64, PTR, vector
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.launch.native_calls.code import CallCode
from compiler.launch.native_calls.numbers import MOST, WholeNumber
from compiler.launch.native_calls.plan import ArrayArgument, NumberArgument, Unplannable
from compiler.typed_ast.types import DType
from runtime.calls import arrays
from runtime.calls.objects import offsets
from runtime.records import evolve, frozen
from runtime.tensor import Tensor

DOUBLE = vector("double")


@frozen(eq=False)
class TakenArray:
    """An array of the call: where its elements are, asked when a kernel runs; extents, strides in bytes, and its object, or its
    tensor's, where it is an argument."""

    argument: ArrayArgument
    data: Callable[[], LlvmValue]
    extents: tuple[WholeNumber, ...]
    strides: tuple[LlvmValue, ...] = ()
    object: LlvmValue | None = None

    @property
    def width(self) -> int:
        return int(self.argument.dtype.itemsize)


@frozen(eq=False)
class TakenNumber:
    """A number of the call: as kernels take it, asked when one runs, and as a whole number where it is one."""

    dtype: DType
    value: Callable[[], LlvmValue]
    whole: WholeNumber | None = None


def require_type(code: CallCode, given: LlvmValue, wanted: type) -> None:
    """The object is exactly of this type, not of a type under it."""
    held = code.w.load(PTR, code.at(given, arrays.TYPE))
    code.require(code.w.compare("eq", held, code.object(wanted)))


def take_tensor(code: CallCode, given: LlvmValue, argument: ArrayArgument) -> TakenArray:
    """The array of a tensor of ours, which lies on the host, and nowhere else where it is updated."""
    require_type(code, given, Tensor)
    lies = fields_of_tensors()
    for name in ("remote", *(("_shared", "device_copy", "filled") if argument.updated else ())):
        code.require(code.w.compare("eq", code.w.load(PTR, code.at(given, lies[name])), code.object(None)))
    array = take_array(code, code.w.load(PTR, code.at(given, lies["_array"])), argument)
    return evolve(array, object=given)


def fields_of_tensors() -> Mapping[str, int]:
    """Where tensors have their fields. Raises Unplannable."""
    lies = offsets(Tensor)
    if lies is None:
        raise Unplannable("an interpreter that isn't known")
    return lies


def take_array(code: CallCode, given: LlvmValue, argument: ArrayArgument) -> TakenArray:
    w = code.w
    require_type(code, given, np.ndarray)
    _require_dtype(code, w.load(PTR, code.at(given, arrays.DTYPE)), argument.dtype)
    rank = w.load(I32, code.at(given, arrays.RANK))
    code.require(w.compare("eq", rank, constant(I32, argument.rank)))
    wanted = arrays.ALIGNED | (arrays.CONTIGUOUS if argument.layout.contiguous else 0)
    wanted |= arrays.WRITEABLE if argument.updated else 0
    flags = w.load(I32, code.at(given, arrays.FLAGS))
    looked_at = w.binary("and", flags, constant(I32, wanted | arrays.CONTIGUOUS))
    code.require(w.compare("eq", looked_at, constant(I32, wanted)))
    extents, strides = [], []
    if argument.rank:
        first = w.load(PTR, code.at(given, arrays.EXTENTS))
        extents = [code.require_below(w.load(I64, code.at(first, 8 * axis))) for axis in range(argument.rank)]
        if not argument.layout.contiguous:
            first = w.load(PTR, code.at(given, arrays.STRIDES))
            strides = [w.load(I64, code.at(first, 8 * axis)) for axis in range(argument.rank)]
            _require_strides(code, strides, argument)
    data = w.load(PTR, code.at(given, arrays.DATA))
    return TakenArray(argument, lambda: data, tuple(extents), tuple(strides), given)


def _require_dtype(code: CallCode, held: LlvmValue, wanted: np.dtype[np.generic]) -> None:
    """The dtype is NumPy's own object for it, or another one of that class and of the machine's byte order, as unpickled arrays have."""
    w = code.w
    order = ord(wanted.byteorder)

    def is_like() -> LlvmValue:
        same = w.compare("eq", w.load(PTR, code.at(held, arrays.TYPE)), code.object(type(wanted)))
        return w.binary("and", same, w.compare("eq", w.load(I8, code.at(held, arrays.BYTE_ORDER)), constant(I8, order)))

    code.require(code.either(w.compare("eq", held, code.object(wanted)), w.true, is_like))


def _require_strides(code: CallCode, strides: list[LlvmValue], argument: ArrayArgument) -> None:
    """The strides are whole numbers of elements, and one along the axis that is dense, and along none behind it."""
    w, width = code.w, int(argument.dtype.itemsize)
    if width > 1:
        bits = strides[0]
        for stride in strides[1:]:
            bits = w.binary("or", bits, stride)
        rest = w.binary("and", bits, constant(I64, width - 1))
        code.require(w.compare("eq", rest, constant(I64, 0)))
    dense = argument.layout.dense
    for axis in range(0 if dense is None else dense, len(strides)):
        code.require(w.compare("eq" if axis == dense else "ne", strides[axis], constant(I64, width)))


def bounds_of(code: CallCode, array: TakenArray) -> tuple[LlvmValue, LlvmValue]:
    """The addresses of the first byte of the elements, and of the one behind their last."""
    w = code.w
    low = high = w.value(I64, f"ptrtoint {array.data()} to i64")
    if array.argument.layout.contiguous:
        count = code.product(list(array.extents))
        high = w.add(low, w.mul(count.value, constant(I64, array.width)))
        return low, high
    for extent, stride in zip(array.extents, array.strides, strict=True):
        reach = w.binary("mul", w.binary("sub", extent.value, constant(I64, 1)), stride)
        low = w.binary("add", low, w.intrinsic("smin", reach, constant(I64, 0)))
        high = w.binary("add", high, w.intrinsic("smax", reach, constant(I64, 0)))
    return low, w.binary("add", high, constant(I64, array.width))


def take_number(code: CallCode, given: LlvmValue, argument: NumberArgument) -> TakenNumber:
    require_type(code, given, argument.python)
    if issubclass(argument.python, np.floating):
        number = code.w.load(DOUBLE if argument.dtype is DType.F64 else vector("float"), code.at(given, arrays.NUMBER))
        return TakenNumber(argument.dtype, lambda: number)
    if argument.python is float:
        value = _taken_float(code, code.call("PyFloat_AsDouble", DOUBLE, given), argument.dtype)
        return TakenNumber(argument.dtype, lambda: value)
    over = code.w.alloca(I32)
    number = code.call("PyLong_AsLongLongAndOverflow", I64, given, over)
    code.require(code.w.compare("eq", code.w.load(I32, over), constant(I32, 0)))
    return _taken_int(code, number, argument.dtype)


def _taken_float(code: CallCode, number: LlvmValue, dtype: DType) -> LlvmValue:
    match dtype:
        case DType.F64:
            return number
        case DType.F32:
            return code.w.value(vector("float"), f"fptrunc {number} to float")
    raise Unplannable(f"a float as a {dtype.value}")


EXACT = {DType.F32: 1 << 24, DType.F64: MOST}
"""Ints up to here are the same as floats of these types."""


def _taken_int(code: CallCode, number: LlvmValue, dtype: DType) -> TakenNumber:
    w = code.w
    least, most = -MOST, MOST
    if dtype is DType.BOOL:
        raise Unplannable("an int as a bool")
    if dtype.is_float:
        if dtype not in EXACT:
            raise Unplannable(f"an int as a {dtype.value}")
        least, most = -EXACT[dtype], EXACT[dtype]
    elif dtype.bits < 64 or not dtype.is_signed:
        least = max(least, -(1 << dtype.bits - 1) if dtype.is_signed else 0)
        most = min(most, (1 << dtype.bits - int(dtype.is_signed)) - 1)
    code.require(w.compare("sge", number, constant(I64, least)))
    code.require(w.compare("sle", number, constant(I64, most)))
    if dtype.is_float:
        value = w.convert("sitofp", number, "float" if dtype is DType.F32 else "double")
        return TakenNumber(dtype, lambda: value)
    return TakenNumber(dtype, lambda: number, WholeNumber(w, number, MOST))
