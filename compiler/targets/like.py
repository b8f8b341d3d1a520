"""Calls that are described and not made: `A=4096x4096:bf16 n=5` gives names of a function's parameters a type and sizes, or a number."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from math import prod
from typing import Any, Protocol

import numpy as np

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.machines.access import ALIGNMENT
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import FunctionType, Scalar, TensorType, Type
from runtime.element_types import DTYPES
from runtime.records import frozen
from runtime.tensor import Tensor, numpy_dtype

FORM = "write `A=4096x4096:bf16` for a tensor, `A=4096:f32@4` for one that begins at a multiple of 4 bytes only, and `n=5` for a number"

_WHOLE = re.compile(r"\s*(?:(?P<function>\w+)\s*\((?P<inside>.*)\)|(?P<plain>[^()]*))\s*", re.DOTALL)
_TENSOR = re.compile(r"(?P<extents>\d+(?:x\d+)*)?(?::(?P<dtype>\w+))?(?:@(?P<begins>\d+))?")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|true|false")


class CallableProgram(Protocol):
    """A program whose functions can be called."""

    functions: dict[str, Callable[..., Any]]
    types: dict[str, FunctionType]
    declarations: dict[str, nodes.Function]

    def start(self) -> None:
        """The top-level statements, unless they have run."""


@frozen
class Described:
    """A call's values as texts, by name. `function` empty: the one that has these parameters."""

    function: str
    values: Mapping[str, str]


def described(texts: Iterable[str]) -> Described:
    """Raises ZyntaxError (0505) for what can't be read."""
    function = ""
    values: dict[str, str] = {}
    for text in texts:
        whole = _WHOLE.fullmatch(text)
        if whole is None:
            raise _unreadable(text)
        if whole["function"]:
            if function not in ("", whole["function"]):
                raise _fault(f"`--like` calls `{function}` and `{whole['function']}`", "one call is shown at a time")
            function = whole["function"]
        for entry in re.split(r"[,\s]+", (whole["inside"] or whole["plain"] or "").strip(", \t\n")):
            name, equals, value = entry.partition("=")
            if not (name.isidentifier() and equals and (_TENSOR.fullmatch(value) or _NUMBER.fullmatch(value)) and value):
                raise _unreadable(entry)
            if name in values:
                raise _fault(f"`--like` says twice what `{name}` is", f"`{name}={values[name]}` and `{name}={value}`")
            values[name] = value
    return Described(function, values)


def call(program: CallableProgram, texts: Sequence[str], begun: Callable[[], None]) -> None:
    """Calls the function that is described; `begun` is told when the top-level statements have run. Raises ZyntaxError: 0505 where no
    function takes this, and what the call itself raises."""
    wanted = described(texts)
    function = _function(program, wanted)
    types = _parameters(program, function)
    values = {name: _value(name, text, types[name]) for name, text in wanted.values.items()}
    with redirect_stdout(io.StringIO()):
        program.start()
        begun()
        program.functions[function](**values)


def _function(program: CallableProgram, wanted: Described) -> str:
    """The function that takes these names."""
    heads = {name: types for name in program.functions if (types := _parameters(program, name))}
    if wanted.function:
        if wanted.function not in program.functions:
            hint = did_you_mean(wanted.function, program.functions) or f"it has {_listed(heads) or 'none that takes anything'}"
            raise _fault(f"`--like {wanted.function}(...)`: the program has no function `{wanted.function}`", hint)
        heads = {wanted.function: _parameters(program, wanted.function)}
    unknown = next((name for name in wanted.values if all(name not in types for types in heads.values())), None)
    if unknown is not None:
        taken = "; ".join(f"`{function}` takes {_listed(types)}" for function, types in heads.items()) or "no function takes anything"
        who = f"`{wanted.function}`" if wanted.function else "no function of the program"
        raise _fault(f"`--like {unknown}={wanted.values[unknown]}`: {who} takes {'no' if wanted.function else 'a'} `{unknown}`", taken)
    fitting = [name for name, types in heads.items() if wanted.values.keys() <= types.keys()]
    whole = [name for name in fitting if not _missing(program, name, wanted)]
    if len(whole) == 1:
        return whole[0]
    if len(whole) > 1:
        raise _fault(f"`--like` may mean a call of {_listed(whole)}", f"write the function, too: `--like '{whole[0]}(...)'`")
    if not fitting:
        raise _fault(f"no function of the program takes {_listed(wanted.values)} together", "one call is shown at a time")
    missing = _missing(program, fitting[0], wanted)
    raise _fault(f"`--like` doesn't say what {_listed(missing)} of `{fitting[0]}` {'is' if len(missing) == 1 else 'are'}", FORM)


def _parameters(program: CallableProgram, function: str) -> dict[str, Type]:
    names = [parameter.name for parameter in program.declarations[function].parameters]
    return dict(zip(names, program.types[function].parameters, strict=True))


def _missing(program: CallableProgram, function: str, wanted: Described) -> list[str]:
    """What the call has to say besides."""
    needed = [parameter.name for parameter in program.declarations[function].parameters if parameter.default is None]
    return [name for name in needed if name not in wanted.values]


def _value(name: str, text: str, declared: Type) -> Any:
    """A tensor of zeros, or a number."""
    tensor = _TENSOR.fullmatch(text)
    plain = re.fullmatch(r"\d+", text) is not None
    if tensor is None or (plain and not isinstance(declared, TensorType)):
        if isinstance(declared, TensorType):
            raise _fault(f"`--like {name}={text}`: `{name}` is {declared}, not a number", FORM)
        return text == "true" if text in ("true", "false") else int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    if isinstance(declared, Scalar):
        raise _fault(f"`--like {name}={text}`: `{name}` is {declared}, not a tensor", f"write a number: `{name}=5`")
    extents = tuple(map(int, tensor["extents"].split("x"))) if tensor["extents"] else ()
    if isinstance(declared, TensorType) and declared.shape.rank not in (None, len(extents)):
        have = f"{len(extents)} axis" if len(extents) == 1 else f"{len(extents)} axes"
        raise _fault(f"`--like {name}={text}` has {have}, and `{name}` is {declared}", FORM)
    known = declared.element if isinstance(declared, TensorType) else None
    dtype = tensor["dtype"] or (known.dtype.value if isinstance(known, Scalar) else "f32")
    if dtype not in DTYPES:
        hint = did_you_mean(dtype, DTYPES) or f"dtypes are {', '.join(DTYPES)}"
        raise _fault(f"`--like {name}={text}`: there is no dtype `{dtype}`", hint)
    if isinstance(known, Scalar) and dtype != known.dtype.value:
        raise _fault(f"`--like {name}={text}`: `{name}` is {declared}, not of {dtype}", f"leave `:{dtype}` out")
    return Tensor(_zeros(name, text, extents, np.dtype(numpy_dtype(dtype)), int(tensor["begins"] or ALIGNMENT)))


def _zeros(name: str, text: str, extents: tuple[int, ...], dtype: np.dtype[Any], begins: int) -> Any:
    """Zeros that take no memory until somebody looks at them. `begins`: what their address is a multiple of, at most 16."""
    if begins % dtype.itemsize or begins & (begins - 1) or begins == 0:
        hint = f"a power of two that is a multiple of the {dtype.itemsize} bytes of an element; {ALIGNMENT} is the usual one"
        raise _fault(f"`--like {name}={text}`: a tensor of {dtype} can't begin at a multiple of {begins} bytes only", hint)
    size = prod(extents) * dtype.itemsize
    try:
        whole = np.zeros(size + 2 * ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        raise ZyntaxError(Diagnostic("0804", f"`--like {name}={text}`: {size:,} bytes are more than there can be")) from None
    first = -whole.ctypes.data % ALIGNMENT + (begins if begins < ALIGNMENT else 0)
    return whole[first : first + size].view(dtype).reshape(extents)


def _listed(names: Iterable[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)


def _unreadable(text: str) -> ZyntaxError:
    return _fault(f"`--like {text}` can't be read", FORM)


def _fault(message: str, hint: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0505", message, hint=hint))
