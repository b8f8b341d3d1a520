"""Text: methods of String, and the runtime builtins on strings. Text counts in characters and never changes in place."""

import re
from typing import Any

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import BOOL, F64, I64, STRING, ListType
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.indexing import position
from zynml.stdlib.printing import MAX_WIDTH, quoted, to_text
from zynml.stdlib.sequences import require_count

family = FunctionFamily()

STRINGS = ListType(STRING)
MAX_TEXT = 1 << 30


def require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise LibraryFault("0203", f"a String is expected here, not {type_name(value)}")
    return value


@family.function("string_concat", result=STRING, left="String", right="String")
def string_concat(left: Any, right: Any) -> str:
    """Both texts, one after the other."""
    return require_text(left) + require_text(right)


@family.method("String", "concat", result=STRING, other="String")
def concat(self: Any, other: Any) -> str:
    """Both texts, one after the other."""
    return string_concat(self, other)


@family.method("String", "contains", result=BOOL)
def contains(self: Any, text: Any) -> bool:
    """Whether the text stands in it."""
    return require_text(text) in self


@family.method("String", "starts_with", result=BOOL)
def starts_with(self: Any, text: Any) -> bool:
    """Whether it begins with the text."""
    return bool(self.startswith(require_text(text)))


@family.method("String", "ends_with", result=BOOL)
def ends_with(self: Any, text: Any) -> bool:
    """Whether it ends with the text."""
    return bool(self.endswith(require_text(text)))


@family.method("String", "split", result=STRINGS)
def split(self: Any, separator: Any = None) -> list[str]:
    """The parts between separators; between white space when none is given."""
    if separator is None:
        return list(self.split())
    if require_text(separator) == "":
        return list(self)
    return list(self.split(separator))


@family.method("String", "lines", result=STRINGS)
def lines(self: Any) -> list[str]:
    """The lines, without their ends."""
    return list(self.splitlines())


@family.method("String", "chars", result=STRINGS)
def chars(self: Any) -> list[str]:
    """The characters."""
    return list(self)


@family.method("String", "join", result=STRING)
def join(self: Any, values: Any) -> str:
    """The texts of a list's elements with this one between them."""
    if not isinstance(values, list | range | tuple):
        raise LibraryFault("0203", f"`join` takes a list, not {type_name(values)}")
    return str(self).join(map(to_text, values))


@family.method("String", "trim", "strip", result=STRING)
def trim(self: Any) -> str:
    """Without white space at its ends."""
    return str(self).strip()


@family.method("String", "to_upper", "to_uppercase", "upper", result=STRING)
def to_upper(self: Any) -> str:
    """In capitals."""
    return str(self).upper()


@family.method("String", "to_lower", "to_lowercase", "lower", result=STRING)
def to_lower(self: Any) -> str:
    """In small letters."""
    return str(self).lower()


@family.method("String", "replace", result=STRING, old="String", new="String")
def replace(self: Any, old: Any, new: Any) -> str:
    """With each occurrence of a text replaced."""
    return str(self).replace(require_text(old), require_text(new))


@family.method("String", "repeat", result=STRING)
def repeat(self: Any, count: Any) -> str:
    """So many times over."""
    times = require_count(count, "a number of repetitions")
    if len(self) * times > MAX_TEXT:
        raise LibraryFault("0804", f"a text of {len(self) * times} characters is longer than {MAX_TEXT}")
    return str(self) * times


@family.method("String", "index_of", result=I64)
def index_of(self: Any, text: Any) -> int:
    """Where the text first stands in it, -1 when nowhere."""
    return int(self.find(require_text(text)))


@family.method("String", "get", result=STRING)
def get(self: Any, index: Any) -> str:
    """The character at a position."""
    return str(self[position(index, len(self), "text")])


@family.method("String", "clone", result=STRING)
def clone(self: Any) -> str:
    """The text itself."""
    return str(self)


def _padded(self: Any, width: Any, fill: Any, left: bool) -> str:
    columns = require_count(width, "a width")
    if columns > MAX_WIDTH:
        raise LibraryFault("0804", f"a width of {columns} characters is more than {MAX_WIDTH}")
    if len(require_text(fill)) != 1:
        raise LibraryFault("0203", f"a text is filled with one character, not {quoted(fill)}")
    return str(self).rjust(columns, fill) if left else str(self).ljust(columns, fill)


@family.method("String", "pad_left", result=STRING, width="int", fill="String")
def pad_left(self: Any, width: Any, fill: Any = " ") -> str:
    """Filled up on the left to a width."""
    return _padded(self, width, fill, True)


@family.method("String", "pad_right", result=STRING, width="int", fill="String")
def pad_right(self: Any, width: Any, fill: Any = " ") -> str:
    """Filled up on the right to a width."""
    return _padded(self, width, fill, False)


@family.method("String", "to_int", result=I64)
def to_int(self: Any) -> int:
    """The int that it spells; 0807 when it spells none."""
    text = str(self).strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text, re.ASCII) or not -(1 << 63) <= int(text) < 1 << 63:
        raise LibraryFault("0807", f"{quoted(text[:40])} is no i64")
    return int(text)


@family.method("String", "to_float", result=F64)
def to_float(self: Any) -> float:
    """The float that it spells; 0807 when it spells none."""
    text = str(self).strip()
    try:
        if "_" in text:
            raise ValueError
        return float(text)
    except ValueError:
        raise LibraryFault("0807", f"{quoted(text[:40])} is no number") from None
