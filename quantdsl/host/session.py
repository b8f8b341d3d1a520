"""Opens programs that are run on the host."""

from collections.abc import Callable
from pathlib import Path

from compiler.diagnostics import Diagnostic, Diagnostics
from compiler.driver import DriverOptions, Session
from compiler.library import Library
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from quantdsl.host.library import library
from quantdsl.host.tree import host_tree
from zynml.api import ZynML
from zynml.stdlib import StdlibSettings


class QuantHost(ZynML):
    """QuantDSL as the driver sees it."""

    @property
    def library(self) -> Library:
        if self._library is None:
            self._library = library(self.settings)
        return self._library


def open_host(
    source: Source, program: nodes.Program, options: DriverOptions, sources: Sources, warn: Callable[[Diagnostic], None]
) -> Session:
    """A program with a `main` as a session. Raises ZyntaxError with all that the host doesn't run."""
    diagnostics = Diagnostics()
    tree = host_tree(program, diagnostics)
    diagnostics.raise_errors()
    for text in tree.library:
        sources.add(text)
    base = Path(source.path).parent if Path(source.path).exists() else None
    settings = StdlibSettings(base_folder=base, render_folder=Path(options.render_folder))
    return Session(source, tree.program, QuantHost(settings), sources, options, warn, tree.library)
