"""The library contract under the name by which frontends and backends know it; it lives beside the checker, which reads it."""

from compiler.typed_ast.library import (
    REQUIRED,
    CallTypes,
    Library,
    LibraryFault,
    LibraryFunction,
    LibraryParameter,
    TypeFault,
    TypeRule,
)

__all__ = ["REQUIRED", "CallTypes", "Library", "LibraryFault", "LibraryFunction", "LibraryParameter", "TypeFault", "TypeRule"]
