"""Runs one function `f` in each dialect: "Z", ZynML on Python; "H", a `.qdsl` program with a `main`, whose functions Python calls; "N", a
`.qdsl` function compiled natively, as `test` blocks and handlers call it; "K", a kernel body of ZynML."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import quantdsl
import zynml
from compiler.backends.native.compile import compile_module, link_modules
from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.run.failure import words
from runtime.records import frozen
from tests.quantdsl.elaborate.running import LEVELS, elaborated
from tests.quantdsl.native.both import Both


@frozen
class Stopped:
    """An error of the program, when it is checked or when it runs. What is empty isn't compared; `at` is the text that it points to."""

    code: str
    message: str = ""
    hint: str = ""
    at: str = ""


@frozen
class Near:
    """A float that a reduction may add in any order."""

    value: float
    within: float


TOO_DEEP = "0808"
"""A recursion that doesn't end, which the interpreter can't follow."""

Outcome = Any
"""A value, `Near` one, or `Stopped`."""


def outcome(dialect: str, text: str, arguments: tuple[Any, ...]) -> Outcome:
    """What `f` gives; ints and floats of all widths as those of Python."""
    try:
        return _plain(_RUN[dialect](text, arguments))
    except ZyntaxError as error:
        return _stopped(error.diagnostics, text)
    except zynml.ZynMLError as error:
        return _stopped(error.diagnostics, text)


def agrees(found: Outcome, expected: Outcome) -> bool:
    match expected:
        case Stopped():
            return isinstance(found, Stopped) and all(
                getattr(found, name) == wanted for name in ("code", "message", "hint", "at") if (wanted := getattr(expected, name))
            )
        case Near(value=value, within=within):
            return isinstance(found, float) and abs(found - value) <= within
    return type(found) is type(expected) and bool(found == expected)


def zynml_words(text: str) -> str:
    """The text with the two cases of an optional as ZynML spells them."""
    return re.sub(r"\b(some|none)\b", lambda word: str(word[0]).capitalize(), text)


def _python(text: str, arguments: tuple[Any, ...]) -> Any:
    return zynml.compile(text).functions["f"](*arguments)


def _with_main(text: str, arguments: tuple[Any, ...]) -> Any:
    return quantdsl.functions(text).functions["f"](*arguments)


def _native(text: str, arguments: tuple[Any, ...]) -> Any:
    """Compiled without and with optimisation, and interpreted, which must agree."""
    program = elaborated(text)
    function = program.functions["f"]
    linked = link_modules([compile_module(program.module)])
    ran = linked[function].run(list(arguments))
    if ran.fault is not None and ran.fault.code == TOO_DEEP:
        raise ZyntaxError(words(ran.fault, linked))
    found = Both(program.module, LEVELS)(function, *arguments)
    if ran.fault is not None:
        raise ZyntaxError(words(ran.fault, linked))
    return found if len(found) > 1 else found[0] if found else ()


_RUN: Mapping[str, Callable[[str, tuple[Any, ...]], Any]] = {"Z": _python, "H": _with_main, "N": _native, "K": _python}


def _plain(found: Any) -> Any:
    match found:
        case tuple():
            return tuple(map(_plain, found))
        case np.generic():
            return found.item()
        case None:
            return ()
    return found


def _stopped(diagnostics: tuple[Diagnostic, ...], text: str) -> Stopped:
    first = diagnostics[0]
    at = text[first.span.start : first.span.end] if first.span is not None else ""
    return Stopped(first.code, first.message, first.hint or "", at)
