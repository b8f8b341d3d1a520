"""Actions for the statements and expressions that only ZynML has."""

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.syntax.base import present
from compiler.syntax.statements import StatementActions
from compiler.typed_ast import nodes
from compiler.typed_ast.stream_steps import STEPS
from grammars.faults import Token
from runtime.records import evolve

_RENDER_FORMS = frozenset(["image", "heatmap", "chart", "histogram", "scatter", "table", "grid", "markdown"])


def _ends(call: nodes.Call) -> bool:
    form = STEPS.get(call.function.name) if isinstance(call.function, nodes.Name) else None
    return form is not None and form.ends


class ZynmlStatements(StatementActions):
    def shape_annotation(self, start: int, end: int, name: Token, *entries: nodes.Argument) -> nodes.Annotation:
        """`@shape(A: [M, K])`."""
        if name.text != "shape":
            hint = f"write `{entries[0].name} = ...`" if entries[0].name else None
            self.fault_at("0101", f"only `@shape` takes arguments with `:`, and this is `@{name.text}`", entries[0], hint)
        return self.annotation(start, end, name, entries)

    def render(self, start: int, end: int, value: nodes.Expression, *options: nodes.FieldValue | None) -> nodes.Statement:
        """`render form(value, option=e)`: options may stand in the form's brackets, too, and `scatter(x, y)` takes two values."""
        form = ""
        within: tuple[nodes.FieldValue, ...] = ()
        if isinstance(value, nodes.Call) and isinstance(value.function, nodes.Name) and value.function.name in _RENDER_FORMS:
            plain = [argument.value for argument in value.arguments if argument.name is None]
            named = [argument for argument in value.arguments if argument.name is not None]
            if len(plain) == 1 or (len(plain) == 2 and value.function.name == "scatter"):
                form = value.function.name
                within = tuple(nodes.FieldValue(name=a.name or "", value=a.value, span=a.span) for a in named)
                if len(plain) == 2:
                    within = (nodes.FieldValue(name="x", value=plain[0], span=plain[0].span), *within)
                value = plain[-1]
        return nodes.Render(value=value, form=form, options=(*within, *present(options)), span=self.span(start, end))

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
        """`model(file) { key: value }` is a call with its entries as named arguments."""
        span = self.span(start, end)
        named = tuple(self._option(entry) for entry in present(entries))
        name = nodes.Name(name="model", span=self.span(start, start + len("model")))
        return nodes.Call(function=name, arguments=(nodes.Argument(value=file, span=file.span), *named), span=span)

    def _option(self, entry: nodes.Entry) -> nodes.Argument:
        match entry.key:
            case nodes.Name(name=name) | nodes.StringLiteral(value=name):
                return nodes.Argument(name=name, value=entry.value, span=entry.span)
        raise ZyntaxError(Diagnostic("0101", "an option of `model` is a name", entry.key.span))

    def import_value(self, start: int, end: int, loader: Token, file: Token, target: nodes.TypeSyntax | None) -> nodes.Expression:
        """`import image("a.png") as Image` is a call of the library, with `as` behind it."""
        span = self.span(start, end)
        kind = nodes.StringLiteral(value=loader.text, span=self.span(loader.start, loader.end))
        path = self.string(file.start, file.end, file)
        arguments = (nodes.Argument(value=kind, span=kind.span), nodes.Argument(value=path, span=path.span))
        call = nodes.Call(function=nodes.Path(segments=("extern", "import value"), span=kind.span), arguments=arguments, span=span)
        return call if target is None else nodes.Cast(value=call, target=target, span=span)
