"""Where objects of our own classes have the fields that `__slots__` names, for machine code that reads them and makes such objects."""

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

from runtime.calls.vectorcall import is_supported

_MEMBER, _OFFSET = 40, 16
"""Where a descriptor of a field has the address of its definition, and where a definition has the offset."""


@cache
def offsets(kind: type) -> Mapping[str, int] | None:
    """Where an instance has each field; None where this interpreter lays them out in another way. All fields are named in `__slots__`."""
    if not is_supported() or kind.__dictoffset__:
        return None
    names = [name for name in vars(kind)["__slots__"] if name != "__weakref__"]
    laid_out = {name: _whole(_whole(id(vars(kind)[name]) + _MEMBER) + _OFFSET) for name in names}
    return laid_out if all(0 < offset <= kind.__basicsize__ - 8 for offset in laid_out.values()) and _reads_right(kind, laid_out) else None


def _reads_right(kind: type, laid_out: Mapping[str, int]) -> bool:
    probe: Any = object.__new__(_like(kind))
    for name in laid_out:
        setattr(probe, name, (name,))
    return all(_whole(id(probe) + offset) == id(getattr(probe, name)) for name, offset in laid_out.items())


def _like(kind: type) -> type:
    """A class laid out the same, whose instances do nothing when they go."""
    return type(kind.__name__, (), {"__slots__": vars(kind)["__slots__"]})


def _whole(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
