"""Runs the `test` blocks of a program, compiled."""

from compiler.backends.native.compile import compile_module, link_modules
from compiler.diagnostics import Diagnostic
from compiler.hir.layout import new_memory
from compiler.hir.module import OptimizationLevel
from quantdsl.check.checked import CheckedQuantProgram
from quantdsl.elaborate import elaborate
from quantdsl.run.failure import words


def run_tests(checked: CheckedQuantProgram, level: OptimizationLevel = OptimizationLevel.OLATENCY) -> list[tuple[str, Diagnostic | None]]:
    """Each test's name and what went wrong, in the order written. A test begins with signals that were never called. Raises ZyntaxError
    for what can't be compiled yet."""
    program = elaborate(checked, functions=False)
    if not program.tests:
        return []
    linked = link_modules([compile_module(program.module, level)])
    found: list[tuple[str, Diagnostic | None]] = []
    for test in program.tests:
        fault = linked[test.function].run([new_memory(test.memory)]).fault
        found.append((test.name, words(fault, linked) if fault is not None else None))
    return found
