"""Programs kept in the user's cache: what must be known of one before a function of it is called. A text that another process found to
be right, with these options and this compiler, isn't parsed and checked again until a call isn't kept itself (see `launch.cuda.kept`)."""

from collections.abc import Mapping
from typing import Any

from compiler.diagnostics import Diagnostic, Label, Severity
from compiler.launch.cache import PROGRAMS
from compiler.launch.returning import Returning
from compiler.options import CompileOptions, origin
from compiler.source import Source, Span
from compiler.typed_ast.function_heads import FunctionHead, ParameterHead
from runtime.cache.identity import compiler_identity
from runtime.cache.store import store
from runtime.device import is_present, parse_device
from runtime.records import as_plain, evolve, frozen

if store() is not None:
    compiler_identity()  # of the files as they are loaded, before anyone edits them


@frozen
class KeptProgram:
    """`functions` by name, with what decides how their calls on a GPU come back. `devices`: those that it names, which must be here;
    `warnings`: what was said of it."""

    functions: Mapping[str, Returning | None]
    devices: tuple[str, ...]
    heads: Mapping[str, FunctionHead]
    warnings: tuple[Diagnostic, ...] = ()


def found(source: Source, options: CompileOptions) -> KeptProgram | None:
    """The program of this text; None where no process kept it, or a device that it names isn't here."""
    program = PROGRAMS.find(lambda: PROGRAMS.name(*origin(source, options)), _revived)
    return program if program is not None and all(is_present(parse_device(name)) for name in program.devices) else None


def keep(made_of: tuple[str, ...], program: KeptProgram) -> None:
    """Puts a program there that is made of this (see `origin`), if there is a cache."""
    returning = program.functions.items()
    functions = [[name, None if result is None else {**as_plain(result), "sizes": sorted(result.sizes)}] for name, result in returning]
    heads = [[name, as_plain(evolve(head, span=None))] for name, head in program.heads.items()]
    warnings = [as_plain(warning) for warning in program.warnings]
    head = {"functions": functions, "devices": program.devices, "heads": heads, "warnings": warnings}
    PROGRAMS.keep(lambda: PROGRAMS.name(*made_of), head)


def _revived(head: dict[str, Any], image: bytes) -> KeptProgram:
    functions = {name: _returning(fields) for name, fields in head["functions"]}
    heads = {name: _head(fields) for name, fields in head["heads"]}
    return KeptProgram(functions, tuple(head["devices"]), heads, tuple(as_diagnostic(fields) for fields in head["warnings"]))


def as_diagnostic(fields: dict[str, Any]) -> Diagnostic:
    """A diagnostic of the fields that `as_plain` gives."""
    others = [Label(**{**label, "span": _span(label["span"])}) for label in fields["others"]]
    return Diagnostic(**{**fields, "span": _span(fields["span"]), "others": others, "severity": Severity(fields["severity"])})


def _span(fields: dict[str, Any] | None) -> Any:
    return None if fields is None else Span(**fields)


def _head(fields: dict[str, Any]) -> FunctionHead:
    return FunctionHead(**{**fields, "parameters": [ParameterHead(**parameter) for parameter in fields["parameters"]]})


def _returning(fields: dict[str, Any] | None) -> Returning | None:
    return None if fields is None else Returning(**{**fields, "sizes": frozenset(fields["sizes"])})
