"""The declarations that every program can use, read from `prelude.qdsl`."""

from functools import cache
from pathlib import Path

from compiler.syntax.parse import parse_with
from compiler.typed_ast import nodes
from quantdsl.actions import QuantActions

_FILE = Path(__file__).parents[1] / "prelude.qdsl"


class _PreludeActions(QuantActions):
    """Functions of the prelude also tell what they do that a program's own can't: read the market, act on it, remember."""

    effects = (*QuantActions.effects, "book", "order", "cancel", "memory")


@cache
def prelude() -> nodes.Program:
    program = parse_with(_PreludeActions("<prelude>", _FILE.read_text(encoding="utf-8")), "program")
    assert isinstance(program, nodes.Program)
    return program
