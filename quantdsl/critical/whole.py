"""A whole program brought as far as its HIR, for what only that can tell: `zyntax check` reports it, too."""

from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostics
from compiler.hir.module import OptimizationLevel
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from quantdsl import nodes as quant
from quantdsl.critical.graph import call_graph
from quantdsl.critical.measure import examine

if TYPE_CHECKING:
    from quantdsl.check import CheckedProgram

_OF_CODE = ("target_latency", "target_latency_ns", "vectorizable")


def examine_all(checked: "CheckedProgram", source: Source, sources: Sources) -> Diagnostics:
    """What is wrong with the code of a program without errors so far: of each of its strategies, and of annotated functions in a program
    without one. Raises ZyntaxError for what isn't supported yet."""
    from quantdsl.elaborate import elaborate
    from quantdsl.elaborate.strategies import elaborate_strategy

    found = Diagnostics()
    strategies = [s for s in checked.program.statements if isinstance(s, quant.Strategy)]
    for strategy in strategies:
        module, _ = elaborate_strategy(checked, strategy.name, source)
        found.extend(examine(checked, module, sources, OptimizationLevel.OLATENCY).diagnostics.sorted)
    asked = [c for c in call_graph(checked).values() if isinstance(c.declaration, nodes.Function) and c.annotation(*_OF_CODE)]
    if asked and not strategies:
        found.extend(examine(checked, elaborate(checked).module, sources, OptimizationLevel.OLATENCY).diagnostics.sorted)
    return found
