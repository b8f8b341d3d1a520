"""Kinds of faults at run time, by the names of the types that stand for them in programs."""

from collections.abc import Mapping

ANY_ERROR = "Error"
"""The type that stands for all kinds of faults."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "IndexError": ("0801", "0304", "0305"),
    "ShapeError": ("0802", "0301", "0302", "0303", "0306", "0307"),
    "EmptyError": ("0803",),
    "MemoryError": ("0804",),
    "DeviceError": ("0805", "0501", "0502", "0503", "0504"),
    "ArithmeticError": ("0806",),
    "ValueError": ("0807",),
    "AssertionError": ("0808",),
    "TimeoutError": ("0810",),
    "AliasError": ("0813",),
    "TypeError": ("0201", "0202", "0203", "0204", "0207", "0208", "0407"),
}
"""The codes of the faults that each type stands for; the first is that of errors which a program makes itself."""
TYPE_OF_CODE: Mapping[str, str] = {code: name for name, codes in KINDS.items() for code in codes}
"""Faults with other codes are wrong programs, interruptions or faults of the compiler: none of them can be caught."""
