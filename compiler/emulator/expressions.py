"""Arithmetic on single numbers as Python expressions: what `translate.py` writes for scalars, by the rules of `numbers.py`."""

from compiler.hir import numbers
from compiler.hir.types import DTYPES, is_float, is_signed

NARROW = ("f16", "bf16", "f8e4m3", "f8e5m2")
"""Floats that memory holds as bits, since Python has no view of them."""

PLAIN = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
"""Operators that Python's own signs mean on arrays of any type but truth values."""

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
ROUND_NAMES = {"f32": "round_f32", "f16": "round_f16", "bf16": "round_bf16", "f8e4m3": "round_e4m3", "f8e5m2": "round_e5m2"}
INT_ARITHMETIC = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "and": "{a} & {b}",
    "or": "{a} | {b}",
    "xor": "{a} ^ {b}",
    "shl": "{a} << ({b} & {mask})",
    "shr": "{a} >> ({b} & {mask})",
    "div": "int_divide({a}, {b})",
    "rem": "int_remainder({a}, {b})",
    "pow": "int_power({a}, {b})",
    "min": "({a} if {a} < {b} else {b})",
    "max": "({a} if {a} > {b} else {b})",
}
FITS = ("and", "or", "xor", "shr", "rem", "min", "max")
"""Operators whose results need no wrapping."""

FLOAT_ARITHMETIC = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "divide({a}, {b})",
    "rem": "remainder({a}, {b})",
    "min": "smaller({a}, {b})",
    "max": "larger({a}, {b})",
    "pow": "power({a}, {b})",
    "atan2": "atan2({a}, {b})",
}


def wrapped(text: str, dtype: str) -> str:
    """An int expression brought into the range of its type."""
    bits = DTYPES[dtype]
    if dtype == "i1":
        return f"bool({text} & 1)" if text.isidentifier() else f"bool(({text}) & 1)"
    mask = (1 << bits) - 1
    if not is_signed(dtype):
        return f"(({text}) & {mask})"
    half = 1 << bits - 1
    return f"((({text}) + {half} & {mask}) - {half})"


def rounded(text: str, dtype: str) -> str:
    return f"({text})" if dtype == "f64" else f"{ROUND_NAMES[dtype]}({text})"


def binary(operator: str, dtype: str, a: str, b: str) -> str:
    """The operator on two numbers of a type, as Python."""
    if is_float(dtype):
        return rounded(FLOAT_ARITHMETIC[operator].format(a=a, b=b), dtype)
    text = INT_ARITHMETIC[operator].format(a=a, b=b, mask=DTYPES[dtype] - 1)
    return f"({text})" if operator in FITS else wrapped(text, dtype)


def unary(operator: str, dtype: str, a: str) -> str:
    if is_float(dtype):
        match operator:
            case "neg":
                return f"(-{a})"
            case "abs":
                return f"abs({a})"
            case "sign" | "floor" | "ceil" | "round" | "trunc":
                return f"float_{operator}({a})"
        return rounded(f"float_{operator}({a})", dtype)
    match operator:
        case "neg":
            return wrapped(f"-{a}", dtype)
        case "abs":
            return wrapped(f"abs({a})", dtype)
        case "not":
            return f"(not {a})" if dtype == "i1" else wrapped(f"~{a}", dtype)
        case "sign":
            return f"(({a} > 0) - ({a} < 0))"
        case "popcount":
            return wrapped(f"({a} & {(1 << DTYPES[dtype]) - 1}).bit_count()", dtype)
        case "leading_zeros":
            return wrapped(f"{DTYPES[dtype]} - ({a} & {(1 << DTYPES[dtype]) - 1}).bit_length()", dtype)
        case "trailing_zeros":
            return f"(({a} & -{a}).bit_length() - 1 if {a} else {DTYPES[dtype]})"
        case _:
            return a


def cast(a: str, source: str, to: str) -> str:
    if source == to or (source in ("i64", "index") and to in ("i64", "index")):
        return a
    if to == "i1":
        return f"({a} != 0)"
    if is_float(to):
        if is_float(source):
            return rounded(a, to)
        if source == "i1" or DTYPES[source] <= 32:
            return rounded(f"float({a})", to)
        return f"int_to_float({a}, {to!r})"
    if is_float(source):
        low, high = numbers.limits(to)
        return f"float_to_int({a}, {low}, {high})"
    if source == "i1":
        return f"int({a})"
    inside = numbers.limits(source)[0] >= numbers.limits(to)[0] and numbers.limits(source)[1] <= numbers.limits(to)[1]
    return a if inside else wrapped(a, to)


def decoded(text: str, dtype: str) -> str:
    """A memory element as a Python number."""
    return f"numbers_{dtype}[{text}]" if dtype in NARROW else text


def encoded(text: str, dtype: str) -> str:
    return f"bits_of({text}, {dtype!r})" if dtype in NARROW else text
