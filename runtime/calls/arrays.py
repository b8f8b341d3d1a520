"""Where NumPy's arrays have what machine code reads of them, looked at in an array before anybody relies on it, and the functions of Python
and of NumPy that machine code calls, by name."""

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.calls.vectorcall import is_supported

if TYPE_CHECKING:
    import numpy.typing as npt

TYPE = 8
"""Where an object has its type."""

DATA, RANK, EXTENTS, STRIDES, DTYPE, FLAGS = 16, 24, 32, 40, 56, 64
"""Where an array has its fields: the rank and the flags are ints of 32 bits, all others have 64."""

NUMBER = 16
"""Where a float of NumPy's has its value."""

BYTE_ORDER = 26
"""Where a dtype has the character that tells its byte order."""

CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
"""Flags of an array."""

FUNCTIONS = (
    "PyBool_FromLong",
    "PyBytes_AsString",
    "PyDict_GetItemWithError",
    "PyDict_Size",
    "PyErr_Clear",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_AsDouble",
    "PyFloat_FromDouble",
    "PyList_Size",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_AsUnsignedLongLong",
    "PyLong_FromLongLong",
    "PyLong_FromUnsignedLongLong",
    "PyObject_CallFunction",
    "PyObject_GetAttr",
    "PyObject_RichCompareBool",
    "PyObject_Vectorcall",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "PyType_GenericAlloc",
    "Py_DecRef",
    "Py_IncRef",
)
"""Of Python's interface that machine code calls."""

OF_NUMPY = {"PyArray_NewFromDescr": 94, "PyArray_Scalar": 60}
"""Of NumPy's interface, by their position in its table."""

_VERSION, _ARRAY_TYPE = 0, 2
"""Positions in this table of the function that tells the version of the interface, and of the type of arrays."""

_VERSIONS = (0x01000009, 0x02000000)
"""Of NumPy 1.x and 2.x."""


@cache
def is_known() -> bool:
    """Whether arrays of this NumPy, and objects of this interpreter, are laid out as they are read here."""
    return is_supported() and _table() is not None and _reads_right()


@cache
def symbols() -> Mapping[str, int]:
    """Addresses of the functions by name. `is_known` holds."""
    table = _table()
    assert table is not None
    own = {name: _address(getattr(ctypes.pythonapi, name)) for name in FUNCTIONS}
    return {**own, **{name: table[position] for name, position in OF_NUMPY.items()}}


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def _table() -> Any:
    """NumPy's table of functions; None where it is another one."""
    core = getattr(np, "_core", None) or getattr(np, "core", None)
    capsule = getattr(getattr(core, "multiarray", None), "_ARRAY_API", None)
    if type(capsule).__name__ != "PyCapsule":
        return None
    open_capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
    address = open_capsule(capsule, None)
    table = (ctypes.c_size_t * (1 + max(OF_NUMPY.values()))).from_address(address)
    version = ctypes.PYFUNCTYPE(ctypes.c_uint)(table[_VERSION])()
    return table if version in _VERSIONS and table[_ARRAY_TYPE] == id(np.ndarray) else None


def _reads_right() -> bool:
    """Whether the fields of some arrays are where they should be."""
    whole = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    locked = np.ones((), np.int64)
    locked.flags.writeable = False
    numbers = np.float32(0.15625), np.float64(-2.5)
    are_numbers = [ctypes.string_at(id(number) + NUMBER, number.itemsize) == number.tobytes() for number in numbers]
    return all(_is_laid_out(array) for array in (whole, whole[:, ::-1, 1:], locked, np.ones(3, ">f8"))) and all(are_numbers)


def _is_laid_out(array: "npt.NDArray[Any]") -> bool:
    rank = array.ndim
    extents, strides = (_whole(id(array) + field) for field in (EXTENTS, STRIDES))
    flags = ctypes.c_int.from_address(id(array) + FLAGS).value
    wanted = (array.flags.c_contiguous, array.flags.aligned, array.flags.writeable)
    return (
        _whole(id(array) + TYPE) == id(np.ndarray)
        and _whole(id(array) + DATA) == array.__array_interface__["data"][0]
        and ctypes.c_int.from_address(id(array) + RANK).value == rank
        and [_whole(extents + 8 * axis) for axis in range(rank)] == list(array.shape)
        and [_whole(strides + 8 * axis) for axis in range(rank)] == list(array.strides)
        and _whole(id(array) + DTYPE) == id(array.dtype)
        and tuple(bool(flags & flag) for flag in (CONTIGUOUS, ALIGNED, WRITEABLE)) == wanted
        and chr(ctypes.c_char.from_address(id(array.dtype) + BYTE_ORDER).value[0]) == array.dtype.byteorder
    )


def _whole(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
