"""Functions of nothing but compute blocks: what is one, and that a chain of calls is looked at once for each function."""

import pytest

from compiler.source import Source
from compiler.typed_ast import nodes
from compiler.typed_ast.straight import is_straight
from zynml.parse import parse_source

BLOCK = "def f0(p: tensor[N]): tensor { compute(p) { for i in 0..N: out[i] = p[i] + 1.0 } }\n"


def _is_straight(name: str, text: str) -> bool:
    program = parse_source(Source("program.zynml", text))
    functions = {statement.name: statement for statement in program.statements if isinstance(statement, nodes.Function)}
    return is_straight(functions[name], functions, ())


def test_a_long_chain_of_calls_is_straight() -> None:
    chain = "".join(f"def f{link}(p: tensor[N]): tensor {{ f{link - 1}(f{link - 1}(p)) }}\n" for link in range(1, 100))
    assert _is_straight("f99", BLOCK + chain)


@pytest.mark.parametrize(
    "text",
    [
        "def f(p: tensor[N]): tensor { f(p) }",
        "def f(p: tensor[N]): tensor { g(f0(p)) }\ndef g(p: tensor[N]): tensor { f(p) }",
        "def f(p: tensor[N]): tensor { println(1)\n f0(p) }",
        "def f(p: tensor[N]): tensor { if true { f0(p) } else { p } }",
    ],
    ids=["calls itself", "calls itself by another", "prints", "branches"],
)
def test_a_function_that_does_more_is_not_straight(text: str) -> None:
    assert not _is_straight("f", BLOCK + text + "\n")
