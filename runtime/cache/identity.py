"""What compiled code depends on besides its source: the compiler itself, LLVM, and this machine's processor."""

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from runtime.cache.store import key_of
from runtime.cpu import detect

PACKAGES = ("compiler", "grammars", "quantdsl", "runtime", "zynml")
"""Whose files decide what code is made."""

_ROOT = Path(__file__).resolve().parents[2]
_ENDINGS: tuple[str, ...] = (".py", ".lark", ".qdsl")
_LIBRARIES: tuple[str, ...] = (".py", ".so", ".dylib", ".dll")


@cache
def compiler_identity() -> str:
    """The same only where the same source gives the same code for a device. Of the compiler's files, and LLVM's, their times and sizes
    count, which is quicker than to read them."""
    llvm = find_spec("llvmlite")
    libraries = [Path(place) for place in (llvm.submodule_search_locations if llvm is not None else None) or ()]
    folders = [*((_ROOT / package, _ENDINGS) for package in PACKAGES), *((folder, _LIBRARIES) for folder in libraries)]
    files = sorted(found for folder, endings in folders for found in _files(str(folder), str(folder.parent), endings))
    return key_of([sys.platform, *files])


@cache
def identity() -> str:
    """The same only where the same source gives the same code for this processor."""
    from llvmlite import binding

    return key_of([compiler_identity(), binding.get_process_triple(), detect.host_cpu(), detect.host_features()])


def _files(folder: str, root: str, endings: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name not in ("__pycache__", "tests"):
                found += _files(entry.path, root, endings)
        elif entry.name.endswith(endings):
            stat = entry.stat()
            found.append(f"{entry.path[len(root) :]} {stat.st_mtime_ns} {stat.st_size}")
    return found
