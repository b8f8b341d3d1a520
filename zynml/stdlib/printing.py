"""Values as text: what `print` shows, what an f-string puts in, and the print functions themselves."""

import math
import re
import sys
from typing import Any

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import STRING, UNIT
from runtime.futures import PendingValue
from runtime.lazy_numpy import np
from runtime.tensor import Array, Tensor, dtype_name
from runtime.values import SHOWN_BY, ElementSet, RecordValue, elements_of, is_array
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import shape_text

family = FunctionFamily()

SHOWN_ELEMENTS = 100
"""A tensor with more is cut to `EDGE` at each end of an axis."""
EDGE = 3
MAX_DEPTH = 200
MAX_WIDTH = 1_000_000

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\0": "\\0"}


def to_text(value: Any) -> str:
    """The text of a value on its own: strings bare."""
    return value if type(value) is str else literal_text(value, 0)


def literal_text(value: Any, depth: int) -> str:
    """The text of a value inside a container: as a program would write it."""
    if depth > MAX_DEPTH:
        return "..."
    match value:
        case None:
            return "()"
        case bool():
            return "true" if value else "false"
        case int():
            return integer_text(value)
        case float():
            return float_text(value)
        case str():
            return quoted(value)
        case Tensor():
            return tensor_text(value)
        case PendingValue():
            raise LibraryFault("0807", "a future can't be shown: its value may not be there yet", "`await` gives the value of a future")
        case RecordValue():
            return _record_text(value, depth)
        case _ if is_array(value):
            return f"[{', '.join(literal_text(v, depth + 1) for v in elements_of(value))}]"
        case list():
            return f"[{', '.join(literal_text(v, depth + 1) for v in value)}]"
        case tuple():
            inside = ", ".join(literal_text(v, depth + 1) for v in value)
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        case range():
            return f"{value.start}..{value.stop}" + ("" if value.step == 1 else f" step {value.step}")
        case ElementSet():
            return f"{{{', '.join(literal_text(v, depth + 1) for v in value)}}}"
        case dict():
            return f"{{{', '.join(f'{literal_text(k, depth + 1)}: {literal_text(v, depth + 1)}' for k, v in value.items())}}}"
        case np.bool_():
            return "true" if value else "false"
        case np.integer():
            return str(int(value))
        case np.generic():
            return float_text(value)
    if callable(value):
        return f"<function {getattr(value, '__name__', 'def')}>"
    return str(value)


def _record_text(value: RecordValue, depth: int) -> str:
    """What its type says, or as a program would write it: `Point { x: 1.0 }`, `Circle(2.0)`, `Empty`."""
    shown_by = SHOWN_BY.get()
    own = shown_by(value) if shown_by is not None else None
    if own is not None:
        return own
    shape = value.__record__
    parts = [literal_text(part, depth + 1) for part in value]
    if not parts:
        return shape.shown if shape.enum else f"{shape.shown} {{ }}"
    if shape.suffix is not None:
        return shape.wrapped(parts[0], value[0])
    if shape.is_numbered:
        return f"{shape.shown}({', '.join(parts)})"
    if not shape.shown:
        return f"{{{', '.join(f'{n}: {p}' for n, p in zip(shape.parts, parts, strict=True))}}}"
    return f"{shape.shown} {{ {', '.join(f'{n}: {p}' for n, p in zip(shape.parts, parts, strict=True))} }}"


def integer_text(value: int) -> str:
    return str(value) if value.bit_length() < 4000 else hex(value)


def quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):X}}}") for c in text) + '"'


def float_text(value: Any) -> str:
    """The shortest text that reads back as the same float of its type, always with a point or an exponent."""
    number = float(value)
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    if isinstance(value, float):
        return repr(number)
    if isinstance(value, np.float32 | np.float16):
        shortest = str(value)
    else:
        shortest = next(t for digits in range(1, 18) if float(type(value)(float(t := f"{number:.{digits}g}"))) == number)
    # The same choice between point and exponent for every type: that of f64.
    return repr(float(shortest))


def element_text(value: Any) -> str:
    """A tensor's element: floats to 6 decimals."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    number = float(value)
    if not math.isfinite(number):
        return float_text(number)
    whole, _, decimals = f"{number:.6f}".partition(".")
    return f"{whole}.{decimals.rstrip('0') or '0'}"


def tensor_text(tensor: Tensor) -> str:
    array = tensor.contents
    rows = max((math.prod(array.shape[:axis]) for axis in range(array.ndim + 1)), default=1)
    cut = max(rows, array.size) > SHOWN_ELEMENTS
    return f"tensor({_nested(array, cut)}, shape={shape_text(array.shape)}, dtype={dtype_name(array.dtype)})"


def _nested(array: Array, cut: bool) -> str:
    if array.ndim == 0:
        return element_text(array[()])
    count = len(array)
    if cut and count > 2 * EDGE:
        shown = [_nested(array[i], cut) for i in range(EDGE)]
        shown.append("...")
        shown += [_nested(array[i], cut) for i in range(count - EDGE, count)]
    elif array.ndim == 1:
        shown = [element_text(v) for v in array]
    else:
        shown = [_nested(row, cut) for row in array]
    return f"[{', '.join(shown)}]"


def format_value(value: Any, spec: str) -> str:
    """The text of a value under a Python format spec, as in `f"{value:spec}"`."""
    if not isinstance(spec, str):
        raise LibraryFault("0203", f"a format is a String, not {type_name(spec)}")
    if not spec:
        return to_text(value)
    if any(int(number[:12]) > MAX_WIDTH for number in re.findall(r"[0-9]+", spec)):
        raise LibraryFault("0105", f"the format `{spec}` is wider than {MAX_WIDTH} characters")
    match value:
        case bool():
            value = to_text(value)
        case int() | float() | str():
            pass
        case np.integer():
            value = int(value)
        case np.generic() if spec[-1] in "eEfFgGn%" or "." in spec:
            value = float(value)
        case _:
            value = to_text(value)
    try:
        return format(value, spec)
    except (ValueError, TypeError, OverflowError):
        raise LibraryFault("0105", f"the format `{spec}` does not suit {type_name(value)}") from None


@family.function("to text", "to_string", "tensor_to_string", result=STRING)
def text_of(value: Any) -> str:
    """The value as `print` shows it."""
    return to_text(value)


@family.function("format", result=STRING, spec="String")
def format_text(value: Any, spec: str) -> str:
    """The value under a Python format spec."""
    return format_value(value, spec)


@family.method("tensor List String int float bool range tuple Option Result array HashMap HashSet", "to_string", result=STRING)
def method_to_string(self: Any) -> str:
    """The value as `print` shows it."""
    return to_text(self)


def _line(values: tuple[Any, ...]) -> str:
    return " ".join(map(to_text, values))


@family.function("print", "print_str", "print_any", result=UNIT, variadic="values", uses_settings=True)
def print_(settings: StdlibSettings, values: tuple[Any, ...]) -> None:
    """Writes the values, a space between them."""
    settings.write(_line(values))


@family.function("println", "println_str", "println_any", result=UNIT, variadic="values", uses_settings=True)
def println(settings: StdlibSettings, values: tuple[Any, ...]) -> None:
    """Writes the values, a space between them, and ends the line."""
    settings.write(_line(values) + "\n")


@family.function("eprint", result=UNIT, variadic="values", uses_settings=True)
def eprint(settings: StdlibSettings, values: tuple[Any, ...]) -> None:
    """`print` to standard error."""
    settings.write_error(_line(values))


@family.function("eprintln", result=UNIT, variadic="values", uses_settings=True)
def eprintln(settings: StdlibSettings, values: tuple[Any, ...]) -> None:
    """`println` to standard error."""
    settings.write_error(_line(values) + "\n")


@family.function("flush", result=UNIT, uses_settings=True)
def flush(settings: StdlibSettings) -> None:
    """Hands over what was printed so far."""
    (settings.output or sys.stdout).flush()
