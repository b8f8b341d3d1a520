"""`--set`: values of a program's `param`s, put where their defaults stand before anything is checked."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import attrs

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import nearest
from quantdsl import types as qt
from quantdsl.check import CheckedProgram
from quantdsl.check.exact import decimal
from quantdsl.parse import parse_expression
from quantdsl.run.options import UNITS, refused

_FACTORS = {**{unit: Fraction(size) for unit, size in UNITS.items()}, "bps": Fraction(1, 10_000), "pct": Fraction(1, 100)}
_LITERALS = (nodes.IntLiteral, nodes.FloatLiteral, nodes.UnitNumber, nodes.BoolLiteral, nodes.Name)


def with_settings(program: nodes.Program, settings: Mapping[str, str], sources: Sources) -> nodes.Program:
    """The program with other defaults. Raises ZyntaxError."""
    parameters = {s.name: s for s in program.statements if isinstance(s, nodes.ProgramParameter)}
    for name in settings:
        if name not in parameters:
            near = nearest(name, parameters)
            known = f"it has {', '.join(f'`{one}`' for one in parameters)}" if parameters else "it has none"
            message = f"--set {name}: the program has no `param {name}`"
            raise ZyntaxError(Diagnostic("0201", message, hint=f"did you mean `{near[0]}`?" if near else known))
    if not settings:
        return program
    made = {name: _set(parameters[name], text, sources) for name, text in settings.items()}
    statements = [made.get(s.name, s) if isinstance(s, nodes.ProgramParameter) else s for s in program.statements]
    return attrs.evolve(program, statements=tuple(statements))


def _set(parameter: nodes.ProgramParameter, text: str, sources: Sources) -> nodes.ProgramParameter:
    source = sources.add(Source(f"--set {parameter.name}", text))
    value = parse_expression(source.text, source.path)
    inner = value.operand if isinstance(value, nodes.Unary) and value.operator == "-" else value
    if not isinstance(inner, _LITERALS):
        raise refused(f"--set {parameter.name}={text}: this is no plain value", f"--set {parameter.name}={_shown(parameter.default)}")
    return attrs.evolve(parameter, default=value)


def require_ranges(checked: CheckedProgram, settings: Mapping[str, str]) -> None:
    """Values that were set lie in the ranges of their parameters. Raises ZyntaxError."""
    for parameter in checked.program.statements:
        if (
            not isinstance(parameter, nodes.ProgramParameter)
            or parameter.name not in settings
            or not isinstance(parameter.range, nodes.Range)
        ):
            continue
        within = parameter.range
        found, low, high = (_value(node, checked) for node in (parameter.default, within.low, within.high))
        if found is None or low is None or high is None:
            continue
        if not (low <= found <= high if within.inclusive else low <= found < high):
            shown = f"{_shown(within.low)}..{'=' if within.inclusive else ''}{_shown(within.high)}"
            raise refused(f"--set {parameter.name}={settings[parameter.name]}: `{parameter.name}` is in {shown}")


def _value(node: nodes.Expression, checked: CheckedProgram) -> Fraction | None:
    """A literal's value in the units of its type: lots, ns, the currency, 1."""
    number = decimal(node)
    inner = node.operand if isinstance(node, nodes.Unary) else node
    unit = inner.unit if isinstance(inner, nodes.UnitNumber) else None
    if number is not None and isinstance(inner.type, qt.QtyType) and unit is None:
        instrument = checked.world.instruments.get(inner.type.of or "")
        return number / instrument.lot if instrument is not None else None
    return None if number is None else number * _FACTORS.get(unit or "", Fraction(1))


def _shown(node: Any) -> str:
    """A literal as it was written."""
    match node:
        case nodes.Unary(operator=operator, operand=operand):
            return f"{operator}{_shown(operand)}"
        case nodes.UnitNumber(text=text, unit=unit):
            return f"{text}{unit}"
        case nodes.IntLiteral(value=value):
            return str(value)
        case nodes.FloatLiteral(text=text, value=value):
            return text or repr(value)
        case nodes.BoolLiteral(value=value):
            return "true" if value else "false"
        case nodes.Name(name=name):
            return name
    return "..."
