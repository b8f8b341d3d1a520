"""What is known of a strategy beside its code."""

from collections.abc import Mapping, Sequence

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.layout import offset_of, size_of
from compiler.typed_ast import nodes
from compiler.typed_ast.types import Type
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check.exact import CheckedInstrument, decimal_places
from quantdsl.elaborate.engine_needs import REJECTS, STATE
from quantdsl.elaborate.shapes import Shapes
from quantdsl.elaborate.strategy_writer import StrategyWriter, WrittenHandler
from quantdsl.engine.interface import EVENTS
from quantdsl.engine.layout import AVERAGE, BARS, FIFO, TIMERS
from quantdsl.engine.terms import market_settings
from quantdsl.metadata import Market, StateShape, StrategyMetadata

_OF_DURATION, _OF_TRADES, _OF_VOLUME = range(3)
"""Kinds of bars, as `engine.layout.BAR_BUILDER` has them."""

Handlers = Mapping[str, Sequence[WrittenHandler]]


def metadata_of(s: StrategyWriter, handlers: Handlers) -> StrategyMetadata:
    """Of a strategy that is written; `handlers` are those that the engine is to call, by event."""
    handled = [event for event in EVENTS if handlers[event]]
    fifo = any(isinstance(found, quant.Accounting) and found.method == "fifo" for found in s.node.body.statements)
    settings = {**market_settings(s.declared, s.instrument), **s.engine.rules.settings()}
    settings |= {"handles": sum(1 << EVENTS.index(event) for event in handled), "accounting": FIFO if fifo else AVERAGE}
    annotations = {annotation.name: annotation.arguments[0].value for annotation in s.node.annotations}
    reason = annotations.get("no_risk")
    written = [handler.node for several in handlers.values() for handler in several if handler.node is not None]
    module = next((".".join(found.path) for found in s.checked.program.statements if isinstance(found, nodes.Module)), None)
    return StrategyMetadata(
        program=module or s.checked.program.span.path,
        strategy=s.node.name,
        market=_market(s.instrument),
        settings=settings,
        handlers=tuple(handled),
        timers=tuple(_setting(s, node)[0] for node in _set(written, "timer", TIMERS)),
        bars=tuple(_bar(s, node) for node in _set(written, "bar", BARS)),
        kill_texts=tuple(s.engine.kill_texts),
        logs=tuple(s.engine.logs),
        state_bytes=size_of(s.memory.type),
        state=_states(s),
        parameters={
            found.name: s.constant(found.default) for found in s.checked.program.statements if isinstance(found, nodes.ProgramParameter)
        },
        target_ns=min((target for node in written if (target := _target(s, node)) is not None), default=None),
        affinity=int(s.constant(annotations["cpu_affinity"])) if "cpu_affinity" in annotations else None,
        no_risk=reason.value if isinstance(reason, nodes.StringLiteral) else None,
    )


def _states(s: StrategyWriter) -> tuple[StateShape, ...]:
    """Where each state lies that the source names."""
    memory, shapes = s.memory.type, Shapes(s.made.layouts)
    with s.made.seeing(s.around):
        named = [((STATE, name), name, type) for name, type in s.states.items()]
        kept = [one for one in [*named, (REJECTS.key, "rejects", REJECTS.type)] if one[0] in s.memory.names]
        return tuple(shapes.of(type, name, offset_of(memory, s.memory.names[key])) for key, name, type in kept)


def _set(written: Sequence[quant.Handler], event: str, most: int) -> list[quant.Handler]:
    """The handlers of an event that is set to something, by number."""
    found = [node for node in written if node.event == event]
    if len(found) > most:
        message = f"{len(found)} `on {event}` in a strategy are valid, but not supported yet"
        raise ZyntaxError(Diagnostic("0109", message, found[most].event_span, hint=f"write up to {most} of them"))
    return found


def _setting(s: StrategyWriter, node: quant.Handler) -> tuple[int, Type]:
    """What a handler is set to, above zero, and of what type."""
    written = node.settings[0].value
    size = int(s.constant(written))
    if size <= 0:
        raise ZyntaxError(Diagnostic("0705", f"what `on {node.event}` is set to is not above zero", written.span))
    return size, written.type


def _bar(s: StrategyWriter, node: quant.Handler) -> tuple[int, int]:
    size, type = _setting(s, node)
    return _OF_TRADES if isinstance(type, qt.TicksType) else _OF_VOLUME if isinstance(type, qt.QtyType) else _OF_DURATION, size


def _target(s: StrategyWriter, node: quant.Handler) -> float | None:
    found = (a for a in node.annotations if a.name in ("target_latency", "target_latency_ns"))
    return next((float(s.constant(annotation.arguments[0].value)) for annotation in found), None)


def _market(instrument: CheckedInstrument) -> Market:
    tick, lot = ((digits := decimal_places(size), int(size * 10**digits)) for size in (instrument.tick, instrument.lot))
    return Market(
        name=instrument.name,
        currency=instrument.currency.name,
        scale=instrument.currency.scale,
        tick=tick,
        lot=lot,
        tick_value=int(instrument.money_per_tick_and_lot),
    )
