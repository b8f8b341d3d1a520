"""ZynML's standard library: `library()` gives the checker and tier 0 all that a program may use without declaring it."""

import math
from importlib import import_module

from compiler.typed_ast.library import Library
from compiler.typed_ast.types import STRING, WEAK_FLOAT, DType
from zynml.stdlib.dtypes import ALIASES
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.settings import StdlibSettings

__all__ = ["StdlibSettings", "library"]

FAMILIES = (
    "operators",
    "casts",
    "indexing",
    "printing",
    "creation",
    "randoms",
    "structure",
    "joining",
    "elements",
    "reductions",
    "elementwise",
    "linalg",
    "ordering",
    "devices",
    "later",
    "collections",
    "lists",
    "strings",
    "files",
    "render",
)


MODULES = {"prelude", "tensor", "collections", "io", "zynml"}
"""What `import` accepts without a file: all of it is there anyway."""


def library(settings: StdlibSettings | None = None) -> Library:
    """A library whose functions work with these settings (a run's own; defaults otherwise)."""
    settings = settings or StdlibSettings()
    found = Library()
    for name in FAMILIES:
        family: FunctionFamily = import_module(f"zynml.stdlib.{name}").family
        family.add_to(found, settings)
    found.modules |= MODULES
    found.constants.update({"inf": (WEAK_FLOAT, math.inf), "nan": (WEAK_FLOAT, math.nan), "pi": (WEAK_FLOAT, math.pi)})
    for dtype in DType:
        found.constants[dtype.value] = (STRING, dtype.value)
    for alias, name in ALIASES.items():
        found.constants[alias] = (STRING, name)
    found.warns_of_shadowing = True
    return found
