"""`zyntax explain file.qdsl:function`: which functions are meant, and the module that has them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from compiler.analysis.code_promises import CodeUnit, Key
from compiler.backends.native.explained import report_on
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.passes.examine import by_span, examine
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from quantdsl import nodes as quant
from quantdsl.critical.graph import call_graph

if TYPE_CHECKING:
    from quantdsl.check.checked import CheckedQuantProgram


def explain(
    checked: "CheckedQuantProgram", name: str, strategy: str | None, source: Source, sources: Sources, level: OptimizationLevel
) -> str:
    """All there is to say of a function, signal or handler of a checked program; `on trade` and `trade` both name a handler. Raises
    ZyntaxError where there is none of that name."""
    codes = call_graph(checked)
    wanted = {f"`{name}`", f"`on {name.removeprefix('on').lstrip(' .')}`"}
    keys = {key for key, code in codes.items() if code.title in wanted and key[0] in ("", strategy or key[0])}
    if not keys:
        known = sorted({code.title.strip("`") for code in codes.values()})
        hint = did_you_mean(name, known) or f"it has {', '.join(f'`{function_}`' for function_ in known)}"
        raise ZyntaxError(Diagnostic("0201", f"`{source.path}` has no function `{name}`", hint=hint))
    owners = sorted({key[0] for key in keys} - {""})
    if len(owners) > 1:
        message = f"`{name}` stands in {len(owners)} strategies: {', '.join(f'`{function_}`' for function_ in owners)}"
        raise ZyntaxError(Diagnostic("0204", message, hint=f"say which: --strategy {owners[0]}"))
    module = _module(checked, codes, keys, owners[0] if owners else strategy, source)
    examination = examine(by_span(codes, module), module, sources, level)
    reported = [function_ for function_ in examination.functions.values() if function_.code is not None and function_.code.key in keys]
    if not reported:
        message = f"`{name}` is never called, and has parameters that only a call makes known"
        raise ZyntaxError(Diagnostic("0201", message, hint="call it from a test or a handler"))
    return report_on(reported, examination, module, sources, level)


def _module(
    checked: "CheckedQuantProgram", codes: Mapping[Key, CodeUnit], keys: set[Key], strategy: str | None, source: Source
) -> HirModule:
    """The strategy's module, or one of the functions asked for; of all of a program, where only a call makes known what they take."""
    from quantdsl.elaborate import begin, elaborate
    from quantdsl.elaborate.strategies import elaborate_strategy

    if any(isinstance(statement, quant.Strategy) for statement in checked.program.statements):
        module, _ = elaborate_strategy(checked, strategy, source)
        spans = {codes[key].declaration.span for key in keys}
        if any(function.span in spans for function in module.functions.values()):
            return module
    asked = {codes[key].declaration.span for key in keys}
    elaboration = begin(checked, exported=True)
    plain = [s for s in checked.program.statements if isinstance(s, nodes.Function) and id(s) in elaboration.exported and s.span in asked]
    for statement in plain:
        elaboration.instance(statement)
    return elaboration.program.module if plain else elaborate(checked).module
