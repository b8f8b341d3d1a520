"""The parameters of a program (`param`) and what is set for them."""

from collections.abc import Mapping
from pathlib import Path

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import nearest


def check_parameters(program: nodes.Program, given: Mapping[str, str]) -> None:
    """Every `--set` names a `param` of the program."""
    known = [s.name for s in program.statements if isinstance(s, nodes.ProgramParameter)]
    wrong = [name for name in given if name not in known]
    if wrong:
        near = nearest(wrong[0], known)
        hint = f"did you mean `{near[0]}`?" if near else f"it has {', '.join(f'`{k}`' for k in known)}" if known else "it has none"
        raise ZyntaxError(Diagnostic("0201", f"--set {wrong[0]}: `{Path(program.path).name}` has no `param {wrong[0]}`", hint=hint))
