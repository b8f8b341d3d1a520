"""Tests of languages, for their authors."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

from compiler.authoring.codes import codes_of
from compiler.authoring.conflicts import shifted, tables_of
from compiler.authoring.front import AuthoredFront
from compiler.authoring.language import AuthoredLanguage as Language
from compiler.diagnostics import ZyntaxError, render
from compiler.options import CompileOptions
from compiler.source import Source, Sources
from compiler.syntax.read import read_source
from compiler.typed_ast.nodes import Node, Program
from compiler.typed_ast.walk import walk
from zyntax.ast import from_json, to_json
from zyntax.expectations import expectations, mismatch


def check_language(language: Language, folder: str | Path) -> list[str]:
    """What is wrong with a language, in words, by its grammar, its actions, its kernels, its codes, and the programs in a folder, each of
    which states at its head what it prints (`// prints: 30`, with the language's own sign for comments) or with which code it fails
    (`// fails: IMG0201`). Of each program that parses, every node stands in the text, and the tree survives JSON."""
    problems = [*_of_itself(language)]
    if problems:
        return problems
    programs = sorted(path for path in Path(folder).rglob("*") if path.suffix in language.endings)
    if not programs:
        shown = " or ".join(f"`{ending}`" for ending in language.endings)
        return [f"{folder} has no programs, whose names end in {shown}"]
    return [f"{path}: {problem}" for path in programs for problem in _of_program(language, path)]


def _of_itself(language: Language) -> Iterator[str]:
    front = language.front
    assert isinstance(front, AuthoredFront)
    try:
        tables = tables_of(front.grammar, language)
        known: tuple[tuple[str, str], ...] = ()
        if front.grammar.layout:
            from grammars.loader import conflicts

            known = tuple(conflicts(front.base.grammar))
        yield from (f"{front.grammar.files[-1].name}: {words}" for words in shifted(front.grammar, known))
        codes_of(language)
        kernels = front.kernels
        front.actions_for(tables)
    except ZyntaxError as error:
        yield from _messages(error, Sources())
        return
    if kernels is not None:
        sources = Sources(kernels.source)
        try:
            front.base.check(kernels.source, CompileOptions(), sources, lambda warnings: None)
        except ZyntaxError as error:
            yield from _messages(error, sources)


def _of_program(language: Language, path: Path) -> Iterator[str]:
    sources = Sources()
    output = io.StringIO()
    code, words = None, ""
    try:
        source = sources.add(read_source(path))
        expected = expectations(source.text, language.comment)
    except ZyntaxError as error:
        yield from _messages(error, sources)
        return
    try:
        yield from _of_tree(language.parse(source), source)
        options = CompileOptions(device=expected.device, parameters=dict(expected.settings))
        with contextlib.redirect_stdout(output):
            language.open(source, options, sources, lambda warning: None).run()
    except ZyntaxError as error:
        code, words = error.diagnostics[0].full_code, "\n".join(_messages(error, sources))
        if expected.fails in [diagnostic.full_code for diagnostic in error.diagnostics]:
            code = expected.fails
    if code != expected.fails:
        yield words or f"it should fail with {expected.fails}, and ran to its end"
        return
    differs = mismatch(expected.lines, output.getvalue()) if expected.lines else None
    if differs is not None:
        yield differs


def _of_tree(tree: Program, source: Source) -> Iterator[str]:
    for node in walk(tree):
        if node.span.path != source.path or not 0 <= node.span.start <= node.span.end <= len(source.text):
            yield f"`{type(node).__name__}` doesn't stand in the text: {_where(node)}"
    try:
        if from_json(to_json(tree)) != tree:
            yield "its tree is another after it went through JSON"
    except (ValueError, TypeError) as error:
        yield f"its tree doesn't go through JSON: {error}"


def _where(node: Node) -> str:
    return f"its place is {node.span.path or 'nowhere'}, characters {node.span.start} to {node.span.end}"


def _messages(error: ZyntaxError, sources: Sources) -> list[str]:
    return [render(diagnostic, sources) for diagnostic in error.diagnostics]
