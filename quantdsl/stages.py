"""A program at each stage of its way down, as text: `zyntax compile s.qdsl --emit hir`."""

from typing import TYPE_CHECKING

from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.text import print_module
from compiler.source import Source, Sources
from quantdsl import tree_json
from quantdsl.nodes import Strategy
from quantdsl.run.open import CompileRequest, Warn, checked_program, elaborated

if TYPE_CHECKING:
    from compiler.backends.native.compile import HostModule

STAGES = ("ast", "typed-ast", "hir", "llvm", "asm", "obj")


def stage(name: str, source: Source, wishes: CompileRequest, sources: Sources, warn: Warn) -> str | bytes:
    """The program's strategy, or where it has none its functions, at a stage. Raises ZyntaxError."""
    if name == "typed-ast":
        return tree_json.to_json(checked_program(source, wishes, sources).program, indent=1)
    module = _module(source, wishes, sources, warn)
    if name == "hir":
        return print_module(module)
    compiled = _compiled(module, wishes)
    match name:
        case "llvm":
            return compiled.llvm
        case "asm":
            return compiled.asm
    return compiled.object


def _module(source: Source, wishes: CompileRequest, sources: Sources, warn: Warn) -> HirModule:
    checked = checked_program(source, wishes, sources)
    if wishes.strategy is not None or any(isinstance(statement, Strategy) for statement in checked.program.statements):
        return elaborated(source, wishes, sources, warn, lambda activity: None)[0]
    from quantdsl.elaborate import elaborate

    return elaborate(checked).module


def _compiled(module: HirModule, wishes: CompileRequest) -> "HostModule":
    from compiler.backends.native.compile import compile_module

    return compile_module(module, OptimizationLevel(wishes.level))
