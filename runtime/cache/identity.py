"""What compiled code depends on besides its source: the compiler itself, LLVM, and this machine's processor. Files count by what is in
them. A wheel carries the hash of the compiler's; where there is none, in a checkout, they are read once and the hash is remembered."""

import os
import sys
import time
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

from runtime.cache.contents import WRITTEN, SourceFile, hash_of, source_files
from runtime.cache.store import key_of, store
from runtime.cpu import detect

if TYPE_CHECKING:
    from pathlib import Path

_ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))  # noqa: PTH118, PTH120 - every start waits for this file
_LIBRARIES = (".dll", ".dylib", ".so")

_SETTLED = 2_000_000_000
"""Ns after its last change from which on another change gives a file another time, on every file system."""


@cache
def compiler_identity() -> str:
    """The same only where the same source gives the same code for a device."""
    return key_of([sys.platform, compiler_contents(), llvm_contents()])


@cache
def identity() -> str:
    """The same only where the same source gives the same code for this processor."""
    from llvmlite import binding

    return key_of([compiler_identity(), binding.get_process_triple(), detect.host_cpu(), detect.host_features()])


def compiler_contents(root: "str | Path" = _ROOT) -> str:
    """The hash of the compiler's files: the wheel's, else of the files as they are."""
    try:
        with open(os.path.join(root, "runtime", "cache", WRITTEN), encoding="ascii") as file:  # noqa: PTH118, PTH123
            return file.read()
    except OSError:
        return remembered_hash(source_files(root))


def llvm_contents() -> str:
    """LLVM and its binding: by the hashes that its installer has checked, else of the files as they are."""
    spec = find_spec("llvmlite")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        within, package = os.path.split(folder)
        return _recorded(within, package) or remembered_hash(source_files(within, [package], (".py", *_LIBRARIES)))
    return ""


def find_spec(package: str) -> ModuleSpec | None:
    """Where a package lies; `importlib.util`, which says it too, takes longer to import."""
    loaded = sys.modules.get(package)
    return PathFinder.find_spec(package) if loaded is None else loaded.__spec__


def _recorded(folder: str, package: str) -> str:
    """The hashes of a package's files as its wheel has them; nothing where it wasn't installed from one, or the record is in doubt."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
        (about,) = [name for name in names if name.startswith(f"{package}-") and name.endswith(".dist-info")]
        with open(os.path.join(folder, about, "RECORD"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return ""
    files = sorted(line for line in lines if line.startswith(f"{package}/") and ",sha256=" in line)
    return key_of(files) if any(line.partition(",")[0].endswith(_LIBRARIES) for line in files) else ""


def remembered_hash(files: Sequence[SourceFile], now: int | None = None) -> str:
    """The hash of these files, out of the user's cache where it has been computed since their last change. `now`: ns since 1970."""
    cache, name = store(), key_of(["contents", "\n".join([file.stamp for file in files])])
    entry = cache.get(name) if cache is not None else None
    if entry is not None and isinstance(entry[0], str):
        return entry[0]
    digest = hash_of(files)
    settled = max((file.changed for file in files), default=0) + _SETTLED < (time.time_ns() if now is None else now)
    if cache is not None and settled:  # else a change right now could leave the times as they are
        cache.put(name, digest, b"", "hash of files")
    return digest
