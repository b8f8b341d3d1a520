"""Files that are whole or not there: written beside their place under another name, then renamed into it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TEMPORARY = ".unfinished"


class OutputFault(Exception):
    """An output that couldn't be written. `path`: which; what was written before stands and is marked partial."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = path, reason


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Gives a temporary name to write to. If all goes well it becomes `path`, at once and on disk. Raises OutputFault."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        yield temporary
        descriptor = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError as error:
        raise OutputFault(path, reason_of(error)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def reason_of(error: OSError) -> str:
    """In the system's words; Arrow's errors have their own around them."""
    return os.strerror(error.errno) if error.errno else str(error)


def write_text(path: Path, text: str) -> None:
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
