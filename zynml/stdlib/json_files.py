"""Json files: objects are maps, arrays lists, `null` is `None`. Reading refuses what the format doesn't have (`NaN`, comments, a name
twice) and what programs don't (ints beyond i64, halves of characters); writing refuses what the format doesn't have."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from compiler.typed_ast.library import LibraryFault
from runtime.lazy_numpy import np
from runtime.tensor import Tensor
from runtime.values import NONE, ElementSet, RecordValue, elements_of, is_array
from zynml.stdlib import utf8
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.printing import float_text, quoted
from zynml.stdlib.shapes import require_memory

MAX_DEPTH = 500
"""Lists and maps inside of each other, read and written."""
LONGEST_LINE = 100
I64 = range(-(1 << 63), 1 << 63)


def load_json(path: Path, target: Any) -> Any:
    """What the file holds, as the target has it; as the file says where there is none."""
    require_memory((path.stat().st_size,), 8)
    value = parsed(utf8.read(path))
    return target.fitted(value) if target is not None else value


def parsed(text: str) -> Any:
    """The value of a json text. Raises LibraryFault (0807)."""
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise LibraryFault("0807", f"line {error.lineno}, column {error.colno} is no json: {_lowered(error.msg)}") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise LibraryFault("0807", "it has a number of more digits than can be read") from None
    return _value(value, 0)


def _lowered(message: str) -> str:
    return message[:1].lower() + message[1:]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise LibraryFault("0807", f"an object has {quoted(twice)} twice")
    return found


def _no_number(name: str) -> Any:
    raise LibraryFault("0807", f"`{name}` is no number of json")


def _too_deep() -> LibraryFault:
    return LibraryFault("0807", f"more than {MAX_DEPTH} lists and maps lie in each other")


def _value(value: Any, depth: int) -> Any:
    """The value as a program has it; lists and maps are changed in place."""
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _require_characters(value)
    elif value is None:
        return NONE
    elif kind is int:
        if value not in I64:
            raise LibraryFault("0807", f"{value if value.bit_length() < 400 else 'a number'} is beyond i64")
    elif kind is list or kind is dict:
        if depth >= MAX_DEPTH:
            raise _too_deep()
        parts: Iterable[tuple[Any, Any]] = enumerate(value) if kind is list else list(value.items())
        for key, part in parts:
            if kind is dict and not key.isascii():
                _require_characters(key)
            value[key] = _value(part, depth + 1)
    return value


def _require_characters(text: str) -> None:
    """Refuses halves of characters, which json can spell (`\\ud800`) and text can't have."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LibraryFault("0807", f"`\\u{ord(text[error.start]):04x}` is half of a character") from None


# ---- writing ---------------------------------------------------------------------------------------------------------


def json_text(value: Any) -> str:
    """The value as json: what fits into a line stands in one. Raises LibraryFault (0807) for what json doesn't have."""
    try:
        return _written(value, 0) + "\n"
    except RecursionError:
        raise _too_deep() from None


def _written(value: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise _too_deep()
    match value:
        case bool() | np.bool_():
            return "true" if value else "false"
        case int() | np.integer():
            return str(int(value))
        case str():
            return json.dumps(value, ensure_ascii=False)
        case float() | np.generic():
            if not np.isfinite(float(value)):
                raise LibraryFault("0807", f"json has no {float_text(value)}", "an optional's `None` is written as `null`")
            return float_text(value)
        case Tensor():
            return _written(_listed(value), depth)
        case RecordValue():
            return _record(value, depth)
        case ElementSet() | list() | tuple() | range():
            return _bracketed("[", (_written(part, depth + 1) for part in (elements_of(value) if is_array(value) else value)), "]", depth)
        case dict():
            entries = ((_key(key), _written(part, depth + 1)) for key, part in value.items())
            return _bracketed("{", (f"{key}: {part}" for key, part in entries), "}", depth)
    if is_array(value):
        return _written(elements_of(value), depth)
    raise LibraryFault("0807", f"json has no {type_name(value)}")


def _listed(tensor: Tensor) -> Any:
    """A tensor's elements in lists; narrow floats keep their dtype, whose shortest text is written."""
    array = tensor.contents
    if array.dtype.kind in "biu" or array.dtype == np.float64 or array.ndim == 0:
        return array.tolist() if array.ndim else array[()]
    return [_listed(Tensor(row)) for row in array] if array.ndim > 1 else list(array)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return json.dumps(key, ensure_ascii=False)
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return f'"{int(key)}"'
    raise LibraryFault("0807", f"the names of a json object are text, not {type_name(key)}", "make the keys text: `key.to_string()`")


def _record(value: RecordValue, depth: int) -> str:
    """A struct as an object, an optional as its value or null, a case as its name, or as an object of its name."""
    shape = value.__record__
    if shape.enum == "Option":
        return "null" if value == NONE else _written(value[0], depth)
    named = dict(zip(shape.parts, value, strict=True))
    if not shape.enum:
        return _written(named, depth)
    if not shape.parts:
        return json.dumps(shape.name)
    inside: Any = named if not shape.is_numbered else value[0] if len(value) == 1 else list(value)
    return _written({shape.name: inside}, depth)


def _bracketed(opened: str, parts: Iterator[str], closed: str, depth: int) -> str:
    written = list(parts)
    line = f"{opened}{', '.join(written)}{closed}" if sum(map(len, written)) + 2 * len(written) <= LONGEST_LINE else "\n"
    if "\n" not in line:
        return line
    indent = "  " * (depth + 1)
    separator = ", " if opened == "[" and not any(part[:1] in "[{" for part in written) else f",\n{indent}"
    return f"{opened}\n{indent}{separator.join(written)}\n{'  ' * depth}{closed}"
