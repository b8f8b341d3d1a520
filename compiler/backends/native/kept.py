"""Compiled modules in the user's cache: `found(store, key)` brings one back without its HIR, `keep(store, key, module)` puts one there.
Importing this loads nothing of the compiler proper."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compiler.backends.native.facts import ModuleFacts, from_json, to_json
from compiler.backends.native.link import ObjectModule
from runtime.cache.identity import identity
from runtime.cache.store import CacheStore, key_of
from runtime.records import frozen


@frozen
class StoredModule:
    """A module as it was compiled. `more`: what the front end knows besides, as JSON."""

    facts: ModuleFacts
    object: bytes
    more: Any = None


def key(kind: str, *parts: str | bytes) -> str:
    """The name of code in the cache. `kind`: what it is ("engine", "program"); `parts`: all that it is made of besides the compiler
    itself, LLVM and the machine: the path and the text of the source, parameters, level."""
    return key_of([kind, identity(), *parts])


def found(store: CacheStore | None, key: str) -> StoredModule | None:
    """The module of that name, unless a file that it was made of has changed since."""
    entry = None if store is None else store.get(key)
    if entry is None:
        return None
    head, code = entry
    try:
        if any(_digest(Path(path)) != digest for path, digest in head["inputs"].items()):
            return None
        return StoredModule(from_json(head["facts"]), code, head["more"])
    except (KeyError, TypeError, ValueError):
        return None  # of another version of this file


def keep(store: CacheStore | None, key: str, module: ObjectModule, more: Any = None, inputs: Iterable[str | Path] = ()) -> StoredModule:
    """Put a module there. `inputs`: files that it was made of, whose texts aren't part of the key: the modules that a program uses."""
    digests: Mapping[str, str | None] = {str(path): _digest(Path(path)) for path in inputs}
    stored = StoredModule(module.facts, module.object, more)
    if store is not None:
        store.put(key, {"facts": to_json(stored.facts), "more": more, "inputs": digests}, stored.object, "native module")
    return stored


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
