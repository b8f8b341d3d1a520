"""Actions for what stands in strategies and signals: state, handlers, `emit` and the like."""

from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from grammars.faults import Token
from quantdsl import nodes as quant
from quantdsl.actions.expressions import QuantExpressions
from quantdsl.events import EVENTS, EventDeclaration

_Arguments = tuple[nodes.Argument, ...]
_METHODS = ("average", "fifo")


class QuantStatements(QuantExpressions):
    annotatable = (*QuantExpressions.annotatable, quant.Strategy, quant.Signal, quant.Handler)

    def risk_named(self, start: int, end: int, name: Token) -> nodes.Statement:
        return quant.RiskNamed(name=name.text, span=self.span(start, end))

    def accounting(self, start: int, end: int, method: Token) -> nodes.Statement:
        if method.text not in _METHODS:
            self.fault(
                "0101",
                f"`{method.text}` is no method of accounting",
                method.start,
                method.end,
                "methods are `average` (the default) and `fifo`",
            )
        return quant.Accounting(method=method.text, span=self.span(start, end))

    def state(
        self, start: int, end: int, name: Token, annotation: nodes.TypeSyntax | None, value: nodes.Expression | None
    ) -> nodes.Statement:
        if annotation is None and value is None:
            self.fault("0101", f"expected a type or a value after `state {name.text}`", start, end, f"write `state {name.text}: int = 0`")
        return quant.State(name=name.text, name_span=self.token_span(name), annotation=annotation, value=value, span=self.span(start, end))

    def emit(self, start: int, end: int, value: nodes.Expression) -> nodes.Statement:
        return quant.Emit(value=value, span=self.span(start, end))

    def warmup(self, start: int, end: int, calls: nodes.Expression) -> nodes.Statement:
        return quant.Warmup(calls=calls, span=self.span(start, end))

    def bounded_while(
        self, start: int, end: int, condition: nodes.Expression, bound: nodes.Expression, body: nodes.Block
    ) -> nodes.Statement:
        return nodes.While(condition=condition, bound=bound, body=body, span=self.span(start, end))

    # ---- handlers ---------------------------------------------------------------------------------------------------------

    def handler(
        self, start: int, end: int, name: Token, first: _Arguments | None, second: _Arguments | None, body: nodes.Block
    ) -> nodes.Statement:
        event = EVENTS.get(name.text)
        if event is None:
            self.fault(
                "0201",
                f"there is no event `{name.text}`",
                name.start,
                name.end,
                did_you_mean(name.text, EVENTS) or f"events are {', '.join(f'`{known}`' for known in EVENTS)}",
            )
            event = EventDeclaration()
        settings, record = (first, second) if event.setting is not None else (None, first)
        faults = len(self.faults)
        if event.setting is not None and (first is None or len(first) != 1):
            self._misused(name, f"`on {name.text}` takes {event.setting}", event)
        elif event.setting is None and second is not None:
            self._misused(name, f"`on {name.text}` is set to nothing", event)
        elif record is not None and not event.record:
            self._misused(name, f"`on {name.text}` has no record", event)
        named = self._record(record or (), event, name) if len(self.faults) == faults else None
        return quant.Handler(
            event=name.text,
            event_span=self.token_span(name),
            settings=settings or (),
            record=named.name if named else None,
            record_span=named.span if named else nodes.Node().span,
            body=body,
            span=self.span(start, end),
        )

    def _misused(self, name: Token, message: str, event: EventDeclaration) -> None:
        self.fault("0204", message, name.start, name.end, f"write `{event.example}`" if event.example else None)

    def _record(self, arguments: _Arguments, event: EventDeclaration, name: Token) -> nodes.Name | None:
        """The name that a handler gives to its event's record."""
        match arguments:
            case ():
                return None
            case (nodes.Argument(name=None, value=nodes.Name() as record),):
                return record
        self._misused(name, f"expected one name for the record of `on {name.text}`", event)
        return None
