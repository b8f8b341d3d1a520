"""ZynML's standard library: `library()` gives the checker and tier 0 all that a program may use without declaring it."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from compiler.typed_ast.library import Library, LibraryFunction
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
    "windows",
    "gathering",
    "einsum",
    "ordering",
    "devices",
    "collections",
    "lists",
    "maps",
    "optionals",
    "strings",
    "files",
    "utf8",
    "render",
)

NAMES = Path(__file__).with_name("names.json")
"""The names that each of these files declares: the methods of each receiver, the functions under `""`. `zynml.stdlib.reference` writes
it."""

MODULES = {"prelude", "tensor", "collections", "io", "zynml"}
"""What `import` accepts without a file: all of it is there anyway."""

Key = TypeVar("Key", str, tuple[str, str])


class _OnDemand(Mapping[Key, LibraryFunction]):
    """Declarations whose names are known: the file of one is imported when a program names it."""

    def __init__(self, families: Mapping[Key, str], declared: Callable[[str], Mapping[Any, LibraryFunction]]) -> None:
        self._families: Mapping[Key, str] = families
        self._declared = declared

    def __getitem__(self, key: Key) -> LibraryFunction:
        return self._declared(self._families[key])[key]

    def __contains__(self, key: object) -> bool:
        return key in self._families

    def __iter__(self) -> Iterator[Key]:
        return iter(self._families)

    def __len__(self) -> int:
        return len(self._families)


def family_named(name: str) -> FunctionFamily:
    """The declarations of one of `FAMILIES`."""
    family: FunctionFamily = import_module(f"zynml.stdlib.{name}").family
    return family


def library(settings: StdlibSettings | None = None) -> Library:
    """A library whose functions work with these settings (a run's own; defaults otherwise)."""
    used = settings or StdlibSettings()
    declared = cache(lambda name: family_named(name).declared(used))
    functions: dict[str, str] = {}
    methods: dict[tuple[str, str], str] = {}
    for family, receivers in json.loads(NAMES.read_bytes()).items():
        for receiver, names in receivers.items():
            if receiver:
                methods |= {(receiver, name): family for name in names}
            else:
                functions |= dict.fromkeys(names, family)
    all_names = Library(_OnDemand(functions, declared), _OnDemand(methods, declared))
    all_names.modules |= MODULES
    all_names.constants.update({"inf": (WEAK_FLOAT, math.inf), "nan": (WEAK_FLOAT, math.nan), "pi": (WEAK_FLOAT, math.pi)})
    for dtype in DType:
        all_names.constants[dtype.value] = (STRING, dtype.value)
    for alias, name in ALIASES.items():
        all_names.constants[alias] = (STRING, name)
    all_names.warns_of_shadowing = True
    return all_names
