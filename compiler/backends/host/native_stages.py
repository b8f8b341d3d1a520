"""The native functions of a program at each stage of their way down, as text."""

from compiler.backends.host.native_code import lowered
from compiler.backends.native.compile import compile_module
from compiler.hir.text import print_module
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.effects import effects
from compiler.typed_ast.native_calls import has_native_code
from runtime.cpu.load import CodeTarget


def native_stage(checker: Checker, program: nodes.Program, stage: str, target: CodeTarget | None = None) -> str:
    """`native-hir`, `native-llvm` or `native-asm` of a typed program without errors, for a machine; None: this one."""
    found = effects(checker, program, has_native_code)
    module = lowered(checker, found, [own.name for own in found.static]).module
    if stage == "native-hir":
        return print_module(module)
    compiled = compile_module(module, tells_callers=True, target=target)
    return compiled.llvm if stage == "native-llvm" else compiled.asm
