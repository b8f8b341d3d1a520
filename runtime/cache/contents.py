"""The files that decide what code is compiled, as one hash of their contents: the same wherever, and whenever, they were put there.
Imports nothing but Python, for the build of the wheel needs it before anything is installed."""

import os
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ("compiler", "grammars", "quantdsl", "runtime", "zynml")
ENDINGS = (".json", ".lark", ".py", ".qdsl", ".zynml")

WRITTEN = "contents.sha256"
"""The file, beside this one, in which a wheel carries the hash. A checkout has none: its files may change."""


class SourceFile(NamedTuple):
    """`name`: its path from the folder that holds the packages, with `/`."""

    name: str
    path: str
    about: os.stat_result

    @property
    def stamp(self) -> str:
        """What is another after every change of the file."""
        about = self.about
        return f"{self.path} {about.st_dev} {about.st_ino} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"

    @property
    def changed(self) -> int:
        """Ns since 1970 of the last change."""
        return max(self.about.st_mtime_ns, self.about.st_ctime_ns)


def source_files(root: "str | Path", packages: Iterable[str] = PACKAGES, endings: tuple[str, ...] = ENDINGS) -> list[SourceFile]:
    """The files of the packages that lie in `root`, by name."""
    files: list[SourceFile] = []
    waiting = [(os.path.join(root, package), package) for package in packages]  # noqa: PTH118
    while waiting:
        folder, name = waiting.pop()
        for entry in os.scandir(folder):
            if entry.name.endswith(endings):
                files.append(SourceFile(f"{name}/{entry.name}", entry.path, entry.stat()))
            elif entry.is_dir() and entry.name not in ("__pycache__", "tests"):
                waiting.append((entry.path, f"{name}/{entry.name}"))
    files.sort()
    return files


def hash_of(files: Iterable[SourceFile]) -> str:
    """Of names and contents."""
    import hashlib

    total = hashlib.sha256()
    for file in files:
        with open(file.path, "rb", buffering=0) as opened:  # noqa: PTH123 - there are hundreds, and paths take longer than to read
            name, text = file.name.encode(), opened.readall()
        total.update(struct.pack("<QQ", len(name), len(text)) + name + text)
    return total.hexdigest()
