"""What compiled code depends on besides its source: the compiler itself, LLVM, and this machine's processor."""

import os
import sys
from functools import cache
from pathlib import Path

from runtime.cache.store import key_of
from runtime.cpu import detect

PACKAGES = ("compiler", "grammars", "quantdsl", "runtime")
"""Whose files decide what code is made."""

_ROOT = Path(__file__).resolve().parents[2]
_ENDINGS = (".py", ".lark", ".qdsl")


@cache
def identity() -> str:
    """The same only where the same source gives the same code. Of the compiler's files their times and sizes count, which is quicker than
    to read them."""
    from llvmlite import binding

    files = sorted(found for package in PACKAGES for found in _files(str(_ROOT / package)))
    version = ".".join(map(str, binding.llvm_version_info))
    return key_of([version, sys.platform, binding.get_process_triple(), detect.host_cpu(), detect.host_features(), *files])


def _files(folder: str) -> list[str]:
    found: list[str] = []
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name != "__pycache__":
                found += _files(entry.path)
        elif entry.name.endswith(_ENDINGS):
            stat = entry.stat()
            found.append(f"{entry.path[len(str(_ROOT)) :]} {stat.st_mtime_ns} {stat.st_size}")
    return found
