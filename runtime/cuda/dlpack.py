"""DLPack's structures, and capsules that hold them. What they mean for memory and streams is said in `interop`."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

CUDA = 2
"""DLPack's number of CUDA memory."""

_KINDS = {"i": 0, "u": 1, "f": 2, "bf": 4, "bool": 6}
_NAMES = {number: name for name, number in _KINDS.items()}


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
    ordinal: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: str


def type_code(dtype: str) -> tuple[int, int]:
    """DLPack's code and bits of `f32`, `bf16`, `bool`..."""
    kind = dtype.rstrip("0123456789")
    return _KINDS[kind], 8 if dtype == "bool" else int(dtype[len(kind) :])


def type_name(code: int, bits: int, lanes: int) -> str:
    """A program's name for DLPack's type; ValueError where there is none."""
    kind = _NAMES.get(code)
    known = {"i": (8, 16, 32, 64), "u": (8, 16, 32, 64), "f": (16, 32, 64), "bf": (16,), "bool": (8,)}
    if kind is None or lanes != 1 or bits not in known[kind]:
        raise ValueError(f"elements of DLPack's type ({code}, {bits} bits, {lanes} lanes) are not supported")
    return "bool" if kind == "bool" else f"{kind}{bits}"


def make_capsule(described: Description, owner: Any, versioned: bool) -> Any:
    """A capsule that keeps `owner` alive until its consumer calls the deleter."""
    count = len(described.shape)
    shape = (ctypes.c_int64 * max(1, count))(*described.shape)
    strides = (ctypes.c_int64 * max(1, count))(*(described.strides or ()))
    managed = _Versioned(major=1, minor=0) if versioned else _Managed()
    managed.deleter = _DELETE
    tensor = managed.tensor
    tensor.data = described.pointer
    tensor.device = _Device(CUDA, described.ordinal)
    tensor.dimensions = count
    tensor.type = _Type(*type_code(described.dtype), 1)
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    address = ctypes.addressof(managed)
    _EXPORTED[address] = (managed, shape, strides, owner)
    return _new(address, _VERSIONED_NAME if versioned else _PLAIN_NAME, _DESTROY)


def exported() -> int:
    """How many structures are out and not yet given back."""
    return len(_EXPORTED)


class Taken:
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
        self.description = _describe(managed.tensor)
        _rename(capsule, _USED[name])
        self._delete = managed.deleter if managed.deleter else None

    def __del__(self) -> None:
        if self._delete is not None:
            self._delete(self._address)


def _describe(tensor: Any) -> Description:
    count = tensor.dimensions
    if tensor.device.kind != CUDA:
        raise ValueError("the tensor does not lie on a CUDA device")
    strides: Sequence[int] | None = tensor.strides[:count] if tensor.strides else None
    return Description(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        ordinal=tensor.device.ordinal,
        shape=tuple(tensor.shape[:count]),
        strides=None if strides is None else tuple(strides),
        dtype=type_name(tensor.type.code, tensor.type.bits, tensor.type.lanes),
    )
