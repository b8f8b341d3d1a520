"""What is said of programs, for tools: errors and warnings as values, and what they are as text, JSON and SARIF."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compiler.diagnostics import Diagnostic as Diagnostic
from compiler.diagnostics import Label as Label
from compiler.diagnostics import Severity as Severity
from compiler.diagnostics import ZyntaxError as ZyntaxError
from compiler.diagnostics import render as render
from compiler.diagnostics import to_json as to_json
from compiler.source import Source as Source
from compiler.source import Sources as Sources
from compiler.source import Span as Span

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def check(source: str | Path, language: str | None = None) -> tuple[tuple[Diagnostic, ...], Sources]:
    """All errors and warnings of a program, a text or the file that a `Path` names, without running it, and the
    texts that they are about."""
    from compiler.languages import language_named, language_of
    from compiler.options import CompileOptions
    from compiler.syntax.read import read_source

    found: list[Diagnostic] = []
    sources = Sources()
    try:
        if isinstance(source, Path):
            chosen = language_of(str(source)) if language is None else language_named(language)
            text = read_source(source)
        else:
            chosen, text = language_named(language or "zynml"), Source("<program>", source)
        chosen.check(sources.add(text), CompileOptions(), sources, found.extend)
    except ZyntaxError as error:
        found += error.diagnostics
    return tuple(found), sources


def to_sarif(diagnostics: Iterable[Diagnostic], sources: Sources) -> dict[str, Any]:
    """A log of SARIF 2.1.0, the form in which code hosts show findings beside the lines, as plain data for JSON."""
    from compiler.codes import CODES
    from zynml.pickled import version

    listed = list(diagnostics)
    rules = []
    for code in sorted({diagnostic.full_code for diagnostic in listed}):
        known = CODES.get(code.removeprefix("ZYN"))
        rules.append({"id": code, **({"shortDescription": {"text": known.title}} if known is not None else {})})
    driver = {"name": "zyntax", "version": version(), "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_result(one, sources) for one in listed]}],
    }


def _result(diagnostic: Diagnostic, sources: Sources) -> dict[str, Any]:
    words = "\n".join([diagnostic.message, *diagnostic.notes, *([f"hint: {diagnostic.hint}"] if diagnostic.hint else [])])
    result: dict[str, Any] = {"ruleId": diagnostic.full_code, "level": _LEVELS[diagnostic.severity], "message": {"text": words}}
    if diagnostic.span is not None:
        result["locations"] = [_location(diagnostic.span, diagnostic.label, sources)]
    if diagnostic.others:
        result["relatedLocations"] = [_location(other.span, other.text, sources) for other in diagnostic.others]
    return result


def _location(span: Span, text: str, sources: Sources) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": span.path}}
    source = sources.get(span.path)
    if source is not None:
        line, column = source.line_and_column(span.start)
        end_line, end_column = source.line_and_column(span.end)
        place["region"] = {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}
    return {"physicalLocation": place, **({"message": {"text": text}} if text else {})}
