"""ZynML as a run has it: rules, library, modules, pictures, settings. A program that is run from the cache needs neither its rules nor the
parser: they are imported when a session asks for them."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.options import CompileOptions
from compiler.source import Source, Sources, display_path
from zynml.name import ENDINGS
from zynml.stdlib import StdlibSettings, library

if TYPE_CHECKING:
    from compiler.typed_ast import nodes
    from compiler.typed_ast.language import LibraryPrograms
    from compiler.typed_ast.library import Library, LibraryFunction
    from compiler.typed_ast.meaning import Meaning
    from zynml.stdlib.family import FunctionFamily

FOLDER = Path(__file__).with_name("stdlib")
"""Where the library lies, with those of its functions that are written in ZynML."""


class ZynML:
    """The language as the driver sees it: rules, library, modules, pictures, settings of one run."""

    def __init__(self, settings: StdlibSettings, families: "Sequence[FunctionFamily]" = ()) -> None:
        """`families`: functions of another language that builds on this one."""
        self.settings, self.families = settings, families
        self._library: Library | None = None

    @property
    def meaning(self) -> "Meaning":
        from compiler.typed_ast.check import ZYNML

        return ZYNML

    @property
    def library(self) -> "Library":
        if self._library is None:
            self._library = library(self.settings)
            for family in self.families:
                _add(self._library, family.declared(self.settings))
        return self._library

    @property
    def of_library(self) -> "ZynML":
        return self

    @property
    def default_device(self) -> str:
        return self.settings.device

    @property
    def module_endings(self) -> tuple[str, ...]:
        return ENDINGS

    def read_module(self, path: Path, sources: Sources) -> "tuple[Source, nodes.Program]":
        from compiler.syntax.read import read_source
        from zynml.parse import parse_source

        source = sources.add(read_source(display_path(path)))
        return source, parse_source(source)

    @property
    def library_folder(self) -> Path:
        return FOLDER

    def library_module(self, path: tuple[str, ...]) -> Path | None:
        file = FOLDER.joinpath(*path[1:]).with_suffix(".zynml")
        return file if len(path) > 1 and path[0] == "zynml" and file.is_file() else None

    def runs_in(self, programs: "LibraryPrograms") -> None:
        self.settings.programs = programs

    def render(self, value: Any, form: str, options: dict[str, Any]) -> None:
        from zynml.stdlib.render import render

        page = self.settings.page
        begun = page is not None and page.begun
        path = render(value, form, options, self.settings)
        if page is None or path != page.path:
            self.settings.write(f"[render] {display_path(path)}\n")
        if page is not None and not begun:
            self.settings.write(f"[render] {display_path(page.path)}\n")

    def configure(self, entries: dict[str, Any]) -> None:
        from zynml.stdlib.config import configure

        configure(self.settings, entries)


def language_of_session(source: Source, options: CompileOptions, families: "Sequence[FunctionFamily]" = ()) -> ZynML:
    """The language as one program's session has it."""
    base = Path(source.path).parent if Path(source.path).exists() else None
    settings = StdlibSettings(base_folder=base, render_folder=Path(options.render_folder))
    if options.render_page is not None:
        from zynml.stdlib.render_texts import RenderPage

        settings.page = RenderPage(Path(options.render_page))
    return ZynML(settings, families)


def _add(found: "Library", declared: "Mapping[str | tuple[str, str], LibraryFunction]") -> None:
    """Puts functions and methods into a library, before those that have their names."""
    functions = {key: function for key, function in declared.items() if isinstance(key, str)}
    methods = {key: function for key, function in declared.items() if not isinstance(key, str)}
    found.functions = ChainMap(functions, found.functions)  # type: ignore[arg-type]
    found.methods = ChainMap(methods, found.methods)  # type: ignore[arg-type]
