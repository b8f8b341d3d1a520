"""The rules that all languages share, one idea a file. A language takes the table, adds rules of its own, and refuses
what it doesn't execute."""

from compiler.typed_ast.checker import CORE
from compiler.typed_ast.rules import arrays, branches, declared_types, indexing, names, optionals, records, tuples  # noqa: F401  They register their rules.

__all__ = ["CORE"]
