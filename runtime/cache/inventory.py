"""The user's cache as a list: what each entry is, whether it is whole; and the end of all entries."""

import contextlib
import os
from pathlib import Path

from runtime.cache.store import CacheStore, is_of_another_version, unpacked
from runtime.cache.unfinished import remove_abandoned
from runtime.records import frozen

WHOLE, DAMAGED, STRANGE, UNREADABLE, OTHER_VERSION = "whole", "damaged", "another user's", "unreadable", "another version's"


@frozen
class KeptEntry:
    """`used`: seconds since 1970 of the last use. `holds` is empty where the entry isn't whole."""

    path: Path
    holds: str
    size: int
    used: float
    state: str


def entries_of(store: CacheStore) -> list[KeptEntry]:
    """All entries, those used last first."""
    looked = [entry for path in store.paths() if (entry := _entry(path)) is not None]
    return sorted(looked, key=lambda entry: (-entry.used, entry.path))


def _entry(path: Path) -> KeptEntry | None:
    """None for one that is gone by now."""
    try:
        about = path.stat()
        held = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        return KeptEntry(path, "", 0, 0.0, UNREADABLE)
    if os.name == "posix" and about.st_uid != os.getuid():
        return KeptEntry(path, "", about.st_size, about.st_mtime, STRANGE)
    if is_of_another_version(held):
        return KeptEntry(path, "", about.st_size, about.st_mtime, OTHER_VERSION)
    entry = unpacked(held, path.stem)
    return KeptEntry(path, "" if entry is None else entry[0], about.st_size, about.st_mtime, DAMAGED if entry is None else WHOLE)


def clear(store: CacheStore) -> tuple[int, int]:
    """Removes all entries, and what killed processes left: how many they were, and their bytes. Other processes make theirs again. Raises
    OSError where an entry can't be removed."""
    count = size = 0
    for path in store.paths():
        with contextlib.suppress(FileNotFoundError):
            held = path.stat().st_size
            path.unlink()
            count, size = count + 1, size + held
    remove_abandoned(store.folder)
    return count, size
