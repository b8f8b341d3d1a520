"""Zyntax from Python: the public names of `zynml` and of `quantdsl` in one package, and the command `zyntax`, one file a subcommand.
`zyntax.compile(source)` takes programs of all languages. Nothing is imported before it is used."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zyntax_lang import require_own_packages

if TYPE_CHECKING:
    from quantdsl import Program, QuantError, Result, functions
    from zynml import CompiledProgram, Err, Future, Ok, Some, Tensor, ZynMLError, synchronize
    from zyntax import quantdsl, zynml
    from zyntax.compiled import compile

_HOMES = {
    "CompiledProgram": "zynml",
    "Err": "zynml",
    "Future": "zynml",
    "Ok": "zynml",
    "Program": "quantdsl",
    "QuantError": "quantdsl",
    "Result": "quantdsl",
    "Some": "zynml",
    "Tensor": "zynml",
    "ZynMLError": "zynml",
    "compile": "zyntax.compiled",
    "functions": "quantdsl",
    "synchronize": "zynml",
}
"""The module that has each public name."""

__all__ = [
    "CompiledProgram",
    "Err",
    "Future",
    "Ok",
    "Program",
    "QuantError",
    "Result",
    "Some",
    "Tensor",
    "ZynMLError",
    "compile",
    "functions",
    "quantdsl",
    "synchronize",
    "zynml",
]

require_own_packages("zyntax")


def __getattr__(name: str) -> Any:
    if name in ("quantdsl", "zynml"):
        return import_module(f"zyntax.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module `zyntax` has no `{name}`", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return [*__all__]
