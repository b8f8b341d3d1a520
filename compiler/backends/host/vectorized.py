"""Functions of a program that say `@vectorizable`: what keeps their loops from running several turns at once."""

from collections.abc import Iterator

from compiler.analysis.vectorizable import broken_promises
from compiler.backends.host.native_code import lowered
from compiler.diagnostics import Diagnostic
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.effects import effects
from compiler.typed_ast.function_annotations import VECTORIZABLE
from compiler.typed_ast.native_calls import has_native_code


def not_vectorizable(checker: Checker, program: nodes.Program) -> Iterator[Diagnostic]:
    """`program` is typed, without errors, and its functions that say so are native."""
    found = effects(checker, program, has_native_code)
    asked = {
        own.name: annotation.span
        for own in found.static
        for annotation in own.function.annotations
        if annotation.name == VECTORIZABLE
    }
    made = lowered(checker, found, list(asked))
    for name, span in asked.items():
        if name in made.symbols:
            yield from broken_promises(made.module.functions[made.symbols[name]], f"`{name}`", span)
