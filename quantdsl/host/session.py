"""Opens programs that are run on the host."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.driver import CompileOptions, Session
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.check import ZYNML
from compiler.typed_ast.library import Library
from quantdsl.check.checker import MEANING
from quantdsl.host.library import library
from quantdsl.host.refused import refused
from quantdsl.host.tree import host_tree
from runtime.records import evolve
from zynml.session_language import ZynML
from zynml.stdlib import StdlibSettings


class QuantHost(ZynML):
    """QuantDSL as the driver sees it: ZynML's rules and library, with QuantDSL's settings."""

    meaning = evolve(ZYNML, settings=MEANING.settings, function=MEANING.function, result=MEANING.result)

    @property
    def library(self) -> Library:
        if self._library is None:
            self._library = library(self.settings)
        return self._library

    @cached_property
    def of_library(self) -> ZynML:
        return ZynML(self.settings)


def open_host(
    source: Source, program: nodes.Program, options: CompileOptions, sources: Sources, warn: Callable[[Diagnostic], None]
) -> Session:
    """A program with a `main` as a session. Raises ZyntaxError with all that the host doesn't run."""
    base = Path(source.path).parent if Path(source.path).exists() else None
    language = QuantHost(StdlibSettings(base_folder=base, render_folder=Path(options.render_folder)))
    faults = tuple(refused(program, language.library.functions))
    if faults:
        raise ZyntaxError(*faults)
    tree = host_tree(program)
    for text in tree.library:
        sources.add(text)
    return Session(source, tree.program, language, sources, options, warn, tree.library)
