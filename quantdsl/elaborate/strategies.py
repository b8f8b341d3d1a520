"""A program's strategy as a module that the engine runs, with what is to be known of it."""

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.module import HirModule
from compiler.source import Source
from compiler.typed_ast.suggest import did_you_mean
from quantdsl import nodes as quant
from quantdsl.check.checked import CheckedQuantProgram
from quantdsl.elaborate.described import metadata_of
from quantdsl.elaborate.strategy_writer import StrategyWriter
from quantdsl.metadata import StrategyMetadata


def elaborate_strategy(
    checked: CheckedQuantProgram, name: str | None = None, source: Source | None = None
) -> tuple[HirModule, StrategyMetadata]:
    """The module of a program's strategy, of the one called `name` where there are several, and what is to be known of it. `source` tells
    the lines of the log. Raises ZyntaxError for what isn't supported yet."""
    writer = StrategyWriter(checked, _chosen(checked, name), source)
    handlers = writer.write()
    return writer.made.program.module, metadata_of(writer, handlers)


def _chosen(checked: CheckedQuantProgram, name: str | None) -> quant.Strategy:
    found = {s.name: s for s in checked.program.statements if isinstance(s, quant.Strategy)}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    names = ", ".join(f"`{one}`" for one in found)
    if name in found:
        return found[name]
    if not found:
        raise ZyntaxError(Diagnostic("0201", "the program has no strategy", hint="write `strategy Name on INSTRUMENT { on trade(t) { } }`"))
    if name is None:
        raise ZyntaxError(
            Diagnostic("0204", f"the program has {len(found)} strategies: {names}", hint=f"say which: --strategy {next(iter(found))}")
        )
    raise ZyntaxError(Diagnostic("0201", f"the program has no strategy `{name}`", hint=did_you_mean(name, found) or f"it has {names}"))
