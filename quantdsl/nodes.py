"""The nodes that only QuantDSL's trees have, beside those of `compiler.typed_ast.nodes`: what a market is, what is risked on it, and what
is done when something happens there."""

from compiler.source import NOWHERE, Span
from compiler.typed_ast.nodes import (
    Annotation,
    Argument,
    Block,
    Declaration,
    Expression,
    FieldValue,
    Node,
    Parameter,
    Statement,
    TypeParameter,
    TypeSyntax,
)
from runtime.records import field, frozen_in_types
from runtime.tuples import as_tuple

_tuple = field(default=(), converter=as_tuple)


@frozen_in_types(kw_only=True)
class Clause(Node):
    """`rate 50 per 1s`: the clause's word and the value of each slot of its form (`grammars.clauses`); a word that may be left out, like
    the `all` of `rate all 50 per 1s`, is there as true."""

    name: str
    name_span: Span = NOWHERE
    values: tuple[FieldValue, ...] = _tuple

    def value(self, slot: str) -> Expression | None:
        """What stands in a slot, None where it was left out."""
        return next((found.value for found in self.values if found.name == slot), None)


@frozen_in_types(kw_only=True)
class Currency(Declaration):
    """`currency USD { scale 8 }`."""

    name: str
    name_span: Span = NOWHERE
    clauses: tuple[Clause, ...] = _tuple


@frozen_in_types(kw_only=True)
class Instrument(Declaration):
    """`instrument ES : USD { tick 0.25 lot 1 multiplier 50 }`."""

    name: str
    name_span: Span = NOWHERE
    currency: str
    currency_span: Span = NOWHERE
    clauses: tuple[Clause, ...] = _tuple


@frozen_in_types(kw_only=True)
class Risk(Declaration):
    """`risk Desk for ES { max_order_qty 10lots }`."""

    name: str
    name_span: Span = NOWHERE
    instrument: str
    instrument_span: Span = NOWHERE
    clauses: tuple[Clause, ...] = _tuple


@frozen_in_types(kw_only=True)
class Traded(Node):
    """An instrument behind a strategy's `on`."""

    name: str


@frozen_in_types(kw_only=True)
class Strategy(Declaration):
    """`strategy Cross on ES { }`. Its body holds `risk`, `accounting`, `state`, constants, functions, structs and handlers."""

    name: str
    name_span: Span = NOWHERE
    instruments: tuple[Traded, ...] = _tuple
    body: Block
    annotations: tuple[Annotation, ...] = _tuple


@frozen_in_types(kw_only=True)
class RiskNamed(Statement):
    """`risk Desk` in a strategy."""

    name: str


@frozen_in_types(kw_only=True)
class Accounting(Statement):
    """`accounting fifo` in a strategy; the other method is `average`."""

    method: str


@frozen_in_types(kw_only=True)
class State(Statement):
    """`state want: Side? = none` in a strategy or a signal: a variable that lives from one event, or call, to the next."""

    name: str
    name_span: Span = NOWHERE
    annotation: TypeSyntax | None = None
    value: Expression | None = None


@frozen_in_types(kw_only=True)
class Handler(Statement):
    """`on bar(1m)(x) { }`: the event, what it is set to (`1m`), the name that its record has in the body."""

    event: str
    event_span: Span = NOWHERE
    settings: tuple[Argument, ...] = _tuple
    record: str | None = None
    record_span: Span = NOWHERE
    body: Block
    annotations: tuple[Annotation, ...] = _tuple


@frozen_in_types(kw_only=True)
class Signal(Declaration):
    """`signal ema(x: f64, n: const int) -> f64 { }`: a function each of whose call sites has a memory of its own."""

    name: str
    name_span: Span = NOWHERE
    type_parameters: tuple[TypeParameter, ...] = _tuple
    parameters: tuple[Parameter, ...] = _tuple
    result: TypeSyntax
    body: Block
    annotations: tuple[Annotation, ...] = _tuple


@frozen_in_types(kw_only=True)
class Emit(Statement):
    """`emit e` in a signal: its result for this call."""

    value: Expression


@frozen_in_types(kw_only=True)
class Warmup(Statement):
    """`warmup k` in a signal: its result is `none` for the first k - 1 calls."""

    calls: Expression
