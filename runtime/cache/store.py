"""Compiled code kept between runs: each entry one file, a JSON head and bytes, under a name that says what it was made of.

An entry that is damaged, or a folder that can't be used, costs nothing but the time to make the code again, and a note. Entries that
several processes write at once are whole: each is written beside its place and then moved there (see `unfinished`)."""

import contextlib
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from runtime.cache.digest import sha256
from runtime.cache.unfinished import remove_abandoned, written
from runtime.records import Factory, define, field

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 256 << 20
"""Bytes of all entries together, and of those being written; the ones unused for longest go first."""

_MAGIC = b"zyntax code 2\n"
_ANY_VERSION = b"zyntax code "
_ENDING = ".zyn"
_LATELY = 60.0
"""Seconds for which an entry counts as used just now."""
_ROOM: dict[tuple[str, int], int] = {}
"""By folder and its largest size, the bytes that this process may add before it looks at all entries again."""


@define
class CacheStore:
    """A folder of entries, which nobody else may look into. `notes`: what went wrong, in words, each once; `tell` hears them, too."""

    _folder: "str | Path"
    largest: int = LARGEST
    notes: list[str] = Factory(list)
    tell: Callable[[str], None] = field(default=lambda words: None, eq=False)
    _is_ours: bool | None = None

    @property
    def folder(self) -> "Path":
        from pathlib import Path

        return Path(self._folder)

    def get(self, key: str) -> tuple[Any, bytes] | None:
        """Head and bytes of an entry; None where there is none that is whole."""
        if not self.is_ours():
            return None
        path = f"{self._folder}{os.sep}{key}{_ENDING}"
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
        if is_of_another_version(held):
            return None
        entry = unpacked(held, key)
        if entry is None:
            self._note(f"{path} is damaged: its code is made again")
            with contextlib.suppress(OSError):  # of a folder that is only read from
                os.unlink(path)  # noqa: PTH108 - as above
            return None
        if time.time() - about.st_mtime > _LATELY:
            with contextlib.suppress(OSError):  # of a folder that is only read from
                os.utime(path)
        return entry[1:]

    def put(self, key: str, head: Any, code: bytes, holds: str = "code") -> None:
        """Keep an entry, and drop old ones where there are too many. `holds`: what it is, for those who list entries."""
        if not self.is_ours():
            return
        try:
            if not self.folder.is_dir():
                self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.folder.mkdir(mode=0o700, exist_ok=True)
            packed = _packed(holds, head, code, key)
            with written(self._path(key)) as file:
                file.write(packed)
            room = _ROOM.get((str(self._folder), self.largest), 0) - len(packed)
            _ROOM[str(self._folder), self.largest] = room if room > 0 else self._make_room()
        except OSError as error:
            self._note(f"nothing can be kept in the cache {self.folder}: {_reason(error)}")

    def is_ours(self) -> bool:
        """Whether the folder is this user's, or isn't there yet. One that others may look into is closed to them."""
        if self._is_ours is None:
            self._is_ours = os.name != "posix" or self._is_closed()
        return self._is_ours

    def _is_closed(self) -> bool:
        try:
            about = os.stat(self._folder)  # noqa: PTH116 - a warm start waits for it
        except OSError:
            return True
        if about.st_uid != os.getuid():
            hint = "ZYNTAX_CACHE_DIR names another folder"
            self._note(f"the cache {self.folder} belongs to another user: nothing is read from it or kept in it; {hint}")
            return False
        if about.st_mode & 0o077:
            with contextlib.suppress(OSError):  # of a folder that is only read from
                self.folder.chmod(0o700)
        return True

    def paths(self) -> "list[Path]":
        """Of all entries."""
        try:
            return sorted(self.folder.glob(f"*{_ENDING}"))
        except OSError:
            return []

    def _path(self, key: str) -> "Path":
        return self.folder / f"{key}{_ENDING}"

    def _make_room(self) -> int:
        """Drops entries where there are too many, and a sixteenth more, so that the next ones find room. Gives the bytes that the process
        may add before it looks at all entries again: no more than that share, for other processes add theirs."""
        entries = []
        for entry in os.scandir(self.folder):
            if entry.name.endswith(_ENDING):
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    about = entry.stat()
                    entries.append((about.st_mtime_ns, about.st_size, entry.path))
        total = remove_abandoned(self.folder) + sum(size for _, size, _ in entries)
        share = self.largest // 16
        if total > self.largest:
            for _, size, path in sorted(entries):
                if total <= self.largest - share:
                    break
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)  # noqa: PTH108
                total -= size
        return min(self.largest - total, share)

    def _note(self, words: str) -> None:
        if words not in self.notes:
            self.notes.append(words)
            self.tell(words)


def users_folder() -> str:
    """The folder that ZYNTAX_CACHE_DIR names, or the system's own for caches."""
    named = os.environ.get("ZYNTAX_CACHE_DIR")
    if named:
        return named
    if sys.platform == "linux":  # each start waits for it, and the package takes longer to import than to answer
        return os.path.join(os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache"), "zyntax")  # noqa: PTH111, PTH118
    import platformdirs

    return platformdirs.user_cache_dir("zyntax")


def store(tell: Callable[[str], None] | None = None) -> CacheStore | None:
    """The user's store, in the folder that ZYNTAX_CACHE_DIR names or the system's own for caches; None where ZYNTAX_CACHE is `off`. `tell`
    hears what goes wrong; else the log of `zyntax.cache` does, each once a process."""
    if os.environ.get("ZYNTAX_CACHE") in ("off", "0"):
        return None
    return CacheStore(_folder(users_folder()), tell=_log if tell is None else tell)


def _log(words: str) -> None:
    if words not in _LOGGED:
        import logging

        _LOGGED.add(words)
        logging.getLogger("zyntax.cache").warning(words)


_LOGGED: set[str] = set()


@cache
def _folder(user: str) -> str:
    """Cleared of what killed processes left, once a process."""
    folder = os.path.join(user, "code")  # noqa: PTH118 - as above
    remove_abandoned(folder)
    return folder


def key_of(parts: Iterable[str | bytes]) -> str:
    """The name of what is made of these parts, in this order."""
    digest = sha256(b"")
    for part in parts:
        held = part.encode() if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(held)) + held)
    return digest.hexdigest()


def _packed(holds: str, head: Any, code: bytes, key: str) -> bytes:
    text = json.dumps([holds, head], separators=(",", ":")).encode()
    body = struct.pack("<QQ", len(text), len(code)) + text + code
    return _MAGIC + sha256(key.encode() + body).digest() + body


def is_of_another_version(held: bytes) -> bool:
    """Whether an entry may be whole, but has another form than this version's."""
    return held.startswith(_ANY_VERSION) and not held.startswith(_MAGIC)


def unpacked(held: bytes, key: str) -> tuple[str, Any, bytes] | None:
    """What an entry of that name says that it holds, its head and its bytes; None for a damaged one."""
    start = len(_MAGIC) + 32
    body = held[start:]
    if not held.startswith(_MAGIC) or len(body) < 16 or sha256(key.encode() + body).digest() != held[len(_MAGIC) : start]:
        return None
    length, _ = struct.unpack_from("<QQ", body)
    try:
        holds, head = json.loads(body[16 : 16 + length])
        return holds, head, body[16 + length :]
    except (ValueError, RecursionError):
        return None


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
