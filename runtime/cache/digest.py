"""SHA-256 where little is hashed: the interpreter's own code does it. `hashlib` brings OpenSSL into the process, which takes longer than to
hash all that a warm start reads."""

import sys
from importlib import import_module
from typing import Any, Protocol


class Digest(Protocol):
    """What is computed of bytes, more of which may follow."""

    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...

    def hexdigest(self) -> str: ...


def sha256(data: bytes) -> Digest:
    """As `hashlib.sha256`."""
    digest: Digest = (sys.modules["hashlib"] if "hashlib" in sys.modules else _own()).sha256(data)
    return digest


def _own() -> Any:
    try:
        return import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:  # an interpreter that leaves it to OpenSSL
        return import_module("hashlib")
