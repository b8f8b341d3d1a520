"""From a program's file to a strategy that runs: from the cache where it was compiled before, else through all stages."""

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from compiler.backends.native import kept
from compiler.backends.native.link import link_modules
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Source, Sources
from compiler.syntax.read import read_source
from quantdsl.metadata import StrategyMetadata
from quantdsl.run.program import LinkedStrategy
from runtime.cache.store import CacheStore, store
from runtime.cpu import load
from runtime.records import Factory, frozen

if TYPE_CHECKING:
    from compiler.hir.module import HirModule
    from quantdsl.check.checked import CheckedQuantProgram

LEVEL = "latency"
"""Of strategies unless another is asked for, and of the engine always."""


@frozen
class CompileRequest:
    """What a caller wants of a program: texts of its parameters, which strategy, how to compile. `level`: "0" to "3", "s" or "latency"."""

    settings: Mapping[str, str] = Factory(dict)
    strategy: str | None = None
    level: str = LEVEL
    strict: bool = False


Warn = Callable[[Diagnostic], None]
Doing = Callable[[str], None]


def open_strategy(
    path: str, wishes: CompileRequest, sources: Sources, warn: Warn = lambda warning: None, doing: Doing = lambda activity: None
) -> LinkedStrategy:
    """The strategy of a program's file, compiled and linked. Raises ZyntaxError with all that is wrong with it."""
    doing("reading")
    return open_source(sources.add(read_source(path)), wishes, sources, warn, doing)


def open_source(source: Source, wishes: CompileRequest, sources: Sources, warn: Warn, doing: Doing) -> LinkedStrategy:
    """The same of a text."""
    seconds: dict[str, float] = {}
    cache, started = store(tell=lambda words: None), perf_counter()
    settings = [f"{name}={value}" for name, value in sorted(wishes.settings.items())]
    key = kept.key("program", source.path, source.text, wishes.strategy or "", wishes.level, *settings)
    program = kept.found(cache, key)
    if program is None:
        program = _compiled(source, wishes, sources, warn, doing, cache, key, seconds)
    else:
        seconds["from the cache"] = perf_counter() - started
    started = perf_counter()
    engine = _engine(cache, doing)
    seconds["engine"] = perf_counter() - started
    started = perf_counter()
    linked = link_modules([engine, program])
    seconds["link"] = perf_counter() - started
    for note in cache.notes if cache is not None else ():
        warn(_note(note))
    outside = sorted({*program.more["outside"], *engine.more["outside"]})
    unknown = sorted({*program.more["unknown"], *engine.more["unknown"]})
    return LinkedStrategy(
        source.path, StrategyMetadata(**program.more["metadata"]), linked, (engine, program), tuple(outside), tuple(unknown), seconds
    )


def checked_program(source: Source, wishes: CompileRequest, sources: Sources) -> "CheckedQuantProgram":
    """The program with the values of its parameters, without errors. Raises ZyntaxError."""
    from compiler.syntax.comments import comment_warnings
    from quantdsl.check.program import check_program
    from quantdsl.host.tree import is_run
    from quantdsl.parse import parse_source
    from quantdsl.run.settings import with_settings

    program = parse_source(source)
    if is_run(program):
        message = f"`{source.path}` is run by its `main`, and has no strategy"
        raise ZyntaxError(Diagnostic("0505", message, hint=f"`zyntax run {source.path}`, without `--data`"))
    found = check_program(with_settings(program, wishes.settings, sources))
    found.diagnostics.extend(comment_warnings(source))
    found.diagnostics.raise_errors(wishes.strict)
    return found


def elaborated(source: Source, wishes: CompileRequest, sources: Sources, warn: Warn, doing: Doing) -> "tuple[HirModule, StrategyMetadata]":
    """The strategy as HIR, with its metadata. Raises ZyntaxError."""
    from compiler.hir.module import OptimizationLevel
    from compiler.passes.examine import by_span, examine
    from quantdsl.critical.graph import call_graph
    from quantdsl.elaborate.strategies import elaborate_strategy

    doing("checking")
    checked = checked_program(source, wishes, sources)
    for warning in checked.diagnostics.warnings:
        warn(warning)
    doing("writing HIR")
    module, metadata = elaborate_strategy(checked, wishes.strategy, source)
    examined = examine(by_span(call_graph(checked), module), module, sources, OptimizationLevel(wishes.level)).diagnostics
    examined.raise_errors(wishes.strict)
    for warning in examined.warnings:
        warn(warning)
    return module, metadata


def _compiled(
    source: Source,
    wishes: CompileRequest,
    sources: Sources,
    warn: Warn,
    doing: Doing,
    cache: CacheStore | None,
    key: str,
    seconds: dict[str, float],
) -> kept.StoredModule:
    """Through all stages. A program with warnings isn't kept, so that every run tells them."""
    warned: list[Diagnostic] = []

    def told(warning: Diagnostic) -> None:
        warned.append(warning)
        warn(warning)

    started = perf_counter()
    _load_compiler()
    seconds["loading the compiler"] = perf_counter() - started
    started = perf_counter()
    module, metadata = elaborated(source, wishes, sources, told, doing)
    seconds["to HIR"] = perf_counter() - started
    doing("compiling")
    started = perf_counter()
    made = _kept(None if warned else cache, key, module, wishes.level, {"metadata": metadata.plain()})
    seconds["to machine code"] = perf_counter() - started
    return made


def _load_compiler() -> None:
    """Import what compiles, and read the grammar's table: once a process, and no part of what a program costs."""
    from compiler.backends.native import compile  # noqa: F401
    from compiler.passes import examine  # noqa: F401
    from grammars.loader import load as load_grammar
    from quantdsl.check import prelude
    from quantdsl.elaborate import strategies  # noqa: F401
    from quantdsl.grammar import GRAMMAR

    load_grammar(GRAMMAR)
    prelude.prelude()
    load.machine(load.target(None, None, None, 3))


def _engine(cache: CacheStore | None, doing: Doing) -> kept.StoredModule:
    """Compiled once a machine."""
    key = kept.key("engine", LEVEL)
    found = kept.found(cache, key)
    if found is None:
        doing("compiling the engine: once on this machine")
        from quantdsl.engine.build import engine_module

        found = _kept(cache, key, engine_module(), LEVEL, {})
    return found


def _kept(cache: CacheStore | None, key: str, module: "HirModule", level: str, more: dict[str, Any]) -> kept.StoredModule:
    from compiler.backends.native.compile import ALLOWED, compile_module
    from compiler.hir.module import OptimizationLevel

    made = compile_module(module, OptimizationLevel(level))
    outside = sorted(load.needed(made.object) - {entry.symbol for entry in made.facts.imports.values()})
    unknown = sorted(set(outside) - ALLOWED)
    return kept.keep(cache, key, made, {**more, "outside": outside, "unknown": unknown})


def _note(text: str) -> Diagnostic:
    from compiler.diagnostics import Severity

    return Diagnostic("0807", text, severity=Severity.NOTE)
