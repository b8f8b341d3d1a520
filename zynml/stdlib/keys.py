"""Keys of maps and elements of sets: what they may be, and what is said of those that aren't there."""

from typing import Any

from compiler.typed_ast.library import LibraryFault
from runtime.tensor import Tensor
from runtime.values import RecordValue, is_array
from zynml.stdlib.dtypes import dtype_of, type_name
from zynml.stdlib.printing import literal_text

HINT = "keys are ints, bools, text, and tuples, structs and enums of those"
SHOWN = 60
PLAIN = frozenset({int, str, bool})
"""Classes of values that may be keys as they are."""


def as_key(value: Any) -> Any:
    """The value, which may be a key. A program's types say so already, where they are known."""
    if type(value) in PLAIN:
        return value
    _require(value)
    return value


def _require(value: Any) -> None:
    if isinstance(value, tuple) and not is_array(value):
        for part in value:
            _require(part)
        return
    dtype = dtype_of(value) if not isinstance(value, Tensor) else None
    if isinstance(value, str) or (dtype is not None and not dtype.is_float) or isinstance(value, RecordValue):
        return
    fault = "a float may be nan, which equals nothing" if dtype is not None else f"a {type_name(value)} can't be compared so"
    raise LibraryFault("0203", f"a key is compared as a whole: {fault}", HINT)


def no_key(values: dict[Any, Any], key: Any) -> LibraryFault:
    """The fault of a key that isn't there."""
    known = ", ".join(literal_text(one, 0) for one in list(values)[:4])
    more = ", ..." if len(values) > 4 else ""
    listed = f"keys are {known}{more}; " if values and len(known) <= SHOWN else ""
    return LibraryFault("0801", f"there is no key {literal_text(key, 0)[:SHOWN]}", f"{listed}`get` gives none where there is no such key")
