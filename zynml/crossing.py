"""What crosses between Python and a program in one call: arrays of any library, in and out without a copy.

On the host these are NumPy arrays and whatever speaks DLPack. An array on a CUDA device (DLPack or `__cuda_array_interface__`) is
worked on where it lies, after what its library has under way there; when the call returns, the caller's stream waits for our work in
turn. A call that was given such arrays gives tensors on the device back, which speak both protocols; else arrays of NumPy's."""

from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from runtime.cuda.errors import CudaError, CudaOutOfMemory, CudaUnavailable
from runtime.dlpack import ON_DEVICE, ON_HOST
from runtime.futures import PendingValue, before_device_write
from runtime.host_arrays import import_host_array
from runtime.tensor import Tensor, has_elements
from runtime.values import ElementArray, Nothing, RecordValue, Some, is_number_array
from zynml import pending
from zynml.functions import ProgramFunction, PythonFunction

if TYPE_CHECKING:
    from runtime.cuda.remote import OnGpu


class Borrowed(NamedTuple):
    """Another library's array on a device, for the time of a call."""

    tensor: Tensor
    remote: "OnGpu"
    source: Any

    def give_back(self) -> None:
        """The end of our work on it. Where the program asked for the elements on the host to write to them, they belong back."""
        tensor, remote = self.tensor, self.remote
        host_wrote = tensor.remote is not remote
        if host_wrote or remote.elements.owner.users:
            from runtime.cuda.interop import give_back

            give_back(remote, self.source, tensor.array if host_wrote else None)
        tensor.remote = remote
        tensor.changed_there()


class Crossing:
    """One call of a function: `into` for what it is given, `out` for what it gives, in a `with`. What goes wrong leaves by `errors`."""

    __slots__ = ("borrowed", "errors", "on_device", "takes_records")

    def __init__(self, errors: AbstractContextManager[None]) -> None:
        self.errors = errors
        self.on_device = False
        self.takes_records = False
        """Whether a dictionary may come, which stands for a struct."""
        self.borrowed: list[Borrowed] = []

    def __enter__(self) -> "Crossing":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None and not self.borrowed:
            return
        with self.errors:
            self.end(error)
        self.errors.__exit__(kind, error, traceback)

    def again(self) -> "Crossing":
        """Another call of the same program."""
        return Crossing(self.errors)

    def end(self, error: BaseException | None) -> None:
        """The end of the work on other libraries' arrays. Raises ZyntaxError where the device failed, now or as `error` says."""
        try:
            if isinstance(error, CudaError):
                raise error
            before_device_write()
            for loan in self.borrowed:
                loan.give_back()
        except CudaError as failure:
            if error is None or error is failure:
                code = "0804" if isinstance(failure, CudaOutOfMemory) else "0805"
                raise ZyntaxError(Diagnostic(code, f"the device failed: {failure}")) from None

    # ---- in ----

    def into(self, value: Any) -> Any:
        """The program's value for one of Python's. Raises ZyntaxError for what programs don't have."""
        if value.__class__ is Tensor:
            if value.remote is not None:
                self.on_device = True
            return value
        if value.__class__ in _ARRAYS:
            return self.array_of(value)
        match value:
            case np.ndarray():
                if value.__class__ is not np.ndarray and isinstance(value, np.ma.MaskedArray):
                    hint = "`.filled(value)` gives its elements with a value for the masked ones; tensors have no mask"
                    raise ZyntaxError(Diagnostic("0807", f"a masked array of NumPy type {value.dtype} has no counterpart", hint=hint))
                if not value.dtype.isnative and has_elements(value.dtype.newbyteorder("=")):
                    message = f"an array of NumPy type {value.dtype} can't be taken: its bytes are in the other order"
                    hint = f"`.astype(np.{value.dtype.name})` gives its elements in the order of this machine"
                    raise ZyntaxError(Diagnostic("0807", message, hint=hint))
                if not has_elements(value.dtype):
                    raise _no_counterpart(f"an array of NumPy type {value.dtype}", _known())
                if not value.flags.c_contiguous and any(stride % value.itemsize for stride in value.strides):
                    strides = f"strides of {', '.join(map(str, value.strides))} bytes"
                    message = f"an array of NumPy type {value.dtype} can't be taken with {strides}, no multiple of its elements"
                    raise ZyntaxError(Diagnostic("0807", message, hint="`.copy()` lays the elements out without gaps"))
                return Tensor(value)
            case np.generic():
                if not has_elements(value.dtype) or not value.dtype.isnative:
                    raise _no_counterpart(f"a number of NumPy type {value.dtype}", _known())
                return value
            case list():
                return [self.into(element) for element in value]
            case RecordValue():
                return type(value)(map(self.into, value))
            case tuple():
                return tuple(self.into(element) for element in value)
            case dict() if self.takes_records:
                return {name: self.into(part) for name, part in value.items()}
            case bool() | str() | float() | None:
                return value
            case array() | memoryview():
                return self.into(_of_buffer(value))
            case range():
                for end in (value.start, value.stop, value.step):
                    self.into(end)
                return value
            case int():
                if not -(1 << 63) <= value < 1 << 64:
                    raise ZyntaxError(Diagnostic("0807", f"{value} fits into no int of 64 bits"))
                return value
        future = pending.given(value, lambda result: Crossing(self.errors).into(result))
        if future is not None:
            return future
        if hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
            _ARRAYS.add(type(value))
            return self.array_of(value)
        if isinstance(value, ProgramFunction) and value.crossing.errors is self.errors:
            return value.function
        if callable(value):
            return PythonFunction(value, self)
        raise _no_counterpart(f"a Python {type(value).__name__}", "numbers, text, arrays, lists, tuples, ranges and functions")

    def array_of(self, value: Any) -> Tensor:
        """Another library's array as a tensor over its memory."""
        try:
            lent = self.lent(value)
            if lent is not None:
                return lent
            if not hasattr(value, "__dlpack__"):
                return self.borrow(value, None)
            where, ordinal = (int(part) for part in value.__dlpack_device__())
            if getattr(value, "is_neg", bool)():  # what PyTorch hands out of such a tensor says nothing of it
                message = f"this {type(value).__name__} can't be taken: its memory holds its elements with the other sign"
                raise ZyntaxError(Diagnostic("0807", message, hint="`.resolve_neg()` gives its elements with their own"))
            if where in ON_HOST:
                return Tensor(import_host_array(value))
            if where in ON_DEVICE:
                return self.borrow(value, ordinal)
        except (BufferError, ValueError, TypeError, RuntimeError) as refusal:
            message = f"this {type(value).__name__} can't be taken: {refusal}"
            hint = _hint() if isinstance(refusal, ValueError) else None  # what its library refuses, it explains itself
            raise ZyntaxError(Diagnostic("0807", message, hint=hint)) from None
        message = f"this {type(value).__name__} lies on a device that programs can't use (DLPack's kind {where}, number {ordinal})"
        raise ZyntaxError(Diagnostic("0501", message, hint="move it to the CPU or to a CUDA device first"))

    def lent(self, value: Any) -> Tensor | None:
        """A tensor over a peer's array that can be read without a protocol."""
        try:
            remote = _lent()(value)
        except CudaUnavailable as refusal:
            raise _unusable(value, refusal) from None
        return None if remote is None else self.over(remote, value)

    def borrow(self, value: Any, ordinal: int | None) -> Tensor:
        """A tensor over an array on a CUDA device, by a protocol."""
        from runtime.cuda.gpu import gpu
        from runtime.cuda.interop import import_array, ordinal_of
        from runtime.cuda.remote import OnGpu

        try:
            device = gpu(ordinal_of(value) if ordinal is None else ordinal)
        except CudaUnavailable as refusal:
            raise _unusable(value, refusal) from None
        return self.over(OnGpu(import_array(value, device.stream), device, named=True), value)

    def over(self, remote: "OnGpu", value: Any) -> Tensor:
        """The tensor for an array of another library, given back when the call is over."""
        tensor = Tensor(None, remote)
        self.on_device = True
        self.borrowed.append(Borrowed(tensor, remote, value))
        return tensor

    # ---- out ----

    def out(self, value: Any) -> Any:
        """Python's value for one of the program's. What stays on a device is the caller's from then on, and worked on there."""
        if value.__class__ is Tensor:
            remote = value.remote
            if not self.on_device or (remote is None and not any(value is element.tensor for element in self.borrowed)):
                return value.array
            if remote is not None and not remote.named:
                remote.claim()
            return value
        match value:
            case ElementArray():
                elements = [self.out(element) for element in value]
                return np.array(elements) if all(map(is_number_array, elements)) else elements
            case list():
                return [self.out(element) for element in value]
            case RecordValue():
                return self.out_of_record(value)
            case np.ndarray():
                return value
            case tuple():
                return tuple(self.out(element) for element in value)
            case PendingValue():
                return pending.Future(value, self.out, self.errors)
            case PythonFunction():
                return value.function
        return ProgramFunction(value, self) if callable(value) else value


    def out_of_record(self, value: RecordValue) -> Any:
        """A record with Python's values as its parts; an optional as None or its value, which stays in `Some` where it would be None."""
        if type(value) is Nothing:
            return None
        parts = [self.out(part) for part in value]
        if type(value) is not Some or value[0] is None or type(value[0]) in (Some, Nothing):
            return type(value)(parts)
        return parts[0]


@cache
def _lent() -> Callable[[Any], "OnGpu | None"]:
    """`peers.lent`, loaded when there is a device to lend from."""
    from runtime.cuda.peers import lent

    return lent


_ARRAYS: "WeakSet[type]" = WeakSet()
"""Classes of other libraries' arrays that came before."""

def _known() -> str:
    from runtime.element_types import NAMES

    return f"elements {', '.join(NAMES.values())}"


def _hint() -> str:
    return f"programs know arrays of {_known()}"


def _of_buffer(value: Any) -> Any:
    """NumPy's array over a buffer of Python's."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError, NotImplementedError) as refusal:
        raise ZyntaxError(Diagnostic("0807", f"this {type(value).__name__} can't be taken: {refusal}", hint=_hint())) from None


def _unusable(value: Any, refusal: CudaUnavailable) -> ZyntaxError:
    message = f"this {type(value).__name__} lies on a CUDA device, which programs can't use here: {refusal.reason}"
    return ZyntaxError(Diagnostic("0501", message))


def _no_counterpart(kind: str, known: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0807", f"{kind} has no counterpart", hint=f"programs know {known}"))
