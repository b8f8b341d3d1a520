"""Names that people know from Python, NumPy and C, with what is written here instead: tables, asked only where a name is unknown."""

from collections.abc import Container

_NO_NULL = "write `None`, which is a value of optionals (`int?`) only"
_TYPES = "leave it out: types are known before a program runs"

NAMES = {
    "null": _NO_NULL,
    "NULL": _NO_NULL,
    "nil": _NO_NULL,
    "nullptr": _NO_NULL,
    "undefined": _NO_NULL,
    "True": "write `true`",
    "TRUE": "write `true`",
    "False": "write `false`",
    "FALSE": "write `false`",
    "NaN": "write `nan`",
    "NAN": "write `nan`",
    "Infinity": "write `inf`",
    "INFINITY": "write `inf`",
    "M_PI": "write `pi`",
    "pass": "write `()`, which does nothing",
    "int": "write `x as int`",
    "float": "write `x as float`",
    "double": "write `x as f64`",
    "str": 'write `f"{x}"`',
    "bool": "write `x != 0`",
    "dict": "write `{key: value}`, or `HashMap::new()`",
    "array": "write `tensor([1, 2, 3])`",
    "ndarray": "write `tensor([1, 2, 3])`",
    "printf": 'write `println(f"{x}")`',
    "puts": "write `println(x)`",
    "echo": "write `println(x)`",
    "console": "write `println(x)`",
    "cout": "write `println(x)`",
    "std": "write `println(x)`, and other functions without `std::`",
    "input": "declare it as `param x: int = 1`, which `--set x=2` changes",
    "open": 'write `load("data.npy")`',
    "malloc": "write `zeros(n)`",
    "sizeof": _TYPES,
    "type": _TYPES,
    "isinstance": _TYPES,
    "__name__": "write `def main() { }`, which runs after the statements",
}
"""What is written instead of a name. Only where no name of the program or the library is meant."""

MODULES = frozenset(["np", "numpy", "jnp", "cp", "cupy", "math", "cmath", "torch", "tf"])
"""Modules whose functions are always there here."""

OF_MODULES = {module: f"leave `{module}.` out: the library's functions are always there" for module in MODULES}
"""What is written instead of the name of such a module."""

_MEMBERS = {
    "array": "tensor",
    "asarray": "tensor",
    "maximum": "max",
    "minimum": "min",
    "fmax": "max",
    "fmin": "min",
    "fabs": "abs",
    "absolute": "abs",
    "power": "pow",
    "bitwise_count": "popcount",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "concatenate": "concat",
    "cat": "concat",
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
}

METHODS = {
    "astype": "write `x as f64`",
    "copy": "write `.clone()`",
    "tolist": "write `.to_list()`",
    "dim": "write `.ndim()`",
    "view": "write `.reshape(...)`",
    "ravel": "write `.flatten()`",
    "cuda": 'write `.to_device("cuda:0")`',
    "cpu": 'write `.to_device("cpu")`',
    "numpy": "write `.to_list()`",
}
"""What is written instead of a method of arrays elsewhere."""

PARAMETERS = {
    ("print", "end"): "leave it out: `print` ends no line, and `println` does",
    ("println", "end"): "write `print`, which ends no line",
    ("print", "sep"): 'write one text: `f"{a}, {b}"`',
    ("println", "sep"): 'write one text: `f"{a}, {b}"`',
}
"""What is written instead of a parameter, by function and keyword. `dim` is `axis` wherever there is one."""


def without_module(module: str, member: str, functions: Container[str]) -> str:
    """The hint for `np.zeros`: what to write without the module."""
    name = _MEMBERS.get(member, member)
    if name in functions or member in _MEMBERS:
        return f"write `{name}` without `{module}.`"
    return f"leave `{module}.` out: the library's functions are always there"


def parameter_hint(function: str, keyword: str, known: Container[str]) -> str | None:
    """The hint for a keyword of elsewhere, or None."""
    if keyword == "dim" and "axis" in known:
        return "write `axis=` instead of `dim=`"
    return PARAMETERS.get((function, keyword))
