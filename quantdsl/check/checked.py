"""A program that is checked, for all that read it: it holds values alone."""

from collections.abc import Mapping

from compiler.diagnostics import Diagnostics
from compiler.source import Span
from compiler.typed_ast import nodes
from quantdsl.check.world import Callee, World
from runtime.records import Factory, frozen


@frozen
class CheckedQuantProgram:
    """The program with the type of each expression (`quantdsl.types`), what it declares, and all that is wrong with it; errors make the
    types of what they touch ErrorType. `library`: what it uses of the standard library, by name. `changes`: its assignments and calls that
    change states, each with the state's name. The insides of compute blocks keep no types."""

    program: nodes.Program
    world: World
    library: Mapping[str, Callee]
    diagnostics: Diagnostics
    changes: Mapping[Span, str] = Factory(dict)
