"""A whole program brought as far as its HIR, for what only that can tell: `zyntax check` reports it, too."""


from compiler.analysis.code_promises import Key
from compiler.diagnostics import Diagnostics
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.passes.examine import by_span, examine, unmeasured
from compiler.source import Source, Sources
from quantdsl import nodes as quant
from quantdsl.check.checked import CheckedQuantProgram
from quantdsl.critical.graph import call_graph

_OF_CODE = ("target_latency", "target_latency_ns", "vectorizable")


def examine_all(checked: CheckedQuantProgram, source: Source, sources: Sources) -> Diagnostics:
    """What is wrong with the code of a program without errors so far: of each of its strategies, and of annotated functions in a program
    without one, or that no strategy calls. Raises ZyntaxError for what isn't supported yet."""
    from quantdsl.elaborate import elaborate
    from quantdsl.elaborate.strategies import elaborate_strategy

    diagnostics = Diagnostics()
    codes = call_graph(checked)
    seen: set[Key] = set()

    def examined(module: HirModule) -> None:
        examination = examine(by_span(codes, module), module, sources, OptimizationLevel.OLATENCY)
        diagnostics.extend(examination.diagnostics.sorted)
        seen.update(function.code.key for function in examination.functions.values() if function.code is not None)

    for strategy in (s for s in checked.program.statements if isinstance(s, quant.Strategy)):
        examined(elaborate_strategy(checked, strategy.name, source)[0])
    asked = {code.key: code for code in codes.values() if code.annotation(*_OF_CODE)}
    if not asked.keys() <= seen:
        examined(elaborate(checked).module)
    diagnostics.extend(diagnostic for key, code in asked.items() if key not in seen and (diagnostic := unmeasured(code)) is not None)
    return diagnostics
