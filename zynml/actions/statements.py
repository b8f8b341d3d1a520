"""Actions for the statements and expressions that only ZynML has."""

from attrs import evolve

from compiler.syntax.base import present
from compiler.syntax.statements import StatementActions
from compiler.typed_ast import nodes
from compiler.typed_ast.stream_steps import STEPS
from grammars.faults import Token

_RENDER_FORMS = frozenset(["image", "heatmap", "chart", "histogram", "scatter", "table", "grid", "markdown"])


def _ends(call: nodes.Call) -> bool:
    form = STEPS.get(call.function.name) if isinstance(call.function, nodes.Name) else None
    return form is not None and form.ends


class ZynmlStatements(StatementActions):
    def render(self, start: int, end: int, value: nodes.Expression, *options: nodes.FieldValue | None) -> nodes.Statement:
        form = ""
        match value:
            case nodes.Call(function=nodes.Name(name=name), arguments=(nodes.Argument(name=None, value=only),)) if name in _RENDER_FORMS:
                form, value = name, only
        return nodes.Render(value=value, form=form, options=present(options), span=self.span(start, end))

    def stream(self, start: int, end: int, source: nodes.Expression) -> nodes.Expression:
        """The steps are calls that are piped into each other; what stands behind the one that ends the stream takes its value."""
        calls: list[nodes.Call] = []
        while isinstance(source, nodes.Call) and source.piped and isinstance(source.function, nodes.Name):
            calls.append(source)
            source = source.arguments[0].value
        calls.reverse()
        ends = next((number for number, call in enumerate(calls, 1) if _ends(call)), len(calls))
        steps = tuple(self._step(call) for call in calls[:ends])
        last = calls[ends - 1].span.end - self.offset if ends else end
        found: nodes.Expression = nodes.Stream(source=source, steps=steps, span=self.span(start, last))
        for call in calls[ends:]:
            piped = nodes.Argument(value=found, span=found.span)
            span = self.span(start, call.span.end - self.offset)
            found = evolve(call, arguments=(piped, *call.arguments[1:]), span=span)
        return found

    def _step(self, call: nodes.Call) -> nodes.StreamStep:
        assert isinstance(call.function, nodes.Name)
        span = self.span(call.function.span.start - self.offset, call.span.end - self.offset)
        return nodes.StreamStep(name=call.function.name, arguments=call.arguments[1:], span=span)

    def model(self, start: int, end: int, file: nodes.Expression, *entries: nodes.Entry | None) -> nodes.Expression:
        return nodes.LaterExpression(feature="a `model` with options", parts=(file, *present(entries)), span=self.span(start, end))

    def import_value(self, start: int, end: int, loader: Token, file: Token, target: nodes.TypeSyntax | None) -> nodes.Expression:
        parts = (self.string(file.start, file.end, file), *present((target,)))
        return nodes.LaterExpression(feature=f"`import {loader.text}(...)` as a value", parts=parts, span=self.span(start, end))
