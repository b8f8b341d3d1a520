"""`--set`: values of a program's `param`s, put where their defaults stand before anything is checked."""

from collections.abc import Mapping

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import nearest
from quantdsl.check.parameters import GIVEN, written
from quantdsl.parse import parse_expression
from quantdsl.run.options import refused
from runtime.records import evolve

_LITERALS = (nodes.IntLiteral, nodes.FloatLiteral, nodes.UnitNumber, nodes.BoolLiteral, nodes.Name)


def with_settings(program: nodes.Program, settings: Mapping[str, str], sources: Sources) -> nodes.Program:
    """The program with other defaults. Raises ZyntaxError."""
    parameters = {s.name: s for s in program.statements if isinstance(s, nodes.ProgramParameter)}
    for name in settings:
        if name not in parameters:
            near = nearest(name, parameters)
            known = f"it has {', '.join(f'`{parameter}`' for parameter in parameters)}" if parameters else "it has none"
            message = f"--set {name}: the program has no `param {name}`"
            raise ZyntaxError(Diagnostic("0201", message, hint=f"did you mean `{near[0]}`?" if near else known))
    if not settings:
        return program
    made = {name: _set(parameters[name], text, sources) for name, text in settings.items()}
    statements = [made.get(s.name, s) if isinstance(s, nodes.ProgramParameter) else s for s in program.statements]
    return evolve(program, statements=tuple(statements))


def _set(parameter: nodes.ProgramParameter, text: str, sources: Sources) -> nodes.ProgramParameter:
    source = sources.add(Source(f"{GIVEN}{parameter.name}", text))
    value = parse_expression(source.text, source.path)
    inner = value.operand if isinstance(value, nodes.Unary) and value.operator == "-" else value
    if not isinstance(inner, _LITERALS):
        raise refused(f"--set {parameter.name}={text}: this is no plain value", f"--set {parameter.name}={written(parameter.default)}")
    return evolve(parameter, default=value)
