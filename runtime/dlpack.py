"""DLPack's structures, and capsules that hold them, for memory of any device. What they mean for streams is said in `cuda.array`
and `cuda.interop`."""

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from runtime.records import frozen

if TYPE_CHECKING:
    import numpy.typing as npt

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""DLPack's numbers of kinds of memory: ordinary, on a device, pinned, and managed by the driver."""

ON_HOST = frozenset({CPU, CUDA_HOST})
ON_DEVICE = frozenset({CUDA, CUDA_MANAGED})

READ_ONLY = 1
"""The flag of a tensor that its consumer may not change."""

_KINDS = {"i": 0, "u": 1, "f": 2, "bf": 4, "bool": 6}
_NAMES = {number: name for name, number in _KINDS.items()}
_BYTE_FLOATS = {"f8e4m3": 10, "f8e5m2": 12}
"""Of version 1.1."""


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("ordinal", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("dimensions", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


class _Exchange(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("export", ctypes.c_void_p),
        ("take", ctypes.c_void_p),
        ("describe", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    )


_EXCHANGE_NAME = b"dlpack_exchange_api"
_PLAIN_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_USED = {_PLAIN_NAME: b"used_dltensor", _VERSIONED_NAME: b"used_dltensor_versioned"}
_STRUCTURES: dict[bytes, type[_Managed] | type[_Versioned]] = {_PLAIN_NAME: _Managed, _VERSIONED_NAME: _Versioned}

_EXPORTED: dict[int, tuple[Any, ...]] = {}
"""What each structure handed out keeps alive, by its address, until its deleter is called."""

_DestroyCapsule = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_python = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DestroyCapsule)(("PyCapsule_New", _python))
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _python))
# for a capsule that is being destroyed and can't be an object any more
_valid_raw = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer_raw = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))


def _delete(address: int) -> None:
    _EXPORTED.pop(address, None)


def _destroy(capsule: int) -> None:
    for name in _STRUCTURES:
        if _valid_raw(capsule, name):
            # nobody took the tensor out
            _EXPORTED.pop(_pointer_raw(capsule, name), None)


_DELETE = _Deleter(_delete)
_DESTROY = _DestroyCapsule(_destroy)


@frozen
class Description:
    """A tensor as DLPack tells of it: strides in elements, the type by a program's name."""

    pointer: int
    kind: int
    ordinal: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str
    read_only: bool = False


def type_code(dtype: str) -> tuple[int, int]:
    """DLPack's code and bits of `f32`, `bf16`, `bool`..."""
    if dtype in _BYTE_FLOATS:
        return _BYTE_FLOATS[dtype], 8
    kind = dtype.rstrip("0123456789")
    return _KINDS[kind], 8 if dtype == "bool" else int(dtype[len(kind) :])


def type_name(code: int, bits: int, lanes: int) -> str:
    """A program's name for DLPack's type; ValueError where there is none."""
    byte_float = next((name for name, number in _BYTE_FLOATS.items() if number == code), None)
    if byte_float is not None and (bits, lanes) == (8, 1):
        return byte_float
    kind = _NAMES.get(code)
    known = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "bf": (16,), "bool": (8,)}
    if kind is None or lanes != 1 or bits not in known[kind]:
        raise ValueError(f"elements of DLPack's type ({code}, {bits} bits, {lanes} lanes) are not supported")
    return "bool" if kind == "bool" else f"{kind}{bits}"


def make_capsule(described: Description, owner: Any, versioned: bool) -> Any:
    """A capsule that keeps `owner` alive until its consumer calls the deleter. BufferError where the older structure can't say that
    the memory is read-only."""
    if described.read_only and not versioned:
        raise BufferError("the array is read-only, which DLPack before 1.0 can't say: copy it first")
    form = _form(described.kind, described.ordinal, described.shape, described.strides, described.dtype, described.read_only, versioned)
    managed = form.structure.from_buffer_copy(form.filled)
    managed.tensor.data = described.pointer
    address = ctypes.addressof(managed)
    _EXPORTED[address] = (managed, form, owner)
    return _new(address, _VERSIONED_NAME if versioned else _PLAIN_NAME, _DESTROY)


@frozen(eq=False)
class _FilledIn:
    """A structure filled in but for the address, and the arrays that it points to: consumers only read those."""

    structure: "type[_Managed] | type[_Versioned]"
    filled: bytes
    extents: tuple[Any, Any]


@lru_cache(1024)
def _form(
    kind: int, ordinal: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: str, read_only: bool, versioned: bool
) -> _FilledIn:
    count = len(shape)
    extents = (ctypes.c_int64 * max(1, count))(*shape), (ctypes.c_int64 * max(1, count))(*(strides or ()))
    managed = _Versioned(major=1, minor=0) if versioned else _Managed()
    managed.deleter = _DELETE
    if isinstance(managed, _Versioned) and read_only:
        managed.flags = READ_ONLY
    tensor = managed.tensor
    tensor.device = _Device(kind, ordinal)
    tensor.dimensions = count
    tensor.type = _Type(*type_code(dtype), 1)
    tensor.shape, tensor.strides = (ctypes.cast(each, ctypes.POINTER(ctypes.c_int64)) for each in extents)
    return _FilledIn(type(managed), bytes(managed), extents)


def exported() -> int:
    """How many structures are out and not yet given back."""
    return len(_EXPORTED)


class TakenTensor:
    """The tensor out of another library's capsule; its deleter is called when this is dropped."""

    __slots__ = ("_address", "_delete", "description")

    def __init__(self, capsule: Any) -> None:
        self._delete: Callable[[int], None] | None = None
        name = next((each for each in _STRUCTURES if _valid(capsule, each)), None)
        if name is None:
            raise ValueError("this is no DLPack capsule, or its tensor was taken before")
        self._address = _pointer(capsule, name)
        managed = _STRUCTURES[name].from_address(self._address)
        if isinstance(managed, _Versioned) and managed.major > 1:
            raise ValueError(f"DLPack {managed.major}.{managed.minor} is not supported, 1.0 is")
        self.description = _describe(managed.tensor, isinstance(managed, _Versioned) and bool(managed.flags & READ_ONLY))
        _rename(capsule, _USED[name])
        self._delete = managed.deleter if managed.deleter else None

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(self._address)


def _describe(tensor: Any, read_only: bool) -> Description:
    count = tensor.dimensions
    strides: Sequence[int] | None = tensor.strides[:count] if tensor.strides else None
    return Description(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        kind=tensor.device.kind,
        ordinal=tensor.device.ordinal,
        shape=tuple(tensor.shape[:count]),
        strides=None if strides is None else tuple(strides),
        dtype=type_name(tensor.type.code, tensor.type.bits, tensor.type.lanes),
        read_only=read_only,
    )


@frozen
class ExchangeFunctions:
    """Functions of C's that a class of arrays offers, by address. `describe(array, description)` writes a DLTensor, without a reference and
    without waiting for anything; `stream(kind, ordinal, stream)` tells the current stream of a device."""

    describe: int
    stream: int


def exchange_functions(kind: type) -> ExchangeFunctions | None:
    """What DLPack 1.3 calls the exchange API of a class; None where it has none that is known here."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None or not _valid(capsule, _EXCHANGE_NAME):
        return None
    address = _pointer(capsule, _EXCHANGE_NAME)
    while address:
        table = _Exchange.from_address(address)
        if table.major == 1:
            known = table.describe and table.stream
            return ExchangeFunctions(table.describe, table.stream) if known else None
        address = table.previous
    return None


def capsule_of(source: Any, **options: Any) -> Any:
    """The source's capsule: of DLPack 1.0 where it has that, older otherwise."""
    try:
        return source.__dlpack__(max_version=(1, 0), **options)
    except TypeError:
        return source.__dlpack__(**options)


def export_host_array(array: "npt.NDArray[Any]", dtype: str, versioned: bool) -> Any:
    """A capsule over the memory of an array whose elements programs call `dtype`; BufferError for strides that are no multiple of an
    element."""
    if any(stride % array.itemsize for stride in array.strides):
        raise BufferError("strides that are no multiple of the element's size can't be exported: copy the array first")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    pointer = int(array.__array_interface__["data"][0])
    read_only = not array.flags.writeable
    return make_capsule(Description(pointer, CPU, 0, array.shape, strides, dtype, read_only), array, versioned)
