"""What a frontend hands to the driver besides the tree."""

from pathlib import Path
from typing import Any, Protocol

from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.library import Library
from compiler.typed_ast.meaning import Meaning


class LibraryPrograms(Protocol):
    """A program that runs, to the functions of its library that are programs too."""

    @property
    def only_device(self) -> str | None:
        """Where the user wants all blocks to run; None where each is placed by itself."""

    def library_program(self, source: Source, program: nodes.Program) -> Any:
        """A text of the library, compiled once a run, as a `HostProgram`. Raises ZyntaxError."""


class SessionLanguage(Protocol):
    @property
    def meaning(self) -> Meaning:
        """The rules by which its programs are checked."""

    @property
    def library(self) -> Library: ...

    @property
    def of_library(self) -> "SessionLanguage":
        """The language in which the library's own texts are written, with the settings of the same run."""

    @property
    def default_device(self) -> str:
        """Of blocks that name none: what the program's `config` says, else "auto"."""

    @property
    def module_endings(self) -> tuple[str, ...]:
        """Of files that a program may import, in the order in which they are looked for."""

    def read_module(self, path: Path, sources: Sources) -> tuple[Source, nodes.Program]:
        """Reads and parses a module's file. Raises ZyntaxError."""

    @property
    def library_folder(self) -> Path:
        """Where the modules of its library lie."""

    def library_module(self, path: tuple[str, ...]) -> Path | None:
        """The file of a module of the library, None where the library has none of that name."""

    def runs_in(self, programs: "LibraryPrograms") -> None:
        """Says where the functions of the library that are written in the language are compiled."""

    def render(self, value: Any, form: str, options: dict[str, Any]) -> None:
        """Writes a picture and says so. Raises LibraryFault."""

    def configure(self, entries: dict[str, Any]) -> None:
        """The program's `config`. Raises LibraryFault."""
