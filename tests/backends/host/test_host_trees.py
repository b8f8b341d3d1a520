"""Trees built by hand: what no parser makes, and programs of languages without a library."""

import inspect

import pytest
from host_programs import Recorder

from compiler.backends.host import expressions
from compiler.backends.host.program import compile_program
from compiler.diagnostics import ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.library import Library

HERE = Span("p", 3, 9)


def program(*statements: nodes.Statement) -> nodes.Program:
    return nodes.Program(path="p", statements=statements)


def test_a_program_without_text_and_library_runs() -> None:
    added = nodes.Binary(operator="+", left=nodes.Name(name="n"), right=nodes.IntLiteral(value=1))
    body = nodes.Block(statements=[nodes.ExpressionStatement(value=added)])
    function = nodes.Function(name="next", parameters=[nodes.Parameter(name="n")], body=body)
    assert compile_program(program(function), Library(), Recorder()).functions["next"](41) == 42


def test_spans_of_a_program_without_text_are_kept() -> None:
    division = nodes.Binary(operator="/", left=nodes.IntLiteral(value=1), right=nodes.IntLiteral(value=0), span=HERE)
    host = compile_program(program(nodes.ExpressionStatement(value=division)), Library(), Recorder())
    with pytest.raises(ZyntaxError) as caught:
        host.run()
    assert [(d.code, d.message, d.span) for d in caught.value.diagnostics] == [("0806", "1 / 0: division by zero", HERE)]


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        (nodes.Break(span=HERE), "0101", "`break` stands outside of a loop"),
        (nodes.Continue(span=HERE), "0101", "`continue` stands outside of a loop"),
        (nodes.Return(span=HERE), "0101", "`return` stands outside of a function"),
        (nodes.Yield(value=nodes.IntLiteral(value=1), span=HERE), "0408", "`yield` stands outside a compute block"),
        (nodes.SharedVariable(name="s", span=HERE), "0413", "`shared var` stands outside a compute block"),
        (nodes.LaterStatement(feature="`stream`", span=HERE), "0109", "`stream` is valid, but not supported yet"),
        (nodes.LaterDeclaration(feature="`effect`", span=HERE), "0109", "`effect` is valid, but not supported yet"),
        (nodes.ExpressionStatement(value=nodes.Name(name="nowhere", span=HERE)), "0201", "there is no `nowhere` here"),
        (nodes.ExpressionStatement(value=nodes.IntLiteral(value=300, suffix="u8", span=HERE)), "0207", "300 as u8 does not fit in u8"),
        (nodes.Assign(target=nodes.Name(name="x", span=HERE), value=nodes.IntLiteral(value=1)), "0201", "there is no `x` here"),
    ],
)
def test_what_a_checker_would_refuse_is_refused_here_too(statement: nodes.Statement, code: str, said: str) -> None:
    with pytest.raises(ZyntaxError) as caught:
        compile_program(program(statement), Library(), Recorder())
    assert [(d.code, d.message, d.span) for d in caught.value.diagnostics] == [(code, said, HERE)]


def test_every_expression_node_is_known_or_said_to_come_later() -> None:
    waiting, known = [nodes.Expression], set()
    while waiting:
        cls = waiting.pop()
        known.add(cls)
        waiting += cls.__subclasses__()
    text = inspect.getsource(expressions)
    inner = {nodes.Expression, nodes.Slice, nodes.EllipsisIndex}
    assert [cls.__name__ for cls in known - inner if f"nodes.{cls.__name__}" not in text] == []
