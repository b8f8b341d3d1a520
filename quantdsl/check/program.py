"""Checks a whole program: its declarations, then what its annotations promise."""

from compiler.analysis.code_promises import prove
from compiler.diagnostics import Diagnostics
from compiler.typed_ast import nodes
from compiler.typed_ast.rebuild import rebuild
from compiler.typed_ast.scope import Variable, VariableKind
from quantdsl.check import blocks, calls, kinds, literals, operators, statements  # noqa: F401  They register their rules.
from quantdsl.check.checked import CheckedQuantProgram
from quantdsl.check.checker import quant_checker
from quantdsl.check.declarations import check_declarations, check_library
from quantdsl.check.resolve import resolve
from quantdsl.check.world import world_of
from quantdsl.critical.graph import call_graph
from runtime.records import evolve


def check_program(program: nodes.Program, memory: str | None = None) -> CheckedQuantProgram:
    """Checks one file. Never raises for what is wrong with the program. `memory`: a struct whose fields are variables everywhere."""
    diagnostics = Diagnostics()
    world = world_of(program, diagnostics)
    checker = quant_checker(world, diagnostics)
    for field in world.declared.structs[memory].fields if memory is not None else ():
        assert field.annotation is not None
        checker.top.add(Variable(field.name, resolve(checker, field.annotation, checker.top), VariableKind.STATE))
    check_declarations(checker, program)
    library = {name: rebuild(declaration, checker.findings) for name, declaration in world.library.items()}
    checked = CheckedQuantProgram(rebuild(program, checker.findings), world, library, diagnostics, checker.own.changes)
    if all(found.code == "0109" for found in diagnostics.errors):  # what can't be compiled yet may be what a promise rules out
        diagnostics.extend(prove(call_graph(checked)))
    return checked


def with_library_of(checked: CheckedQuantProgram, instrument: str) -> CheckedQuantProgram:
    """The program with the library's types as they are in a strategy on that instrument."""
    checker = quant_checker(checked.world, Diagnostics())
    check_library(checker, instrument, checked.world.instruments[instrument].currency.name)
    library = {name: rebuild(declaration, checker.findings) for name, declaration in checked.world.library.items()}
    return evolve(checked, library=library)
