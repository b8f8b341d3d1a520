"""The rules that all languages share, one idea a file. A language takes the table, adds rules of its own, and refuses
what it doesn't execute."""

from compiler.typed_ast.checker import CORE
from compiler.typed_ast.rules import (  # noqa: F401  They register their rules.
    arrays,
    assignment,
    branches,
    calls,
    casts,
    control,
    declared_types,
    indexing,
    literals,
    loops,
    names,
    operators,
    optionals,
    places,
    ranges,
    records,
    sequences,
    strays,
    streams,
    tensors,
    tries,
    tuples,
)

__all__ = ["CORE"]
