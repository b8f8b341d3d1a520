"""Compiled code kept between runs: each entry one file, a JSON head and bytes, under a name that says what it was made of.

An entry that is damaged, or a folder that can't be used, costs nothing but the time to make the code again, and a note. Entries that
several processes write at once are whole: each is written beside its place and then moved there (see `unfinished`)."""

import contextlib
import hashlib
import json
import os
import struct
import sys
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from attrs import Factory

from runtime.cache.unfinished import remove_abandoned, written
from runtime.records import define

LARGEST = 256 << 20
"""Bytes of all entries together, and of those being written; the ones unused for longest go first."""

_MAGIC = b"zyntax code 1\n"
_ENDING = ".zyn"
_LATELY = 60.0
"""Seconds for which an entry counts as used just now."""


@define
class CacheStore:
    """A folder of entries. `notes`: what went wrong, in words, each once."""

    folder: Path
    largest: int = LARGEST
    notes: list[str] = Factory(list)

    def get(self, key: str) -> tuple[Any, bytes] | None:
        """Head and bytes of an entry; None where there is none that is whole."""
        path = f"{self.folder}{os.sep}{key}{_ENDING}"
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a warm start waits for it, and paths take longer than to read
                about = os.fstat(file.fileno())
                stranger = os.name == "posix" and about.st_uid != os.getuid()
                held = file.readall()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(f"the cache {self.folder} can't be read: {_reason(error)}")
            return None
        if stranger:
            self._note(f"{path} belongs to another user, whose code isn't run")
            return None
        entry = _unpacked(held, key)
        if entry is None:
            self._note(f"{path} is damaged: its code is made again")
            with contextlib.suppress(OSError):  # of a folder that is only read from
                Path(path).unlink(missing_ok=True)
            return None
        if time.time() - about.st_mtime > _LATELY:
            with contextlib.suppress(OSError):  # of a folder that is only read from
                os.utime(path)
        return entry

    def put(self, key: str, head: Any, code: bytes) -> None:
        """Keep an entry, and drop old ones where there are too many."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with written(self._path(key)) as file:
                file.write(_packed(head, code, key))
            self._make_room()
        except OSError as error:
            self._note(f"nothing can be kept in the cache {self.folder}: {_reason(error)}")

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_ENDING}"

    def _make_room(self) -> None:
        entries = []
        for entry in os.scandir(self.folder):
            if entry.name.endswith(_ENDING):
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    about = entry.stat()
                    entries.append((about.st_mtime_ns, about.st_size, entry.path))
        total = remove_abandoned(self.folder) + sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.largest:
                break
            Path(path).unlink(missing_ok=True)
            total -= size

    def _note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)


def users_folder() -> str:
    """The folder that ZYNTAX_CACHE_DIR names, or the system's own for caches."""
    named = os.environ.get("ZYNTAX_CACHE_DIR")
    if named:
        return named
    if sys.platform == "linux":  # each start waits for it, and the package takes longer to import than to answer
        return os.path.join(os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache"), "zyntax")  # noqa: PTH111, PTH118
    import platformdirs

    return platformdirs.user_cache_dir("zyntax")


def store() -> CacheStore | None:
    """The user's store, in the folder that ZYNTAX_CACHE_DIR names or the system's own for caches; None where ZYNTAX_CACHE is `off`."""
    if os.environ.get("ZYNTAX_CACHE") in ("off", "0"):
        return None
    return CacheStore(_folder(users_folder()))


@cache
def _folder(user: str) -> Path:
    """Cleared of what killed processes left, once a process."""
    folder = Path(user) / "code"
    remove_abandoned(folder)
    return folder


def key_of(parts: Iterable[str | bytes]) -> str:
    """The name of what is made of these parts, in this order."""
    digest = hashlib.sha256()
    for part in parts:
        held = part.encode() if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(held)) + held)
    return digest.hexdigest()


def _packed(head: Any, code: bytes, key: str) -> bytes:
    text = json.dumps(head, separators=(",", ":")).encode()
    body = struct.pack("<QQ", len(text), len(code)) + text + code
    return _MAGIC + hashlib.sha256(key.encode() + body).digest() + body


def _unpacked(held: bytes, key: str) -> tuple[Any, bytes] | None:
    start = len(_MAGIC) + 32
    body = held[start:]
    if not held.startswith(_MAGIC) or len(body) < 16 or hashlib.sha256(key.encode() + body).digest() != held[len(_MAGIC) : start]:
        return None
    length, _ = struct.unpack_from("<QQ", body)
    try:
        return json.loads(body[16 : 16 + length]), body[16 + length :]
    except (ValueError, RecursionError):
        return None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
