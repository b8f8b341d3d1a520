"""Actions for the statements and expressions that only ZynML has."""

from compiler.syntax.base import present
from compiler.syntax.statements import StatementActions
from compiler.typed_ast import nodes
from grammars.faults import Token

_RENDER_FORMS = frozenset(["image", "heatmap", "chart", "histogram", "scatter", "table", "grid", "markdown"])


class ZynmlStatements(StatementActions):
    def render(self, start: int, end: int, value: nodes.Expression, *options: nodes.FieldValue | None) -> nodes.Statement:
        form = ""
        match value:
            case nodes.Call(function=nodes.Name(name=name), arguments=(nodes.Argument(name=None, value=only),)) if name in _RENDER_FORMS:
                form, value = name, only
        return nodes.Render(value=value, form=form, options=present(options), span=self.span(start, end))

    def stream(self, start: int, end: int, source: nodes.Expression) -> nodes.Expression:
        return nodes.LaterExpression(feature="`stream`", parts=(source,), span=self.span(start, end))

    def model(self, start: int, end: int, file: nodes.Expression, *entries: nodes.Entry | None) -> nodes.Expression:
        return nodes.LaterExpression(feature="a `model` with options", parts=(file, *present(entries)), span=self.span(start, end))

    def import_value(self, start: int, end: int, loader: Token, file: Token, target: nodes.TypeSyntax | None) -> nodes.Expression:
        parts = (self.string(file.start, file.end, file), *present((target,)))
        return nodes.LaterExpression(feature=f"`import {loader.text}(...)` as a value", parts=parts, span=self.span(start, end))
