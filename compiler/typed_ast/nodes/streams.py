"""Streams: a source and the steps through which its values go, one by one."""

from compiler.typed_ast.nodes.bases import Expression, Node, children
from compiler.typed_ast.nodes.expressions import Argument
from runtime.records import frozen_in_types


@frozen_in_types(kw_only=True)
class StreamStep(Node):
    """`map(f)`, `window(64, step=8)`."""

    name: str
    arguments: tuple[Argument, ...] = children


@frozen_in_types(kw_only=True)
class Stream(Expression):
    """`stream source |> window(64) |> map(f) |> sink(s)`. The step that asks for the values, if there is one, is the last."""

    source: Expression
    steps: tuple[StreamStep, ...] = children
