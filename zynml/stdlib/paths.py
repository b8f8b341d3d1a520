"""Paths of programs: which format an ending names, what goes wrong with a file in the user's words, and files that are replaced whole."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compiler.typed_ast.library import LibraryFault
from runtime.extras import PackageMissing
from zynml.stdlib.dtypes import type_name

FORMATS = ("npy", "npz", "safetensors", "csv", "tsv", "json", "png", "jpg", "jpeg", "txt")


def bad_file(path: Any, reason: str, hint: str | None = None) -> LibraryFault:
    return LibraryFault("0807", f"`{path}`: {reason}", hint)


@contextmanager
def file_faults(path: Any) -> Iterator[None]:
    """Whatever goes wrong with a file becomes fault 0807 (0804, 0506 where a package for it is missing) that names it."""
    try:
        yield
    except LibraryFault as fault:
        if str(path) in fault.message:
            raise
        raise LibraryFault(fault.code, f"`{path}`: {fault.message}", fault.hint) from None
    except PackageMissing as missing:
        raise LibraryFault("0506", f"`{path}`: {missing}", missing.hint) from None
    except FileNotFoundError:
        raise bad_file(path, "there is no such file") from None
    except IsADirectoryError:
        raise bad_file(path, "this is a folder") from None
    except PermissionError:
        raise bad_file(path, "no permission") from None
    except OSError as error:
        raise bad_file(path, error.strerror or str(error)) from None
    except MemoryError:
        raise LibraryFault("0804", f"`{path}`: more than memory can hold") from None


def ending(path: Any, formats: tuple[str, ...] = FORMATS) -> str:
    """The format that a path's ending names; fault where there is none for it."""
    if not isinstance(path, str):
        raise LibraryFault("0203", f"a path is a String, not {type_name(path)}")
    if "\0" in path or not path:
        raise bad_file(path.replace("\0", "\\0"), "this is no path")
    suffix = Path(path).suffix[1:].lower()
    if suffix not in formats:
        known = f"the ending `.{suffix}` names no {'known format' if suffix not in FORMATS else 'format for this'}"
        raise bad_file(path, known if suffix else "no ending tells the format", f"formats: {', '.join(formats)}")
    return suffix


@contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """A file beside the path to write to, which takes the path's place when all is written: nobody sees half a file, and a fault leaves the
    old one as it was. What is no plain file (a terminal, a pipe) is written to itself."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise IsADirectoryError
        yield path
        return
    final = path.resolve()
    waiting = final.with_name(f".{final.name[:100]}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        yield waiting
        waiting.replace(final)
    finally:
        waiting.unlink(missing_ok=True)
