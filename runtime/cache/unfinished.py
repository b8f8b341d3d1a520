"""Files that are being written beside the path that they will have. Their writer holds a lock on them, which the system drops when the
process ends, however it ends: what nobody locks was left by a process that was killed, and goes."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, which neither removes nor moves a file that is open
    fcntl = None  # type: ignore[assignment]

ENDING = ".part"

_GIVEN_UP = 3600.0
"""Seconds after which a file belongs to nobody, on file systems that have no locks."""


@contextmanager
def written(path: "Path") -> Iterator[BinaryIO]:
    """Gives a file to write to, which becomes `path` at the end of the block, at once; nothing is left where that fails."""
    file, temporary = _opened(path)
    try:
        with file:
            yield file
            file.flush()
            if fcntl is None:
                file.close()
            temporary.replace(path)  # while the lock is held
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _opened(path: "Path") -> "tuple[BinaryIO, Path]":
    """A new file, locked. Another process may take it for an abandoned one before the lock is there; then it is another file's turn."""
    from pathlib import Path

    while True:
        import tempfile

        handle, name = tempfile.mkstemp(ENDING, f"{path.name}.", path.parent)
        file = os.fdopen(handle, "wb")
        if fcntl is None:
            return file, Path(name)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return file, Path(name)
        file.close()


def remove_abandoned(folder: "str | Path", of: str = "") -> int:
    """Removes what killed processes left in a folder; `of`: only of files whose names begin so. Gives the bytes of the files that are
    still being written."""
    bytes_under_way = 0
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - every start waits for it, and names are all it needs
            if name.endswith(ENDING) and name.startswith(of):
                with suppress(OSError):
                    bytes_under_way += _remove_unless_locked(f"{folder}{os.sep}{name}")
    return bytes_under_way


def _remove_unless_locked(path: str) -> int:
    if fcntl is None:
        with suppress(PermissionError):
            os.unlink(path)  # noqa: PTH108 - as above
            return 0
        return os.stat(path).st_size  # noqa: PTH116
    handle = os.open(path, os.O_RDWR)  # over a network, locks are for those who may write
    try:
        about = os.fstat(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return about.st_size
        except OSError:
            if time.time() - about.st_mtime <= _GIVEN_UP:
                return about.st_size
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108
        return 0
    finally:
        os.close(handle)
