"""What `explain` says of a program's native functions, of its loops, and of blocks that are split over devices, as lines of text."""

from functools import partial
from typing import TYPE_CHECKING, Protocol

from compiler.backends.host.native_explained import loops_explained, native_explained
from compiler.devices.explain import splits_explained
from compiler.fusion.program_kernels import ProgramFile
from compiler.typed_ast import nodes
from compiler.typed_ast.check import checker_of
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.program_functions import functions_of
from compiler.typed_ast.walk import walk

if TYPE_CHECKING:
    from compiler.typed_ast.language import SessionLanguage


class ExplainedProgram(ProgramFile, Protocol):
    @property
    def language(self) -> "SessionLanguage":
        """The language that the program is written in."""


def explained(program: ExplainedProgram, checker: Checker, native: nodes.Program) -> str:
    """Which functions are native, and why the others aren't, which loops go on natively, and which blocks are split. `native`: the tree as
    native functions are made of it, whose declarations `checker` knows. Raises ZyntaxError."""
    of_program = partial(checker_of, library=program.language.library, meaning=program.language.meaning)
    loops = loops_explained(of_program, native, program.sources)
    return native_explained(checker, native, program.sources) + loops + _splits(program)


def _splits(program: ExplainedProgram) -> str:
    typed = program.check()
    functions = functions_of(typed)
    blocks = (node for node in walk(typed) if isinstance(node, nodes.Compute))
    return splits_explained(blocks, lambda block: program.blocks.shown(block, functions).analysed.split, program.sources)
