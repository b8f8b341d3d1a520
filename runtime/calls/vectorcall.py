"""Types of callable objects whose calls may be answered by machine code, by Python's vectorcall protocol.

Such a type is made from a class in Python that has `__call__` and everything else. It only adds fields to the instances: the pointer to the
code that is called, and what this code reads. While the pointer is 0, or where this interpreter isn't known to lay out types in this way,
Python calls `__call__`."""

import ctypes
import sys
from functools import cache

SLOW, KEPT, ENTRY = "slow", "kept", "entry"
"""Fields of an instance. `slow`: the callable in Python. `kept`: what keeps machine code alive. `entry`: the address of the machine code
that `VECTOR` jumps to, while there is something in `kept`."""

VECTOR = "vector"
"""The field that Python calls."""

TESTED = ((3, 11), (3, 12), (3, 13))
"""Versions of CPython in which types are known to be laid out as here."""

# constants of Python's headers
_OBJECT, _SIZE, _ADDRESS = 16, 19, 18
_READ_ONLY, _MEMBERS, _HAS_VECTORCALL = 1, 72, 1 << 11


class _FieldOfType(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    ]


class _TypeSlot(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("value", ctypes.c_void_p)]


class _TypeSpecification(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_TypeSlot)),
    ]


@cache
def is_supported() -> bool:
    """Whether this interpreter is one whose types are known: CPython of 64 bits with a global lock, not built for debugging."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info[:2] in TESTED
        and "t" not in getattr(sys, "abiflags", "")
        and getattr(sys, "_is_gil_enabled", bool(1).__bool__)()
        and not hasattr(sys, "gettotalrefcount")
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and sys.byteorder == "little"
    )


def vectorcall_type(base: type) -> tuple[type, dict[str, int]]:
    """A type like `base` with these fields, and where each lies in an instance. Python calls the garbage collector's functions of `base`,
    which know all fields that hold objects."""
    start = base.__basicsize__
    offsets = {name: start + 8 * number for number, name in enumerate((VECTOR, SLOW, KEPT, ENTRY))}
    types = {VECTOR: _ADDRESS, SLOW: _OBJECT, KEPT: _OBJECT, ENTRY: _ADDRESS}
    fields = [_FieldOfType(f"_{name}".encode(), types[name], offset, 0, None) for name, offset in offsets.items()]
    members = (_FieldOfType * 6)(_FieldOfType(b"__vectorcalloffset__", _SIZE, start, _READ_ONLY, None), *fields)
    slots = (_TypeSlot * 2)(_TypeSlot(_MEMBERS, ctypes.addressof(members)))
    name = f"{base.__module__}.{base.__qualname__}".encode()
    specification = _TypeSpecification(name, start + 8 * len(offsets), 0, _HAS_VECTORCALL, slots)
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object)
    type_: type = make(ctypes.addressof(specification), (base,))
    # Python 3.11 keeps the address of the name and of the members' names
    _KEPT.append((name, members))
    return type_, offsets


_KEPT: list[object] = []
