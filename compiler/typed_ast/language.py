"""What a frontend hands to the driver besides the tree."""

from pathlib import Path
from typing import Any, Protocol

from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.library import Library
from compiler.typed_ast.meaning import Meaning


class Language(Protocol):
    @property
    def meaning(self) -> Meaning:
        """The rules by which its programs are checked."""

    @property
    def library(self) -> Library: ...

    @property
    def default_device(self) -> str:
        """Of blocks that name none: what the program's `config` says, else "auto"."""

    def read_module(self, path: Path, sources: Sources) -> tuple[Source, nodes.Program]:
        """Reads and parses a module's file. Raises ZyntaxError."""

    def render(self, value: Any, form: str, options: dict[str, Any]) -> None:
        """Writes a picture and says so. Raises LibraryFault."""

    def configure(self, entries: dict[str, Any]) -> None:
        """The program's `config`. Raises LibraryFault."""
